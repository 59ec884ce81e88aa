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
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
PORT = 48148
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


def start(arguments, wan, host):
    command = [sys.executable, str(pathlib.Path(__file__).resolve()), "--peer", f"{wan.address(0)}:{PORT}"]
    command += ["--peers", str(arguments.peers), "--bytes", str(arguments.bytes)]
    command += ["--budget-ms", str(arguments.budget_ms)]
    environment = dict(os.environ, PCCL_LIBRARY=str(arguments.build / "src" / "libpccl.so.1"))
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(wan.prefix(host) + command, env=environment, **pipes)


def phase(arguments, peers, rate):
    """After how many operations the codec stays the same, and the share of those later that met the budget."""
    seen = []
    for _ in range(arguments.operations):
        for process in peers:
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [json.loads(process.stdout.readline()) for process in peers]
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
    sys.path.insert(0, str(ROOT / "tests" / "wan"))
    from wan import Wan  # pylint: disable=import-outside-toplevel

    os.environ.setdefault("E2E_WANEM", str(arguments.build / "tests" / "wan" / "wanem"))
    rates = [int(rate) for rate in arguments.rates.split(",")]
    with Wan(1 + arguments.peers, rate_mbit=rates[0], delay_ms=DELAY_MS, queue_kib=1024) as wan:
        words = [str(arguments.build / "tools" / "pccl-master"), "--listen", f"{wan.address(0)}:{PORT}"]
        processes = [subprocess.Popen(wan.prefix(0) + words)]
        time.sleep(0.5)
        peers = [start(arguments, wan, 1 + i) for i in range(arguments.peers)]
        processes += peers
        try:
            if any(process.stdout.readline() != "ready\n" for process in peers):
                raise SystemExit("the peers did not come together")
            for rate in rates:
                wan.set_rate(rate)
                phase(arguments, peers, rate)
            for process in peers:
                process.stdin.close()
        finally:
            for process in processes:
                process.terminate()
                process.wait()


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
