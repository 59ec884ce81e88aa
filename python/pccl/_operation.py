"""A launched operation, from its launch to its end."""

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
_FOREIGN_WORDS = "this operation belongs to the parent process and cannot be awaited after a fork"
_FOREIGN = int(Result.INVALID_USAGE), _native.Why(_FOREIGN_WORDS), _NOTHING

# Tag, C info and participants as the library returned them, or the OperationInfo made from them.
Description = Union[OperationInfo, Tuple[int, _native.OperationInfoC, Any]]


class Outcome:
    __slots__ = ("code", "why", "blobs", "elapsed", "_described")

    def __init__(
        self, code: int, why: _native.Why, described: Description, blobs: List[Tuple[str, memoryview]], elapsed: float
    ) -> None:
        self.code = code
        self.why = why
        self.blobs = blobs
        self.elapsed = elapsed
        self._described = described

    @property
    def info(self) -> OperationInfo:
        described = self._described  # read once: another thread may replace it
        if not isinstance(described, OperationInfo):
            self._described = described = info_of(*described)
        return described


class Blobs:
    """Blobs returned by an operation. The library's memory is freed when the last reference is dropped."""

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
    """Passes each blob that arrives to the user's function. The function runs on the thread that waits for the
    operation on behalf of the user, whichever thread awaits it in the library."""

    def __init__(self, show: Callable[[str, memoryview], Any], blobs: Blobs) -> None:
        self._show = show
        self._arrived: queue.SimpleQueue[Optional[Tuple[str, memoryview]]] = queue.SimpleQueue()
        arrived = self._arrived  # the callback must not refer to this object, which would be a cycle
        self.c = _native.ArrivalCallback(lambda part, _: arrived.put(blobs.view(part.contents)))

    def ending(self, call: Callable[[], None]) -> Callable[[], None]:
        """Returns a function that runs `call` and then marks the end of the arrivals."""

        def ends() -> None:
            try:
                call()
            finally:
                self._arrived.put(None)

        return ends

    def show(self, seconds: Optional[float]) -> None:
        """Delivers arrivals to the callback until the operation ends or this many seconds have passed."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            left = _threads.SLICE_S if end is None else max(0.0, min(_threads.SLICE_S, end - time.monotonic()))
            try:
                one = self._arrived.get(timeout=left)
            except queue.Empty:
                if end is not None and time.monotonic() >= end:
                    return
                continue
            if one is None:
                self._arrived.put(None)  # wakes any other waiting thread
                return
            self._show(*one)

    def show_now(self) -> None:
        """Passes on the arrivals so far. Logs exceptions, because no caller could catch them."""
        try:
            self.show(0)
        except Exception:
            _log.exception("on_arrival failed")


class Finishing(Protocol):
    """An object that copies a result to its destination."""

    def finish(self) -> None: ...


class Work:
    """An operation to be launched, and all memory that the library reads and writes for it."""

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
        """function   name of the C function without "Async", as used in errors
        options    address of the C struct
        arguments  arguments of the function that precede the options
        pins       objects that keep the memory alive
        world      number of participants; None: unknown, because no members are given; 0: the info is not read
        blobs      results in the library's memory"""
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


# Launching functions whose name is not the blocking function's name with "Async".
LAUNCHES = {"pcclAllReduce": "pcclAllReduceWithOptionsAsync"}


