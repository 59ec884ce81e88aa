"""Threads that complete futures (_futures.Completer), with works that are made up."""

import subprocess
import sys
import threading
import time

import pytest
import support

torch = pytest.importorskip("torch")

from pccl import _threads  # noqa: E402
from pccl.torch import _futures  # noqa: E402


class Over:
    """A work that has ended."""

    def ends_soon(self):
        return True

    def _await(self, _):
        pass


def test_one_thread_serves_whoever_puts_first(monkeypatch):
    begun, start = [], _threads.start

    def start_slowly(call):
        begun.append(call)
        time.sleep(0.1)
        return start(call)

    monkeypatch.setattr(_threads, "start", start_slowly)
    completer, futures = _futures.Completer(), [torch.futures.Future() for _ in range(4)]
    putting = [threading.Thread(target=completer.put, args=(Over(), one)) for one in futures]
    for one in putting:
        one.start()
    for one in [*putting, *futures]:
        getattr(one, "join", getattr(one, "wait", None))()
    completer.close()
    assert len(begun) == 1


def test_put_after_close():
    completer = _futures.Completer()
    for _ in range(3):
        for _ in range(2):
            completer.put(Over(), future := torch.futures.Future())
            future.wait()
        completer.close()


AT_THE_END = """
import time
import torch
import pccl
from pccl.torch import _futures
from test_torch_futures import Over
completer = _futures.Completer()
for _ in range(2000):
    future = torch.futures.Future()
    future.add_done_callback(lambda _: sum(range(20000)))
    completer.put(Over(), future)

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.3)  # threads that wait for the interpreter's lock end meanwhile

late = Late()
"""


def test_interpreter_ends_while_callbacks_run():
    done = subprocess.run(
        [sys.executable, "-c", AT_THE_END], env=support.environment(), stderr=subprocess.PIPE, timeout=support.DEADLINE
    )
    assert (done.returncode, done.stderr) == (0, b"")
