"""Measures the rounds per second of peers that send eight bytes each: of the collective alone, and of
pccl.methods.OneByte, whose losses cost nothing here.

    python -m lab.rounds ADDRESS NUMBER --rounds 3000
"""

import argparse
import json
import time

import numpy as np

import pccl
from pccl.methods import OneByte

from .peer import gather

PROBES = 8


def rates(rounds, call, parts=10):
    """Returns the rate of each part of the rounds, after one uncounted part."""
    found = []
    for _ in range(parts + 1):
        begin = time.monotonic()
        for _ in range(rounds // parts):
            call()
        found.append(rounds // parts / (time.monotonic() - begin))
    return found[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3000)
    given = parser.parse_args()
    params = {"w": np.zeros(1, np.float32)}
    with pccl.Communicator(given.address) as comm:
        gather(comm, given.workers)
        gathers = rates(given.rounds, lambda: comm.all_gather_v(bytes(PROBES)))
        method = OneByte(comm, params, lambda probe: float(params["w"][0]), probes=PROBES, min_peers=given.workers)
        method.join()
        print(json.dumps({"gathers": gathers, "steps": rates(given.rounds // 10, method.step)}))
        method.close()


if __name__ == "__main__":
    main()
