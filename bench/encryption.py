#!/usr/bin/env python3
"""Measures the cost of encryption: all-reduce over loopback without encryption, with encryption=control and with
encryption=on, in turns.

    bench/encryption.py [--build build/default] [--peers 2,4,8] [--sizes 1M,64M] [--turns 3] [--iters 6]
                        [--before DIR] [--openssl DIR]

Prints for each mode the processor time for a gigabyte of every peer's traffic (the minimum of all turns, which excludes
other work of the machine), the minimum median, and their ratios to those without encryption. Small sizes have goals in
other terms: the ratios of the processor time and of the duration of an operation, in the median turn. --before: an
earlier build, measured in turn with encryption=on. --openssl: a folder with another libssl.so.3 and libcrypto.so.3,
also measured in turn.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

MODES = ("off", "control", "on")


def measure(kind, peers, arguments, state):
    """Returns {bytes: (CPU-s/GB, median in us, processor time of all in us)}."""
    build, mode, libraries = kind
    environment = dict(os.environ)
    if libraries:
        environment["LD_LIBRARY_PATH"] = libraries
    for name in ("PCCL_MASTER_STATE", "PCCL_TOKEN_FILE", "PCCL_TOKEN", "PCCL_ENCRYPTION"):
        environment.pop(name, None)
    if mode != "off":
        environment.update(PCCL_MASTER_STATE=state, PCCL_TOKEN_FILE=f"{state}/run.token", PCCL_ENCRYPTION=mode)
    command = [str(pathlib.Path(build) / "tools/pccl-perf"), "-N", str(peers), "--sizes", arguments.sizes]
    command += ["-n", str(arguments.iters), "-w", "2", "-c", "0", "--no-limit", "--in-place", "0", "--json", "-"]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=900, check=True)
    rows = json.loads(done.stdout)["rows"]
    return {row["bytes"]: (row["cpu_s_per_gb"], row["p50_us"], row["cpu_us"] + row["master_cpu_us"]) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--before")
    parser.add_argument("--openssl")
    parser.add_argument("--peers", default="2,4,8")
    parser.add_argument("--sizes", default="1M,64M")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--iters", type=int, default=6)
    arguments = parser.parse_args()
    kinds = {mode: (arguments.build, mode, None) for mode in MODES}
    if arguments.before:
        kinds["before"] = (arguments.before, "on", None)
    if arguments.openssl:
        kinds["on, other OpenSSL"] = (arguments.build, "on", arguments.openssl)
    print("| peers | bytes | mode | CPU-s/GB | share of plain | median, ms | share of plain | times: CPU | median |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o700)
        for peers in map(int, arguments.peers.split(",")):
            turns = [
                {name: measure(kind, peers, arguments, state) for name, kind in kinds.items()}
                for _ in range(arguments.turns)
            ]
            for size in turns[0]["off"]:
                best = {name: [min(turn[name][size][i] for turn in turns) for i in (0, 1)] for name in kinds}
                for name, (cpu, median) in best.items():
                    of_cpu, of_time = best["off"][0] / cpu, best["off"][1] / median
                    times = [
                        statistics.median(turn[name][size][i] / turn["off"][size][i] for turn in turns) for i in (2, 1)
                    ]
                    print(f"| {peers} | {size} | {name} | {cpu:.3f} | {of_cpu:.2f} | {median / 1e3:.3f} "
                          f"| {of_time:.2f} | {times[0]:.2f} | {times[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
