#!/usr/bin/env python3
"""DistributedDataParallel with replicas that join, leave and are killed: the usual program plus one line.

    pccl_master &
    export PCCL_MASTER=127.0.0.1:48148
    torchrun --standalone --max-restarts 100 elastic_ddp.py &        a replica; start several, at any time

SIGTERM to any process ends all replicas after the same step.
"""

import argparse
import signal
import time

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

import pccl.torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", help="by default PCCL_MASTER")
parser.add_argument("--rendezvous", default="env://", help="init_method of the process group (%(default)s)")
parser.add_argument("--steps", type=int, default=1_000_000_000)
parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
args = parser.parse_args()

torch.distributed.init_process_group("gloo", init_method=args.rendezvous)  # the processes of one replica
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9999)

replica = pccl.torch.elastic(model, optimizer, {"scheduler": scheduler}, address=args.master)  # the additional line

signal.signal(signal.SIGTERM, lambda *_: replica.stop())
while replica.step < args.steps and not replica.stopped:
    time.sleep(args.pause)
    own = torch.Generator().manual_seed(1000 * replica.step + replica.rank)  # each replica draws different batches
    x = torch.randn(32, 64, generator=own)
    loss = (model(x) - x.sum(1, keepdim=True).sin()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if replica.committed:
        scheduler.step()
        print(f"step {replica.step}: {replica.world_size} peers, loss {loss.item():.3f}", flush=True)

print(f"digest {pccl.torch.shared_state(model, optimizer).digest()}", flush=True)
replica.leave()
torch.distributed.destroy_process_group()
