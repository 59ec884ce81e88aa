#!/usr/bin/env python3
"""Measures the ratio of two variants, for goals in this form. pccl-perf measures both alternately on loopback, under
the same conditions of the machine; the figure is the median of the pairs' ratios of time.

    bench/pairs.py --what NAME [--build build/default] [--turns 7]
"""

import argparse
import json
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETTINGS = ["--no-limit", "-c", "0", "--json", "-"]
COALESCED = ["--sizes", "18M", "-n", "12", "-w", "3"]  # 100 tensors of 4 KiB to 1 MiB
SMALL = ["-N", "2", "--sizes", "4", "-n", "3000", "-w", "300"]
PAIRS = {  # name of the figure, the two variants
    **{
        f"coalesced {peers}{' in place' * in_place}": (
            "coalesced, against one tensor",
            ["-N", str(peers), *COALESCED, "--in-place", str(in_place), "-t", "100"],
            ["-N", str(peers), *COALESCED, "--in-place", str(in_place)],
        )
        for peers in (2, 4)
        for in_place in (0, 1)
    },
    "send": ("a send, against an all-reduce", [*SMALL, "--op", "send", "--in-place", "1"], [*SMALL, "--in-place", "0"]),
}


def row_of(build, options):
    command = [build / "tools" / "pccl-perf", *options, *SETTINGS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)["rows"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", choices=sorted(PAIRS), required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    name, *ways = PAIRS[arguments.what]
    ratios = []
    for _ in range(arguments.turns):
        one, other = (row_of(arguments.build.resolve(), options) for options in ways)
        ratios.append(one["p50_us"] / other["p50_us"])
        print(
            f"{one['p50_us']:.1f} and {other['p50_us']:.1f} us, CPU s/GB {one['cpu_s_per_gb']:.3f} and "
            f"{other['cpu_s_per_gb']:.3f}, ratio {ratios[-1]:.3f}",
            flush=True,
        )
    print("figure:", json.dumps({"name": name, "unit": "", "value": statistics.median(ratios)}))


main()
