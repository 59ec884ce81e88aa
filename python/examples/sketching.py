#!/usr/bin/env python3
"""Training with sketches: peers sum up sketches, which are an eighth of the size of their changes.

    python sketching.py 127.0.0.1:48148             start any number of peers at any time; Ctrl-C ends one
    python sketching.py --clip 0.5 --noise 0.01     each peer hides its change in noise

All peers have the same parameters after each round.
"""

import argparse
import signal

import numpy as np

import pccl
from pccl.diloco import Sampler
from pccl.methods import Sketched

PIXELS, CLASSES, BATCH = 64, 10, 64

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--kind", default="count", choices=["count", "hadamard"])
parser.add_argument("--clip", type=float)
parser.add_argument("--noise", type=float, default=0.0)
parser.add_argument("--rounds", type=int, default=1_000_000_000)
args = parser.parse_args()

# All peers have the same distorted digits, and each draws some of them.
known = np.random.default_rng(0)
digits = known.random((CLASSES, PIXELS)).astype(np.float32)
labels = known.integers(0, CLASSES, 4096)
images = digits[labels] + known.normal(0, 0.3, (4096, PIXELS)).astype(np.float32)
weights = {"w": np.zeros((PIXELS, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}
sampler = Sampler(seed=1)


def train(step, rate=np.float32(0.02)):
    """Makes one step of this peer, in place. Returns the loss."""
    picked = sampler.indices(step, BATCH, len(images))
    scores = images[picked] @ weights["w"] + weights["b"]
    odds = np.exp(scores - scores.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    loss = -np.log(odds[np.arange(BATCH), labels[picked]] + 1e-9).mean()
    odds[np.arange(BATCH), labels[picked]] -= 1
    weights["w"] -= rate * (images[picked].T @ odds) / BATCH
    weights["b"] -= rate * odds.mean(0)
    return loss


stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

method = Sketched(
    pccl.Communicator(args.master), weights, ratio=8, kind=args.kind, clip=args.clip, noise=args.noise,
    rounds=args.rounds,
)
with method:  # leaves the run at the end
    while not stopping and not method.finished:
        loss = train(method.round)
        info = method.step()
        if info.synced:
            print(f"round {info.round}: {info.participants} peers, {info.tx_bytes} bytes, loss {loss:.3f}")
            print(f"state {info.round} {method.digest()}", flush=True)
