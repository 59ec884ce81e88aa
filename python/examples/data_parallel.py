#!/usr/bin/env python3
"""Data-parallel training with numpy: a small network learns to recognize synthetic digits.

    python data_parallel.py 127.0.0.1:48148        start any number of peers at any time; Ctrl-C in one ends all

Each peer draws different batches. Gradients are averaged, so all peers make the same step and have the same bits.
Parameters and momentum are the shared state, which newcomers receive.
"""

import argparse
import hashlib
import os
import signal

import numpy as np

import pccl

PIXELS, HIDDEN, CLASSES, BATCH = 64, 32, 10, 64
RATE, MOMENTUM = 0.1, 0.9

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--steps", type=int, default=1_000_000_000)
args = parser.parse_args()

stopping = []
for each in signal.SIGINT, signal.SIGTERM:  # a second signal ends only this peer
    signal.signal(each, lambda number, _: stopping.append(signal.signal(number, signal.default_int_handler)))

# All peers create the same digits, and different batches of distorted ones.
digits = np.random.default_rng(0).random((CLASSES, PIXELS), np.float32)
own = np.random.default_rng(os.getpid())


def batch():
    labels = own.integers(0, CLASSES, BATCH)
    return digits[labels] + own.normal(0, 0.3, (BATCH, PIXELS)).astype(np.float32), labels


def gradients(weights, images, labels):
    """Returns the gradients and the loss of a network with one hidden layer."""
    first, first_bias, second, second_bias = weights
    hidden = np.maximum(images @ first + first_bias, 0)
    scores = hidden @ second + second_bias
    odds = np.exp(scores - scores.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    loss = -np.log(odds[np.arange(BATCH), labels] + 1e-9).mean()
    odds[np.arange(BATCH), labels] -= 1
    odds /= BATCH
    back = (odds @ second.T) * (hidden > 0)
    return [images.T @ back, back.sum(0), hidden.T @ odds, odds.sum(0)], loss


starting = np.random.default_rng(1)
shapes = [(PIXELS, HIDDEN), (HIDDEN,), (HIDDEN, CLASSES), (CLASSES,)]
weights = [starting.normal(0, 0.1, shape).astype(np.float32) for shape in shapes]
momenta = [np.zeros(shape, np.float32) for shape in shapes]
state = {f"weight{i}": weight for i, weight in enumerate(weights)}
state.update({f"momentum{i}": momentum for i, momentum in enumerate(momenta)})

for step in pccl.loop(args.master, state):  # newcomers join here and receive the state
    with step:
        assert not step.diverged, "this peer had computed something else than the others"
        values, loss = gradients(weights, *batch())
        about = np.array([loss, bool(stopping)], np.float32)
        info = step.comm.coalesced([*values, about], op="avg")  # one operation, which succeeds or fails as a whole
        for weight, momentum, value in zip(weights, momenta, values):
            momentum *= np.float32(MOMENTUM)
            momentum += value
            weight -= np.float32(RATE) * momentum
        print(f"step {step.index + 1}: {info.world_size} peers, loss {about[0]:.3f}", flush=True)
        if about[1] or step.index + 1 >= args.steps:
            break

digest = hashlib.sha256()
for tensor in [*weights, *momenta]:
    digest.update(tensor)
print(f"digest {digest.hexdigest()}")
