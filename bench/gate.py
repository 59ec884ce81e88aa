#!/usr/bin/env python3
"""Checks that operations and their inner parts do not become more expensive. Counts instructions with valgrind, which
is not affected by noise.

    bench/gate.py [--build build/default] [--write] [--tolerance 0.03]

Compares the counts with bench/instructions.json. Fails if one differs by more than the tolerance; if it has decreased,
write the file again with --write. The numbers are valid for one compiler and one build type; for others the program
prints them and does not fail. Only our code counts: memcpy and similar functions differ by processor, and the number of
polls of libuv depends on time. Operations use TCP, because the choice of copies in shared memory depends on measured
times.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE = ROOT / "bench" / "instructions.json"
# name: (work of bench_segments, number of times, unit). valgrind does not support AVX-512.
PARTS = {
    "combine f32, scalar": ("combine:scalar", 4, "64 KiB"),
    "combine f32, avx2": ("combine:avx2", 8, "64 KiB"),
    "encode u8, scalar": ("encode:scalar", 2, "64 KiB"),
    "encode u8, avx2": ("encode:avx2", 4, "64 KiB"),
    "decode u8, scalar": ("decode:scalar", 2, "64 KiB"),
    "decode u8, avx2": ("decode:avx2", 4, "64 KiB"),
    "encode int4, avx2": ("encode-int4:avx2", 4, "64 KiB"),
    "decode int4, avx2": ("decode-int4:avx2", 4, "64 KiB"),
    "encode e3m0, avx2": ("encode-e3m0:avx2", 4, "64 KiB"),
    "decode e3m0, avx2": ("decode-e3m0:avx2", 4, "64 KiB"),
    "digest, scalar": ("digest:scalar", 2, "chunk of 1 MiB"),
    "digest, avx2": ("digest:avx2", 2, "chunk of 1 MiB"),
    "proof, scalar": ("prove:scalar", 1, "chunk of 1 MiB"),
    "proof, avx2": ("prove:avx2", 1, "chunk of 1 MiB"),
    "frame of DATA": ("frame", 200, "frame, encoded and decoded"),
    "exchange": ("exchange", 2, "segment, sent and received"),
}
# The same for bench_operations: bytes of an all-reduce.
OPERATIONS = {
    "tiny all-reduce": (64, 1000, "64 bytes, both peers"),
    "bulk all-reduce": (1 << 20, 50, "1 MiB, both peers"),
}
# For bench_master_load: number of peers in the run when the last newcomers have joined. From the first row to the last,
# the instructions of a peer for a view may grow by this factor at most.
VIEWS = {"view of 100": 100, "view of 1,000": 1000}
VIEWS_GROW_MOST = 3
# Work counts for the innermost of these functions on its stack. All other work is "received": loops, folding, outcomes.
# The master's work is that of its state machine.
SIDES = {"pcclAllReduceAsync": "sent", "pccl_bundle_pump": "sent", "on_writable": "sent", "pccl_master_step": "master"}
CALLERS = 24  # depth of the recorded call chain of a function: more than any has


def own_instructions(path, program, side_of=lambda _: "all"):
    """Returns the instructions of our functions in the program, by side, from a callgrind file. If callgrind recorded
    callers, a function has its call chain, innermost first. Functions without a side do not count."""
    total, own, side, is_call = collections.Counter(), False, None, False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("ob="):
            own = line == f"ob={program}"
        elif line.startswith("fn="):
            side = side_of(line.removeprefix("fn=").split("'")) if own else None
        elif line.startswith("calls="):
            is_call = True  # the next line is the cost of the call
        elif line[:1].isdigit():  # a source line, and its cost
            if side and not is_call:
                total[side] += int(line.split()[1])
            is_call = False
    return total


def side_of_operation(chain):
    """Returns the side of an operation. Addition counts as one of the parts."""
    if chain[0] == "sum_f32":
        return None
    return next((SIDES[function] for function in chain if function in SIDES), "received")


def callgrind(out, program, *arguments, options=()):
    """Writes the file `out` (and out.1, out.2... if the options request them); returns the number of units of work."""
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
    command += ["--compress-pos=no", *options, str(program), *map(str, arguments)]
    environment = {**os.environ, "PCCL_LOCAL": "tcp"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return int(done.stdout)


def count_part(folder, bench, work, times):
    """Returns the instructions of one unit, by suffix of the row's name. Subtracts a run from one with twice the work,
    so that start and end cancel out."""
    program, out = bench / "bench_segments", folder / "out"
    units, instructions = [], []
    for repeated in (times, 2 * times):
        units.append(callgrind(out, program, work, repeated))
        instructions.append(own_instructions(out, program)["all"])
    return {"": (instructions[1] - instructions[0]) / (units[1] - units[0])}


def count_operation(folder, bench, size, times):
    """Returns the instructions of one operation of two peers and the master, by side. The cost of joining varies, so it
    is excluded: a file ends with each return from reduce_often."""
    program = bench / "bench_operations"
    options = ["--dump-after=reduce_often*", f"--separate-callers={CALLERS}"]
    units = callgrind(folder / "out", program, size, times, options=options)
    found = own_instructions(folder / "out.2", program, side_of_operation)
    return {f", {side}": found[side] / units for side in ("sent", "received", "master")}


def count_views(folder, bench, peers):
    """Returns the instructions of one peer, including decoding, for one view while the last newcomers join."""
    program = bench / "bench_master_load"
    options = ["--toggle-collect=join_the_last*", f"--separate-callers={CALLERS}"]
    units = callgrind(folder / "out", program, "views", peers, options=options)
    found = own_instructions(folder / "out", program, lambda chain: "peer" if "pump_peers" in chain else None)
    return {"": found["peer"] / units}


def conditions(build):
    """Returns the conditions on which the numbers depend."""
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.M))
    compiler = cache["CMAKE_C_COMPILER"]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    version = version.partition(" ")[2]  # without the name of its command: cc is gcc
    return {"compiler": version, "build_type": cache["CMAKE_BUILD_TYPE"], "machine": os.uname().machine}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.03)
    arguments = parser.parse_args()
    bench = (arguments.build / "bench").resolve()
    if not shutil.which("valgrind"):
        sys.exit("there is no valgrind (scripts/deps-bench)")
    if not (bench / "bench_operations").exists():
        sys.exit(f"there are no programs in {bench}; build them first, or name the folder with --build")
    own = conditions(arguments.build)
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"instructions": {}}
    binding = all(before.get(key) == value for key, value in own.items())
    if not binding and not arguments.write:
        print(f"counted elsewhere before ({before.get('compiler')}, {before.get('build_type')}): nothing will fail")
    found, off = {}, []
    jobs = [(count_part, row, given, unit) for row, (*given, unit) in PARTS.items()]
    jobs += [(count_operation, row, given, unit) for row, (*given, unit) in OPERATIONS.items()]
    jobs += [(count_views, row, [peers], "peer and view") for row, peers in VIEWS.items()]
    for count, row, given, unit in jobs:
        with tempfile.TemporaryDirectory() as folder:
            counted = count(pathlib.Path(folder), bench, *given)
        for name, instructions in ((row + part, round(one)) for part, one in counted.items()):
            found[name] = instructions
            known = before["instructions"].get(name)
            change = instructions / known - 1 if known else 0
            if not known or abs(change) > arguments.tolerance:
                off.append(name)
            shown = f"{100 * change:+.1f} %" if known else "new"
            print(f"{name:25} {instructions:9} for each {unit:28} {shown}", flush=True)
    first, last = (found[row] for row in (next(iter(VIEWS)), next(reversed(VIEWS))))
    print(f"views grow by a factor of {last / first:.2f}, at most {VIEWS_GROW_MOST}")
    if last > VIEWS_GROW_MOST * first:
        sys.exit("a view takes much longer in a large group: what does a peer do more than once for each member?")
    if arguments.write:
        FILE.write_text(json.dumps({**own, "instructions": found}, indent=1) + "\n", encoding="utf-8")
    elif off and binding:
        print(f"off by more than {100 * arguments.tolerance:.0f} %, or new: {', '.join(off)}")
        sys.exit("if that is meant: bench/gate.py --write")


if __name__ == "__main__":  # bench/sight.py counts in the same way
    main()
