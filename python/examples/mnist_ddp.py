#!/usr/bin/env python3
"""Distributed data-parallel training of a small network on MNIST-like images, with the plain interface: a shared state
of parameters and Adam's state, and one reduction for each gradient, all at the same time.

    python mnist_ddp.py 127.0.0.1:48148        as many as you like, whenever you like; Ctrl-C at one ends all

The images are made up. pccl.torch (GradientBuckets, shared_state, ddp_hook) does the same in fewer lines.
"""

import argparse
import hashlib
import os
import signal
import time
from typing import List

import torch

import pccl
from pccl import Attribute, Communicator, ReduceOp, SharedState, TensorInfo

BATCH = 32

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--steps", type=int, default=1_000_000_000)
parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
args = parser.parse_args()

stopping: List[bool] = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

# All peers make the same ten images, and each of them its own batches of distorted ones.
prototypes = torch.rand(10, 28 * 28, generator=torch.Generator().manual_seed(0))
own = torch.Generator().manual_seed(os.getpid())


def batch():
    labels = torch.randint(0, 10, (BATCH,), generator=own)
    return prototypes[labels] + 0.3 * torch.randn(BATCH, 28 * 28, generator=own), labels


model = torch.nn.Sequential(torch.nn.Linear(28 * 28, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

# A dummy step, so that Adam's state exists and can be shared.
for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
optimizer.step()

infos = []
for name, parameter in model.named_parameters():
    infos.append(TensorInfo.from_torch(parameter, name))
    for key in ("exp_avg", "exp_avg_sq", "step"):
        infos.append(TensorInfo.from_torch(optimizer.state[parameter][key], f"{name}.{key}"))
shared_state = SharedState(infos)


def average(communicator: Communicator, tensors: List[torch.Tensor]) -> bool:
    """Averages all at once, in place. False: this peer is alone now."""
    left = list(range(len(tensors)))
    while left:
        if communicator.get_attribute(Attribute.GLOBAL_WORLD_SIZE) < 2:
            return False
        handles = [
            communicator.all_reduce_async(tensors[tag], tensors[tag], op=ReduceOp.AVG, tag=tag) for tag in left
        ]
        # What has failed has failed for all peers, who launch the same ones again.
        left = [tag for tag, handle in zip(left, handles) if not handle.wait()[0]]
    return True


communicator = Communicator(args.master, 0)
communicator.connect(n_attempts=15)
just_joined = first_sync = True
step, stopped = 0, False
while not stopped and step < args.steps:
    time.sleep(args.pause)
    # A newcomer goes on from the others' update_topology(), which let it in.
    if not just_joined and communicator.are_peers_pending():
        communicator.update_topology()
    just_joined = False
    world_size = communicator.get_attribute(Attribute.GLOBAL_WORLD_SIZE)
    if world_size < 2:
        time.sleep(0.1)
        continue

    moved = communicator.sync_shared_state(shared_state)
    if not first_sync:
        assert moved.rx_bytes == 0, "this peer had computed something else than the others"
    first_sync = False
    shared_state.revision += 1  # one for each synchronization

    images, labels = batch()
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    about = torch.tensor([loss.item(), float(bool(stopping))])
    if not average(communicator, [parameter.grad for parameter in model.parameters()] + [about]):
        continue  # the last one of the others is gone: drop this step
    optimizer.step()
    step = int(optimizer.state[model[0].weight]["step"])
    stopped = bool(about[1] > 0)
    world_size = communicator.get_attribute(Attribute.GLOBAL_WORLD_SIZE)
    print(f"step {step}: {world_size} peers, loss {about[0]:.3f}", flush=True)

communicator.close()
digest = hashlib.sha256()
for _, parameter in model.named_parameters():
    for tensor in (parameter, *(optimizer.state[parameter][key] for key in ("exp_avg", "exp_avg_sq", "step"))):
        digest.update(bytes(tensor.detach().view(-1).view(torch.uint8).tolist()))
print(f"digest {digest.hexdigest()}")
