#!/usr/bin/env python3
"""Training with little communication (DiLoCo): a small network of numpy or torch learns to recognize synthetic digits.

    python diloco.py 127.0.0.1:48148        start any number of peers at any time; Ctrl-C ends one
    python diloco.py --torch --mode eager   peers may mix torch and numpy, but must use the same mode

Each peer trains independently for --inner-steps steps. Then all peers make one outer step with the mean of their
changes.
"""

import argparse
import signal

import numpy as np

import pccl
from pccl.diloco import DiLoCo, Nesterov, Sampler

PIXELS, HIDDEN, CLASSES, BATCH = 64, 32, 10, 64

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--torch", action="store_true", help="train with torch instead of numpy")
parser.add_argument("--mode", default="sync", choices=["sync", "delayed", "eager"])
parser.add_argument("--inner-steps", type=int, default=20)
parser.add_argument("--rounds", type=int, default=1_000_000_000)
parser.add_argument("--codec", choices=["u8-minmax", "u8-zps"], help="deltas travel as 8 bits")
args = parser.parse_args()

# All peers have the same distorted digits, and each draws some of them.
known = np.random.default_rng(0)
digits = known.random((CLASSES, PIXELS)).astype(np.float32)
labels = known.integers(0, CLASSES, 4096)
images = digits[labels] + known.normal(0, 0.3, (4096, PIXELS)).astype(np.float32)
shapes = {"first": (PIXELS, HIDDEN), "first_bias": (HIDDEN,), "second": (HIDDEN, CLASSES), "second_bias": (CLASSES,)}
weights = {name: known.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}


def numpy_step(picked, rate=0.1):
    """Makes one step of the inner optimizer, in place. Returns the loss."""
    inputs, wanted = images[picked], labels[picked]
    hidden = np.maximum(inputs @ weights["first"] + weights["first_bias"], 0)
    scores = hidden @ weights["second"] + weights["second_bias"]
    odds = np.exp(scores - scores.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    loss = -np.log(odds[np.arange(BATCH), wanted] + 1e-9).mean()
    odds[np.arange(BATCH), wanted] -= 1
    odds /= BATCH
    back = (odds @ weights["second"].T) * (hidden > 0)
    gradients = {"first": inputs.T @ back, "first_bias": back.sum(0)}
    gradients.update(second=hidden.T @ odds, second_bias=odds.sum(0))
    for name, gradient in gradients.items():
        weights[name] -= np.float32(rate) * gradient
    return loss


step = numpy_step
if args.torch:
    import torch

    weights = {name: torch.from_numpy(array).requires_grad_() for name, array in weights.items()}
    adam = torch.optim.AdamW(weights.values(), lr=0.003)  # its state is local to this peer

    def torch_step(picked):
        inputs, wanted = torch.from_numpy(images[picked]), torch.from_numpy(labels[picked])
        hidden = torch.relu(inputs @ weights["first"] + weights["first_bias"])
        loss = torch.nn.functional.cross_entropy(hidden @ weights["second"] + weights["second_bias"], wanted)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.item()

    step = torch_step

stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

sampler = Sampler(seed=1)
outer = Nesterov(0.7, 0.9) if args.mode == "sync" else Nesterov(0.4, 0.9)
diloco = DiLoCo(
    pccl.Communicator(args.master), weights, inner_steps=args.inner_steps, outer=outer, mode=args.mode,
    codec=args.codec, rounds=args.rounds,
)
with diloco:  # leaves the run at the end
    while not stopping and not diloco.finished:
        loss = step(sampler.indices(diloco.inner_step, BATCH, len(images)))
        info = diloco.step(samples=BATCH)
        if info.synced:
            print(f"round {info.round}: {info.participants} peers, loss {loss:.3f}", flush=True)
            print(f"state {info.round} {diloco.digest()}", flush=True)
print(f"ended after {diloco.samples} samples of all", flush=True)
