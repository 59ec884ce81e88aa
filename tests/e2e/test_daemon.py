"""pccl-master as a program: settings, exit codes, logs, the service manager, and stable memory.

`test_daemon.py --soak SECONDS` lets peers join and leave for this time (such as an hour) and prints size and
descriptors.
"""

import configparser
import ctypes
import json
import os
import re
import shlex
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import harness
import ports
import wire
from harness import SLOW, UPDATE_FAILED
from harness import check, equal, figure, say, within

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LEAVE = 5
GROWTH_KIB = 1024
SILENCE_MS = 2500  # for peers that leave silently; a member must be heard even on a busy machine
SOAK_S = 0
SOAK_PERIOD_S = 5  # for 500 joins: an hour of it leaves the machine to others


def environment(run, **variables):
    """Returns the test's environment, with only these parameters."""
    own = {key: value for key, value in run.environment.items() if not key.startswith("PCCL_")}
    own.update(variables)
    return own


def once(run, *arguments, stdout=subprocess.PIPE, **variables):
    """Runs a master that ends by itself. Returns (exit code, standard output, standard error)."""
    done = subprocess.run(
        [harness.executable("master"), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=environment(run, **variables),
        timeout=harness.DEADLINE,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def launch(run, *arguments, **variables):
    """Starts a master; run.port is the port of its first address."""
    arguments = arguments or ("--listen", "127.0.0.1:0")
    run.master = run._add(  # pylint: disable=protected-access
        harness.Process("master", [harness.executable("master"), *arguments], environment(run, **variables))
    )
    run.port = int(re.search(r"listening on port (\d+)", run.master.wait_line("listening on port")).group(1))
    return run.master


def terminate(master, number=signal.SIGTERM, code=0):
    start = time.monotonic()
    master.signal(number)
    equal(master.end(harness.DEADLINE), code, "exit code")
    master.killed = True
    figure("seconds until it has ended", time.monotonic() - start, "s")


def reachable(port, host="127.0.0.1"):
    with socket.create_connection((host, port), harness.DEADLINE):
        return True


def settings_of(text):
    """Returns {name: (value, source)} of --print-config."""
    found = {}
    for line in text.splitlines():
        name, value, source = re.fullmatch(r"(\w+) = (.*) # (.*)", line).groups()
        found[name] = (value, source)
    return found


class File:
    """A file with this text, until the end of the `with` block."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        handle, self.path = tempfile.mkstemp(suffix=".toml")
        with os.fdopen(handle, "wb") as file:
            file.write(self.text if isinstance(self.text, bytes) else self.text.encode())
        return self.path

    def __exit__(self, *_):
        os.unlink(self.path)


# ---- settings ----


def test_precedence(run):
    """Flags override the environment, the environment overrides the file, and the file overrides the defaults;
    --print-config shows the source."""
    text = "silence_ms = 20_000\nheartbeat_ms = 2000 # two\nhello_ms = 3000\nlisten = '127.0.0.1:1'\n"
    text += 'log_format = "json"\n'
    with File(text) as path:
        code, out, error = once(
            run,
            *("--config", path, "--set", "silence_ms=40000", "--listen=[::1]:7", "--listen", "localhost"),
            *("--print-config", "--log-level", "debug"),
            PCCL_SILENCE_MS="30000",
            PCCL_HEARTBEAT_MS="2500",
            PCCL_LISTEN="127.0.0.1:2",
            PCCL_ALONE_MS="",
        )
        equal((code, error), (0, ""), "exit code and complaints")
        found = settings_of(out)
        for name, value in {
            "silence_ms": ("40000", "command line"),
            "heartbeat_ms": ("2500", "environment PCCL_HEARTBEAT_MS"),
            "hello_ms": ("3000", f"{path}:3"),
            "alone_ms": ("60000", "default"),
            "listen": ('["[::1]:7", "localhost"]', "command line"),
            "log_format": ('"json"', f"{path}:5"),
            "log_level": ('"debug"', "command line"),
        }.items():
            equal(found[name], value, name)
        check("name" not in found, "a parameter of peers is shown")
        code, out, _ = once(run, "--config", path, "--print-config", PCCL_LISTEN="127.0.0.1:2,127.0.0.1:3")
        equal(settings_of(out)["listen"][0], '["127.0.0.1:2", "127.0.0.1:3"]', "listen of the environment")
    with File(out) as path:  # the output is a configuration file with the same values
        code, again, error = once(run, "--config", path, "--print-config")
        equal((code, error), (0, ""), "exit code and complaints")
        values = {name: value for name, (value, _) in settings_of(out).items()}
        equal({name: value for name, (value, _) in settings_of(again).items()}, values, "printed and read again")


def test_settings_take_effect(run):
    """The master uses the file: it sends peers its silence limit and its heartbeat interval."""
    with File('listen = [ # two\n "127.0.0.1:0",\n "[::1]:0", ]\r\nsilence_ms = 1234\nheartbeat_ms = 321\n') as path:
        master = launch(run, "--config", path)
    def said():
        return [int(line.rsplit(" ", 1)[1]) for _, line in master.lines if "listening on port" in line]

    ports = harness.wait_until(lambda: said() if len(said()) == 2 else None, "both addresses in the log")
    equal(sorted(ports), master.listening_ports(), "ports")
    for host, port in zip(("127.0.0.1", "::1"), ports):
        link = wire.Connection(port, host=host)
        link.send(run.forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity())))
        kind, _, _, body = harness.poll(link.next, "an answer")
        equal(kind, wire.HELLO_OK, "answer")
        at = wire.BUILD + 33  # after lineage, boot, mode and received
        equal(struct.unpack_from("<II", body, at), (1234, 321), "silence and heartbeat")
        link.close()


WRONG_FLAGS = {
    ("--frobnicate",): "unknown argument: --frobnicate",
    ("--listenx=1",): "unknown argument: --listenx=1; did you mean '--listen'?",
    ("--tls-cret", "x"): "unknown argument: --tls-cret; did you mean '--tls-cert'?",
    ("extra",): "unknown argument: extra",
    ("--listen",): "missing value after: --listen",
    ("--listen", "1.2.3.4:99999"): "is not an address",
    ("--listen", ""): "--listen",
    ("--set", "silence_ms"): "NAME=VALUE",
    ("--set", "=1"): "NAME=VALUE",
    ("--set", "silence=1"): "unknown parameter 'silence'",
    ("--set", "silence_ms=12s"): "expected a number from 100 to 3600000",
    ("--set", "idle_exit_ms=1x"): "invalid value for idle_exit_ms: expected a number from 0 to 604800000",
    ("--set", "idle_exit_ms=604800001"): "invalid value for idle_exit_ms",
    ("--set", "name=x"): "'name' is a parameter of peers",
    ("--set", "heartbeat_ms=9000"): "heartbeat_ms (9000) must be less than half of silence_ms",
    ("--log-level", "loud"): "expected TRACE",
    ("--log-format", "xml"): "expected text, logfmt or json",
    ("--config", "/nonexistent/pccl.toml"): "cannot read the configuration file /nonexistent/pccl.toml",
    ("--config", "/"): "cannot read the configuration file /: Is a directory",
    ("--config", "/dev/zero"): "65536 bytes",
    tuple("--listen=127.0.0.1:1" for _ in range(17)): "expected at most 16",
}


def test_wrong_flags(run):
    for arguments, words in WRONG_FLAGS.items():
        code, out, error = once(run, *arguments)
        equal((code, out), (2, ""), f"{arguments}: exit code and output")
        check(words in error and "--help" in error, f"{arguments}: {error!r} lacks {words!r}")


WRONG_FILES = {
    "silence_ms = 5\n": (1, "expected a number from 100"),
    "\n# c\n\nsilence_ms = -5\n": (4, "expected a number from 100"),
    "silence_ms = abc\n": (1, "or a quoted text"),
    "silence_ms = \n": (1, "a value is missing"),
    "silence_ms 5000\n": (1, "'=' is missing"),
    "= 5\n": (1, "'key = value'"),
    "[master]\nsilence_ms = 5000\n": (1, "[tables] are not supported"),
    "silence = 5000\n": (1, "unknown parameter 'silence'"),
    "\nname = 'x'\n": (2, "'name' is a parameter of peers"),
    "silence_ms = 5000 6000\n": (1, "only a comment may follow"),
    "silence_ms = 5000\nsilence_ms = 5000\n": (2, "set twice; the first time is on line 1"),
    'log_level = "INFO\n': (1, "closing quote"),
    'log_level = "\\q"\n': (1, "invalid escape"),
    'log_level = "LOUD"\n': (1, "expected TRACE"),
    'log_format = "xml"': (1, "expected text, logfmt or json"),
    'log_format = ["text"]\n': (1, "only listen may be an array"),
    'listen = ["127.0.0.1:1",\n "127.0.0.1:x"]\n': (2, "is not an address"),
    'listen = ["127.0.0.1:1" "127.0.0.1:2"]\n': (1, "a comma or ']'"),
    'listen = ["127.0.0.1:1",\n\n': (1, "']' of this array is missing"),
    "listen = [5]\n": (1, "quoted texts"),
    "listen = []\n": (1, "empty"),
    "alone_ms = 2000\nrecover_ms = 3000\n": (2, "recover_ms (3000) must not be more than alone_ms"),
}


def test_wrong_files(run):
    for text, (line, words) in WRONG_FILES.items():
        with File(text) as path:
            code, out, error = once(run, "--config", path, "--check-config")
            equal((code, out), (2, ""), f"{text!r}: exit code and output")
            check(f"{path}:{line}" in error and words in error, f"{text!r}: {error!r} lacks {line} or {words!r}")
    with File(b"silence_ms\0 = 5") as path:
        code, _, error = once(run, "--config", path)
        check(code == 2 and path in error, f"zero bytes: {code}, {error}")
    with File(os.urandom(3000).replace(b"\0", b"\1")) as path:
        equal(once(run, "--config", path)[0], 2, "exit code for noise")


def test_wrong_environment(run):
    wrong = {"PCCL_SILENCE_MS": "x", "PCCL_LISTEN": "a b", "PCCL_LOG_LEVEL": "?", "PCCL_LOG_FORMAT": "x"}
    for name, value in wrong.items():
        code, out, error = once(run, "--check-config", **{name: value})
        equal((code, out), (2, ""), f"{name}: exit code and output")
        check(name in error, f"{error!r} does not name {name}")
    # unused values may be invalid
    equal(once(run, "--check-config", "--set", "silence_ms=9000", PCCL_SILENCE_MS="x")[0], 0, "exit code")


def test_words_and_codes(run):
    """Options that print something and exit: status 0, or 1 if printing fails."""
    code, out, error = once(run, "--help")
    equal((code, error), (0, ""), "--help")
    for flag in ("--listen", "--config", "--set", "--check-config", "--print-config", "--log-level", "--log-format"):
        check(flag in out, f"--help lacks {flag}")
    check("silence_ms" in out and "PCCL_SILENCE_MS" in out, "--help lists no parameters")
    code, out, _ = once(run, "--version")
    build = rf"\d+\.\d+\.\d+, commit (unknown|[0-9a-f]{{12}} of 20\d\d-\d\d-\d\d) \(protocol {wire.VERSION}, "
    build += rf"schema {wire.DIGEST:016x}\)"
    check(code == 0 and re.fullmatch(rf"pccl-master {build}\n", out), f"--version: {code}, {out}")
    code, out, _ = once(run, "--check-config")
    equal((code, out), (0, "pccl-master: the configuration is valid\n"), "--check-config")
    for flag in ("--help", "--version", "--print-config", "--check-config"):
        with open("/dev/full", "wb") as full:
            code, _, error = once(run, flag, stdout=full)
            check(code == 1 and "cannot write" in error, f"{flag} to a full disk: {code}, {error}")


def test_taken_port(run):
    """The error names the owner of the port and a solution; nothing else is affected."""
    master = launch(run)
    for address in (f"127.0.0.1:{run.port}", f"[::]:{run.port}"):
        code, out, error = once(run, "--listen", address)
        equal((code, out), (1, ""), "exit code and output")
        for words in ("already in use", f"(process {master.pid})", "--listen", f"sport = :{run.port}"):
            check(words in error, f"{error!r} lacks {words!r}")
    code, _, error = once(run, "--listen", f"127.0.0.1:{run.port}", "--log-format=json")
    equal((code, json.loads(error)["level"]), (1, "error"), "as JSON")
    code, _, error = once(run, "--listen", f"127.0.0.1:{run.port}", "--log-level=NONE")
    check(code == 1 and "already in use" in error, f"in silence: {code}, {error}")
    code, _, error = once(run, "--listen", "203.0.113.1:0")
    check(code == 1 and "does not have that address" in error, f"a foreign address: {code}, {error}")
    check(reachable(run.port), "the first master is gone")


# ---- signals ----


def test_drain(run):
    """Peers in a call get the reason; the master ends with 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        launch(run)
        members = run.join(2)
        vote = members[0].start("update")
        members[0].until_waiting()
        stranger = wire.Connection(run.port)
        terminate(run.master, number)
        result = vote.wait(rc=UPDATE_FAILED)
        check("shutting down" in result["words"], f"words: {result['words']}")
        harness.poll(stranger.is_closed, "the end of a connection")


def test_idle_exit(run):
    """It ends by itself after its last peer has left, and without any peer; but not while there is one."""
    begin = time.monotonic()
    code, _, error = once(run, "--listen", "127.0.0.1:0", "--set", "idle_exit_ms=400")
    equal(code, 0, "exit code")
    check("no peer was connected for idle_exit_ms" in error, error)
    check(time.monotonic() - begin >= 0.4, "too early")
    master = launch(run, "--listen", "127.0.0.1:0", PCCL_IDLE_EXIT_MS="200")
    members = run.join(2)
    members[0].kill()
    begin = time.monotonic()
    while time.monotonic() - begin < 0.6:
        members[1].do("update")
    members[1].kill()
    equal(master.end(harness.DEADLINE), 0, "exit code")
    master.killed = True


def test_hangup(run):
    """SIGHUP logs a line and changes nothing."""
    master = launch(run)
    for _ in range(3):
        at = len(master.lines)
        master.signal(signal.SIGHUP)
        master.wait_line("SIGHUP", start=at)
    master.signal(signal.SIGUSR1)
    run.join(2)


def test_dead_peers_do_not_hold_up_the_end(run):
    """A stopped peer reads nothing; the master ends nevertheless."""
    launch(run)
    members = run.join(2)
    members[1].stop()
    terminate(run.master)
    members[1].resume()


# ---- logs ----


def events(run):
    """Causes each kind of event, and returns the run's lines."""
    members = run.join(2)
    calls = [
        members[0].start("reduce", 9, 100, "f32", "sum", "rand:1"),
        members[1].start("reduce", 9, 50, "f32", "sum", "rand:1"),
    ]
    for call in calls:
        call.wait()
    members[1].kill()
    run.master.wait_line("departs")
    run.master.wait_line("1 removed")
    wire.Connection(run.port).send(b"GET / HTTP/1.0\r\n\r\n \"quoted\" \\ \r\n\r\n" + bytes(64))
    run.master.wait_line("refused")
    terminate(run.master)
    return [line for _, line in run.master.lines]


def check_events(lines):
    """lines: dictionaries with message, level, and the fields."""

    def having(part):
        found = [line for line in lines if part in line["message"]]
        check(found, f"no line says '{part}'")
        return found

    for line in lines:
        check(line["level"] in ("trace", "debug", "info", "warn", "error"), f"level: {line}")
        check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]), f"time: {line}")
    runs = {line["run"] for line in having(" joined: ") + having("epoch ")}
    check(len(runs) == 1 and re.fullmatch("[0-9a-f]{32}", runs.pop()), f"runs: {runs}")
    asked = [line["peer"] for line in having("requests to join")]
    equal([line["peer"] for line in having(" joined: ")], asked, "peers that joined")
    levels = {line["level"] for line in having(" joined: ") + having("epoch ") + having("requests to join")}
    equal(levels, {"info"}, "levels")
    departed = [line for line in having("departs") if "shutting down" not in line["message"]]
    equal([line["peer"] for line in departed], asked[1:], "peers that departed")
    check(departed[0]["reason"] and departed[0]["reason"] in departed[0]["message"], f"reason: {departed[0]}")
    check(any(departed[0]["reason"] in line.get("reason", "") for line in having("epoch ")), "no epoch has the reason")
    aborted = having("aborted")
    equal([(line["level"], line["operation"]) for line in aborted], [("info", "0/9/0")], "aborted operations")
    check(aborted[0]["reason"], "no reason for an abort")
    check(having("refused")[0]["reason"], "no reason for a refusal")
    having("SIGTERM")
    having("shutting down")