class Operation:
    """An operation from its launch to its end. Keeps alive the memory that the library reads and writes.

    One thread at a time, the one that has the turn, awaits it in the library. The outcome is stored here, so that any
    number of threads can wait for it, and interrupts do not lose it.
    """

    outcome: Optional[Outcome] = None
    _job: Optional[_threads.Job[None]] = None
    _waits = False  # true if a thread waits for the job and passes on arrivals

    def __init__(self, core: Core, work: Work, blocking: bool) -> None:
        """blocking: a single call launches and awaits the operation."""
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
        self._most = work.world or 0  # maximum number of participants
        self._begin = time.monotonic()

    def _launch_among(self, comm: Any, work: Work) -> int:
        # A participant was a member before the launch, or after it if another thread admitted newcomers during the
        # call.
        before = _native.member_count(comm)
        code = work.launch(comm, ctypes.byref(self._handle))
        if code == _SUCCESS:
            self._most = max(before, _native.member_count(comm))
        return code

    def launch(self) -> None:
        core = self._core
        function = self._function if self._blocking else self._function + "Async"
        try:
            # From here on the communicator keeps this object alive, so an interrupt between the next lines cannot free
            # the memory.
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
                self._release_memory()
            raise

    def carry_out(self) -> None:
        """Launches the operation and waits until it has ended. For blocking calls only: no other thread uses the
        operation, and an interrupt abandons it. This thread may therefore first wait inside the library, where most
        operations end."""
        self.launch()
        if self._arrivals is None:
            self._await(_SLICE_MS)
        if self.outcome is None or self._arrivals is not None:
            self.wait()

    def abandon(self) -> None:
        """Makes sure that the tag and the memory are released when the operation ends. Called when its handle is
        dropped."""
        if self.outcome is not None or self.foreign:
            return
        if self._handle.comm:
            watcher.add(self)
        else:
            self._release_memory()  # its launch was interrupted

    @property
    def foreign(self) -> bool:
        """True if the operation belongs to the parent process of a fork."""
        return self._pid != os.getpid()

    # ---- waiting

    def poll(self, seconds: float) -> bool:
        """Waits for the turn and then for the end, for at most `seconds` each. Returns true if the operation has ended.
        Must not run on the main thread: the library returns the outcome only once, and an exception from a signal
        handler could lose it.
        """
        ended = self.wait_here(seconds)
        if self._arrivals is not None and not self._waits:
            self._arrivals.show_now()
        return ended

    def wait_here(self, seconds: float) -> bool:
        """Waits for the turn and then for the end, for at most `seconds` each, and does not handle signals. Returns
        true if the operation has ended. Unlike wait(), it needs no other thread. If a signal handler raises during the
        call, the outcome may be lost: abort the operation then, and do not wait for it again."""
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
            if turns.wait_for_turn(claim, seconds) and self.outcome is None:
                self._await(timeout_ms)
        finally:
            turns.leave(claim)

    def _await(self, timeout_ms: int) -> None:
        core = self._core
        visit = core.enter()
        if visit is None:
            self._end(*_CLOSED)  # the operation's memory is released with the communicator
            return
        try:
            work = self._work  # None: the communicator has just ended
            described: Description = _NOTHING
            place, most = None, self._most
            if most > 0:
                ids = _native.ids_type(most)()
                info = _native.OperationInfoC(_INFO_BYTES, participants=ctypes.addressof(ids), participants_max=most)
                described, place = (self.tag, info, ids), ctypes.byref(info)
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
                why = _native.Why(f"cannot copy the result to the device: {error}")
        blobs = work.blobs.take() if work is not None and work.blobs is not None else []
        if self._arrivals is not None and not self._waits:
            self._arrivals.show_now()  # before the caller learns of the outcome
        work = None  # drops the buffers, which the caller may resize as soon as it learns of the end
        self._release_memory()
        self._end(code, why, described, blobs)

    def _release_memory(self) -> None:
        """Releases the memory, which the library no longer uses."""
        self._work = None
        self._core.release(self)

    def _end(
        self, code: int, why: _native.Why, described: Description, blobs: Sequence[Tuple[str, memoryview]] = ()
    ) -> None:
        with self._mutex:
            if self.outcome is not None:
                return
            self.outcome = Outcome(code, why, described, list(blobs), time.monotonic() - self._begin)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except BaseException:  # not even a SystemExit may end the thread that serves all operations
                _log.exception("a callback of the operation with tag %d failed", self.tag)

    def awaited(self, code: int, why: _native.Why) -> None:
        """Records an outcome that the library returned through another call, without an info."""
        self._release_memory()
        self._end(code, why, _NOTHING)

    def communicator_ended(self) -> None:
        self._release_memory()
        self._end(*_CLOSED)

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Waits for at most `seconds`. Returns true if the operation has ended."""
        ended = self.outcome is not None or self._wait(seconds)
        if ended and self._arrivals is not None:
            self._arrivals.show(0)  # the arrivals since the last call
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
        """Replaces the lock in a forked child, where the thread that held it does not exist."""
        self._mutex = threading.Lock()

    def test(self) -> bool:
        """Returns true if awaiting the operation would not block. Does not complete the operation, so any thread may
        call it."""
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
        # A failure means that another thread has just awaited the operation, or that awaiting it would fail without
        # blocking.
        return done.value or code != _SUCCESS

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Calls the callback once, when the operation has ended: on any thread, possibly immediately."""
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
    """Returns an Operation for an all-reduce that the library has launched. Its info has no participants."""
    operation = Operation(core, Work("pcclAllReduce", tag, None, (), pins, world=0), False)
    operation._handle = handle
    core.depend(operation)
    return operation


class _Watcher:
    """A thread that awaits all operations for which no thread waits: those with futures, and those whose handles were
    dropped."""

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
