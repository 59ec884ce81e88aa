#!/usr/bin/env python3
"""Measures the share of correct first verdicts of the master: faults of each kind in groups of real processes on
separate emulated hosts (tests/wan; needs root), and healthy runs, which must give no verdict.

    bench/verdicts.py [--turns 20] [--at-once N] [--only REGEX] [--peers 4] [--build build/default | --carried FOLDER]

Each turn has a separate group, and a culprit that differs from the turn before. --at-once turns run in parallel, by
default one and a half per processor. Prints a line for each incorrect turn, and a table. Fails only if a turn does not
run: on a busy machine a verdict on a slow peer may be correct. `scripts/under-load bench/verdicts.py --only sound`
gives the numbers for a busy machine.

    bench/verdicts.py --pack FOLDER

copies the files for a machine that has only Python and the kernel: our programs, ip of iproute2, and their libraries.
bench, tests/e2e and tests/wan are needed there, too.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
sys.dont_write_bytecode = True
import harness  # noqa: E402 pylint: disable=wrong-import-position
import test_verdicts as faults  # noqa: E402 pylint: disable=wrong-import-position
from test_verdicts import RATE, Hosts, Staggering  # noqa: E402 pylint: disable=wrong-import-position

SOUND_OPERATIONS = 500
WITHIN_S, WITHIN_OPERATIONS = 5, 20  # the goal is to meet one of them
LATE_OPERATIONS = 40  # after so many operations a late peer counts as not found
WAIT_S = 30
SOUND_S = 300
TURN_S = SOUND_S + harness.DEADLINE  # timeout of a turn, which leaves its processes behind
PROGRAMS = {"E2E_MASTER": "tools/pccl-master", "E2E_PEER": "tests/e2e/e2e_peer", "E2E_WANEM": "tests/wan/wanem"}
SIGN = "turn: "  # prefix of the result of a turn
Scenario = collections.namedtuple("Scenario", "what make kind right", defaults=(None, None))

# ---- faults: each starts with a healthy group, and returns when there is a verdict or cannot be one


class Watch:
    """Measures from the fault on: the time and the number of operations until the observed peer knows a verdict."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.made = self.operations()
        self.began = time.monotonic()

    def operations(self):
        return len(self.hosts.loops[-1].steps) if self.hosts.loops else 0

    def first(self, seconds=WAIT_S):
        with contextlib.suppress(harness.Failure):
            harness.poll(self.hosts.verdicts, "a verdict", seconds)
        return self.result(self.operations() - self.made)

    def result(self, operations):
        found = self.hosts.verdicts()[:1]
        failed = [loop for loop in self.hosts.loops if loop.result or loop.failures]
        result = {"s": time.monotonic() - self.began, "operations": operations, "failed": bool(failed)}
        if found:
            result.update(kind=found[0]["class"], of=self.hosts.number(found[0]), evidence=found[0]["evidence"])
        return result


def at_a_link(fault):
    def make(hosts, turn):
        sender, receiver = link_of(hosts, turn)
        hosts.loop()
        watch = Watch(hosts)
        fault(hosts, sender, receiver)
        return watch.first()

    return make


def at_a_peer(fault):
    def make(hosts, turn):
        hosts.loop()
        watch = Watch(hosts)
        fault(hosts, peer_of(hosts, turn)[0])
        return watch.first()

    return make


def stagger(hosts, turn):
    hosts.loop()
    watch = Watch(hosts)
    with Staggering(hosts.peers[peer_of(hosts, turn)[0]]):
        return watch.first()


def come_late(hosts, turn):
    watch, made = Watch(hosts), 0
    while made < LATE_OPERATIONS and not hosts.verdicts():
        made += 1
        faults.reduce_late(hosts, made, peer_of(hosts, turn)[0])
    return watch.result(made)


def stop_before(hosts, turn):
    which = peer_of(hosts, turn)[0]
    hosts.peers[which].stop()
    faults.reduce(hosts, set(range(len(hosts.peers))) - {which}, 1, faults.LARGE)
    return stopped(hosts, which)