def test_json(run):
    launch(run, "--listen=127.0.0.1:0", "--log-format=json")
    lines = [json.loads(line) for line in events(run)]
    for line in lines:
        if "operation" in line:
            line["operation"] = "{group}/{tag}/{use}".format(**line["operation"])
    check_events(lines)


def test_logfmt(run):
    launch(run, "--listen=127.0.0.1:0", PCCL_LOG_FORMAT="logfmt")
    lines = []
    for line in events(run):
        check(re.fullmatch(r'\w+=([^ "=]*|"([^"\\]|\\.)*")( \w+=([^ "=]*|"([^"\\]|\\.)*"))*', line), f"line: {line}")
        lines.append(dict(field.split("=", 1) for field in shlex.split(line)))
    check_events(lines)


def test_text(run):
    launch(run)
    lines = [line for line in events(run) if " daemon " not in line]
    for line in lines:
        check(re.match(r"\S+Z pccl (debug|info|warn|error) master ", line), f"line: {line}")
    joined = next(line for line in lines if " joined: " in line)
    check(re.search(r" run=[0-9a-f]{8} peer=[0-9a-f]{8}$", joined), f"line: {joined}")
    aborted = next(line for line in lines if " aborted: " in line)
    equal(aborted.count(" called "), 2, f"the reason appears once, with both peers: {aborted}")


