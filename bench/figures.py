#!/usr/bin/env python3
"""Measures times, rates and shares, one program at a time, and compares them with bench/goals.json. A missed goal is no
failure: a person examines it, and on a busy machine it has no significance.

    bench/figures.py [--build build/default] [--only REGEX] [--repeats 3]

Runs pccl-perf with several settings, and each test (ctest -C figures) that a goal names: {"of": "test
e2e/kill_kill_idle", "metric": "ms until the survivors knew", ...}; bench/torch_steps.py for {"of": "torch_steps ddp",
...}, if build/venv has torch; bench/arrivals.py for {"of": "arrivals", ...}, which needs root; and bench/pairs.py for
{"of": "pairs send", ...}. Several lines `figure: {...}` with one name in one run are several samples. --only selects
the programs by the name of their test or their command line. Prints a table of medians, with the share of processor
time that the hypervisor gave to others, and writes all samples to build/results/figures.json. The exit status is 1 if a
program failed or did not print a figure that a goal names.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOALS = ROOT / "bench" / "goals.json"
RESULTS = ROOT / "build" / "results" / "figures.json"
FIGURE = re.compile(r"\bfigure: (\{.*\})$", re.M)  # of a test: harness.py, tests/unit/support.h
VERDICT = re.compile(r"^(?:met|MISSED) +(.*): \w+ (\S+|not measured), goal ", re.M)  # of pccl-perf --gate
OF_TEST, OF_STEPS, OF_ARRIVALS, OF_PAIRS = "test ", "torch_steps ", "arrivals", "pairs "
PERF = [
    *(
        f"-N {peers} {work}"
        for peers in (2, 4, 8)
        for work in (
            "--sizes 4,4K,1M,64M,256M --in-place both",
            "--sizes 64M --in-place 0 -k 4",
            "--sizes 64M --in-place 0 -k 16",
            "--state",
        )
    ),
    *(f"-N 4 --sizes 64M --in-place 0 -q {codec} --exact" for codec in ("minmax:u8", "int4", "e3m0")),
    "-N 2 --op send --sizes 4,64M",
    *(
        f"-N {peers} --op {op} --sizes 64M --in-place 0"
        for op in ("all_to_all", "gather", "scatter", "reduce")
        for peers in (2, 4, 8)
    ),
    "-N 4 -e 64M --chaos kill",
    "-N 2 --topology",
    "-N 4 --topology",
]


class Broken(Exception):
    pass


def processors():
    """Returns ticks since boot: the time that the hypervisor gave to others, and the requested time."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return steal, user + nice + system + irq + softirq + steal