def stop_within(hosts, turn):
    which = peer_of(hosts, turn)[0]
    faults.stop_within(hosts, 1, which, RATE / 4)  # queued data arrives for a while
    return stopped(hosts, which)


def stopped(hosts, which):
    result = Watch(hosts).first()
    hosts.peers[which].kill()
    return result


def nothing(hosts, _turn):
    hosts.loop()
    watch = Watch(hosts)
    harness.poll(lambda: watch.operations() >= SOUND_OPERATIONS, f"{SOUND_OPERATIONS} operations", SOUND_S)
    result = watch.result(watch.operations())
    said = [text for _, text in hosts.run.master.lines if "action: " in text and "finding: " not in text]
    if said:
        result.update(kind=f"{len(said)} verdicts", of=(), evidence="; ".join(said))
    return result


# ---- expected culprits


def peer_of(hosts, turn):
    """Returns a peer that is not the observed one."""
    return (turn % (len(hosts.peers) - 1),)


def link_of(hosts, turn):
    """Returns all pairs, one after another."""
    count = len(hosts.peers)
    return (turn % count, (turn + 1 + turn // count % (count - 1)) % count)


SCENARIOS = {
    "link": Scenario(
        "a link 3 times slower",
        at_a_link(lambda hosts, *link: faults.narrow_link(hosts, RATE / 3, *link)),
        "slow link",
        link_of,
    ),
    "way-out": Scenario(
        "a peer's way out 3 times slower",
        at_a_peer(lambda hosts, peer: faults.narrow_way_out(hosts, RATE / 3, peer)),
        "slow sender",
        peer_of,
    ),
    "way-in": Scenario(
        "a peer's way in 3 times slower",
        at_a_peer(lambda hosts, peer: faults.narrow_way_in(hosts, RATE / 3, peer)),
        "slow receiver",
        peer_of,
    ),
    "late": Scenario("a peer enters 0.5 s late", come_late, "slow computation", peer_of),
    "stop-within": Scenario("a peer stops inside an operation", stop_within, "hang", peer_of),
    "stop-before": Scenario("a peer stops before an operation", stop_before, "not entered", peer_of),
    "loss": Scenario(
        "a link loses 2 %", at_a_link(lambda hosts, *link: faults.lose(hosts, 2, *link)), "slow link", link_of
    ),
    "stagger": Scenario("a peer is stopped for 20 of each 30 ms", stagger, "slow peer", peer_of),
    "sound": Scenario(f"nothing, in {SOUND_OPERATIONS} operations", nothing),
}

# ---- turns


def take_turn(name, turn, peers):
    """Runs in a separate process: the names of its hosts contain the process's id."""
    scenario = SCENARIOS[name]
    with harness.Run(f"{name}-{turn}") as run:
        hosts = Hosts(run, peers)
        result = scenario.make(hosts, turn)
        want = scenario.right(hosts, turn) if scenario.right else ()
    result.update(want=want, right=result.get("kind") == scenario.kind and set(result.get("of", ())) == set(want))
    harness.say(SIGN + json.dumps(result))


def start_turn(arguments, environment, name, turn):
    """Returns the result of the turn, or the reason why it did not run."""
    command = [sys.executable, __file__, "--peers", str(arguments.peers), "--turn", name, str(turn)]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TURN_S
        )
    except subprocess.TimeoutExpired:
        return name, turn, {"broken": f"has not ended within {TURN_S} s"}
    found = [line.removeprefix(SIGN) for line in done.stdout.splitlines() if line.startswith(SIGN)]
    return name, turn, json.loads(found[0]) if found else {"broken": done.stdout[-3000:]}


def words_of(result):
    if "kind" not in result:
        return "no verdict"
    return f"{result['kind']} of {result['of']}: {result['evidence']}"


def print_table(names, results):
    soon = f"in {WITHIN_S} s or {WITHIN_OPERATIONS}"
    rows = [("fault", "right", "of", "s, median", "s, most", "operations, most", soon)]
    for name in names:
        found = [result for result in results[name] if "broken" not in result]
        right = [result for result in found if result["right"]]
        seconds = [result["s"] for result in right]
        soon = sum(one["s"] <= WITHIN_S or 0 < one["operations"] <= WITHIN_OPERATIONS for one in right)
        rows.append(
            (
                SCENARIOS[name].what,
                str(len(right)),
                str(len(results[name])),
                f"{statistics.median(seconds):.1f}" if seconds else "-",
                f"{max(seconds):.1f}" if seconds else "-",
                str(max(result["operations"] for result in right)) if right else "-",
                str(soon) if SCENARIOS[name].kind else "-",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())


def tally(arguments, names):
    """Runs all turns, the longest first. Returns false if some did not run."""
    environment = environment_of(arguments)
    turns = [(name, turn) for turn in range(arguments.turns) for name in names]
    turns.sort(key=lambda one: one[0] != "sound")
    results, began = {name: [] for name in names}, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        tasks = [pool.submit(start_turn, arguments, environment, *one) for one in turns]
        for task in concurrent.futures.as_completed(tasks):
            name, turn, result = task.result()
            results[name].append(result)
            if "broken" in result:
                print(f"{name} {turn} is broken: {result['broken']}", flush=True)
            elif not result["right"] or result["failed"]:
                failed = "; an operation has FAILED" if result["failed"] else ""
                print(f"{name} {turn}: want {result['want']}, got {words_of(result)}{failed}", flush=True)
    print_table(names, results)
    took = time.monotonic() - began
    print(f"{len(turns)} turns, {arguments.at_once} at once, {arguments.peers} peers each: {took:.0f} s")
    return not any("broken" in result for found in results.values() for result in found)


# ---- files to pack


def environment_of(arguments):
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    folder = arguments.carried.resolve() if arguments.carried else None
    for variable, program in PROGRAMS.items():
        path = folder / "bin" / pathlib.Path(program).name if folder else arguments.build / program
        environment[variable] = str(path.absolute())  # its name is a command of pccl
    if folder:
        environment["PATH"] = f"{folder / 'bin'}:{environment['PATH']}"
        environment["LD_LIBRARY_PATH"] = str(folder / "lib")
    return environment


def libraries_of(program):
    """Returns the libraries of the program that are not part of the C library, which every machine has."""
    listed = subprocess.run(["ldd", program], text=True, stdout=subprocess.PIPE, check=True).stdout
    found = re.findall(r"^\s*(\S+) => (/\S+)", listed, re.M)
    return [path for name, path in found if not re.match(r"lib(c|m|pthread|dl|rt)\.so", name)]


def pack(arguments):
    programs = [arguments.build / program for program in PROGRAMS.values()] + [pathlib.Path(shutil.which("ip"))]
    for folder in ("bin", "lib"):
        (arguments.pack / folder).mkdir(parents=True, exist_ok=True)
    for program in programs:
        shutil.copy2(program, arguments.pack / "bin" / program.name)
        for library in libraries_of(program):
            shutil.copy2(library, arguments.pack / "lib" / pathlib.Path(library).name)


def need_namespaces(environment):
    name = f"pccl-{os.getpid()}-try"
    try:
        for words in (["add", name], ["exec", name, "true"], ["delete", name]):
            done = subprocess.run(["ip", "netns", *words], env=environment, text=True, capture_output=True)
            if done.returncode != 0:
                sys.exit(f"bench/verdicts.py: this machine has no network namespaces for us: {done.stderr.strip()}")
    except FileNotFoundError:
        sys.exit("bench/verdicts.py: there is no ip of iproute2; --pack takes one along")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=(3 * (os.cpu_count() or 2) + 1) // 2)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--peers", type=int, default=faults.COUNT)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--carried", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--pack", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--turn", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.turn:
        take_turn(arguments.turn[0], int(arguments.turn[1]), arguments.peers)
        return
    if arguments.pack:
        pack(arguments)
        return
    names = [name for name in SCENARIOS if arguments.only.search(name)]
    if not names:
        parser.error("there is no such fault; there are " + ", ".join(SCENARIOS))
    need_namespaces(environment_of(arguments))
    sys.exit(0 if tally(arguments, names) else 1)


if __name__ == "__main__":
    main()