def test_levels(run):
    """The address is always logged; other lines depend on the level."""
    master = launch(run, "--listen=127.0.0.1:0", "--log-level=NONE")
    run.join(2)
    terminate(master)
    equal(len(master.lines), 1, f"lines at NONE: {master.lines}")
    master = launch(run, "--listen=127.0.0.1:0", PCCL_LOG_LEVEL="DEBUG")
    peers = run.join(2)
    peers[1].kill()
    master.wait_line(" pccl debug master ")


def test_no_place_for_logs(run):
    """A closed, full or broken standard error loses lines, but does not stop the master."""
    port = ports.free_port()
    for how in (">&- 2>&- <&-", "2>/dev/full", "2>&1 | true"):
        command = f'exec "$0" --listen 127.0.0.1:{port} --log-level=TRACE {how}'
        if "|" in how:
            command = f'trap : TERM; "$0" --listen 127.0.0.1:{port} --log-level=TRACE {how}'
        shell = subprocess.Popen(
            ["/bin/sh", "-c", command, harness.executable("master")],
            env=environment(run),
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )

        def connected():
            try:
                return reachable(port)
            except OSError:
                return None

        try:
            harness.poll(connected, f"a master with {how}")
            run.port = port
            members = run.join(2)
            members[1].kill()
            members[0].do("update")
            equal(members[0].do("attr")["world"], 1, "members")
            members[0].quit()
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait(harness.DEADLINE)
        equal(shell.returncode, 0, f"exit code with {how}")


