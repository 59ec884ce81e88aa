"""The demo itself, shortened: it runs to its end, and none of its processes remains after any kind of end."""

import os
import pty
import re
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
import support
from support import DEADLINE

pytest.importorskip("numpy")
if not sys.platform.startswith("linux"):
    pytest.skip("looks at /proc", allow_module_level=True)

RUN = support.PACKAGE / "examples" / "demo" / "run.py"
BESIDE_LIBRARY = Path(os.environ.get("PCCL_LIBRARY", "/")).parent.parent / "tools" / "pccl-master"
MASTER = str(BESIDE_LIBRARY) if BESIDE_LIBRARY.exists() else shutil.which("pccl-master")

_EXECUTE = "import os, sys; os.execv(sys.executable, [sys.executable, '-B', *sys.argv[1:]])"


def children(pid):
    """Returns the ids of the child processes."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry))
    return found


def gone(pids):
    """Waits until all of these processes have ended."""
    end = time.monotonic() + DEADLINE
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end, f"of {pids} some remain"
        time.sleep(0.01)


@pytest.fixture
def demo(script, tmp_path):
    def start(master=MASTER, **env):
        if master is None:
            pytest.skip("no pccl-master")
        arguments = (RUN, "--master", master, "--quick", "--out", tmp_path)
        return script(_EXECUTE, *arguments, env={"OPENBLAS_NUM_THREADS": "1", **env})

    return start


def test_to_the_end(demo, tmp_path):
    shown = demo()
    shown.line("all in all")
    assert shown.end() == 0
    text = "\n".join(shown.lines)
    print(text)
    assert "\x1b" not in text and "FAILED" not in text
    for words in ("kill -9 ben", "3 others", "eva is in", "of 4 peers", "after each of 10 + 10 rounds", "is the bound"):
        assert words in text, words
    chart = (tmp_path / "loss.svg").read_text(encoding="utf-8")
    assert "ben is killed" in chart and "eva joins" in chart and chart.count("</svg>") == 1
    saved = {path.name: path.read_bytes() for path in tmp_path.glob("*.npy")}
    assert {saved[f"disturbed-{name}.npy"] for name in ("carla", "dan", "eva")} == {saved["disturbed-anna.npy"]}
    assert "disturbed-ben.npy" not in saved and len(saved) == 4 + 4 + 1


@pytest.mark.nightly
def test_ctrl_c(demo):
    shown = demo()
    shown.line("round   1 of")
    processes = children(shown.pid)
    assert len(processes) == 5  # the master and four peers
    shown.kill(signal.SIGINT)
    shown.line("interrupted")
    assert shown.end() == 130
    gone(processes)


@pytest.mark.nightly
def test_killed_itself(demo):
    shown = demo()
    shown.line("round   1 of")
    processes = children(shown.pid)
    assert len(processes) == 5
    shown.kill(signal.SIGKILL)
    shown.end()
    gone(processes)


@pytest.mark.nightly
@pytest.mark.parametrize("program, words", [("worker.py", "was ended by signal 9"), ("--listen", "has ended with -9")])
def test_somebody_dies(demo, program, words):
    shown = demo()
    shown.line("round   1 of")
    processes = children(shown.pid)
    victim = next(pid for pid in processes if program in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8"))
    os.kill(victim, signal.SIGKILL)
    shown.line("FAILED: ")
    assert shown.end() == 1
    assert re.search(rf"FAILED: \S+ {words}; the end of \S+undisturbed-\S+\.log:", "\n".join(shown.lines))
    gone(processes)


@pytest.mark.nightly
def test_a_peer_breaks(demo):
    shown = demo(PCCL_LIBRARY="/nowhere/libpccl.so.1")
    shown.line("FAILED: ")
    assert shown.end() == 1
    assert "ended with 1; the end of" in "\n".join(shown.lines) and "/nowhere/libpccl.so.1" in "\n".join(shown.lines)


def test_no_master(demo, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho these words >&2\nexit 3\n", encoding="ascii")
    broken.chmod(0o755)
    shown = demo(master=broken)
    shown.line("these words")
    assert shown.end() == 1
    shown = demo(master=tmp_path / "nothing")
    shown.line("there is no program")
    assert shown.end() == 2


@pytest.mark.nightly
def test_terminal(tmp_path):
    """The table is redrawn in place."""
    if MASTER is None:
        pytest.skip("no pccl-master")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm", COLUMNS="120", LINES="40", OPENBLAS_NUM_THREADS="1")
        os.environ.update(support.environment())
        arguments = [RUN, "--master", MASTER, "--quick", "--out", tmp_path]
        os.execv(sys.executable, [sys.executable, "-B", *map(str, arguments)])
    seen = b""
    try:
        while seen.count(b"\x1b[J") < 5 or b"trains" not in seen:
            seen += os.read(terminal, 4096)
        processes = children(pid)
        os.write(terminal, b"\x03")  # Ctrl-C
        while b"interrupted" not in seen:
            seen += os.read(terminal, 4096)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)
    assert len(processes) == 5
    gone(processes)
