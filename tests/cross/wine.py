"""Runs tests of tests/e2e whose master, and all or every second of whose peers, are programs for Windows in Wine.

    wine.py --windows BUILD --linux BUILD --musl BUILD [--list] [TEST...]

BUILD: the build folders of the systems. A test is <master>/<peers>/<topic>/<name>, where master and peers are
windows, linux or mixed; or three_systems/<kills>. Without one: all below.
"""

import argparse
import importlib
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness  # noqa: E402 pylint: disable=wrong-import-position,import-error
from phases import PATIENT  # noqa: E402 pylint: disable=wrong-import-position,import-error

ALL_WINDOWS = """
    life/worlds_up_to_five life/groups life/canonical_loop life/no_master
    collectives/hubs collectives/kill_root_in_broadcast collectives/kill_one_in_scans
    kill/kill_idle kill/kill_done kill/kill_list kill/two_at_once
    master/restart_idle master/restart_in_a_reduction master/restart_with_a_newcomer
    secure/run_with_token secure/run_with_token_bulk secure/another_token_of_the_run
    strangers/other_hello strangers/lying_master
""".split()
MIXED = """
    life/worlds_up_to_five collectives/hubs collectives/kill_one_in_gather collectives/churn
    kill/kill_idle kill/kill_launched_first master/restart_in_a_reduction_bulk
    secure/run_with_token_bulk
""".split()
TESTS = (
    [f"windows/windows/{name}" for name in ALL_WINDOWS]
    + [f"windows/mixed/{name}" for name in MIXED]
    + [f"linux/mixed/{name}" for name in ("kill/kill_idle", "secure/run_with_token")]
    + ["three_systems/100"]
)
SYSTEMS = ("windows", "musl", "linux")
WINE = "/usr/lib/wine/wine64"

programs = {}  # by system: those for "master" and "peer"
master_system = "windows"
peers_system = "windows"


def is_windows(process):
    return any(word.endswith(".exe") for word in process.popen.args)


class Signals:
    """Replaces harness.Process.signal: a program for Windows cannot receive SIGTERM, so it is killed."""

    signal = harness.Process.signal

    @staticmethod
    def send(process, number):
        if number == signal.SIGTERM and is_windows(process):
            process.kill()
            process.popen.wait(harness.DEADLINE)
            process.popen.returncode = 0
            return
        Signals.signal(process, number)


def executable(name):
    """Replaces harness.executable. Selects the next peer's system."""
    system = master_system if name == "master" else peers_system
    if system == "mixed":
        executable.count += 1
        system = "windows" if executable.count % 2 else "linux"
    return programs[system].get(name) or programs["linux"][name]


executable.count = 0


class Command(subprocess.Popen):
    """Replaces subprocess.Popen: starts programs for Windows by Wine."""

    def __init__(self, command, *arguments, **options):
        if command[0].endswith(".exe"):
            command = [WINE, *command]
        super().__init__(command, *arguments, **options)


def terminate(peer):
    """Replaces harness.Peer.kill: a peer for Windows is killed by TerminateProcess."""
    if not is_windows(peer):
        return harness.Process.kill(peer)
    number = peer.do("ping")["pid"]
    peer.killed = True
    sent = harness.now_us()
    subprocess.run([WINE, "taskkill.exe", "/f", "/pid", str(number)], check=True, stdout=subprocess.DEVNULL)
    return sent


def three_systems(one, kills):
    """Three peers, one of each system, reduce; one after the other is killed and replaced by a peer of its system.
    Results have equal bits on all systems, and at the end all calls return."""
    rig = importlib.import_module("test_kill_bulk").Churn(one, kills)
    systems = {}  # peer -> its system

    def spawn(system):
        global peers_system  # pylint: disable=global-statement
        peers_system = system
        rig.spawn()
        systems[list(rig.loops)[-1]] = system

    one.environment["PCCL_LOG_LEVEL"] = "WARN"
    one.start_master(**PATIENT)
    for system in SYSTEMS:
        spawn(system)
    for turn in range(kills):
        rig.settle()
        system = SYSTEMS[turn % len(SYSTEMS)]
        rig.kill([peer for peer in rig.loops if systems[peer] == system])
        spawn(system)
    for _ in range(3):
        rig.settle()
    harness.equal(sorted(systems[peer] for peer in rig.loops), sorted(SYSTEMS), "systems of the peers at the end")
    for peer in rig.loops:
        peer.do("stop")
    while rig.loops:  # the loops of the others end when they have lost the one that has stopped
        peer = harness.wait_until(lambda: next((p for p, loop in rig.loops.items() if loop.result), None), "an end")
        rig.dead[peer] = rig.loops.pop(peer)
        rig.dead[peer].wait(rc=harness.SUCCESS)
        peer.quit()
    harness.equal(len(rig.dead), kills + len(SYSTEMS), "peers")
    harness.say(f"{kills} kills; {rig.report()}")


def function_of(test):
    """Returns the test's name and function. Selects the systems of its programs."""
    global master_system, peers_system  # pylint: disable=global-statement
    kind, _, kills = test.partition("/")
    if kind == "three_systems":
        master_system, harness.Peer.kill = "linux", terminate
        return kind, lambda one: three_systems(one, int(kills))
    harness.Peer.kill = harness.Process.kill
    master_system, peers_system, topic, name = test.split("/")
    return name, getattr(importlib.import_module("test_" + topic), "test_" + name)


def run(test):
    """Runs one test. Returns whether it has passed."""
    name, function = function_of(test)
    executable.count = 0
    start = time.monotonic()
    try:
        with harness.Run(name) as one:
            function(one)
    except Exception as error:  # pylint: disable=broad-except
        harness.say(f"FAILED {test} ({time.monotonic() - start:.1f} s): {error}")
        return False
    harness.say(f"ok {test} ({time.monotonic() - start:.1f} s)")
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--windows", type=pathlib.Path)
    parser.add_argument("--linux", type=pathlib.Path)
    parser.add_argument("--musl", type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    if options.list:
        print("\n".join(TESTS))
        return 0
    windows, linux, musl = options.windows.resolve(), options.linux.resolve(), options.musl.resolve()
    programs["windows"] = {
        "master": f"{windows}/tools/pccl-master.exe",
        "peer": f"{windows}/tests/e2e/e2e_peer.exe",
    }
    programs["linux"] = {
        "master": f"{linux}/tools/pccl-master",
        "peer": f"{linux}/tests/e2e/e2e_peer",
        "forge": f"{linux}/tests/e2e/e2e_forge",
    }
    programs["musl"] = {"peer": f"{musl}/tests/e2e/e2e_peer"}
    os.environ.update(WINEDEBUG="-all", WINEPATH=f"Z:{windows}/src")  # where pccl.dll is
    harness.main = lambda: None  # which the files of tests call
    harness.executable = executable
    harness.Process.signal = Signals.send
    harness.subprocess.Popen = Command
    for test in options.tests or TESTS:
        function_of(test)  # a wrong name fails before the first test
    failed = [test for test in options.tests or TESTS if not run(test)]
    harness.say(f"{len(options.tests or TESTS) - len(failed)} of {len(options.tests or TESTS)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
