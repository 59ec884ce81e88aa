#!/usr/bin/env python3
"""Have the inner parts become dearer? Counts instructions with valgrind, which noise does not touch.

    bench/gate.py [--build build/default] [--write] [--tolerance 0.03]

Compares with bench/instructions.json, and fails if something needs more than the tolerance above what is written there
(or that much less: then write it anew, with --write). Numbers hold for one compiler and one build type; with others
they are shown, and nothing fails. Copying (memcpy and its kin) is not counted: it is another code on each processor.
"""

import argparse
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
# name: (work of bench_segments, how often, what one unit is). valgrind knows no AVX-512.
WORK = {
    "combine f32, scalar": ("combine:scalar", 4, "64 KiB"),
    "combine f32, avx2": ("combine:avx2", 8, "64 KiB"),
    "encode u8, scalar": ("encode:scalar", 2, "64 KiB"),
    "encode u8, avx2": ("encode:avx2", 4, "64 KiB"),
    "decode u8, scalar": ("decode:scalar", 2, "64 KiB"),
    "decode u8, avx2": ("decode:avx2", 4, "64 KiB"),
    "frame of DATA": ("frame", 200, "frame, encoded and decoded"),
    "exchange": ("exchange", 2, "segment, sent and received"),
}
COPYING = re.compile(r"\b_*(mem(cpy|move|set|cmp|chr)|mempcpy)")


def self_costs(path):
    """Instructions of all functions but those that copy, from a callgrind file."""
    total, counted, is_call = 0, True, False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("fn="):
            counted = not COPYING.search(line)
        elif line.startswith("calls="):
            is_call = True  # the next line is the cost of what was called
        elif line[:1].isdigit():  # a line of source, and its cost
            if counted and not is_call:
                total += int(line.split()[1])
            is_call = False
    return total


def run(program, work, times):
    """(instructions, units)"""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
        command += ["--compress-pos=no", str(program), work, str(times)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            sys.exit(f"{work}: {done.stderr.strip()[-500:]}")
        return self_costs(out), int(done.stdout)


def count(program, work, times):
    """Instructions of one unit: twice as much work less once, so that starting and ending cancel out."""
    once, twice = run(program, work, times), run(program, work, 2 * times)
    return (twice[0] - once[0]) / (twice[1] - once[1])


def conditions(build):
    """What the numbers depend on."""
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (build / "CMakeCache.txt").read_text(encoding="utf-8"), re.M))
    compiler = cache["CMAKE_C_COMPILER"]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    version = version.partition(" ")[2]  # without the name it was called by: cc is gcc
    return {"compiler": version, "build_type": cache["CMAKE_BUILD_TYPE"], "machine": os.uname().machine}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--tolerance", type=float, default=0.03)
    arguments = parser.parse_args()
    program = arguments.build / "bench" / "bench_segments"
    if not shutil.which("valgrind"):
        sys.exit("there is no valgrind (scripts/deps-bench)")
    if not program.exists():
        sys.exit(f"{program} is not there; build it first, or name the folder with --build")
    own = conditions(arguments.build)
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"instructions": {}}
    binding = all(before.get(key) == value for key, value in own.items())
    if not binding and not arguments.write:
        print(f"counted elsewhere before ({before.get('compiler')}, {before.get('build_type')}): nothing will fail")
    found, off = {}, []
    for name, (work, times, unit) in WORK.items():
        found[name] = round(count(program, work, times))
        known = before["instructions"].get(name)
        change = found[name] / known - 1 if known else 0
        if not known or abs(change) > arguments.tolerance:
            off.append(name)
        shown = f"{100 * change:+.1f} %" if known else "new"
        print(f"{name:22} {found[name]:9} for each {unit:28} {shown}", flush=True)
    if arguments.write:
        FILE.write_text(json.dumps({**own, "instructions": found}, indent=1) + "\n", encoding="utf-8")
    elif off and binding:
        print(f"off by more than {100 * arguments.tolerance:.0f} %, or new: {', '.join(off)}")
        sys.exit("if that is meant: bench/gate.py --write")


main()
