"""Threads that complete futures (_futures.Completer), with made-up works: test_torch_group."""

import sys
import threading
import time

import torch

from pccl import _threads
from pccl.torch import _futures


class Over:
    """A work that has ended."""

    def ends_soon(self):
        return True

    def _await(self, _):
        pass


def one_thread_serves():
    """Threads put the first futures of a completer at once."""
    begun, start = [], _threads.start

    def start_slowly(call):
        begun.append(call)
        time.sleep(0.1)
        return start(call)

    _threads.start = start_slowly
    completer, futures = _futures.Completer(), [torch.futures.Future() for _ in range(4)]
    putting = [threading.Thread(target=completer.put, args=(Over(), one)) for one in futures]
    for one in putting:
        one.start()
    for one in [*putting, *futures]:
        getattr(one, "join", getattr(one, "wait", None))()
    completer.close()
    assert len(begun) == 1


def put_after_close():
    completer = _futures.Completer()
    for _ in range(3):
        for _ in range(2):
            completer.put(Over(), future := torch.futures.Future())
            future.wait()
        completer.close()


class Late:
    """One of the last objects to end."""

    def __del__(self, sleep=time.sleep):
        sleep(0.3)  # threads that wait for the interpreter's lock end in between


def interpreter_ends():
    """The interpreter ends while a callback runs, which then ends. The next one does not begin."""
    begun, completer, (first, second) = threading.Event(), _futures.Completer(), [torch.futures.Future() for _ in "ab"]

    def run(_):
        begun.set()
        while not _futures._is_at_exit:
            time.sleep(0.001)
        completer.put(Over(), second)

    first.add_done_callback(run)
    second.add_done_callback(lambda _: print("begun after the end", flush=True))
    completer.put(Over(), first)
    begun.wait()
    sys.modules["__main__"].late = Late()
    raise SystemExit
