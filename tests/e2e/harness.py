"""Starts masters and scripted peers, communicates with them, waits with deadlines, and cleans up.

A test is a function test_<name>(run) in a file test_<topic>.py, whose last line is harness.main(); `python3
test_<topic>.py <name>` runs one test, without a name all. A function figure_<name> only measures figures, and only
`make figures` runs it. No test sleeps until something has probably happened: every wait is for a line of a process, or
polls a condition, and has a deadline.
"""

import json
import os
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import ports

SLOW = float(os.environ.get("E2E_SLOW", "1"))  # with sanitizers all takes longer by this factor
LARGE = (8 << 20) // (1 if SLOW == 1 else 2)  # f32 elements of a long operation, half as many with sanitizers
DEADLINE = 120  # timeout of each wait in seconds: a watchdog, far above any duration on a busy machine

SUCCESS, NOT_INITIALIZED, INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, TOO_FEW, MASTER_FAILED = range(7)
LOST, PENDING_OPS, UPDATE_FAILED, OPTIMIZE_FAILED = 8, 10, 11, 12
TIMEOUT, ABORTED, VERSION, MISMATCH, EXPELLED, MASTER_LOST, OUT_OF_MEMORY, UNSUPPORTED, REFUSED, CHANGED = range(13, 23)


def now_us():
    """The clock of the "at" of peers."""
    return time.monotonic_ns() // 1000


class Failure(AssertionError):
    pass


def check(condition, what):
    if not condition:
        raise Failure(what)


def equal(got, want, what):
    if got != want:
        raise Failure(f"{what}: got {got!r}, want {want!r}")


def within(value, low, high, what):
    if not low <= value <= high:
        raise Failure(f"{what}: {value}, not within {low} and {high}")


def say(text):
    print(text, flush=True)


def figure(name, value, unit):
    """Prints a figure that no test judges, because it depends on how busy the machine is: a rate, a
    share, a duration. `make figures` collects these lines and compares them with bench/goals.json.
    """
    say("figure: " + json.dumps({"name": name, "value": round(value, 4), "unit": unit}))


# Guards all received data, so that one wait can cover several processes.
_changed = threading.Condition()


def wait_until(condition, what, seconds=None):
    """Waits for output of any process until condition() returns a true value; returns that value."""
    end = time.monotonic() + (DEADLINE if seconds is None else seconds)
    with _changed:
        while True:
            value = condition()
            if value:
                return value
            left = end - time.monotonic()
            if left <= 0:
                raise Failure(f"waited in vain for {what}")
            _changed.wait(left)


def poll(condition, what, seconds=None):
    """Polls for a state that no process reports, with growing pauses."""
    end = time.monotonic() + (DEADLINE if seconds is None else seconds)
    pause = 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"waited in vain for {what}")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def wait_ms(length_ms):
    """Waits for a duration that is part of the test."""
    since_us = now_us()
    poll(lambda: now_us() - since_us > length_ms * 1000, "the time to pass", length_ms / 1000 + 5)


def executable(name):
    variable = "E2E_" + name.upper()
    path = os.environ.get(variable)
    check(path and os.access(path, os.X_OK), f"{variable} names no program")
    return path


