#!/usr/bin/env python3
"""Measures on_arrival of an all-to-all-v over slow links, compared with a single part. The turns alternate: in one
every peer sends a part to every other peer; in the next the first peer sends a part to the second one. The time is
measured from the launch to the complete arrival of a part. Each peer runs on a separate emulated host (tests/wan; needs
root).

    bench/arrivals.py [--build build/default] [--peers 4] [--mib 16] [--mbit 1000] [--delay-ms 25] [--turns 11]
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from crew import ROOT, ask, crew

WARM_UP = 3


def peer(arguments):
    """Prints one line of JSON for each command, "all" or "alone": the seconds until the arrival of each part."""
    import pccl  # pylint: disable=import-outside-toplevel

    comm = pccl.Communicator(arguments.peer)
    comm.connect()
    while len(comm.members()) < arguments.peers:
        comm.update_topology()
    part = bytes(arguments.mib << 20)
    print("ready", flush=True)
    for line in sys.stdin:
        to = range(arguments.peers) if line.strip() == "all" else [1] if comm.rank == 0 else []
        parts = [part if i in to and i != comm.rank else b"" for i in range(arguments.peers)]
        came = []
        comm.barrier()
        begin = time.monotonic()
        comm.all_to_all_v(parts, on_arrival=lambda _, one: one and came.append(time.monotonic() - begin))
        print(json.dumps(came), flush=True)
    comm.close()


def report(peers, turns):
    firsts, slowest, alone = [], [], []
    for turn in range(-WARM_UP, turns):
        everybody = ask(peers, "all")
        one = max(sum(ask(peers, "alone"), []))
        print(f"one alone {1e3 * one:.0f} ms; each peer's parts, ms:",
              "; ".join(" ".join(f"{1e3 * seconds:.0f}" for seconds in parts) for parts in everybody),
              "" if turn >= 0 else "(warm-up)", flush=True)
        if turn >= 0:
            firsts += [min(parts) for parts in everybody]
            slowest.append(max(min(parts) for parts in everybody))
            alone.append(one)
    first, last, one = map(statistics.median, (firsts, slowest, alone))
    print(f"a peer's first part {1e3 * first:.0f} ms, the slowest peer's {1e3 * last:.0f}, one alone {1e3 * one:.0f} "
          "(medians)")
    for name, seconds in ("first part seen", first), ("the slowest peer's first part seen", last):
        ratio = {"name": name + ", against one alone", "unit": "", "value": seconds / one}
        print("figure:", json.dumps(ratio), flush=True)  # for bench/figures.py


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--mbit", type=int, default=1000)
    parser.add_argument("--delay-ms", type=int, default=25)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    if arguments.peer:
        peer(arguments)
        return
    links = {"rate_mbit": arguments.mbit, "delay_ms": arguments.delay_ms}
    with crew(arguments, __file__, ("peers", "mib"), **links) as (_, peers):
        report(peers, arguments.turns)


if __name__ == "__main__":
    main()