# ---- the service manager ----


class Manager:
    """Receives the master's messages to its service manager."""

    def __init__(self, abstract=False):
        self.folder = tempfile.mkdtemp()
        self.path = os.path.join(self.folder, "notify")
        self.name = f"@pccl-test-{os.getpid()}-{id(self)}" if abstract else self.path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind("\0" + self.name[1:] if abstract else self.path)
        self.socket.setblocking(False)
        self.said = []  # (when, line)

    def take(self):
        while True:
            try:
                message = self.socket.recv(4096).decode()
            except BlockingIOError:
                return self.said
            self.said += [(time.monotonic(), line) for line in message.splitlines()]

    def wait(self, part, start=0):
        """Returns the index after the first line with this part, from `start` on."""

        def found():
            for at, (_, line) in enumerate(self.take()[start:], start + 1):
                if part in line:
                    return at
            return None

        return harness.poll(found, f"'{part}' to the service manager")

    def close(self):
        self.socket.close()
        if os.path.exists(self.path):
            os.unlink(self.path)
        os.rmdir(self.folder)


def test_notify(run):
    """READY when it accepts connections, its state, STOPPING; with a path and with an abstract name."""
    for abstract in (False, True):
        manager = Manager(abstract)
        port = ports.free_port()
        run.port = port
        run.master = run._add(  # pylint: disable=protected-access
            harness.Process(
                "master",
                [harness.executable("master"), f"--listen=127.0.0.1:{port}"],
                environment(run, NOTIFY_SOCKET=manager.name),
            )
        )
        at = manager.wait("READY=1")
        check(reachable(port), "ready but not reachable")
        at = manager.wait("STATUS=0 peers", 0)
        members = run.join(2)
        at = manager.wait("STATUS=2 peers in 1 groups", at)
        members[1].kill()
        at = manager.wait("STATUS=1 peers", at)
        terminate(run.master)
        manager.wait("STOPPING=1", at)
        said = [line for _, line in manager.take()]
        equal(said.count("READY=1"), 1, "times it was ready")
        check("WATCHDOG=1" not in said, "signs of life that nobody asked for")
        manager.close()


