"""Threads of the package. All are daemons, started when first needed, and discarded in a forked child.

There are two kinds. Helpers make blocking calls for the main thread, so that it can wait in Python code: Python runs
signal handlers only on the main thread, and only between its instructions. The janitor does the work of finalizers,
which may run at any time, on any thread, while any lock is held.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from typing import Any, Callable, Generic, List, Optional, TypeVar

_T = TypeVar("_T")

# Functions called at interpreter exit, after the communicators have been closed.
at_exit: List[Callable[[], None]] = []

# Interval at which a wait lets Python check for signals. If the lock is interruptible, a signal ends the wait at once.
SLICE_S = 0.05


class Job(Generic[_T]):
    """A call that another thread makes. Keeps its memory alive until the call has returned, even if no thread waits for
    it."""

    def __init__(self, call: Callable[[], _T]) -> None:
        self._call: Optional[Callable[[], _T]] = call
        self._value: Optional[_T] = None
        self._error: Optional[BaseException] = None
        self._over = False
        self._done = threading.Lock()
        self._done.acquire()

    def run(self, ended: Callable[[], None]) -> None:
        """Makes the call. Calls `ended` before it releases a waiting thread."""
        call, self._call = self._call, None
        assert call is not None
        try:
            self._value = call()
        except BaseException as error:  # raised in the thread that waits
            self._error = error
        del call
        ended()
        self._over = True
        self._done.release()

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits for at most `seconds`. Returns true if the call has returned. A signal interrupts the wait only if its
        handler raises."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = SLICE_S if end is None else max(0.0, min(SLICE_S, end - time.monotonic()))
            if self._over:
                return True  # also if a thread was interrupted while it held the lock
            if self._done.acquire(timeout=left):
                self._done.release()
                return True
            if end is not None and time.monotonic() >= end:
                return False

    def value(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class Claim:
    """A claim to a turn, held by a thread that waits for it or has it."""

    __slots__ = ("mark", "__weakref__")

    mark: weakref.ref[Claim]


class Turns:
    """A turn that one thread has at a time, in the order of the claims.

    This is not a lock, because a signal handler may raise between any two instructions, including the acquisition of a
    lock and the `try` that releases it. A claim that its thread abandons ends with the stack frame that refers to it.
    """

    __slots__ = ("_line",)

    def __init__(self) -> None:
        # Modified concurrently by other threads, so each access must be atomic
        self._line: List[weakref.ref[Claim]] = []

    def claim(self) -> Claim:
        """Adds a claim. Call leave() in any case, even if the turn was not obtained."""
        claim = Claim()  # without a constructor, as in Core.enter()
        claim.mark = mark = weakref.ref(claim)
        self._line.append(mark)
        return claim

    def leave(self, claim: Claim) -> None:
        self._line.remove(claim.mark)

    def wait_for_turn(self, claim: Claim, seconds: Optional[float]) -> bool:
        """Waits for the turn, for at most `seconds`. Returns true if the claim has it."""
        if self._line[0] is claim.mark:
            return True
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            first = self._first()
            if first is claim:
                return True
            left = SLICE_S if end is None else min(SLICE_S, end - time.monotonic())
            if left <= 0:
                return False
            dropped: queue.SimpleQueue[Any] = queue.SimpleQueue()
            watch = weakref.ref(first, dropped.put)  # notifies `dropped` soon after the claim has left
            del first
            try:
                dropped.get(timeout=left)
            except queue.Empty:
                pass
            del watch

    def _first(self) -> Claim:
        """Returns the oldest claim. The caller must have a claim, so there is at least one."""
        while True:
            mark = self._line[0]
            claim = mark()
            if claim is not None:
                return claim
            try:
                self._line.remove(mark)  # an abandoned claim
            except ValueError:
                pass  # another thread has removed it


class _Helper:
    """A thread that makes calls one after another."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job[Any]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="pccl-helper", daemon=True).start()

    def give(self, job: Job[Any]) -> None:
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            job.run(lambda: _idle.append(self))
            del job


_idle: List[_Helper] = []


def _helper() -> _Helper:
    try:
        return _idle.pop()
    except IndexError:
        return _Helper()


def start(call: Callable[[], _T]) -> Job[_T]:
    """Makes the call on another thread."""
    job = Job(call)
    _helper().give(job)
    return job


def try_start(call: Callable[[], _T]) -> Optional[Job[_T]]:
    """Makes the call on another thread. Returns None if no thread can be started, because the interpreter is exiting or
    there are too many."""
    try:
        helper = _helper()
    except RuntimeError:
        return None
    job = Job(call)
    helper.give(job)
    return job


class Errands:
    """Functions that a blocking call runs on the thread that waits for it, even if the call itself was made on another
    thread."""

    def __init__(self) -> None:
        self._home = threading.current_thread()
        self._requests: queue.SimpleQueue[Optional[Job[None]]] = queue.SimpleQueue()
        self._abandoned = False
        self.error: Optional[BaseException] = None  # exception that an errand raised

    def ask(self, call: Callable[[], None]) -> bool:
        """Runs a function on the waiting thread. Must be called from within the blocking call. Returns false if the
        function raised, or if the thread no longer waits."""
        errand = Job(call)
        if threading.current_thread() is self._home:
            errand.run(lambda: None)
        else:
            self._requests.put(errand)
        while not errand.wait(SLICE_S):
            if self._abandoned:
                return False
        try:
            errand.value()
        except BaseException as error:  # raised when the blocking call has returned
            self.error = error
        return self.error is None

    def serve(self, job: Job[_T]) -> None:
        """Runs errands until the job, which was made by ending(), has ended."""
        try:
            while True:
                try:
                    errand = self._requests.get(timeout=SLICE_S)
                except queue.Empty:
                    continue
                if errand is None:
                    job.wait()
                    return
                errand.run(lambda: None)
        except BaseException:
            self._abandoned = True
            raise

    def ending(self, call: Callable[[], _T]) -> Callable[[], _T]:
        def ends() -> _T:
            try:
                return call()
            finally:
                self._requests.put(None)

        return ends


def blocking(
    call: Callable[[], _T], interrupted: Optional[Callable[[], None]] = None, errands: Optional[Errands] = None
) -> _T:
    """Makes a call that may block for any time. If a signal handler raises during the call (Ctrl-C), calls
    `interrupted`, while the call continues in the background with its memory kept alive. If no thread can be started,
    signals are handled only after the call."""
    if threading.current_thread() is not threading.main_thread():
        return call()  # signal handlers do not run on this thread
    job: Optional[Job[_T]] = None
    try:
        job = try_start(call if errands is None else errands.ending(call))
        if job is not None and errands is not None:
            errands.serve(job)
        elif job is not None:
            job.wait()
    except BaseException:
        if interrupted is not None:
            interrupted()
        raise
    return call() if job is None else job.value()


class _Janitor:
    """A thread that does work that the requesting thread must not do."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._running = False

    def ensure(self) -> None:
        """Starts the thread. Must not be called by finalizers; constructors of objects with finalizers call it."""
        if not self._running:
            threading.Thread(target=self._work, name="pccl-janitor", daemon=True).start()
            self._running = True

    def put(self, call: Callable[[], None]) -> None:
        """Adds a call. Safe in finalizers: takes no lock and starts no thread."""
        self._jobs.put(call)

    def _work(self) -> None:
        while True:
            call = self._jobs.get()
            try:
                call()
            except Exception:  # no caller could handle it
                pass
            del call


janitor = _Janitor()


def _after_fork_in_child() -> None:
    global janitor
    _idle.clear()
    janitor = _Janitor()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
