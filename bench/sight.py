#!/usr/bin/env python3
"""Measures the cost of the flight recorder and of the reports to the master: all-reduce over loopback with and without
them, in turns.

    bench/sight.py [--build build/default] [--blind build/blind] [--peers 2,4] [--seconds 60]
    bench/sight.py --instructions [--quiet build/quiet] [--blind build/blind]

Neither can be switched off, so --blind is a build of the same sources with empty functions in their place; it is made
if it does not exist. On a machine without a compiler, both folders need only tools/pccl-perf. The number of turns
depends on the seconds. Prints for each size the median of the ratios of neighboring turns, with over without, for the
time of an operation and for the processor time, and the range of their middle half. A median whose range includes 1 is
within noise. --instructions counts the instructions of an operation instead, with callgrind, under which an operation
is far slower; so functions that run by the clock are empty in both builds (--quiet).
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import gate

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"4,4K,64K,1M": 200, "8M,64M": 8}  # number of timed operations in a turn
BY_THE_CLOCK = {"src/drive/comm_watch.c": ["pccl_comm_watch_polled"]}
FOR_EACH_OPERATION = {
    "src/drive/comm_telemetry.c": [
        "pccl_comm_telemetry_launched",
        "pccl_comm_telemetry_decided",
        "pccl_comm_telemetry_released",
    ],
    "src/drive/comm_jobs.c": ["count_ended"],
    "src/telemetry/flow.h": [
        "pccl_telemetry_expect",
        "pccl_telemetry_grant",
        "pccl_telemetry_begin_sending",
        "pccl_telemetry_sent",
        "pccl_telemetry_begin_receiving",
        "pccl_telemetry_received",
    ],
}


def empty(file, functions):
    text = file.read_text(encoding="utf-8")
    for function in functions:
        head = re.compile(rf"^((?:static )?(?:inline )?void {function}\([^)]*\)\n\{{\n)", re.M)
        text, count = head.subn(r"\1    return;\n", text)
        if count != 1:
            sys.exit(f"bench/sight.py: {file} has {count} functions {function}")
    file.write_text(text, encoding="utf-8")


def make(build, *tables):
    """Builds these sources with these functions empty, unless the build exists."""
    if (build / "tools/pccl-perf").exists():
        return
    tree = build / "tree"
    shutil.rmtree(build, ignore_errors=True)
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("build", ".git", "__pycache__"))
    for table in tables:
        for file, functions in table.items():
            empty(tree / file, functions)
    options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_C_COMPILER=gcc"]
    for command in (
        ["cmake", "-S", tree, "-B", build, *options],
        ["cmake", "--build", build, "--target", "pccl-perf", "bench_operations"],
    ):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout[-3000:])


def measure(build, peers):
    """Returns {bytes: (median in us, processor time of all for an operation in us)}."""
    rows = []
    for sizes, count in SIZES.items():
        command = [build / "tools/pccl-perf", "-N", str(peers), "--sizes", sizes, "-n", str(count), "-w", "2"]
        command += ["-c", "0", "--no-limit", "--in-place", "0", "--json", "-"]
        done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=True)
        rows += json.loads(done.stdout)["rows"]
    return {row["bytes"]: (row["p50_us"], row["cpu_us"] + row["master_cpu_us"]) for row in rows}


def ratio_text(ratios):
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else 3 * ratios
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def compare_times(arguments):
    print("| peers | bytes | pairs | us without | time with / without | the processors' time, likewise |")
    print("|---|---|---|---|---|---|")
    kinds = [int(word) for word in arguments.peers.split(",")]
    began = time.monotonic()
    for number, peers in enumerate(kinds, 1):
        pairs, order = [], [arguments.build, arguments.blind]
        while len(pairs) < 2 or time.monotonic() - began < arguments.seconds * number / len(kinds):
            found = {build: measure(build, peers) for build in order}
            pairs.append((found[arguments.build], found[arguments.blind]))
            order.reverse()  # so that a drift affects both equally
        for size in pairs[0][0]:
            usual = statistics.median(without[size][0] for _, without in pairs)
            ratios = [[with_[size][i] / without[size][i] for with_, without in pairs] for i in (0, 1)]
            shown = " | ".join(map(ratio_text, ratios))
            print(f"| {peers} | {size} | {len(pairs)} | {usual:.0f} | {shown} |", flush=True)


def compare_instructions(arguments):
    print("| operation of two peers | side | instructions without | with | more |")
    print("|---|---|---|---|---|")
    for row, (size, times, _) in gate.OPERATIONS.items():
        counted = []
        for build in (arguments.blind, arguments.quiet):
            with tempfile.TemporaryDirectory() as folder:
                counted.append(gate.count_operation(pathlib.Path(folder), (build / "bench").resolve(), size, times))
        for side, without in counted[0].items():
            more = counted[1][side] - without
            share = f"{more:.0f}, {100 * more / without:.1f} %"
            print(f"| {row} | {side[2:]} | {without:.0f} | {counted[1][side]:.0f} | {share} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--blind", type=pathlib.Path, default=ROOT / "build" / "blind")
    parser.add_argument("--quiet", type=pathlib.Path, default=ROOT / "build" / "quiet")
    parser.add_argument("--peers", default="2,4")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--instructions", action="store_true")
    arguments = parser.parse_args()
    make(arguments.blind, BY_THE_CLOCK, FOR_EACH_OPERATION)
    if arguments.instructions:
        make(arguments.quiet, BY_THE_CLOCK)
        compare_instructions(arguments)
    else:
        compare_times(arguments)


if __name__ == "__main__":
    main()
