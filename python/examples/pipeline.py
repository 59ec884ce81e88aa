#!/usr/bin/env python3
"""Training of a model that is cut into two stages: small peers have one stage each, and large peers have both.

    python pipeline.py 127.0.0.1:48148 --whole     a peer with both stages; start any number
    python pipeline.py 127.0.0.1:48148             a peer with one stage; two of them are a replica; Ctrl-C ends one
"""

import argparse
import signal

import numpy as np

import pccl
from pccl.methods import Pipeline

TOKENS, WIDTH, HIDDEN, BATCH, MICRO_BATCHES = 32, 64, 64, 32, 4

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--whole", action="store_true")
parser.add_argument("--rounds", type=int, default=1_000_000_000)
args = parser.parse_args()

# All peers have the same task, and know the same fixed table of token embeddings.
common = np.random.default_rng(0)
table = common.normal(size=(TOKENS, WIDTH)).astype(np.float32)
following = common.integers(0, TOKENS, (TOKENS, TOKENS))  # the token that follows two given tokens


class Half:
    """Adds the output of one hidden layer to the residual stream. The second half also predicts the next token."""

    def __init__(self, is_last):
        dice = np.random.default_rng(1 + is_last)
        self.params = {
            "in": dice.normal(0, 0.1, (WIDTH, HIDDEN)).astype(np.float32),
            "out": dice.normal(0, 0.1, (HIDDEN, WIDTH)).astype(np.float32),
        }
        if is_last:
            self.params["head"] = dice.normal(0, 0.1, (WIDTH, TOKENS)).astype(np.float32)
        self.is_last = is_last
        self.forget()

    def forward(self, micro, stream):
        tokens, wanted = micro
        if stream is None:
            stream = known(micro)
        inner = np.maximum(stream @ self.params["in"], 0)
        made = stream + inner @ self.params["out"]
        if not self.is_last:
            return made, (stream, inner)
        scores = made @ self.params["head"]
        odds = np.exp(scores - scores.max(1, keepdims=True))
        odds /= odds.sum(1, keepdims=True)
        right = np.arange(len(wanted)), wanted
        loss = -np.log(odds[right] + 1e-9).mean()
        odds[right] -= 1
        return loss, (stream, inner, made, odds / np.float32(len(wanted)))

    def backward(self, saved, above):
        stream, inner, *rest = saved
        if self.is_last:
            made, odds = rest
            self.gradients["head"] += made.T @ odds
            above = odds @ self.params["head"].T
        self.gradients["out"] += inner.T @ above
        below = (above @ self.params["out"].T) * (inner > 0)
        self.gradients["in"] += stream.T @ below
        return above + below @ self.params["in"].T if self.is_last else None

    def step(self, step, micro_batches):
        for name, gradient in self.gradients.items():
            self.params[name] -= np.float32(0.3 / micro_batches) * gradient
        self.forget()

    def forget(self):
        self.gradients = {name: np.zeros_like(value) for name, value in self.params.items()}


def known(micro):
    """Returns the part of the stream that every stage can compute from the tokens alone."""
    pairs = micro[0]
    return table[pairs[:, 0]] + np.roll(table, 1, 1)[pairs[:, 1]]


def batch(replica, step):
    """Returns the micro-batches, which are the same for all peers of a replica."""
    dice = np.random.default_rng([replica, step])
    pairs = dice.integers(0, TOKENS, (BATCH, 2))
    wanted = following[pairs[:, 0], pairs[:, 1]]
    return list(zip(np.split(pairs, MICRO_BATCHES), np.split(wanted, MICRO_BATCHES)))


signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, which also ends a wait for other peers

method = Pipeline(
    pccl.Communicator(args.master), [lambda: Half(False), lambda: Half(True)], batch, known, width=WIDTH, rank=8,
    inner_steps=10, kept=512, whole=args.whole, rounds=args.rounds,
)


def train():
    losses = []
    with method:  # leaves the run at the end
        while not method.finished:
            info = method.step()
            if info.loss is not None:
                losses.append(info.loss)
            if info.synced:
                where = "all stages" if info.stage < 0 else f"stage {info.stage}"
                how = ", idle" if info.idle else ", lost" if info.lost else ""
                print(f"round {info.round}: {info.participants} replicas; {where} of number {info.replica}{how}")
                for stage, digest in method.digests().items():
                    print(f"stage {stage} {info.round} {digest[:16]}", flush=True)
                if losses:
                    print(f"loss {np.mean(losses[-10:]):.3f}", flush=True)


try:
    train()
except KeyboardInterrupt:
    pass
