#!/usr/bin/env python3
"""Distributed data-parallel training of a small network on MNIST-like images, using only pccl.loop().

The state of the loop consists of the parameters and Adam's state. Each step performs one reduction per gradient, all of
them concurrently.

    python mnist_ddp.py 127.0.0.1:48148        start any number of peers at any time; Ctrl-C in one ends all

The images are synthetic. pccl.torch (GradientBuckets, shared_state, ddp_hook) does the same in fewer lines.
"""

import argparse
import hashlib
import os
import signal
import time
from typing import List

import torch

import pccl

BATCH = 32

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--steps", type=int, default=1_000_000_000)
parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
args = parser.parse_args()

stopping: List[bool] = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

# All peers create the same ten images, and different batches of distorted ones.
prototypes = torch.rand(10, 28 * 28, generator=torch.Generator().manual_seed(0))
own = torch.Generator().manual_seed(os.getpid())


def batch():
    labels = torch.randint(0, 10, (BATCH,), generator=own)
    return prototypes[labels] + 0.3 * torch.randn(BATCH, 28 * 28, generator=own), labels


model = torch.nn.Sequential(torch.nn.Linear(28 * 28, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

# A first step without effect creates Adam's state, so that it can be shared.
for parameter in model.parameters():
    parameter.grad = torch.zeros_like(parameter)
optimizer.step()

state = {}
for name, parameter in model.named_parameters():
    state[name] = parameter.data
    for key in ("exp_avg", "exp_avg_sq", "step"):
        state[f"{name}.{key}"] = optimizer.state[parameter][key]

is_last = False
with pccl.loop(args.master, state) as loop:
    for step in loop:
        assert not step.diverged, "this peer had computed something else than the others"
        time.sleep(args.pause)
        with step:
            images, labels = batch()
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            about = torch.tensor([loss.item(), float(bool(stopping))])
            tensors = [parameter.grad for parameter in model.parameters()] + [about]
            handles = [step.comm.all_reduce_async(one, one, op="avg", tag=tag) for tag, one in enumerate(tensors)]
            for handle in handles:
                handle.result()
            optimizer.step()
            print(f"step {step.index + 1}: {step.size} peers, loss {about[0]:.3f}", flush=True)
            # Set only if the step is complete, not if it is repeated
            is_last = about[1] > 0 or step.index + 1 >= args.steps
        if is_last:
            break

digest = hashlib.sha256()
for tensor in state.values():
    digest.update(bytes(tensor.view(-1).view(torch.uint8).tolist()))
print(f"digest {digest.hexdigest()}")