def test_no_manager(run):
    """A missing manager, or an invalid name, has no effect."""
    for name in ("/nonexistent/notify", "nonsense", "@" + "x" * 300, "@nobody"):
        launch(run, NOTIFY_SOCKET=name, WATCHDOG_USEC="20000")
        run.join(1)
        terminate(run.master)


class HeldThread:
    """Stops one thread of a process, by ptrace, until the end of the `with` block. The other threads continue."""

    SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000

    def __init__(self, thread):
        self.thread = thread

    def trace(self, request):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.restype = ctypes.c_long
        return libc.ptrace(
            ctypes.c_long(request), ctypes.c_long(self.thread), ctypes.c_void_p(0), ctypes.c_void_p(0)
        )

    def __enter__(self):
        self.whole = self.trace(self.SEIZE) != 0
        if self.whole:  # not permitted here: all threads stop instead
            say("ptrace is not allowed: the whole process is stopped instead")
            os.kill(self.thread, signal.SIGSTOP)
        else:
            equal(self.trace(self.INTERRUPT), 0, "PTRACE_INTERRUPT")
            os.waitpid(self.thread, self.WALL)
        return self

    def __exit__(self, *_):
        if self.whole:
            os.kill(self.thread, signal.SIGCONT)
        elif self.trace(self.DETACH) != 0:  # it has ended; its tracer must wait for it
            os.waitpid(self.thread, self.WALL)


