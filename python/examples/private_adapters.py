#!/usr/bin/env python3
"""Private fine-tuning: a frozen model gets low-rank adapters, which are trained with differential privacy.

Each peer clips the gradient of each of its examples, and adds noise before it sends anything.

    python private_adapters.py 127.0.0.1:48148     start any number of peers at any time; Ctrl-C ends one
    python private_adapters.py --noise 0           shows the result without privacy

All peers have the same adapters after each round. Each peer prints the privacy cost for its examples.
"""

import argparse
import signal

import numpy as np

import pccl
from pccl.methods import DPLoRA

PIXELS, HIDDEN, CLASSES, BATCH = 64, 32, 10, 256

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--noise", type=float, default=2.0)
parser.add_argument("--rounds", type=int, default=1_000_000_000)
args = parser.parse_args()

# All peers have the same frozen model and the same digits. Each peer trains on its own distorted copies of them.
known, own = np.random.default_rng(0), np.random.default_rng()
digits = known.random((CLASSES, PIXELS)).astype(np.float32)
labels = own.integers(0, CLASSES, 20_000)
images = digits[labels] + own.normal(0, 0.3, (len(labels), PIXELS)).astype(np.float32)
weights = {
    "hidden": known.normal(0, PIXELS**-0.5, (PIXELS, HIDDEN)).astype(np.float32),
    "classes": known.normal(0, HIDDEN**-0.5, (HIDDEN, CLASSES)).astype(np.float32),
}


def forward(chosen):
    hidden = np.maximum(images[chosen] @ weights["hidden"], 0)
    scores = hidden @ weights["classes"]
    odds = np.exp(scores - scores.max(1, keepdims=True))
    return hidden, odds / odds.sum(1, keepdims=True)


def gradients(chosen):
    """Returns for each matrix its input and the gradient of its output, for each example."""
    hidden, above = forward(chosen)
    above[np.arange(len(chosen)), labels[chosen]] -= 1
    below = (above @ weights["classes"].T) * (hidden > 0)
    return {"hidden": (images[chosen], below), "classes": (hidden, above)}


def loss():
    """Returns the loss on this peer's first examples, to be printed. The privacy bound does not cover printed values.
    """
    _, odds = forward(np.arange(1000))
    return -np.log(odds[np.arange(1000), labels[:1000]] + 1e-9).mean()


stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

method = DPLoRA(
    pccl.Communicator(args.master), weights, gradients, examples=len(labels), batch=BATCH, rank=4, clip=1.0,
    noise=args.noise, delta=1e-6, lr=1.0, inner_steps=4, rounds=args.rounds,
)
with method:  # leaves the run at the end
    while not stopping and not method.finished:
        info = method.step()
        if info.synced:
            print(f"round {info.round}: {info.participants} peers, {info.tx_bytes} bytes, "
                  f"epsilon {method.epsilon:.3f}, loss {loss():.3f}")
            print(f"state {info.round} {method.digest()}", flush=True)
print(f"this peer's examples: epsilon {method.epsilon:.3f} at delta {method.delta:g}")
