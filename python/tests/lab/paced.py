"""A worker whose rounds of training take a given time, as on an accelerator: it computes for a third of each inner step
and waits for the rest. The number of parameters is configurable. Reports the time of the rounds.

    python -m lab.paced ADDRESS NUMBER --mode delayed
"""

import argparse
import json
import statistics
import time

import numpy as np

import pccl
import pccl.diloco

from .model import Worker
from .peer import gather

BUSY = 1 / 3


def inner_step(worker, flat, seconds):
    begin = time.monotonic()
    flat *= np.float32(0.999)
    while time.monotonic() < begin + BUSY * seconds:
        worker.train(0, 1)
    time.sleep(max(0.0, begin + seconds - time.monotonic()))
    return time.monotonic() - begin


def step(diloco, worker, flat, given):
    """Makes a step. Returns its info, and the seconds of compute."""
    computed = inner_step(worker, flat, given.compute_s / given.inner_steps)
    return diloco.step(1), computed


def rounds(diloco, worker, flat, given):
    """Returns (seconds of the round, of its compute, of waiting) for each round but the first two, which fill the
    pipeline."""
    found = []
    while diloco.inner_step % given.inner_steps != 0:  # of a newcomer
        step(diloco, worker, flat, given)
    for _ in range(given.rounds + 2):
        begin, computed, waited = time.monotonic(), 0.0, 0.0
        for _ in range(given.inner_steps):
            info, seconds = step(diloco, worker, flat, given)
            computed, waited = computed + seconds, waited + info.waited_s
        assert info.synced
        found.append((time.monotonic() - begin, computed, waited))
    diloco.finish()
    return found[2:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--inner-steps", type=int, default=10)
    parser.add_argument("--compute-s", type=float, default=2.0)
    parser.add_argument("--parameters", type=int, default=1 << 20)
    parser.add_argument("--bucket-bytes", type=int, default=16 << 20)
    parser.add_argument("--mode", default="sync")
    parser.add_argument("--codec")
    parser.add_argument("--fragments", type=int, default=1)
    parser.add_argument("--delay", type=int, default=0)
    parser.add_argument("--catch-up")
    given = parser.parse_args()
    flat = np.random.default_rng(1).standard_normal(given.parameters, dtype=np.float32)
    params = {f"part.{i}": part for i, part in enumerate(np.array_split(flat, given.fragments))}
    with pccl.Communicator(given.address) as comm:
        gather(comm, given.workers)
        how = {"inner_steps": given.inner_steps, "bucket_bytes": given.bucket_bytes, "codec": given.codec}
        how.update(mode=given.mode, fragments=given.fragments, delay=given.delay, catch_up=given.catch_up)
        diloco = pccl.diloco.DiLoCo(comm, params, **how)
        begin = time.monotonic()
        diloco.join()
        joined_s = time.monotonic() - begin
        found = rounds(diloco, Worker(given.number, given.workers, 0, 600), flat, given)
        names = ("round_s", "compute_s", "waited_s")
        told = {name: statistics.median(values) for name, values in zip(names, zip(*found))}
        print(json.dumps({**told, "joined_s": joined_s, "rounds": found, "digest": diloco.digest()}))
        diloco.close()


if __name__ == "__main__":
    main()
