"""Works that have futures, whose callbacks may launch operations and wait for them.

Callbacks run on threads of the package, or in then() if the work has ended, while the program launches operations
concurrently. The order of these launches differs among ranks, so each source numbers its operations separately
(_lanes.py).
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, Set

import torch

from .. import _threads
from .._threads import SLICE_S
from . import _commit
from ._devices import STREAMED
from ._lanes import in_lane, lane_here, lane_of
from ._untraced import untrace
from ._work import BaseWork

_CALLBACKS_S = 1.0  # time for which an exiting interpreter waits for running callbacks

class _Failure:
    """Value of a failed future. Raises the error when C++ code extracts tensors from it. torch's reducer would mistake
    an exception for a tensor, and crash."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        raise self.error

    def __str__(self) -> str:
        return str(self.error)

    @staticmethod
    def check(value: Any) -> None:
        if isinstance(value, _Failure):
            raise value.error


class Future(torch.futures.Future):  # type: ignore[misc]
    """A future that runs its callbacks in a lane. of_backward: a failure, even of a callback, leaves the step
    uncommitted."""

    def __init__(self, lane: Optional[int], devices: Sequence[torch.device], of_backward: bool) -> None:
        super().__init__(devices=list(devices))
        self._lane, self._devices, self._of_backward = lane, devices, of_backward
        self._set_unwrap_func(_Failure.check)

    def then(self, callback: Callable[[Any], Any]) -> Future:
        made = Future(self._lane, self._devices, self._of_backward)
        self.add_done_callback(lambda done: made.complete(lambda: callback(done)))
        return made

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        super().add_done_callback(lambda _: in_lane(self._lane, lambda: callback(self)))

    def complete(self, call: Callable[[], Any]) -> None:
        try:
            value = call()
        except BaseException as error:  # raised where the value is used
            if self._of_backward:
                _commit.note(error)
            value = _Failure(error)
        self.set_result(value)


_here = threading.local()  # completer: handles the futures that this thread's callback creates


class Completer:
    """Completes futures in the order of put(), each when its work has ended. This runs their callbacks, one after
    another. If a callback runs for longer than SLICE_S, the next one starts anyway, because the first one may be
    waiting for it. Futures created by a callback have a separate completer, so that they do not wait behind others."""

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._right: List[None] = [None]  # the right to serve; empty while a server runs

    def put(self, work: Work, base: Any) -> None:
        self._given.put((work, base))
        if not self._take_right():
            return
        try:
            _threads.start(self._serve)
        except BaseException:
            self._right.append(None)
            raise

    def _take_right(self) -> bool:
        try:
            self._right.pop()
        except IndexError:
            return False
        return True

    def close(self) -> None:
        """Ends the thread once all earlier futures are complete."""
        self._given.put(None)

    def _serve(self, before: Optional[threading.Lock] = None) -> None:
        """Completes one future. Another thread serves the following ones. before: locked until the callbacks of the
        previous future have ended."""
        while True:
            entry = self._given.get()
            if entry is None:
                self._right.append(None)
                if self._given.empty() or not self._take_right():
                    return
                continue  # put after close()
            work, base = entry
            ended = threading.Lock()
            ended.acquire()
            goes_on = functools.partial(_threads.try_start, functools.partial(self._serve, ended))
            successor = None if work.ends_soon() else goes_on()
            try:
                work._await(None)
            finally:
                if before is not None:
                    before.acquire(timeout=SLICE_S)
                successor = successor or goes_on()
                _run_callbacks(base, ended)
            if successor is not None:
                return
            before = None  # no thread could be started, so this one continues
            del work, base, entry


_running: Set[threading.Lock] = set()  # a lock for each future whose callbacks are running, released when they end
_is_at_exit = False


def _run_callbacks(base: Any, ended: threading.Lock) -> None:
    """Runs the callbacks, unless the interpreter is exiting. While exiting, it ends threads that wait for its lock,
    which would abort the process inside C++."""
    _running.add(ended)
    try:
        if not _is_at_exit:
            _complete(base)
    finally:
        _running.discard(ended)
        ended.release()


def _at_exit() -> None:
    global _is_at_exit
    _is_at_exit = True
    end = time.monotonic() + _CALLBACKS_S
    for ended in list(_running):
        ended.acquire(timeout=max(0.0, end - time.monotonic()))


_threads.at_exit.append(_at_exit)


def _complete(base: Any) -> None:
    """Runs the callbacks, with a completer for the futures that they create."""
    _here.completer = Completer()
    try:
        base.set_result(None)
    finally:
        _here.completer.close()
        del _here.completer


class Work(BaseWork):
    """A work for torch, with a future."""

    _future: Any = None

    def get_future(self) -> Any:
        """Returns the future of the outputs."""
        if self._future is None:
            devices = sorted({t.device for t in self._outputs if t.device.type in STREAMED}, key=str)
            self._future = _of_work(self, self._lane(), devices, self._value)
        return self._future

    def _lane(self) -> Optional[int]:
        """Returns the lane of callbacks. Transfers have no lane, because their numbers differ among ranks."""
        if self._parts and self._parts[0].comm is self._group._comm:
            return lane_of(self._group.group_name, self._parts[0].handle.tag)
        return None

    @property
    def completer(self) -> Completer:
        completer: Completer = self._group._completer
        return completer

    def _value(self) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        self._stage.join()  # torch lets the users of the future continue after the stream of this call
        return self._outputs


def _of_work(work: Work, lane: Optional[int], devices: Sequence[torch.device], value: Callable[[], Any]) -> Future:
    """Returns a future that a completer sets to value() once the work has ended, or at once if it already has.
    """
    made = Future(lane_here() if lane is None else lane, devices, _commit.in_backward())
    over: Any = torch.futures.Future(devices=list(devices))  # runs its callbacks in streams of the devices
    over.add_done_callback(lambda _: made.complete(value))
    if work.is_over:
        over.set_result(None)
    else:
        getattr(_here, "completer", work.completer).put(work, over)
    return made


untrace(Work)