def output_of(command, folder, good):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode not in good:
        raise Broken(f"exit status {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


class Printer:
    """A program that prints figures, and the goals for some of them."""

    def __init__(self, name, goals):
        self.name = name
        self.goals = {goal["metric"]: goal for goal in goals}

    def command(self, build):
        raise NotImplementedError

    def measure(self, build):
        """Returns (name, unit, value) of each sample, with the name of the goal if there is one."""
        found = [json.loads(line) for line in FIGURE.findall(output_of(self.command(build), build, {0}))]
        missing = self.goals.keys() - {figure["name"] for figure in found}
        if missing:
            raise Broken(f"does not print {', '.join(sorted(missing))}")
        for figure in found:
            goal = self.goals.get(figure["name"], {"name": f"{self.name}: {figure['name']}"})
            yield goal["name"], figure["unit"], figure["value"]


class Test(Printer):
    def command(self, build):
        return ["ctest", "-C", "figures", "--no-tests=error", "-V", "-R", f"^{re.escape(self.name)}$"]


class Steps(Printer):
    def command(self, build):
        what = self.name.removeprefix(OF_STEPS)
        return [ROOT / "build/venv/bin/python", ROOT / "bench/torch_steps.py", "--what", what, "--build", build]


class Arrivals(Printer):
    def command(self, build):
        return [sys.executable, ROOT / "bench/arrivals.py", "--build", build]


class Pairs(Printer):
    def command(self, build):
        return [sys.executable, ROOT / "bench/pairs.py", "--what", self.name.removeprefix(OF_PAIRS), "--build", build]


class Perf:
    """pccl-perf, which itself compares figures with goals. Its exit status is 1 if it misses one."""

    def __init__(self, arguments, metrics):
        self.name = f"pccl-perf {arguments}"
        self.arguments = arguments.split()
        self.metrics = metrics

    def measure(self, build):
        command = [build / "tools" / "pccl-perf", *self.arguments, "--gate", GOALS]
        found = VERDICT.findall(output_of(command, ROOT, {0, 1}))
        if not found:
            raise Broken("no goal applies, or it ended in the middle")
        for name, value in found:
            if value == "not measured":
                raise Broken(f"{name}: not measured")
            yield name, self.metrics[name], float(value)


def is_possible(steps):
    """Returns true if build/venv has torch, and this process is root if the steps need emulated hosts."""
    has_torch = any((ROOT / "build/venv/lib").glob("python*/site-packages/torch"))
    return has_torch and (not steps.endswith(" wan") or os.getuid() == 0)


def programs(goals):
    of_tests, of_steps, of_pairs, of_arrivals = {}, {}, {}, []
    for goal in goals:
        of = goal.get("of", "")
        if of.startswith(OF_TEST):
            of_tests.setdefault(of.removeprefix(OF_TEST), []).append(goal)
        elif of.startswith(OF_STEPS):
            of_steps.setdefault(of, []).append(goal)
        elif of.startswith(OF_PAIRS):
            of_pairs.setdefault(of, []).append(goal)
        elif of == OF_ARRIVALS:
            of_arrivals.append(goal)
    metrics = {goal["name"]: goal["metric"] for goal in goals}
    return [
        *(Perf(arguments, metrics) for arguments in PERF),
        *(Test(*one) for one in of_tests.items()),
        *(Pairs(*one) for one in of_pairs.items()),
        *(Steps(*one) for one in of_steps.items() if is_possible(one[0])),
        *([Arrivals(OF_ARRIVALS, of_arrivals)] if os.getuid() == 0 else []),
    ]


def row_of(name, unit, samples, stolen, goal):
    row = {"name": name, "unit": unit, "samples": samples, "median": statistics.median(samples), "stolen": stolen}
    if goal:
        bounds = {bound: goal[bound] for bound in ("at_least", "at_most") if bound in goal}
        met = bounds.get("at_least", row["median"]) <= row["median"] <= bounds.get("at_most", row["median"])
        row.update(bounds, met=met)
    return row


def measure(program, repeats, build, goals):
    """Returns a row for each figure of this program."""
    samples = {}
    stole, wanted = processors()
    for _ in range(repeats):
        for name, unit, value in program.measure(build):
            samples.setdefault((name, unit), []).append(value)
    stole_then, wanted_then = processors()
    stolen = (stole_then - stole) / max(1, wanted_then - wanted)
    return [row_of(name, unit, values, stolen, goals.get(name)) for (name, unit), values in samples.items()]


def goal_text(row):
    signs = {"at_least": ">=", "at_most": "<="}
    return " ".join(f"{sign} {row[bound]:.4g}" for bound, sign in signs.items() if bound in row) or "-"


def print_table(rows):
    cells = [("figure", "unit", "median", "lowest..highest", "goal", "", "stolen")]
    for row in rows:
        spread = f"{min(row['samples']):.4g}..{max(row['samples']):.4g}"
        verdict = {True: "met", False: "MISSED", None: ""}[row.get("met")]
        median, stolen = f"{row['median']:.4g}", f"{100 * row['stolen']:.0f} %"
        cells.append((row["name"], row["unit"], median, spread, goal_text(row), verdict, stolen))
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    goals = json.loads(GOALS.read_text(encoding="utf-8"))
    by_name = {goal["name"]: goal for goal in goals}
    rows, broken = [], []
    for program in programs(goals):
        if not arguments.only.search(program.name):
            continue
        print(f"{program.name} ...", flush=True)
        try:
            rows += measure(program, arguments.repeats, arguments.build.resolve(), by_name)
        except Broken as words:
            broken.append(f"{program.name}: {words}")
    print_table(rows)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if broken:
        sys.exit("\n".join(["broken:", *broken]))
    if not rows:
        sys.exit("there is no such program")


main()
