"""A shell that blocks are typed into, as a reader would: what they set, where they go and what they
start stays."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time

BURIAL_SECONDS = 2
DRAIN_SECONDS = 5  # of what has ended: who still holds its output is not waited for
_changed = threading.Condition()  # all terminals: some waits are for several


class Failure(Exception):
    pass


def _until(condition, seconds):
    """Waits for something to arrive until condition() gives something true; that, or None."""
    end = time.monotonic() + seconds
    with _changed:
        while True:
            value = condition()
            left = end - time.monotonic()
            if value or left <= 0:
                return value or None
            _changed.wait(left)


def as_pattern(line):
    """Of an expected line, in which "..." stands for anything."""
    return re.compile(".*".join(re.escape(part) for part in line.strip().split("...")))


class Lines:
    """What a process prints, as it comes."""

    def __init__(self, pipe):
        self.texts = []
        self.ended = False
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe):
        with pipe:
            for raw in pipe:
                with _changed:
                    self.texts.append(raw.decode("utf-8", "replace").rstrip("\n"))
                    _changed.notify_all()
        with _changed:
            self.ended = True
            _changed.notify_all()

    def drain(self):
        """All that came from a process that has ended."""
        _until(lambda: self.ended, DRAIN_SECONDS)
        return self.texts

    def expect(self, patterns, start, seconds):
        """Waits until there is a line for each pattern, in their order. Gives the first pattern
        that found none."""

        def missing():
            index = start
            for pattern in patterns:
                while index < len(self.texts) and not pattern.fullmatch(self.texts[index].strip()):
                    index += 1
                if index == len(self.texts):
                    return pattern
                index += 1
            return None

        _until(lambda: missing() is None or self.ended, seconds)
        return missing()


def expect_times(all_lines, pattern, times, seconds):
    """Waits until so many lines match; they must be equal. all_lines: (Lines, start) of each
    terminal."""

    def found():
        return [t.strip() for lines, start in all_lines for t in lines.texts[start:] if pattern.fullmatch(t.strip())]

    _until(lambda: len(found()) >= times, seconds)
    texts = found()
    if len(texts) != times or len(set(texts)) != 1:
        raise Failure(f"{pattern.pattern!r} was to come {times} times alike, and came as {texts}")


class Terminal:
    def __init__(self, name, prefix, folder, environment):
        self.name = name
        self.start = 0  # of the last block's output
        self._folder = folder
        self._count = 0
        self._process = subprocess.Popen(
            [*prefix, "bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        self.lines = Lines(self._process.stdout)
        self._gone = False
        threading.Thread(target=self._wait, daemon=True).start()
        # Jobs have numbers, as in a terminal; a command that fails ends the shell.
        self._type("set -e -m -o pipefail")

    def _wait(self):
        """For the shell itself: what it has started may go on, and keep its output open."""
        self._process.wait()
        with _changed:
            self._gone = True
            _changed.notify_all()

    def _type(self, text):
        try:
            self._process.stdin.write((text + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, which is seen by what it did not print

    def run(self, block_text, scratch, seconds):
        """Executes commands; returns when the last one that is not in the background has ended."""
        self._count += 1
        script = os.path.join(scratch, f"{self.name}-{self._count}.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write(block_text)
        self.start = len(self.lines.texts)
        mark = f"==done {self.name} {self._count}=="
        self._type(f". '{script}' </dev/null\necho; echo '{mark}'")
        if not _until(lambda: mark in self.lines.texts[self.start:] or self._gone, seconds):
            raise Failure(f"has not ended after {seconds} s")
        if mark not in self.lines.texts[self.start:]:
            self.lines.drain()  # for the report
            raise Failure("a command failed")

    def text(self):
        return "\n".join(self.lines.texts[self.start:])

    def close(self):
        """Ends the shell and all that it has started, which is its session; the shell last, so that
        it buries them."""
        leader = self._process.pid
        end = time.monotonic() + BURIAL_SECONDS
        while _kill_all_but(leader) and time.monotonic() < end:
            time.sleep(0.005)
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


def _kill_all_but(leader):
    """Of its session; False when there is nobody else."""
    others = [pid for pid in _session(leader) if pid != leader]
    for pid in others:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return bool(others)


def _session(leader):
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader:
            pids.append(int(name))
    return pids
