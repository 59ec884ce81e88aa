"""A plain second implementation of the methods, with all workers in one process and no network: pccl.diloco must match
it.

    OPENBLAS_NUM_THREADS=1 python -m lab.reference --method sync --steps 600
"""

import argparse
import json
import time

import numpy as np

from .model import AdamW, Model, Worker, initial
from . import text


class Outer:
    """SGD with Nesterov's momentum; the difference is old parameters less new ones."""

    def __init__(self, theta, rate, momentum):
        self.theta, self.rate, self.momentum = theta, np.float32(rate), np.float32(momentum)
        self.buffer = np.zeros_like(theta)

    def step(self, mean):
        self.buffer = self.momentum * self.buffer + mean
        self.theta = self.theta - self.rate * (mean + self.momentum * self.buffer)


def mean_of(arrays):
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total / np.float32(len(arrays))


def in_parallel(steps, workers, seed):
    """Averages gradients at each step. Returns the parameters."""
    model = Model(initial(seed))
    optimizer = AdamW(model, steps)
    sources = [text.batches(number, workers, seed, 0, steps) for number in range(workers)]
    for step in range(steps):
        gradients = []
        for source in sources:
            model.backward(*next(source))
            gradients.append(model.gradient.copy())
        model.gradient[:] = mean_of(gradients)
        optimizer.step(step)
    return model.flat


def alone(steps, workers, seed):
    """Returns the parameters of one worker without the others."""
    worker = Worker(0, workers, seed, steps)
    worker.train(0, steps)
    return worker.model.flat


def diloco(steps, workers, seed, *, inner_steps=25, mode="sync", rate=0.7, momentum=0.9, killed=(), dies_in=-1):
    """Returns the outer parameters after these steps. In mode "sync", the workers in `killed` take part in no reduction
    from round dies_in on."""
    outer = Outer(initial(seed), rate, momentum)
    crew = [Worker(number, workers, seed, steps) for number in range(workers)]
    own = [Outer(outer.theta, rate, momentum) for _ in crew]  # eager
    before = None

    for step in range(0, steps, inner_steps):
        if step == dies_in * inner_steps:
            assert mode == "sync"
            crew = [worker for number, worker in enumerate(crew) if number not in killed]
        for worker in crew:
            worker.train(step, inner_steps)
        starts = [one.theta for one in own] if mode == "eager" else [outer.theta] * len(crew)
        deltas = [start - worker.model.flat for start, worker in zip(starts, crew)]
        if mode == "sync":
            outer.step(mean_of(deltas))
        elif before is not None:
            outer.step(mean_of(before))
        if mode == "eager":
            for k, one in enumerate(own):
                late = 0 if before is None else mean_of(before) - before[k] / np.float32(workers)
                one.step(deltas[k] / np.float32(workers) + late)
        for worker, one in zip(crew, own):
            worker.model.flat[:] = one.theta if mode == "eager" else outer.theta
        before = deltas
    if mode != "sync":
        outer.step(mean_of(before))
    return outer.theta


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--method", choices=["parallel", "alone", "sync", "delayed", "eager"], default="sync")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--inner-steps", type=int, default=25)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0.7)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--killed", type=lambda words: [int(word) for word in words.split(",")], default=[])
    parser.add_argument("--dies-in", type=int, default=-1)
    parser.add_argument("--save", help="file for the outer parameters")
    given = parser.parse_args()
    common = given.steps, given.workers, given.seed
    begin = time.process_time()
    if given.method in ("parallel", "alone"):
        theta = (in_parallel if given.method == "parallel" else alone)(*common)
    else:
        how = {"inner_steps": given.inner_steps, "rate": given.rate, "momentum": given.momentum}
        how.update(killed=given.killed, dies_in=given.dies_in)
        theta = diloco(*common, mode=given.method, **how)
    if given.save:
        np.save(given.save, theta)
    print(json.dumps({"loss": Model(theta).validate(), "cpu_s": time.process_time() - begin}))


if __name__ == "__main__":
    main()
