"""The processes of a run: a master and its peers. They all end with the demo, even if it fails."""

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
START_S = 20.0
END_S = 10.0
LOG_LINES = 25

# Makes Linux kill a process when its parent ends. The setting survives exec.
LEASHED = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Failed(Exception):
    """A claim of the demo has turned out to be false."""


class Process:
    def __init__(self, name, command, log, **more):
        self.name, self.log = name, log
        environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        with open(log, "wb") as errors:
            self.popen = subprocess.Popen(
                [sys.executable, "-S", "-c", LEASHED, *map(str, command)],
                stderr=errors,
                env=environment,
                start_new_session=True,  # Ctrl-C must only reach the demo, which ends all processes in order
                **more,
            )
        self.pid = self.popen.pid

    def kill(self):
        self.popen.kill()

    def end_of_log(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join([f"the end of {self.log}:", *(f"    {line}" for line in lines or ["(it is empty)"])])

    def fail(self, words):
        raise Failed(f"{self.name} {words}; {self.end_of_log()}")


class Master(Process):
    def __init__(self, program, log):
        # found_after_ms=0: no run can exist at this port
        command = [program, "--listen", "127.0.0.1:0", "--set", "found_after_ms=0"]
        super().__init__("pccl-master", command, log, stdin=subprocess.DEVNULL)
        self.address = f"127.0.0.1:{self._port()}"

    def _port(self):
        end = time.monotonic() + START_S
        while self.popen.poll() is None and time.monotonic() < end:
            found = re.search(r"listening on port (\d+)", self.log.read_text(encoding="utf-8"))
            if found:
                return int(found[1])
            time.sleep(0.01)
        self.kill()
        self.popen.wait()
        self.fail("does not listen")

    def check(self):
        if self.popen.poll() is not None:
            self.fail(f"has ended with {self.popen.returncode}")

    def end(self):
        self.check()
        self.popen.terminate()
        if self.popen.wait(END_S) != 0:
            self.fail(f"ended with {self.popen.returncode}")


class Peer(Process):
    """A worker.py process, and the messages that it sends."""

    def __init__(self, name, number, log, arguments):
        command = [sys.executable, "-B", HERE / "worker.py", "--number", number, *arguments]
        super().__init__(name, command, log, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        os.set_blocking(self.popen.stdout.fileno(), False)
        self.number = number
        self.state = "starts"
        self.last = {}  # the latest message of each kind
        self.killed = False
        self._rest = b""

    def go(self):
        """Lets the peer proceed."""
        try:
            self.popen.stdin.write(b"go\n")
            self.popen.stdin.flush()
        except OSError as error:
            self.fail(f"does not hear: {error}")

    def messages(self):
        """Returns new messages, or None at the end."""
        data = self.popen.stdout.read()
        if data is None:
            return []
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                self.fail(f"says {line!r}")
            self.last.update(found[-1])
        return found

    def ended(self):
        """Checks the exit status. Call it after the last message."""
        status = self.popen.wait(END_S)
        if self.killed:
            self.state = "was killed"
        elif status != 0:
            self.fail(f"was ended by signal {-status}" if status < 0 else f"ended with {status}")
        elif self.state != "is done":
            self.fail("ended too early")


class Crew:
    """The peers of a run, and their messages."""

    def __init__(self):
        self.peers = []
        self._selector = selectors.DefaultSelector()

    def add(self, peer):
        self.peers.append(peer)
        self._selector.register(peer.popen.stdout, selectors.EVENT_READ, peer)

    @property
    def open(self):
        return bool(self._selector.get_map())

    def listen(self, seconds):
        """Yields (peer, message) for all messages that arrive within this time."""
        for key, _ in self._selector.select(seconds):
            peer = key.data
            messages = peer.messages()
            if messages is None:
                self._selector.unregister(peer.popen.stdout)
                peer.ended()
            for message in messages or []:
                yield peer, message

    def close(self):
        self._selector.close()


def end_all(processes):
    """Ends all processes, first with SIGTERM and then with SIGKILL."""
    alive = [process for process in processes if process.popen.poll() is None]
    for process in alive:
        process.popen.send_signal(signal.SIGTERM)
    end = time.monotonic() + 2
    for process in alive:
        try:
            process.popen.wait(max(0.05, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.popen.wait()
    for process in processes:
        for pipe in (process.popen.stdin, process.popen.stdout):
            if pipe is not None:
                pipe.close()
