"""Tests of the other tests' helpers."""

import os
import select
import signal
import subprocess
import sys
import threading
from concurrent.futures import FIRST_COMPLETED, wait

import pytest
import support
from support import endings

ABORTS = """
import os, sys
print("first\\ndone", flush=True)
print(sys.argv[1], file=sys.stderr, flush=True)
os.abort()
"""


def test_an_abort_by_gloo_is_an_end(script):
    script(ABORTS, endings.GLOO_AT_THE_END).ends_after("done")
    script("print('done')").ends_after("done")


@pytest.mark.parametrize(
    "text, said, last",
    [
        (ABORTS, "terminate called after throwing an instance of 'int'", "done"),
        (ABORTS, f"and {endings.GLOO_AT_THE_END}", "done"),
        (ABORTS, "", "done"),
        (ABORTS, endings.GLOO_AT_THE_END, "first"),
        (ABORTS.replace("abort()", "_exit(1)"), endings.GLOO_AT_THE_END, "done"),
        (ABORTS.replace("abort()", "kill(os.getpid(), 9)"), endings.GLOO_AT_THE_END, "done"),
    ],
)
def test_other_ends_are_none(script, text, said, last):
    with pytest.raises(AssertionError, match="ended with"):
        script(text, said).ends_after(last)


@pytest.mark.parametrize("said, status", [("3 passed in 1s", 0), ("1 failed, 2 passed in 1s", -6)])
def test_the_program(said, status, capsys):
    command = ["sh", "-c", 'echo "$1"; echo "$2" >&2; kill -ABRT $$', "sh", said, endings.GLOO_AT_THE_END]
    assert endings.main(r"^\d+ passed", *command) == status
    assert said in capsys.readouterr().out


def test_calls_that_do_not_end_hide_no_error(monkeypatch):
    never = threading.Event()
    monkeypatch.setattr(support, "wait", lambda futures, seconds: wait(futures, seconds, FIRST_COMPLETED))
    with pytest.raises(ZeroDivisionError):
        support.parallel([never.wait, lambda: 1 / 0])
    with pytest.raises(AssertionError, match="1 of 2 calls have not ended"):
        support.parallel([never.wait, int])
    never.set()


ENDS = """
import os, signal, sys, time
def test_success(): assert len(os.listdir("/proc/self/task")) == 1 and "given" in os.environ
def test_failure(): assert False
def test_abort(): os.abort()
def test_waits(): print("waits", os.getpid(), flush=True); time.sleep(1000)
"""


@pytest.fixture
def forked(tmp_path):
    """Starts a test of ENDS as ctest starts files."""
    (tmp_path / "test_ends.py").write_text(ENDS)
    program, options = support.TESTS / "forked.py", ["-q", "-s", "-p", "no:cacheprovider", "-c", os.devnull]

    def start(name):
        return subprocess.Popen(
            [sys.executable, program, "pytest", *options, f"{tmp_path}/test_ends.py::test_{name}"],
            env={**os.environ, "given": "yes"}, stdout=subprocess.PIPE, text=True,
        )

    return start


@pytest.mark.parametrize(("name", "status"), [("success", 0), ("failure", 1), ("abort", -signal.SIGABRT)])
def test_forks_end_as_their_tests(forked, name, status):
    process = forked(name)
    output, _ = process.communicate(timeout=support.DEADLINE)
    assert process.returncode == status, output


def test_a_fork_ends_with_its_caller(forked):
    process = forked("waits")
    pid = int(next(line for line in process.stdout if line.startswith("waits")).split()[1])
    fork = os.pidfd_open(pid)
    process.kill()
    assert select.select([fork], [], [], support.DEADLINE)[0]
    os.close(fork)
    process.communicate()