class Process:
    """A child process whose output lines are collected by threads."""

    def __init__(self, name, command, environment):
        self.name = name
        self.lines = []  # (stream, text)
        self.killed = False  # by the test; its exit code is not checked
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.pid = self.popen.pid
        self._readers = []
        for stream, pipe in (("out", self.popen.stdout), ("err", self.popen.stderr)):
            reader = threading.Thread(target=self._read, args=(stream, pipe), daemon=True)
            reader.start()
            self._readers.append(reader)

    def _read(self, stream, pipe):
        for raw in pipe:
            text = raw.decode("utf-8", "replace").rstrip("\n")
            with _changed:
                self.lines.append((stream, text))
                self.took(stream, text)
                _changed.notify_all()
        with _changed:
            _changed.notify_all()

    def took(self, stream, text):
        pass

    def wait_line(self, part, seconds=None, start=0):
        """Returns the first line, from number `start` on, that contains this part."""

        def found():
            for _, text in self.lines[start:]:
                if part in text:
                    return text
            return None

        return wait_until(found, f"'{part}' from {self.name}", seconds)

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        """Sends kill -9. Returns the time before the signal."""
        self.killed = True
        sent = now_us()
        self.popen.kill()
        return sent

    def stop(self):
        """Sends SIGSTOP, and waits until the process has stopped. Returns the time before the signal."""
        sent = now_us()
        self.signal(signal.SIGSTOP)
        poll(lambda: self.state() == "T", f"{self.name} to stop")
        return sent

    def resume(self):
        self.signal(signal.SIGCONT)

    def state(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]

    def alive(self):
        return self.popen.poll() is None

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_s(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def sockets(self):
        """Returns the inodes of its sockets in /proc/net."""
        inodes = set()
        for entry in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                target = os.readlink(f"/proc/{self.pid}/fd/{entry}")
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        return inodes

    def listening_ports(self):
        """Returns the TCP ports on which this process listens."""
        inodes = self.sockets()
        ports = set()
        for table in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{self.pid}/net/{table}", encoding="ascii") as sockets:
                    rows = sockets.read().splitlines()[1:]
            except OSError:
                continue
            for row in rows:
                fields = row.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.add(int(fields[1].rsplit(":", 1)[1], 16))
        return sorted(ports)

    def local_sockets(self):
        """Returns the names of its Unix sockets for peers on its host: the listening one, and one for each
        connection accepted there."""
        inodes = self.sockets()
        with open(f"/proc/{self.pid}/net/unix", encoding="ascii") as table:
            rows = [row.split() for row in table.read().splitlines()[1:]]
        return [row[-1] for row in rows if row[6] in inodes and re.search(r"^@pccl/|/\d+-[0-9a-f]{32}$", row[-1])]

    def end(self, seconds):
        """Waits until the process has ended; returns the exit code."""
        code = self.popen.wait(seconds)
        for reader in self._readers:
            reader.join(seconds)
        return code

    def dump(self):
        say(f"--- {self.name} (pid {self.pid}, exit {self.popen.poll()})")
        shown = []
        for stream, text in self.lines:
            gist = re.sub(r'"at":\d+|\d+(\.\d+)? m?s\b|"id":\d+', "", text)
            if shown and shown[-1][0] == gist:
                shown[-1][1] += 1
            else:
                shown.append([gist, 1, stream, text])
        if len(shown) > 120:
            say(f"    ... {len(shown) - 120} lines before")
        for _, count, stream, text in shown[-120:]:
            say(f"    {stream}: {text[:600]}" + (f" ({count} times)" if count > 1 else ""))


class Call:
    """A command that a peer executes."""

    def __init__(self, peer, number, text):
        self.peer = peer
        self.number = number
        self.text = text
        self.result = None
        self.started = False
        self.steps = []  # of a loop
        self.failures = []

    def __repr__(self):
        return f"'{self.text}' of {self.peer.name}"

    def begun(self):
        wait_until(lambda: self.started or self.result or None, f"the begin of {self!r}")
        return self

    def wait(self, seconds=None, rc=None):
        """Returns the result; with rc it must have this code."""
        result = wait_until(lambda: self.result or self._dead(), f"the end of {self!r}", seconds)
        if rc is not None and result["rc"] != rc:
            raise Failure(f"{self!r} gave {result['rc']} ({result.get('words', '')}), want {rc}")
        return result

    def _dead(self):
        if self.peer.alive() or self.result:
            return None
        raise Failure(f"{self!r}: the process is gone")


class Peer(Process):
    def __init__(self, name, environment, prefix=()):
        self.calls = {}
        self.logs = []  # (level, text)
        self.others = []  # objects that belong to no call
        super().__init__(name, [*prefix, executable("peer")], environment)

    def took(self, stream, text):
        if stream != "out":
            return
        try:
            line = json.loads(text)
        except ValueError:
            return
        call = self.calls.get(line.get("id"))
        if "log" in line:
            self.logs.append((line["log"], line["text"]))
        elif call is None:
            self.others.append(line)
        elif line.get("event") == "begin":
            call.started = True
        elif line.get("event") == "step":
            call.steps.append(line)
        elif line.get("event") == "failed":
            call.failures.append(line)
        else:
            call.result = line

    def names(self):
        """Returns the two forms in which messages name this peer: by its name, or by its host and process."""
        return f" '{self.name}'", f":{self.pid}'"

    def start(self, verb, *arguments, slot=0):
        """Sends the command; the peer executes it on a separate thread."""
        words = [verb] + [str(argument) for argument in arguments]
        with _changed:
            number = len(self.calls) + 1
            call = Call(self, number, " ".join(words))
            self.calls[number] = call
        try:
            self.popen.stdin.write(f"{number}& #{slot} {call.text}\n".encode())
            self.popen.stdin.flush()
        except OSError as error:
            raise Failure(f"{call!r} could not be given: {error}") from error
        return call

    def do(self, verb, *arguments, rc=SUCCESS, seconds=None, slot=0):
        return self.start(verb, *arguments, slot=slot).wait(seconds, rc)

    def create(self, address, group=0, slot=0, **options):
        options["peer_group"] = group
        return self.do("create", address, *(f"{name}={value}" for name, value in options.items()), slot=slot)

    def until_waiting(self, slot=0, part=""):
        """Waits until the master has sent this peer a report of its wait, which means that the master knows of it."""

        def waits():
            text = self.do("waits", slot=slot)["text"]
            return text if text and part in text else None

        return poll(waits, f"{self.name} to wait")

    def wait_log(self, part, seconds=None):
        def found():
            for _, text in self.logs:
                if part in text:
                    return text
            return None

        return wait_until(found, f"a log line with '{part}' of {self.name}", seconds)

    def quit(self, seconds=None):
        """Destroys its communicators and exits."""
        self.start("quit")
        code = self.end(DEADLINE if seconds is None else seconds)
        self.killed = True
        equal(code, 0, f"exit code of {self.name}")


class Forge(Process):
    """Makes frames: forge.c."""

    def __init__(self, environment):
        self.answers = []
        super().__init__("forge", [executable("forge")], environment)

    def took(self, stream, text):
        if stream == "out":
            self.answers.append(text)

    def ask(self, text):
        at = len(self.answers)
        self.popen.stdin.write((text + "\n").encode())
        self.popen.stdin.flush()
        wait_until(lambda: len(self.answers) > at, "a forged frame")
        return self.answers[at]

    def frame(self, kind, body, sequence=0, acknowledged=0):
        return bytes.fromhex(self.ask(f"frame {kind} {sequence} {acknowledged} {body.hex() or '-'}"))

    def random_body(self, kind, seed):
        text = self.ask(f"random {kind} {seed}")
        return None if text == "-" else bytes.fromhex(text)


class Run:
    """The processes of one test. The end of the `with` block terminates them, and fails if one has ended early or with
    an error."""

    def __init__(self, name):
        self.name = name
        self.processes = []
        self.master = None
        self.host = "127.0.0.1"  # of the master
        self.port = None
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("PCCL_")}
        folder = tempfile.mkdtemp()
        os.chmod(folder, 0o755)  # the library refuses other users
        self.local = os.path.join(folder, "local")  # for local sockets
        self.at_exit = [lambda: shutil.rmtree(folder)]  # called in reverse order, when all processes have ended
        self.environment.update(PCCL_PORT="0", PCCL_LOG_LEVEL="INFO", PCCL_LOCAL_DIR=self.local)
        self.environment["PCCL_FOUND_AFTER_MS"] = "0"  # masters start a run at once, except in tests of this delay
        self._forge = None
        self.state = None  # the directory of the master's secrets
        if os.environ.get("E2E_TOKEN"):  # the test runs encrypted; "control": except for the payload
            self.secure(os.environ["E2E_TOKEN"])

    @property
    def address(self):
        return f"{self.host}:{self.port}"

    def secure(self, encryption="on"):
        """The next master makes a token, which all peers use."""
        self.state = os.path.join(tempfile.mkdtemp(), "state")
        self.at_exit.append(lambda: shutil.rmtree(os.path.dirname(self.state), ignore_errors=True))
        self.environment.update(
            PCCL_MASTER_STATE=self.state, PCCL_TOKEN_FILE=f"{self.state}/run.token", PCCL_ENCRYPTION=encryption
        )

    def token(self):
        with open(f"{self.state}/run.token", encoding="ascii") as file:
            return file.read().strip()

    @property
    def forge(self):
        if self._forge is None:
            self._forge = self._add(Forge(self.environment))
        return self._forge

    def _add(self, process):
        self.processes.append(process)
        return process

    def start_master(self, port=None, listen=None, prefix=(), **parameters):
        """Starts a master with parameters as in the environment: silence_ms=1000. Returns when it accepts connections.
        The prefix is a list of words before the command: "ip netns exec ...". If its predecessor used the same port,
        waits for the predecessor's end."""
        if self.master and port == self.port:
            self.master.end(DEADLINE)
        self.port = port or ports.free_port()
        environment = dict(self.environment)
        environment.update({"PCCL_" + name.upper(): str(value) for name, value in parameters.items()})
        self.master = self._add(
            Process("master", [*prefix, executable("master"), "--listen", listen or self.address], environment)
        )
        self.master.wait_line("listening")
        return self.master

    def peer(self, name=None, prefix=(), **parameters):
        """Starts a process without a communicator."""
        environment = dict(self.environment)
        environment.update({"PCCL_" + key.upper(): str(value) for key, value in parameters.items()})
        name = name or f"p{sum(isinstance(process, Peer) for process in self.processes)}"
        return self._add(Peer(name, environment, prefix))

    def join(self, count=1, members=(), group=0, **parameters):
        """Starts peers, which join one after another; `members` and the earlier ones admit each."""
        members = list(members)
        joined = []
        for _ in range(count):
            peer = self.peer(**parameters)
            peer.create(self.address, group)
            self.admit(peer, members)
            members.append(peer)
            joined.append(peer)
        return joined if count > 1 else joined[0]

    def admit(self, newcomer, members):
        """Connects the newcomer, which the members admit. An update does not wait for a newcomer that has lost a link
        since it was pending, so the members update until it has joined."""
        connect = newcomer.start("connect")
        for call in [member.start("admit") for member in members]:
            call.wait(rc=SUCCESS)
        if not members:
            return connect.wait(rc=SUCCESS)
        before = len(newcomer.logs)
        wait_until(
            lambda: connect.result or any("for admission" in text for _, text in newcomer.logs[before:]),
            f"the end of {connect!r}, or its wait for the next update",
        )
        return self.let_in(connect, members)

    def id_of(self, peer):
        """Returns the peer's latest name in the master's messages: the first letters of its id."""
        names = peer.names()

        def found():
            for _, text in reversed(self.master.lines):
                if "requests to join" in text and any(name in text for name in names):
                    return text.split("peer ")[1].split()[0]
            return None

        return poll(found, f"the id of {peer.name}")

    def let_in(self, connect, members):
        """The members update until this connect has ended. A peer that was admitted just before an update must vote in
        it, too."""
        newcomer = connect.peer
        while connect.result is None:
            votes = [member.start("update") for member in members]

            def ended():
                if all(vote.result for vote in votes):
                    return True
                late = connect.result and len(votes) == len(members)
                if late and any(name in members[0].do("waits")["text"] for name in newcomer.names()):
                    votes.append(newcomer.start("update"))
                return None

            poll(ended, f"the votes {votes}")
            for vote in votes:
                vote.wait(rc=SUCCESS)
        return connect.wait(rc=SUCCESS)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        problems = [] if kind else self._leave()
        for process in reversed(self.processes):
            if process.alive():
                process.killed = True
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        for process in self.processes:
            process.end(DEADLINE)
        for function in self.at_exit:
            function()
        if kind or problems:
            if kind:
                traceback.print_exception(kind, error, trace)
            for process in self.processes:
                process.dump()
        check(not problems, "; ".join(problems))

    def _leave(self):
        """Ends all processes in order; the exit codes include errors of sanitizers."""
        problems = []
        peers = [process for process in self.processes if isinstance(process, Peer)]
        for process in self.processes:
            if not process.killed and not process.alive():
                problems.append(f"{process.name} has ended by itself with {process.popen.returncode}")
        for peer in peers:
            if peer.alive() and not peer.killed:
                if peer.state() == "T" or any(call.result is None for call in peer.calls.values()):
                    peer.kill()  # it cannot read "quit", or a call uses the communicator
                    continue
                try:
                    peer.start("quit")
                except Failure as failure:
                    problems.append(str(failure))
        for process in self.processes:
            if process.killed or not process.alive():
                continue
            if not isinstance(process, Peer):
                if process is self._forge:
                    process.popen.stdin.close()
                else:
                    process.signal(signal.SIGTERM)
            try:
                code = process.end(DEADLINE)
            except subprocess.TimeoutExpired:
                problems.append(f"{process.name} does not end")
                continue
            if code != 0:
                problems.append(f"{process.name} ended with {code}")
        return problems


def main():
    """Runs the tests of the calling file: those on the command line, or all."""
    known = vars(sys.modules["__main__"]).items()
    functions = {name: value for name, value in known if name.startswith(("test_", "figure_")) and callable(value)}
    if sys.argv[1:] == ["--list"]:
        say("\n".join(functions))
        return
    tests = {name.partition("_")[2]: function for name, function in functions.items()}
    failed = 0
    for name in sys.argv[1:] or tests:
        start = time.monotonic()
        try:
            with Run(name) as run:
                tests[name](run)
            say(f"ok {name} ({time.monotonic() - start:.1f} s)")
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            say(f"FAILED {name} ({time.monotonic() - start:.1f} s): {error}")
    sys.exit(1 if failed else 0)
