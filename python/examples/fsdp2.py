#!/usr/bin/env python3
"""Fully sharded training (FSDP2, fully_shard) inside each trainer, and averaging among trainers that join and leave.

    torchrun --nproc-per-node 2 fsdp2.py 127.0.0.1:48148        a trainer with two processes; start several

Each process is a peer, and the number of its shard is its peer group: equal shards are averaged with each other.
Either all processes of a trainer make a step, or none does.
"""

import argparse
import hashlib
import signal
import time
from typing import List

import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import pccl
import pccl.torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--rendezvous", default="env://", help="init_method of the trainer's process group (%(default)s)")
parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
args = parser.parse_args()

stopping: List[bool] = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

torch.distributed.init_process_group("gloo", init_method=args.rendezvous)
shard, shards = torch.distributed.get_rank(), torch.distributed.get_world_size()


def trainer_agrees(*flags: bool) -> List[bool]:
    """Returns for each flag whether it is set in any of this trainer's processes. Raises if one of them has failed."""
    values = torch.tensor(flags, dtype=torch.int32)
    torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX)
    return [bool(value) for value in values]


mesh = init_device_mesh("cpu", (shards,))
model = torch.nn.Sequential(torch.nn.Linear(16, 33), torch.nn.Tanh(), torch.nn.Linear(33, 1))
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

state = pccl.torch.shared_state(model, optimizer)  # of this process's shards
gradients = pccl.torch.GradientBuckets(model)
stop = torch.zeros(1)

comm = pccl.Communicator(args.master, peer_group=shard)
pccl.torch.connect_grid(comm)  # connects one process after another; returns when all shards of all trainers are present
just_joined = True
step, stopped = 0, False
while not stopped:
    time.sleep(args.pause)
    if not just_joined:
        comm.update_topology()
        pccl.torch.fill_grid(comm, shards, check=torch.distributed.barrier)
    just_joined = False
    if comm.get_attribute(pccl.Attribute.PEER_GROUP_WORLD_SIZE) < 2:
        trainer_agrees()  # alone, so wait for others
        continue
    comm.sync_shared_state(state)
    state.push_revision()

    gradients.zero_grad()
    x = torch.randn(32, 16)
    loss = (model(x) - x.sum(1, keepdim=True).sin()).square().mean()
    loss.backward()
    stop[0] = bool(stopping)
    alone = False
    try:
        gradients.reduce(comm)
        info = comm.all_reduce(stop, stop, op=pccl.ReduceOp.MAX, tag=1000)
    except (pccl.TooFewPeersError, pccl.PeerLostError):
        alone = True
    # Shards are reduced separately, so one reduction may fail while another succeeds. No process makes the step then.
    alone, stopped = trainer_agrees(alone, bool(stop[0]))
    if alone:
        continue
    optimizer.step()
    step = int(optimizer.state[next(model.parameters())]["step"])
    print(f"step {step}: {info.local_world_size} peers, loss {loss.item():.3f}", flush=True)

digest = hashlib.sha256()
for parameter in model.parameters():  # the full parameters, which are equal on all processes of all trainers
    digest.update(bytes(parameter.full_tensor().detach().view(-1).view(torch.uint8).tolist()))
comm.close()
torch.distributed.destroy_process_group()
print(f"digest {digest.hexdigest()}")
