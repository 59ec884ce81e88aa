#!/usr/bin/env python3
"""Data-parallel training with numpy: a small network learns to tell made-up digits apart.

    python data_parallel.py 127.0.0.1:48148        as many as you like, whenever you like; Ctrl-C at one ends all

Each peer draws its own batches. Gradients are averaged, so all make the same step and hold the same bits; parameters,
momentum and the number of steps are the shared state, which is what newcomers get.
"""

import argparse
import hashlib
import os
import signal
import time

import numpy as np

import pccl

PIXELS, HIDDEN, CLASSES, BATCH = 64, 32, 10, 64
RATE, MOMENTUM = 0.1, 0.9

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--steps", type=int, default=1_000_000_000)
args = parser.parse_args()

stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

# All peers make the same digits, and each of them its own batches of distorted ones.
digits = np.random.default_rng(0).random((CLASSES, PIXELS), np.float32)
own = np.random.default_rng(os.getpid())


def batch():
    labels = own.integers(0, CLASSES, BATCH)
    return digits[labels] + own.normal(0, 0.3, (BATCH, PIXELS)).astype(np.float32), labels


def gradients(weights, images, labels):
    """And the loss, of a network with one hidden layer."""
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
steps_done = np.zeros(1, np.int64)
state = pccl.SharedState(
    [pccl.TensorInfo.from_numpy(weight, f"weight{i}") for i, weight in enumerate(weights)]
    + [pccl.TensorInfo.from_numpy(momentum, f"momentum{i}") for i, momentum in enumerate(momenta)]
    + [pccl.TensorInfo.from_numpy(steps_done, "steps_done")]
)

comm = pccl.Communicator(args.master)
comm.connect()
just_joined = True
operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
stopped, synced = 0.0, 0
while not stopped and steps_done[0] < args.steps:
    if not just_joined:
        comm.update_topology()  # newcomers get in, and go on from here like the others
    just_joined = False
    if comm.get_attribute(pccl.Attribute.PEER_GROUP_WORLD_SIZE) < 2:
        time.sleep(0.1)  # alone: wait for others
        continue
    moved = comm.sync_shared_state(state)  # newcomers get the state
    state.push_revision()  # each synchronization has a revision of its own
    assert synced == 0 or moved.rx_bytes == 0, "this peer had computed something else than the others"
    synced += 1

    values, loss = gradients(weights, *batch())
    about = np.array([loss, bool(stopping)], np.float32)
    reductions = [
        pccl.ReduceOpDescriptor.from_numpy(
            value, value, pccl.ReduceDescriptor(value.size, pccl.ReduceOp.AVG, tag, operand)
        )
        for tag, value in enumerate([*values, about])
    ]
    try:
        # What fails because a peer was killed is repeated with those who remain.
        info = comm.all_reduce_multiple_with_retry(reductions, max_in_flight=8)
    except pccl.TooFewPeersError:
        continue  # the last one of the others is gone: drop this step
    for weight, momentum, value in zip(weights, momenta, values):
        momentum *= np.float32(MOMENTUM)
        momentum += value
        weight -= np.float32(RATE) * momentum
    steps_done += 1
    stopped = about[1]
    print(f"step {steps_done[0]}: {info.local_world_size} peers, loss {about[0]:.3f}", flush=True)

comm.close()
digest = hashlib.sha256()
for tensor in [*weights, *momenta, steps_done]:
    digest.update(tensor)
print(f"digest {digest.hexdigest()}")
