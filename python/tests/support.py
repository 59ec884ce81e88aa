"""Masters, and peers in threads and processes. No function here sleeps to let something happen."""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

import pccl

TESTS = Path(__file__).resolve().parent
PACKAGE = TESTS.parent
sys.path += [str(PACKAGE.parent / "tests"), str(PACKAGE.parent / "tests" / "e2e")]

import cached  # noqa: E402,F401
import endings  # noqa: E402
from ports import free_port  # noqa: E402,F401

DEADLINE = 240.0  # for every wait: a watchdog, not a judge; importing torch alone takes a busy machine many seconds

# For programs given as text: two peers of one process that have joined.
TWO = """
def two():
    first, second = pccl.Communicator(address), pccl.Communicator(address)
    first.connect()
    thread = threading.Thread(target=second.connect)
    thread.start()
    while first.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 2:
        first.update_topology()
    thread.join()
    return first, second
"""


def need(module):
    """Skips the tests of a file if this module is missing. Does not import it: only other processes use it, and torch
    takes seconds."""
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"there is no {module}", allow_module_level=True)


def figure(name, value, unit):
    """Prints a figure that no test judges, because a busy machine changes it; tests/e2e/harness.py has more about it.
    """
    print("figure: " + json.dumps({"name": name, "value": round(value, 4), "unit": unit}), flush=True)


def world(comm):
    return comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE)


def ids(comm):
    """Returns the ids of the group's peers, from the topology."""
    return {line.split()[2] for line in comm.get_topology().splitlines() if line.startswith("peer ")}


def parallel(calls):
    """Returns the values of concurrent calls, each on a separate thread; raises the first error. Calls that have not
    ended in time are an error, and their threads are left."""
    futures = [in_thread(call) for call in calls]
    ended, unfinished = wait(futures, DEADLINE)
    values = [future.result() for future in futures if future in ended]
    assert not unfinished, f"{len(unfinished)} of {len(calls)} calls have not ended after {DEADLINE} s"
    return values


def in_thread(call):
    """Makes the call on a daemon thread, and returns the future of its value."""
    future: Future = Future()

    def run():
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class Group:
    """Communicators of one run, each used by one thread."""

    def __init__(self, address, count, **given):
        self.address = address
        self.members = []
        for _ in range(count):
            self.admit(**given)

    def admit(self, **given):
        """Adds one member."""
        newcomer = pccl.Communicator(self.address, **given)
        connecting = in_thread(lambda: newcomer.connect(1))
        wanted = len(self.members) + 1
        while self.members and world(self.members[0]) < wanted and not connecting.done():
            self.all(lambda comm, _: comm.update_topology())
        connecting.result(DEADLINE)
        self.members.append(newcomer)
        return newcomer

    def all(self, call):
        """Makes call(communicator, its number) for all members at once."""
        return parallel([lambda comm=comm, i=i: call(comm, i) for i, comm in enumerate(self.members)])

    def close(self):
        for comm in self.members:
            comm.close()


def environment(**more):
    given = dict(os.environ, PYTHONUNBUFFERED="1", **more)
    paths = [str(PACKAGE), str(TESTS)] if "pccl" in sys.modules and str(PACKAGE) in pccl.__file__ else [str(TESTS)]
    given["PYTHONPATH"] = os.pathsep.join([*paths, given.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return given


class Script:
    """Python in a separate process; its lines are read on arrival."""

    def __init__(self, text, *arguments, env=None):
        self.popen = subprocess.Popen(
            [sys.executable, "-c", text, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(**(env or {})),
            text=True,
        )
        self.pid = self.popen.pid
        self.lines = []
        self._queue = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.popen.stdout:
            self.lines.append(line.rstrip("\n"))
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def line(self, part):
        """Waits for a line with this part."""
        end = time.monotonic() + DEADLINE
        while True:
            try:
                line = self._queue.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"no line with {part!r} in {DEADLINE} s, but {self.lines}") from None
            assert line is not None, f"ended with {self.popen.wait()} before {part!r}: {self.lines}"
            if part in line:
                return line

    def last(self, start):
        """Returns its last line that starts with this; lines of the log may follow."""
        found = [line for line in self.lines if line.startswith(start)]
        assert found, f"no line starts with {start!r}: {self.lines}"
        return found[-1]

    def kill(self, number=signal.SIGKILL):
        self.popen.send_signal(number)

    def end(self):
        """Returns its exit status."""
        try:
            status = self.popen.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise AssertionError(f"still there after {DEADLINE} s: {self.lines}") from None
        self._reader.join(DEADLINE)
        return status

    def ends_after(self, last):
        """Checks that its last line is this, and that it ended in order, as far as this side can know
        (tests/endings.py)."""
        status = self.end()
        assert endings.ended_well(status, self.lines, last), f"ended with {status}: {self.lines}"

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.popen.stdout.close()


MASTER = "import pccl.master, sys; sys.exit(pccl.master.main(sys.argv[1:]))"


class WebMaster(Script):
    """A master in a separate process, with pages over HTTP."""

    def __init__(self):
        super().__init__(MASTER, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
        self.address, self.http = (
            f"127.0.0.1:{self.line(part).rsplit(part, 1)[1].split()[0]}"
            for part in ("listening on port ", "http on port ")
        )
