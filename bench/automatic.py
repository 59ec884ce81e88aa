#!/usr/bin/env python3
"""An automatic codec over links whose rate changes: peers on hosts of their own (tests/wan; needs
root) sum the same tensor again and again, at first over 1 Gbit/s, then over 50 Mbit/s, then over
1 Gbit/s again. Prints, of each operation, the codec, the time and the words, and of each phase after
how many operations the codec did not change any more, and how many of the later ones were within the
budget.

    build/venv/bin/python bench/automatic.py [--build build/default] [--peers 3] [--bytes 4M]
                                             [--budget-ms 400] [--operations 20] [--rates 1000,50,1000]

It must be a Python that has numpy.
"""

import argparse
import json
import pathlib
import sys
import time

from crew import ROOT, ask, crew

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DELAY_MS = 5


def read_size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)


def peer(arguments):
    """Reduces once for each line that comes; tells what was chosen, and how long it took."""
    import numpy  # pylint: disable=import-outside-toplevel

    import pccl  # pylint: disable=import-outside-toplevel

    comm = pccl.Communicator(arguments.peer, options={"port": 0})
    comm.connect()
    while len(comm.members()) < arguments.peers:
        comm.update_topology()
    given = numpy.random.default_rng(comm.rank).standard_normal(arguments.bytes // 4, numpy.float32)
    result = numpy.empty_like(given)
    option = pccl.QuantizationOptions("auto", budget_ms=arguments.budget_ms)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.monotonic()
        info = comm.all_reduce(given, result, op="sum", quantization_options=option)
        told = {"codec": info.codec.name, "why": info.why, "ms": 1000 * (time.monotonic() - start)}
        print(json.dumps(told), flush=True)
    comm.close()


def phase(arguments, peers, rate):
    """After how many operations the codec stays the same, and the share of those later that met the budget."""
    seen = []
    for _ in range(arguments.operations):
        told = ask(peers, "go")
        if len({one["codec"] for one in told}) != 1:
            raise SystemExit(f"peers chose differently: {told}")
        seen.append({"codec": told[0]["codec"], "why": told[0]["why"], "ms": min(one["ms"] for one in told)})
        print(f"{rate:6} Mbit/s {seen[-1]['codec']:16} {seen[-1]['ms']:8.1f} ms  {seen[-1]['why']}", flush=True)
    last = seen[-1]["codec"]
    settled = max((i + 1 for i, one in enumerate(seen) if one["codec"] != last), default=0)
    later = seen[settled:]
    met = sum(one["ms"] <= arguments.budget_ms for one in later)
    print(f"{rate:6} Mbit/s: {last} after {settled} operations; {met} of {len(later)} later ones within the budget")


def measure(arguments):
    rates = [int(rate) for rate in arguments.rates.split(",")]
    options = ("peers", "bytes", "budget_ms")
    with crew(arguments, __file__, options, rate_mbit=rates[0], delay_ms=DELAY_MS, queue_kib=1024) as (wan, peers):
        for rate in rates:
            wan.set_rate(rate)
            phase(arguments, peers, rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--bytes", type=read_size, default=4 << 20)
    parser.add_argument("--budget-ms", type=int, default=400)
    parser.add_argument("--operations", type=int, default=20, help="in each phase")
    parser.add_argument("--rates", default="1000,50,1000", help="Mbit/s of each phase")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    if arguments.peer:
        peer(arguments)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