def loop_thread(master):
    for thread in os.listdir(f"/proc/{master.pid}/task"):
        with open(f"/proc/{master.pid}/task/{thread}/comm", encoding="ascii") as name:
            if name.read().strip() == "pccl-loop":
                return int(thread)
    return None


def test_watchdog(run):
    """Watchdog messages repeat, and stop when the master's thread is stopped."""
    period_s = 0.4
    manager = Manager()
    master = launch(run, NOTIFY_SOCKET=manager.name, WATCHDOG_USEC=str(int(period_s * 1e6)))
    thread = harness.poll(lambda: loop_thread(master), "the master's thread")

    def signs():
        return [when for when, line in manager.take() if line == "WATCHDOG=1"]

    harness.poll(lambda: len(signs()) >= 8 or None, "eight signs of life")
    gaps = [later - earlier for earlier, later in zip(signs(), signs()[1:])]
    figure("median seconds between signs of life", statistics.median(gaps), "s")
    with HeldThread(thread) as held:
        before = len(signs())
        at = len(master.lines)
        if not held.whole:  # the other threads work as usual
            master.signal(signal.SIGHUP)
            master.wait_line("SIGHUP", start=at)
        harness.wait_ms(3000 * period_s)
        equal(len(signs()), before, "signs of life of a master that stands still")
    harness.poll(lambda: len(signs()) > before or None, "signs of life again")
    run.join(2)
    terminate(master)
    manager.close()


