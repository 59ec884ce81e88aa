#!/usr/bin/env python3
"""Fine-tuning with one byte per probe: peers exchange the changes of their losses along random directions.

    python one_byte.py 127.0.0.1:48148        start any number of peers at any time; Ctrl-C ends one

No peer computes a gradient. All peers have the same parameters after each round. A newcomer starts with the run's
initial parameters, receives the log since then, and repeats the steps.
"""

import argparse
import signal

import numpy as np

import pccl
from pccl.diloco import Sampler
from pccl.methods import OneByte

PIXELS, CLASSES, BATCH = 64, 10, 128

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--rounds", type=int, default=1_000_000_000)
args = parser.parse_args()

# All peers have the same distorted digits, and each draws some of them.
known = np.random.default_rng(0)
digits = known.random((CLASSES, PIXELS)).astype(np.float32)
labels = known.integers(0, CLASSES, 4096)
images = digits[labels] + known.normal(0, 0.3, (4096, PIXELS)).astype(np.float32)
weights = {"w": np.zeros((PIXELS, CLASSES), np.float32), "b": np.zeros(CLASSES, np.float32)}
sampler = Sampler(seed=1)


def loss(probe):
    """Returns the loss of the current weights on the data that this peer draws for this probe and round."""
    picked = sampler.indices(method.round * method.probes + probe, BATCH, len(images))
    scores = images[picked] @ weights["w"] + weights["b"]
    scores -= scores.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(scores).sum(1)) - scores[np.arange(BATCH), labels[picked]]))


stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

method = OneByte(pccl.Communicator(args.master), weights, loss, probes=8, lr=0.02, seed=1, rounds=args.rounds)
with method:  # leaves the run at the end
    while not stopping and not method.finished:
        info = method.step()
        if info.joined:
            print(f"joined after {info.round} rounds, {info.moved_bytes} bytes of parameters came", flush=True)
            continue
        print(f"round {info.round}: {info.participants} peers, sent {info.tx_bytes} bytes, loss {loss(0):.3f}")
        print(f"state {info.round} {method.digest()}", flush=True)
