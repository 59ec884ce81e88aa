"""Operations from their launch to their end."""

from __future__ import annotations

import ctypes
import logging
import os
import queue
import threading
import time
from typing import Any, Callable, List, Optional, Protocol, Sequence, Tuple, Union

from . import _native, _threads
from ._core import Core, open_cores
from ._enums import Result
from ._errors import PCCLError, failure, not_connected
from ._reduce import OperationInfo, info_of
from ._threads import SLICE_S

_log = logging.getLogger("pccl")
_SUCCESS, _TIMEOUT = int(Result.SUCCESS), int(Result.TIMEOUT)
_SLICE_MS = int(1000 * SLICE_S)
_INFO_BYTES = ctypes.sizeof(_native.OperationInfoC)
NO_WORDS = _native.Why("")
_NOTHING = OperationInfo(0, 0, 0)
_CLOSED = int(Result.ABORTED), _native.Why("the communicator was closed before the operation was awaited"), _NOTHING
_FOREIGN_WORDS = "this operation belongs to the parent process; after a fork it cannot be awaited"
_FOREIGN = int(Result.INVALID_USAGE), _native.Why(_FOREIGN_WORDS), _NOTHING

# Tag, numbers and participants, as the library returned them; or the finished description.
Told = Union[OperationInfo, Tuple[int, _native.OperationInfoC, Any]]


class Outcome:
    __slots__ = ("code", "why", "blobs", "elapsed", "_told")

    def __init__(
        self, code: int, why: _native.Why, told: Told, blobs: List[Tuple[str, memoryview]], elapsed: float
    ) -> None:
        self.code = code
        self.why = why
        self.blobs = blobs
        self.elapsed = elapsed
        self._told = told

    @property
    def info(self) -> OperationInfo:
        told = self._told  # read once: another thread may replace it
        if not isinstance(told, OperationInfo):
            self._told = told = info_of(*told)
        return told


class Blobs:
    """Those that an operation gives. The memory is the library's, until nothing refers to it any
    more."""

    def __init__(self) -> None:
        self.c = _native.BlobsC(size=ctypes.sizeof(_native.BlobsC))

    def __del__(self, free: Callable[[Any], Any] = _native.lib.pcclFreeBlobs) -> None:
        free(self.c)

    def take(self) -> List[Tuple[str, memoryview]]:
        taken = [self.c.blobs[i] for i in range(self.c.count)]
        return [self.view(one) for one in taken]

    def view(self, one: _native.BlobC) -> Tuple[str, memoryview]:
        peer = one.peer.digits.decode()
        if one.length == 0:
            return peer, memoryview(bytearray())
        memory: Any = (ctypes.c_ubyte * one.length).from_address(one.data)
        memory.owner = self
        return peer, memoryview(memory).cast("B")