def test_watchdog_of_another(run):
    """WATCHDOG_PID names another process: the master ignores its watchdog."""
    manager = Manager()
    launch(run, NOTIFY_SOCKET=manager.name, WATCHDOG_USEC="20000", WATCHDOG_PID="1")
    run.join(2)
    manager.wait("STATUS=2")
    check("WATCHDOG=1" not in [line for _, line in manager.take()], "a sign of life")
    manager.close()


def test_stuck_end(run):
    """A master whose thread does not react to SIGTERM ends nevertheless, with an error code."""
    manager = Manager()
    master = launch(run, NOTIFY_SOCKET=manager.name)
    thread = harness.poll(lambda: loop_thread(master), "the master's thread")
    with HeldThread(thread) as held:
        if held.whole:
            say("cannot be tested here")
        else:
            master.signal(signal.SIGTERM)
            master.wait_line("does not respond")
    equal(master.end(harness.DEADLINE) if not held.whole else 1, 1, "exit code")
    master.killed = True
    manager.close()


# ---- packaging ----


def test_unit_file(_):
    """The unit file has the settings that systemd needs, and only options that this program supports."""
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str
    unit.read(os.path.join(ROOT, "packaging/systemd/pccl-master.service"), encoding="utf-8")
    equal(unit.sections(), ["Unit", "Service", "Install"], "sections")
    service = unit["Service"]
    wanted = {
        "Type": "notify",
        "Restart": "always",
        "RestartPreventExitStatus": "2",
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ExecStart": "/usr/bin/pccl-master",
    }
    equal({key: service.get(key) for key in wanted}, wanted, "settings")
    within(int(service["TimeoutStopSec"]), 6, 60, "TimeoutStopSec; the program needs up to 5")
    check(int(service["WatchdogSec"]) > 0 and "AF_UNIX" in service["RestrictAddressFamilies"], "watchdog")


