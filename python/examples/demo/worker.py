"""A peer of the demo: trains a small transformer on random pieces of the text, and synchronizes with the others through
pccl.diloco once per round. Writes events as lines of JSON to standard output, which run.py reads.

    worker.py --number 0 --rounds 40 --inner-steps 25 --save theta.npy [--master 127.0.0.1:48148 --founders 4]

Without --master it trains alone.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import text
from model import AdamW, Transformer, rate_at

import pccl
from pccl.diloco import DiLoCo, Sampler

SEED = 7
CODEC = "u8-minmax"
TELL_S = 0.2  # interval between reports of steps, in seconds
FOUND_S = 0.02  # interval between checks for founders, in seconds


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--number", type=int, required=True, help="which draws of the text are this peer's")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--inner-steps", type=int, required=True)
    parser.add_argument("--batch", type=int, default=4, help="pieces of text in a step")
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--save", type=Path, required=True, help="where the parameters go at the end")
    parser.add_argument("--master", help="without it: alone")
    parser.add_argument("--founders", type=int, default=1, help="so many peers begin together")
    parser.add_argument("--gate", action="store_true", help="wait for a line on standard input before connecting")
    return parser.parse_args()


def tell(event, **more):
    print(json.dumps({"event": event, "at": time.monotonic(), **more}), flush=True)


class Trainer:
    """The training of one peer, without communication."""

    def __init__(self, given):
        self.given = given
        self.steps = given.rounds * given.inner_steps
        # All founders start with the same parameters. A newcomer starts with different ones, and receives the run's.
        self.model = Transformer(seed=SEED if given.number < max(1, given.founders) else SEED + given.number)
        self.optimizer = AdamW(self.model.size)
        self.length = self.model.shape.context + 1
        self.text, judged_by = text.load()
        self.judged_by = text.pieces(judged_by, 64, self.length)
        self.losses = []
        self.told = 0.0

    def step(self, number, starts):
        loss = self.model.train(text.cut(self.text, starts, self.length))
        rate = rate_at(number, self.steps, self.given.rate)
        self.optimizer.step(self.model.flat, self.model.flat_gradient, rate)
        self.losses.append(loss)
        if time.monotonic() - self.told > TELL_S:
            self.told = time.monotonic()
            tell("step", step=number + 1, loss=loss)

    def judge(self):
        """Returns the mean loss of the round that has just ended, and the loss of the parameters on text that is not
        used for training."""
        loss = float(np.mean(self.losses))
        self.losses.clear()
        return {"loss": loss, "validation": self.model.loss(self.judged_by)}

    @property
    def places(self):
        return len(self.text) - self.length


def train_alone(trainer, sampler, given):
    for number in range(trainer.steps):
        trainer.step(number, sampler.indices(number, given.batch, trainer.places))
        if (number + 1) % given.inner_steps == 0:
            tell("round", round=(number + 1) // given.inner_steps, participants=1, tx=0, **trainer.judge())


def train_together(comm, trainer, sampler, given):
    with contextlib.closing(DiLoCo(comm, trainer.model.params, inner_steps=given.inner_steps, codec=CODEC)) as diloco:
        joined, sent = diloco.join(), 0
        tell("in", round=diloco.round, moved=joined.moved_bytes)
        while diloco.round < given.rounds:
            trainer.step(diloco.inner_step, sampler.indices(diloco.inner_step, given.batch, trainer.places))
            if diloco.inner_step % given.inner_steps == given.inner_steps - 1:
                tell("arrived", round=diloco.round + 1)
            info = diloco.step(samples=given.batch)
            if info.synced:
                end, sent = time.monotonic(), sent + info.tx_bytes
                tell(
                    "round",
                    at=end,
                    round=diloco.round,
                    participants=info.participants,
                    tx=sent,
                    digest=diloco.digest(),
                    **trainer.judge(),
                )


def found(comm, founders):
    """Admits peers until the run has all its founders, so that they start together."""
    while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < founders:
        time.sleep(FOUND_S)
        comm.update_topology()


def main():
    given = arguments()
    os.nice(5)  # keeps the machine responsive
    trainer = Trainer(given)
    sampler = Sampler(SEED, peer=given.number)
    tell("ready", parameters=trainer.model.size)
    if given.gate and not sys.stdin.readline():
        return
    if given.master is None:
        train_alone(trainer, sampler, given)
    else:
        with pccl.Communicator(given.master) as comm:
            comm.connect()
            found(comm, given.founders)
            train_together(comm, trainer, sampler, given)
    np.save(given.save, trainer.model.flat)
    tell("done")


if __name__ == "__main__":
    main()