class Arrivals:
    """What a caller sees of blobs when they come: on a thread that awaits the operation, whichever
    thread does so in the library."""

    def __init__(self, show: Callable[[str, memoryview], Any], blobs: Blobs) -> None:
        self._show = show
        self._came: queue.SimpleQueue[Optional[Tuple[str, memoryview]]] = queue.SimpleQueue()
        came = self._came  # nothing here may refer to this object, or only the garbage collector ends it
        self.c = _native.ArrivalCallback(lambda part, _: came.put(blobs.view(part.contents)))

    def ending(self, call: Callable[[], None]) -> Callable[[], None]:
        """The call in which they come, and which tells that no more does."""

        def ends() -> None:
            try:
                call()
            finally:
                self._came.put(None)

        return ends

    def show(self, seconds: Optional[float]) -> None:
        """What comes until the end, for so many seconds at most."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _threads.SLICE_S if end is None else max(0.0, min(_threads.SLICE_S, end - time.monotonic()))
            try:
                one = self._came.get(timeout=left)
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    return
                continue
            if one is None:
                self._came.put(None)  # for whoever else waits
                return
            self._show(*one)

    def show_now(self) -> None:
        """What has come, where nobody sees what it raises."""
        try:
            self.show(0)
        except Exception:
            _log.exception("on_arrival failed")


class Finishing(Protocol):
    """Copies a result to its place."""

    def finish(self) -> None: ...


class Work:
    """An operation to launch, and all memory that the library reads and writes."""

    def __init__(
        self,
        function: str,
        tag: int,
        options: Any,
        arguments: Tuple[Any, ...],
        pins: Any = None,
        staged: Optional[Finishing] = None,
        world: Optional[int] = None,
        blobs: Optional[Blobs] = None,
        arrivals: Optional[Arrivals] = None,
    ) -> None:
        """
        function   the C function without "Async", which errors name
        options    address of the C struct
        arguments  of the function, before the options
        pins       keep the memory alive
        world      number of participants; None: unknown, no members are given; 0: nobody reads the info
        blobs      receive the library's results
        """
        self.function = function
        self.tag = tag
        self.options = options
        self.arguments = arguments
        self.pins = pins
        self.staged = staged
        self.world = world
        self.blobs = blobs
        self.arrivals = arrivals

    def launch(self, comm: Any, handle: Any) -> int:
        launch = getattr(_native.lib, LAUNCHES.get(self.function) or self.function + "Async")
        result = () if self.blobs is None else (ctypes.byref(self.blobs.c),)
        code: int = launch(*self.arguments, self.options, comm, *result, handle)
        return code


# Functions that launch, where the name is not that of the blocking one with "Async".
LAUNCHES = {"pcclAllReduce": "pcclAllReduceWithOptionsAsync"}


class Operation:
    """An operation from its launch to its end. Keeps the memory that the library reads and writes.

    One thread at a time awaits it in the library: the one that has the turn. From then on it knows
    its outcome, however many wait for it and whoever was interrupted.
    """

    outcome: Optional[Outcome] = None
    _job: Optional[_threads.Job[None]] = None
    _waits = False  # for the job, some thread that sees what arrives

    def __init__(self, core: Core, work: Work, blocking: bool) -> None:
        """blocking: for the caller it is one call from launch to end."""
        self.tag = work.tag
        self._blocking = blocking
        self._function = work.function
        self._core = core
        self._pid = core._pid
        self._work: Optional[Work] = work
        self._arrivals = work.arrivals
        self._turns = _threads.Turns()
        self._mutex = threading.Lock()
        self._callbacks: List[Callable[[], None]] = []
        self._handle = _native.AsyncReduceOpC()
        self._most = work.world or 0  # this many may take part
        self._begin = time.monotonic()

    def _launch_among(self, comm: Any, work: Work) -> int:
        # Whoever takes part is a member before or, if another thread admits newcomers meanwhile, afterwards.
        before = _native.member_count(comm)
        code = work.launch(comm, ctypes.byref(self._handle))
        if code == _SUCCESS:
            self._most = max(before, _native.member_count(comm))
        return code

    def launch(self) -> None:
        core = self._core
        function = self._function if self._blocking else self._function + "Async"
        try:
            # From here on the communicator pins it, so that no interrupt between the next lines can free the memory.
            core.depend(self)
            work, handle = self._work, ctypes.byref(self._handle)
            assert work is not None
            visit = core.enter()
            if visit is None:
                raise not_connected(function, tag=self.tag)
            try:
                if work.world is None:
                    code = self._launch_among(visit.handle, work)
                else:
                    code = work.launch(visit.handle, handle)
                if code != _SUCCESS:
                    elapsed = time.monotonic() - self._begin
                    raise failure(function, code, _native.last_failure(visit.handle), tag=self.tag, elapsed=elapsed)
            finally:
                core.leave(visit)
        except BaseException:
            if not self._handle.comm:
                self._let_go()
            raise

    def carry_out(self) -> None:
        """Launches the operation and waits for its end. Only for blocking calls: no other thread has the operation, and
        an interrupt gives it up. So this thread can wait in the library at first, and most operations end then."""
        self.launch()
        if self._arrivals is None:
            self._await(_SLICE_MS)
        if self.outcome is None or self._arrivals is not None:
            self.wait()

    def abandon(self) -> None:
        """Nobody will await it: releases its tag and its memory when it has ended."""
        if self.outcome is not None or self.foreign:
            return
        if self._handle.comm:
            watcher.add(self)
        else:
            self._let_go()  # its launch was interrupted before

    @property
    def foreign(self) -> bool:
        """Whether it belongs to the process from which this one was forked."""
        return self._pid != os.getpid()

    # ---- waiting

    def poll(self, seconds: float) -> bool:
        """Whether it has ended. Waits for so long at most, as long for the turn. Never call it on the main thread: a
        signal could lose the outcome, which the library returns only once."""
        ended = self.wait_here(seconds)
        if self._arrivals is not None and not self._waits:
            self._arrivals.show_now()
        return ended

    def wait_here(self, seconds: float) -> bool:
        """Waits on this thread, without signals, for so many seconds at most, as long for the turn; whether it has
        ended. Unlike wait(), it needs no other thread. A signal handler that raises in the middle may lose the outcome:
        then abort it, and wait no more."""
        if self.foreign:
            return self.wait()
        if self.outcome is None:
            self._await_in_turn(seconds, int(1000 * seconds))
        return self.outcome is not None

    def _await_end(self) -> None:
        while self.outcome is None:
            self._await_in_turn(None, 1 << 31)

    def _await_in_turn(self, seconds: Optional[float], timeout_ms: int) -> None:
        turns = self._turns
        claim = turns.claim()
        try:
            if turns.comes(claim, seconds) and self.outcome is None:
                self._await(timeout_ms)
        finally:
            turns.leave(claim)

    def _await(self, timeout_ms: int) -> None:
        core = self._core
        visit = core.enter()
        if visit is None:
            self._end(*_CLOSED)  # its memory is released with the communicator
            return
        try:
            work = self._work  # None: its communicator has just ended
            told: Told = _NOTHING
            place, most = None, self._most
            if most > 0:
                ids = _native.ids_type(most)()
                info = _native.OperationInfoC(_INFO_BYTES, participants=ctypes.addressof(ids), participants_max=most)
                told, place = (self.tag, info, ids), ctypes.byref(info)
            code = _native.lib.pcclAwaitOperation(ctypes.byref(self._handle), timeout_ms, place)
            why = NO_WORDS if code in (_SUCCESS, _TIMEOUT) else _native.last_failure(visit.handle)
        finally:
            core.leave(visit)
        if code == _TIMEOUT:
            return
        if code == _SUCCESS and work is not None and work.staged is not None:
            try:
                work.staged.finish()
            except Exception as error:
                code = int(Result.INTERNAL_ERROR)
                why = _native.Why(f"the result could not be copied to the device: {error}")
        blobs = work.blobs.take() if work is not None and work.blobs is not None else []
        if self._arrivals is not None and not self._waits:
            self._arrivals.show_now()  # before the end is known
        work = None  # it has the buffers, which the caller may resize as soon as the end is known
        self._let_go()
        self._end(code, why, told, blobs)

    def _let_go(self) -> None:
        """Releases its memory, which the library no longer uses."""
        self._work = None
        self._core.release(self)

    def _end(
        self, code: int, why: _native.Why, told: Told, blobs: Sequence[Tuple[str, memoryview]] = ()
    ) -> None:
        with self._mutex:
            if self.outcome is not None:
                return
            self.outcome = Outcome(code, why, told, list(blobs), time.monotonic() - self._begin)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except BaseException:  # a SystemExit, too, must not end the thread that serves all others
                _log.exception("a callback of the operation with tag %d failed", self.tag)

    def awaited(self, code: int, why: _native.Why) -> None:
        """The library has returned this outcome, and nothing else."""
        self._let_go()
        self._end(code, why, _NOTHING)

    def communicator_ended(self) -> None:
        self._let_go()
        self._end(*_CLOSED)

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits for so many seconds at most; whether it has ended."""
        ended = self.outcome is not None or self._wait(seconds)
        if ended and self._arrivals is not None:
            self._arrivals.show(0)  # what has come since
        return ended

    def _wait(self, seconds: Optional[float]) -> bool:
        if self.foreign:
            self._end(*_FOREIGN)
            return True
        main = threading.current_thread() is threading.main_thread()
        arrivals = self._arrivals
        if seconds is None and not main and self._job is None and arrivals is None:
            self._await_end()
            return True
        with self._mutex:
            if self._job is None:
                self._waits = True  # before the job begins
                self._job = _threads.try_start(arrivals.ending(self._await_end) if arrivals else self._await_end)
                self._waits = self._job is not None
        if self._job is None:
            self._await_end()
            return self.outcome is not None
        begin = time.monotonic()
        if arrivals is not None:
            arrivals.show(seconds)
        self._job.wait(None if seconds is None else max(0.0, seconds - (time.monotonic() - begin)))
        return self.outcome is not None

    def after_fork(self) -> None:
        """In a forked child, where the thread that held the lock does not exist."""
        self._mutex = threading.Lock()

    def test(self) -> bool:
        """Whether an await would return at once. Does not end the operation, so any thread may call
        it."""
        if self.outcome is not None or self.foreign:
            return True
        visit = self._core.enter()
        if visit is None:
            return self.wait()
        try:
            done = ctypes.c_bool()
            code = _native.lib.pcclTestAsyncReduce(ctypes.byref(self._handle), ctypes.byref(done))
        finally:
            self._core.leave(visit)
        # Any failure means that another thread has just awaited it, or that an await fails at once.
        return done.value or code != _SUCCESS

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Calls it once when the operation has ended, on any thread, perhaps at once."""
        with self._mutex:
            if self.outcome is None:
                self._callbacks.append(callback)
                return
        callback()

    def error(self) -> Optional[PCCLError]:
        outcome = self.outcome
        if outcome is None or outcome.code == _SUCCESS:
            return None
        function = self._function if self._blocking else "pcclAwaitAsyncReduce"
        return failure(function, outcome.code, outcome.why, tag=self.tag, elapsed=outcome.elapsed)


def adopted(core: Core, tag: int, handle: _native.AsyncReduceOpC, pins: Any) -> Operation:
    """Makes an operation of an all-reduce that the library has launched. Its info has no participants."""
    operation = Operation(core, Work("pcclAllReduce", tag, None, (), pins, world=0), False)
    operation._handle = handle
    core.depend(operation)
    return operation


class _Watcher:
    """One thread that awaits all operations for which nobody waits: those with futures, and
    forgotten ones."""

    _PAUSE_MAX_MS = 16

    def __init__(self) -> None:
        self._new: queue.SimpleQueue[Operation] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running = False

    def add(self, operation: Operation) -> None:
        with self._lock:
            if not self._running:
                threading.Thread(target=self._work, name="pccl-watcher", daemon=True).start()
                self._running = True
        self._new.put(operation)

    def _take_new(self, watched: List[Operation]) -> None:
        if not watched:
            watched.append(self._new.get())
        while True:
            try:
                watched.append(self._new.get_nowait())
            except queue.Empty:
                return

    def _work(self) -> None:
        watched: List[Operation] = []
        pause_ms = 1
        while True:
            before = len(watched)
            self._take_new(watched)
            left = [operation for operation in watched if not operation.poll(0)]
            if len(left) < len(watched) or len(watched) > before:
                pause_ms = 1
            else:
                left[0].poll(pause_ms / 1000)
                pause_ms = min(2 * pause_ms, self._PAUSE_MAX_MS)
            watched = left


watcher = _Watcher()


def _after_fork_in_child() -> None:
    global watcher
    watcher = _Watcher()
    for core in open_cores:
        core.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