def test_dockerfile(_):
    """No root, no shell between signals and the program, and a check of its health without one. `scripts/packages
    container` builds and runs it."""
    with open(os.path.join(ROOT, "packaging/docker/Dockerfile"), encoding="utf-8") as file:
        lines = [line.split(None, 1) for line in file.read().splitlines() if line and not line.startswith("#")]
    found = dict(lines)
    equal([rest for word, rest in lines if word in ("ARG", "FROM")], ["BASE=scratch", "$BASE"], "base")
    check(re.fullmatch(r"[1-9]\d*:[1-9]\d*", found["USER"]), f"user: {found['USER']}")
    equal(found["ENTRYPOINT"], '["/usr/bin/pccl"]', "entry point")
    equal(found["HEALTHCHECK"].partition(" CMD ")[2], '["/usr/bin/pccl", "status"]', "health check")


def test_libraries(run):
    """The program needs libuv and the C library, and none of our libraries."""
    alone = {**environment(run), "LD_PRELOAD": ""}  # preloaded libraries are not its dependencies
    out = subprocess.run(
        ["ldd", harness.executable("master")], stdout=subprocess.PIPE, check=True, env=alone, text=True
    ).stdout
    needed = {re.match(r"\s*(?:\S*/)?([\w-]+)\S*\.so", line).group(1) for line in out.splitlines() if ".so" in line}
    known = r"(lib(c|uv|m|dl|rt|pthread|resolv|gcc_s|stdc|asan|tsan|ubsan)|linux-\w+|ld\S*)$"
    unknown = {name for name in needed if not re.match(known, name)}
    check("libuv" in needed and not unknown, f"libraries: {sorted(needed)}, not known: {sorted(unknown)}")


# ---- for long ----


def come_and_go(run, how):
    """One newcomer joins and leaves: by a message, or by a closed or broken connection."""
    link = wire.Connection(run.port)
    link.send(run.forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity())))
    equal(harness.poll(link.next, "an answer")[0], wire.HELLO_OK, "answer")
    if how == 0:
        link.send(run.forge.frame(LEAVE, wire.text("enough"), 1))
    link.close(reset=how == 2)


def churn(run, count):
    for number in range(count):
        come_and_go(run, number % 3)


def settle(run, descriptors):
    """Waits until the master has forgotten the peers that left silently, so that memory does not depend on their rate.
    """
    harness.poll(lambda: run.master.descriptors() <= descriptors or None, "descriptors to be closed")
    harness.wait_ms(SILENCE_MS)


def test_churn(run):
    """Thousands join and leave, with and without a member present: memory and descriptors do not grow."""
    count = int(2400 / SLOW)
    launch(
        run, "--listen=127.0.0.1:0", f"--set=silence_ms={SILENCE_MS}", "--set=heartbeat_ms=500",
        "--set=bad_edge_ms=100", PCCL_LOG_LEVEL="ERR",
    )  # fmt: skip
    bare = run.master.descriptors()
    churn(run, count // 4)
    settle(run, bare)
    size = run.master.rss_kib()
    for _ in range(2):
        churn(run, count // 4)
        settle(run, bare)
    member = run.join(1)
    churn(run, count // 4)
    settle(run, bare + 1)
    end = time.monotonic() + SOAK_S
    rounds = 0
    while time.monotonic() < end:
        next_at = time.monotonic() + SOAK_PERIOD_S
        churn(run, 500)
        settle(run, bare + 1)
        rounds += 1
        time.sleep(max(0.0, next_at - time.monotonic()))
        if rounds % 20 == 1:
            at_s = SOAK_S - end + time.monotonic()
            say(f"{at_s:.0f} s: {run.master.rss_kib()} KiB, {run.master.descriptors()} descriptors")
    grown = run.master.rss_kib() - size
    say(f"{count + 500 * rounds} came and went; {size} KiB before, {grown} KiB more after")
    if SLOW == 1:
        within(grown, -1 << 30, GROWTH_KIB, "KiB that the master has grown by")
    member.do("update")
    equal(member.do("attr")["world"], 1, "members")


if sys.argv[1:2] == ["--soak"]:
    SOAK_S = float(sys.argv[2])
    sys.argv[1:] = ["churn"]
harness.main()
