"""`pccl top` in a terminal and in a pipe."""

import fcntl
import http.server
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading

import harness
from harness import check, equal

ENVIRONMENT = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
HOME, REST = "\x1b[H", "\x1b[K"


def command(*arguments):
    return [os.path.join(os.path.dirname(harness.executable("master")), "pccl"), "top", *arguments]


def top(*arguments, code=0):
    """Runs the command with its output in a pipe. Returns (standard output, standard error)."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
    equal(done.returncode, code, f"exit code of {arguments}: {done.stdout} {done.stderr}")
    return done.stdout, done.stderr


def peer(number, **more):
    """A peer as in /status.json."""
    own = {"id": f"{number:08x}" + "0" * 24, "name": f"peer-{number}", "state": "member", "group": 0, "rank": number}
    own.update(address=f"10.0.0.{number}:48149", connected=True, silent=False, draining=False, last_word_ms=5)
    own.update({"in": None, "rate_to_next": 125_000_000, "step": 1000 + number, "loss": 2 - number / 100}, **more)
    return own


def status(peers, **more):
    """A /status.json."""
    own = {"program": "pccl-master", "version": "1", "uptime_ms": 1, "run": "f" * 32, "epoch": "1.1", "steps": []}
    own.update(recovering=False, optimizing=False, members=len(peers), newcomers=0, operations_under_way=0)
    own.update(operations_committed=7, operations_aborted=0, gone=[], calls=[], verdicts=[], more_calls=False)
    own["spans"] = {"ms": 10000, "newest_ms": 0, "bytes": [0, 1000, 8000] * 20, "aborted": [0] * 60}
    return {**own, "peers": peers, **more}


class Master:
    """Answers with a status, or with any other text."""

    def __init__(self, answer):
        self.answer = answer if isinstance(answer, str) else json.dumps(answer)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version, sys_version = "pccl-master", ""

            def version_string(self):
                return "pccl-master"

            def do_GET(self):  # pylint: disable=invalid-name
                body = outer.answer.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Terminal:
    """The command in a terminal."""

    def __init__(self, *arguments, size=(24, 80), **variables):
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.text = ""
        self.resize(size)
        ends = {"stdin": self.theirs, "stdout": self.theirs, "stderr": self.theirs}
        self.process = subprocess.Popen(command(*arguments), env={**ENVIRONMENT, **variables}, **ends)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        kept = b""
        while True:
            got = os.read(self.ours, 1 << 16)
            kept += got
            self.text = kept.decode(errors="replace")
            if got.endswith(b"\x1b[?1049l"):
                return

    def resize(self, size, tells=False):
        self.rows, self.columns = size
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        if tells:
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def screen(self):
        """Returns the lines of the last complete screen, or None."""
        for frame in reversed(self.text.split(HOME)[1:]):
            lines = frame.split(REST)
            if len(lines) == self.rows + 1:
                return [line.removeprefix("\r\n") for line in lines[: self.rows]]
        return None

    def until(self, part):
        """Waits for a screen with a line that contains this pattern, and returns its lines."""

        def found():
            lines = self.screen()
            return lines if lines and any(re.search(part, line) for line in lines) else None

        lines = harness.poll(found, f"{part!r} in {self.screen()}")
        check(all(len(line) <= self.columns and line.isprintable() for line in lines), lines)
        return lines

    def end(self, keys="q"):
        """Presses keys that end it, and checks that the terminal is as before."""
        self.press(keys)
        equal(self.process.wait(harness.DEADLINE), 0, "exit code")
        self.reader.join(harness.DEADLINE)
        check(self.text.endswith("\x1b[?7h\x1b[?25h\x1b[?1049l"), self.text[-100:])
        equal(termios.tcgetattr(self.theirs), self.before, "settings of the terminal")
        os.close(self.ours)
        os.close(self.theirs)


def names(lines):
    """The peers on a screen, in their order."""
    return [int(found[1]) for line in lines for found in [re.match(r"peer-(\d+) ", line)] if found]


def test_run(run):
    """The output for a real run, in a pipe: once, complete, with steps and losses."""
    run.start_master(http="127.0.0.1:0")
    address = "127.0.0.1:" + re.search(r"http on port (\d+)", run.master.wait_line("http on port")).group(1)
    check("no run" in top(address)[0], "an idle master")
    peers = run.join(2)
    for i, member in enumerate(peers):
        member.do("report", 300, 2.0 + i)

    def found():
        text = top(address)[0]
        return text if "step 300: loss 2.5, reported by 2\n" in text else None

    text = harness.poll(found, "the reports")
    check("\n2 members, 0 newcomers; operations: 0 running, 0 committed, 0 aborted\n" in text, text)
    equal(len(re.findall(r"^\S* ?\w{8} +works +[01] .* 300 +[23] its own code +127\.", text, re.M)), 2, text)
    check(all(line == line.rstrip() for line in text.split("\n")) and "\x1b" not in text, text)
    equal(json.loads(top("--json", address)[0])["members"], 2, "--json")


def test_screen(_):
    """80x24: every important column fits, and the most urgent peers are on top."""
    peers = [peer(i) for i in range(100)]
    peers[70].update(silent=True, last_word_ms=90_000)
    peers[50].update(connected=False)
    peers[60]["in"] = "all-reduce, tag 4 of a group"
    verdict = {"class": "slow link", "peer": peers[70]["id"], "other": peers[7]["id"], "finding": False}
    verdict.update(evidence="4.0 MB/s for 10 s, but 125.0 MB/s before", action="a ring without the link is wanted")
    step = {"step": 1100, "count": 3, "loss": 2.5}
    gone = {"id": "e" * 32, "name": "gone", "since_ms": 3000, "reason": "expelled"}
    with Master(status(peers, verdicts=[verdict], steps=[step], gone=[gone])) as master:
        terminal = Terminal(master.address)
        lines = terminal.until("^peer-50 ")
        equal(names(lines)[:5], [50, 70, 60, 0, 1], "order")
        head = next(line for line in lines if line.startswith("PEER"))
        equal(re.sub(" +", " ", head), "PEER STATE RANK LAST SEEN TO NEXT STEP LOSS IN", "columns")
        silent = next(line for line in lines if line.startswith("peer-70"))
        equal(re.sub(" +", " ", silent), "peer-70 00000046 SILENT 70 90.0 s 125 MB/s 1070 1.3 its own code", "a row")
        place = [line.startswith("VERDICT ") for line in lines].index(True)
        words = "peer-70 00000046 -> peer-7 00000007: 4.0 MB/s for 10 s, but 125.0 MB/s before: a ring without the link"
        equal(lines[place] + lines[place + 1][1:], f"VERDICT slow link: {words} is wanted", "a long verdict")
        check("removed 3.0 s ago: gone eeeeeeee: expelled" in lines, lines)
        check("step 1100: loss 2.5, reported by 3" in lines, lines)
        bars = next(line for line in lines if line.startswith("reduced |"))
        check("▁█" in bars and bars.endswith("| 900 B/s"), bars)
        check(re.match(r"1-\d+ of 100  by state  ", lines[-1]), lines[-1])
        terminal.end()


def test_keys(_):
    """Scrolling, sorting, searching, help, a new size, and four ways to end it."""
    with Master(status([peer(i) for i in range(100)])) as master:
        terminal = Terminal(master.address)
        page = len(names(terminal.until("^peer-0 ")))
        check(page > 10, f"{page} peers on the screen")
        for keys, first in (("j", 1), ("\x1b[B", 2), ("k", 1), ("\x1b[6~", page), ("\x1b[5~", 1),
                            ("\x1b[F", 100 - page), ("\x1b[A", 99 - page), ("\x1b[H", 0), ("G", 100 - page), ("g", 0)):
            terminal.press(keys)
            equal(names(terminal.until(f"^{first + 1}-{first + page} of 100 "))[0], first, f"after {keys!r}")
        terminal.press("r")
        equal(names(terminal.until("by state, reversed"))[0], 99, "reversed")
        for order, first in (("peer", 0), ("group", 0), ("rank", 0), ("seen", 0), ("rate", 0), ("step", 0), ("loss", 0),
                             ("call", 0), ("address", 0), ("state", 0)):
            terminal.press("s")
            equal(names(terminal.until(f"  by {order}  "))[0], first, f"by {order}")
        terminal.press("/R-9X")
        terminal.until("^search: R-9X_$")
        terminal.press("\x7f")
        equal(names(terminal.until("^search: R-9_$")), [9, *range(90, 100)], "search")
        terminal.press("\r")
        terminal.until("^1-11 of 11 with R-9 ")
        terminal.press("\x1b")
        terminal.until(f"^1-{page} of 100 ")
        terminal.press("?")
        terminal.until("^/ +searches")
        terminal.press("x")
        terminal.until("^peer-0 ")
        for size in ((30, 120), (8, 40), (2, 10), (1, 1), (24, 80)):
            terminal.resize(size, tells=True)
            terminal.until(" of 100 " if size[1] > 10 else "^0")
        terminal.end()
        for keys in ("Q", "\x03"):
            terminal = Terminal(master.address)
            terminal.until("^peer-0 ")
            terminal.end(keys)
        for number in (signal.SIGTERM, signal.SIGHUP):
            terminal = Terminal(master.address)
            terminal.until("^peer-0 ")
            terminal.process.send_signal(number)
            terminal.end("")


def test_order(_):
    """--sort and --search, in a pipe."""
    peers = [peer(i) for i in range(4)]
    peers[1].update(last_word_ms=2000, rate_to_next=5, loss=None)
    peers[2].update(achieved_to_next=3, step=7, loss=9)
    peers[3].update({"in": "barrier", "name": "peer-3 日本語\x1b[2J\u202e"})
    with Master(status(peers)) as master:
        for order, wanted in (("seen", [1, 3, 0, 2]), ("rate", [2, 1, 3, 0]), ("step", [2, 0, 1, 3]),
                              ("loss", [1, 2, 0, 3]), ("call", [3, 0, 1, 2]), ("state", [3, 0, 1, 2])):
            equal(names(top("--sort", order, master.address)[0].split("\n")), wanted, order)
        text = top("--search", "BARRIER", master.address)[0]
        equal(names(text.split("\n")), [3], "search")
        check("peer-3 日本語?[2J??? 00000003 waits" in text, text)
        check(" nan " in top("--search", "peer-1", master.address)[0], "an infinite loss")


def test_pipe(_):
    """A reader that closes its end gets no message, whether or not the signal is ignored."""
    with Master(status([peer(i) for i in range(2000)])) as master:
        for ignores in (True, False):
            for option in ("--once", "--json"):
                pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "restore_signals": not ignores}
                with subprocess.Popen(command(option, master.address), **pipes) as process:
                    process.stdout.read(1)
                    process.stdout.close()
                    equal(process.stderr.read(), b"", "message")
                    equal(process.wait(harness.DEADLINE), 0, "exit code")
        with open("/dev/full", "wb") as full:
            done = subprocess.run(command(master.address), stdout=full, stderr=subprocess.PIPE, check=False)
        words = b"pccl top: cannot write to standard output: No space left on device\n"
        equal((done.returncode, done.stderr), (1, words), "a full device")


def test_color(_):
    """Colors only in a terminal without NO_COLOR; letters in place of blocks in one without UTF-8."""
    with Master(status([peer(0, silent=True)])) as master:
        for variables, code in (({"NO_COLOR": ""}, True), ({}, False)):
            terminal = Terminal(master.address, **variables)
            harness.poll(lambda: "SILENT" in terminal.text, "a screen")
            equal("\x1b[1;31mSILENT\x1b[0m" in terminal.text, code, f"red with {variables}")
            terminal.end()
        terminal = Terminal(master.address, LC_ALL="C")
        check(any(line.startswith("reduced |") and " .@ .@" in line for line in terminal.until("^reduced")), "letters")
        terminal.end()
        terminal = Terminal("--once", master.address)
        equal(terminal.process.wait(harness.DEADLINE), 0, "--once")
        harness.poll(lambda: "SILENT" in terminal.text, "output")
        check("\x1b" not in terminal.text, terminal.text)


def test_no_answer(_):
    """A terminal shows the reason and continues when the master returns; a pipe gets the reason."""
    port = harness.ports.free_port()
    error = top(f"127.0.0.1:{port}", code=1)[1]
    check(error.startswith(f"pccl top: no master answers at 127.0.0.1:{port}: connection refused."), error)
    with Master(status([peer(0)])) as master:
        terminal = Terminal(master.address)
        terminal.until("^peer-0 ")
        for answer in ("[]", "{", '{"program": "pccl-master"}', "[" * 10000):
            master.answer = answer
            terminal.until("^the master's answer is not the state of a run")
            check(names(terminal.screen()) == [0], "the last state remains")
            check("is not the state of a run" in top(master.address, code=1)[1], answer)
        master.answer = json.dumps(status([peer(1)]))
        terminal.until("^peer-1 ")
        terminal.end()


def test_arguments(_):
    for arguments, words in (
        (["--sort", "pear"], "invalid value 'pear' for --sort: expected peer, state, group, rank, seen, rate, step, "
                             "loss, call or address; did you mean 'peer'?"),
        (["--sort"], "missing value after --sort"),
        (["--search", "x" * 65], "too long for --search: "),
        (["--wach"], "unknown argument: --wach"),
        (["a", "b"], "more than one address: b"),
        (["a/b:1"], "'a/b"),
        (["1.2.3.4:70000"], "70000"),
        (["--ca", "x", "1.2.3.4"], "--token-file, --ca and --fingerprint require an address that begins with https://"),
    ):
        check(words in top(*arguments, code=2)[1], f"{arguments}: {top(*arguments, code=2)}")


harness.main()
