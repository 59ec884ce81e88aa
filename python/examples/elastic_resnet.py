#!/usr/bin/env python3
"""A residual network with the usual parts of a training program, for replicas that join, leave and are killed.

The parts are batch normalization, mixed precision with a GradScaler, no_sync, a scheduler, a sampler that adapts to the
number of replicas, and a DataLoader with workers.

    pccl_master &
    export PCCL_MASTER=127.0.0.1:48148
    torchrun --standalone --max-restarts 100 elastic_resnet.py &        a replica; start several, at any time

SIGTERM to any process ends all replicas after the same step.
"""

import argparse
import signal
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import pccl.torch


class Residual(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        layers = [torch.nn.Conv2d(width, width, 3, padding=1, bias=False), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
        self.inner = torch.nn.Sequential(*layers, torch.nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return torch.relu(x + self.inner(x))


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", help="by default PCCL_MASTER")
parser.add_argument("--rendezvous", default="env://", help="init_method of the process group (%(default)s)")
parser.add_argument("--epochs", type=int, default=1_000_000_000)
parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
args = parser.parse_args()

torch.distributed.init_process_group("gloo", init_method=args.rendezvous)  # the processes of one replica
kind = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
images = torch.randn(1024, 1, 8, 8)
data = TensorDataset(images, (images.mean((1, 2, 3)) > 0).long())
blocks = [torch.nn.Conv2d(1, 8, 3), Residual(8), Residual(8)]
net = torch.nn.Sequential(*blocks, torch.nn.Flatten(), torch.nn.Linear(288, 2))
model = DistributedDataParallel(net.to(kind))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)
scaler = torch.amp.GradScaler(kind, init_scale=1024.0)
sampler = pccl.torch.ElasticSampler(len(data), batch=32)

shared = {"scheduler": scheduler, "sampler": sampler}
replica = pccl.torch.elastic(model, optimizer, shared, scaler=scaler, address=args.master)  # the additional line

signal.signal(signal.SIGTERM, lambda *_: replica.stop())
for x, y in sampler.batches(replica, lambda own: DataLoader(data, batch_sampler=own, num_workers=1)):
    time.sleep(args.pause)
    first, second = zip(x.to(kind).chunk(2), y.to(kind).chunk(2))
    optimizer.zero_grad()
    with model.no_sync(), torch.autocast(kind, torch.bfloat16):  # half of the batch, not averaged yet
        scaler.scale(torch.nn.functional.cross_entropy(model(first[0]), first[1]) / 2).backward()
    with torch.autocast(kind, torch.bfloat16):
        loss = torch.nn.functional.cross_entropy(model(second[0]), second[1])
    scaler.scale(loss / 2).backward()
    scaler.step(optimizer)
    scaler.update()
    if replica.committed:
        scheduler.step()
        sampler.step(replica)
        print(f"step {replica.step}: {replica.world_size} peers, loss {loss.item():.3f}", flush=True)
    if sampler.epoch >= args.epochs:
        replica.stop()

# Without running statistics, which differ
digest = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
print(f"digest {digest:.10f}", flush=True)
replica.leave()
torch.distributed.destroy_process_group()
