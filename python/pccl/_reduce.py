"""Reductions: their descriptions, and the state of operations in progress, of all kinds."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Generator, Generic, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

from . import _buffers, _native, _threads
from ._codec import QuantizationOptions
from ._core import Core, open_cores
from ._enums import (
    DataType,
    DeviceType,
    DistributionHint,
    QuantizationAlgorithm,
    ReduceOp,
    Result,
    data_type,
    member,
    number,
)
from ._errors import DTypeError, LayoutError, PCCLError, TimeoutError_, failure

_log = logging.getLogger("pccl")

# ---- descriptions


@dataclass(frozen=True)
class ReduceInfo:
    """The result of a reduction: how many peers took part, and how many payload bytes this peer
    sent and received."""

    local_world_size: int
    tx_bytes: int
    rx_bytes: int

    @property
    def world_size(self) -> int:
        """The same as local_world_size."""
        return self.local_world_size


@dataclass(frozen=True)
class OperationInfo(ReduceInfo):
    """The result of an operation; its local_world_size is the number of participants.

    tag           as given
    sequence      its number within the tag, the same on all peers
    rank          of this peer among the participants
    participants  their ids, in order of their ranks
    codec         how elements travelled; of an automatic codec, what was chosen
    why           of an automatic codec: why, in words
    """

    tag: int = 0
    sequence: int = 0
    rank: int = 0
    participants: Tuple[str, ...] = ()
    codec: QuantizationAlgorithm = QuantizationAlgorithm.NONE
    why: str = ""


def how(info: _native.OperationInfoC) -> Tuple[QuantizationAlgorithm, str]:
    return QuantizationAlgorithm(info.codec), info.why.decode()


@dataclass
class ReduceOperandDescriptor:
    datatype: DataType
    distribution_hint: DistributionHint = DistributionHint.NONE

    def to_c(self) -> _native.ReduceOperandDescriptorC:
        hint = member("distribution_hint", DistributionHint, self.distribution_hint)
        return _native.ReduceOperandDescriptorC(data_type("datatype", self.datatype), hint)


@dataclass
class ReduceDescriptor:
    """One reduction. All members must be equal on all peers of the group."""

    count: int
    op: Union[ReduceOp, str]  # "sum" is ReduceOp.SUM
    tag: int
    operand_descriptor: ReduceOperandDescriptor
    quantization_options: Optional[QuantizationOptions] = None

    def to_c(self) -> _native.ReduceDescriptorC:
        quantization = self.quantization_options
        if quantization is None:
            datatype = self.operand_descriptor.datatype
            quantization = QuantizationOptions(datatype, "none")
        tag = number("tag", self.tag, 0, 1 << 64)
        count = number("count", self.count, 0, 1 << 63)
        return _native.ReduceDescriptorC(
            count, member("op", ReduceOp, self.op), tag, self.operand_descriptor.to_c(), quantization.to_c()
        )


def check_descriptor(send: _buffers.Buffer, descriptor: ReduceDescriptor, where: str) -> None:
    datatype = data_type(f"{where}: datatype", descriptor.operand_descriptor.datatype)
    if descriptor.count != send.count:
        raise LayoutError(f"{where}: the descriptor counts {descriptor.count} elements, the buffers have {send.count}")
    if datatype.itemsize != send.dtype.itemsize:
        raise DTypeError(f"{where}: the descriptor says {datatype.name}, the buffers hold {send.dtype.name}")


class ReduceOpDescriptor:
    """A reduction with its memory, for all_reduce_multiple_with_retry."""

    def __init__(self, sendbuf_ptr: int, recvbuf_ptr: int, reduce_descriptor: ReduceDescriptor) -> None:
        self.sendbuf_ptr = sendbuf_ptr
        self.recvbuf_ptr = recvbuf_ptr
        self.reduce_descriptor = reduce_descriptor
        self._memory: Optional[Tuple[_buffers.Buffer, _buffers.Buffer]] = None

    @classmethod
    def from_buffers(cls, send: Any, recv: Any, reduce_descriptor: ReduceDescriptor) -> ReduceOpDescriptor:
        """From any buffers that all_reduce takes. Keeps them alive."""
        made = cls(0, 0, reduce_descriptor)
        made._take(send, recv)
        return made

    def _take(self, send: Any, recv: Any) -> None:
        where = "ReduceOpDescriptor"
        source, target = _buffers.of(send, f"{where}: send"), _buffers.of(recv, f"{where}: recv")
        _buffers.need_writable(target, recv, f"{where}: recv")
        _buffers.match(source, target, where)
        on_device(source)
        check_descriptor(source, self.reduce_descriptor, where)
        self._memory = source, target
        self.sendbuf_ptr, self.recvbuf_ptr = source.address, target.address

    @classmethod
    def from_torch(cls, send: Any, recv: Any, reduce_descriptor: ReduceDescriptor) -> ReduceOpDescriptor:
        return cls.from_buffers(send, recv, reduce_descriptor)

    @classmethod
    def from_numpy(cls, send: Any, recv: Any, reduce_descriptor: ReduceDescriptor) -> ReduceOpDescriptor:
        return cls.from_buffers(send, recv, reduce_descriptor)

    def to_c(self) -> _native.ReduceOpDescriptorC:
        if self._memory is not None and on_device(self._memory[0]):
            raise LayoutError(f"ReduceOpDescriptor: {_buffers.describe(self._memory[0].owner)} is not in CPU memory")
        return self._pinned()[0]

    def to_c_inpl(self, target: _native.ReduceOpDescriptorC) -> None:
        """Writes what to_c() returns into an existing structure."""
        made = self.to_c()
        ctypes.memmove(ctypes.byref(target), ctypes.byref(made), ctypes.sizeof(made))

    def _pinned(self) -> Tuple[_native.ReduceOpDescriptorC, Any]:
        """The descriptor as of now, and what keeps its memory: a torch tensor can be given another
        one (`.data = ...`)."""
        if self._memory is not None and self._memory[0].family == "torch":
            self._take(self._memory[0].owner, self._memory[1].owner)
        made = _native.ReduceOpDescriptorC(
            _buffers.address("sendbuf_ptr", self.sendbuf_ptr),
            _buffers.address("recvbuf_ptr", self.recvbuf_ptr),
            self.reduce_descriptor.to_c(),
        )
        return made, self._memory


# ---- memory of accelerators


def on_device(buffer: _buffers.Buffer) -> bool:
    if buffer.device is DeviceType.CPU:
        return False
    if buffer.family != "torch":
        raise LayoutError("CUDA device memory is accepted from torch tensors only")
    return True


class Staged:
    """CUDA tensors staged in page-locked host memory of so many elements: `source` is copied to its
    element `begin`, and when the operation has succeeded, what lies from `end` on to `target`."""

    def __init__(self, count: int, source: Any, begin: int, target: Any, end: int) -> None:
        import torch

        given = target if source is None else source
        self._target = target
        self._end = end
        host: Any = torch.empty(count, dtype=given.dtype, device="cpu", pin_memory=True)
        self._host = host
        if source is not None:
            host[begin : begin + source.numel()].copy_(source.reshape(-1))  # waits for the work on it in this stream
        self._address = int(host.data_ptr())
        self._itemsize = int(host.element_size())

    def address(self, element: int) -> int:
        return self._address + element * self._itemsize

    def finish(self) -> None:
        target = self._target
        if target is not None:
            target.copy_(self._host[self._end : self._end + target.numel()].view(target.shape))


def fuse(pinned: Sequence[Tuple[_native.ReduceOpDescriptorC, Any]]) -> Any:
    """Lets descriptors that are of CUDA tensors work on page-locked memory, which bring() of what is returned brings to
    the tensors. None if there are none."""
    places = [(made, memory) for made, memory in pinned if memory is not None and on_device(memory[0])]
    if not places:
        return None
    from .torch import _staging

    fused = _staging.Fused([send.owner for _, (send, _) in places], [recv.owner for _, (_, recv) in places])
    for (made, _), host in zip(places, fused.hosts):
        made.sendbuf = made.recvbuf = host.data_ptr()
    return fused


class StagedTogether:
    """Several."""

    def __init__(self, each: Sequence[Staged]) -> None:
        self._each = each

    def finish(self) -> None:
        for one in self._each:
            one.finish()


# ---- operations


class Outcome:
    __slots__ = ("code", "why", "info", "blobs", "elapsed")

    def __init__(
        self,
        code: int,
        why: _native.Why,
        info: OperationInfo,
        blobs: List[Tuple[str, memoryview]],
        elapsed: float,
    ) -> None:
        self.code = code
        self.blobs = blobs
        self.why = why
        self.info = info
        self.elapsed = elapsed


_NOTHING = OperationInfo(0, 0, 0)
_CLOSED = Result.ABORTED, _native.Why("the communicator was closed before the operation was awaited"), _NOTHING
_FOREIGN_WORDS = "this operation belongs to the parent process; after a fork it cannot be awaited"
_FOREIGN = Result.INVALID_USAGE, _native.Why(_FOREIGN_WORDS), _NOTHING


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


class Work(NamedTuple):
    """What is to be launched, with all the memory that the library reads and writes."""

    function: str  # the C function that does it in one call
    tag: int
    launch: Callable[[Any, Any], int]  # (communicator, handle) -> result
    pins: Any
    staged: Optional[Union[Staged, StagedTogether]] = None
    world: Optional[int] = None  # how many take part; None: no list of members says it
    arguments: Tuple[Any, ...] = ()  # of that function, before the options
    blobs: Optional[Blobs] = None  # what the library gives, where it is more than an info
    arrivals: Optional[Arrivals] = None


def all_reduce_work(descriptor: ReduceDescriptor, send: _buffers.Buffer, recv: _buffers.Buffer) -> Work:
    staged = Staged(send.count, send.owner, 0, recv.owner, 0) if on_device(send) else None
    addresses = (staged.address(0), staged.address(0)) if staged else (send.address, recv.address)
    given = descriptor.to_c()

    def launch(comm: Any, handle: Any) -> int:
        code: int = _native.lib.pcclAllReduceAsync(*addresses, ctypes.byref(given), comm, handle)
        return code

    arguments = (*addresses, given.count, given.src_descriptor.datatype, given.op)
    return Work("pcclAllReduce", descriptor.tag, launch, (send, recv), staged, arguments=arguments)


def reduction(
    where: str,
    send: Any,
    recv: Any,
    op: Union[ReduceOp, str],
    tag: int,
    operand_descriptor: Optional[ReduceOperandDescriptor],
    quantization_options: Optional[QuantizationOptions],
) -> Work:
    source = _buffers.of(send, f"{where}: send")
    target = source if recv is send else _buffers.of(recv, f"{where}: recv")
    _buffers.need_writable(target, recv, f"{where}: recv")
    _buffers.match(source, target, where)
    operand = operand_descriptor or ReduceOperandDescriptor(source.dtype)
    descriptor = ReduceDescriptor(source.count, op, tag, operand, quantization_options)
    check_descriptor(source, descriptor, where)
    return all_reduce_work(descriptor, source, target)


class Operation:
    """An operation from its launch to its end. Keeps the memory that the library reads and writes.

    One thread at a time awaits it in the library: the one that has the turn. From then on it knows
    its outcome, however many wait for it and whoever was interrupted.
    """

    def __init__(self, core: Core, work: Work, label: bytes, blocking: bool) -> None:
        """blocking: for the caller it is one call from launch to end."""
        self._label = label
        self.tag = work.tag
        self._launching = work.function if blocking else work.function + "Async"
        self._awaiting = work.function if blocking else "pcclAwaitAsyncReduce"
        self.outcome: Optional[Outcome] = None
        self._core = core
        self._pid = os.getpid()
        self._launch: Optional[Callable[[Any, Any], int]] = work.launch
        self._pins: Any = work.pins
        self._staged: Optional[Union[Staged, StagedTogether]] = work.staged
        self._blobs = work.blobs
        self._arrivals = work.arrivals
        self._waits = False  # for the job, some thread that sees what arrives
        self._turns = _threads.Turns()
        self._mutex = threading.Lock()
        self._callbacks: List[Callable[[], None]] = []
        self._job: Optional[_threads.Job[None]] = None
        self._handle = _native.AsyncReduceOpC()
        self._world = work.world
        self._most = work.world or 0  # this many may take part
        self._begin = time.monotonic()

    def _launch_on(self, comm: Any) -> int:
        launch, self._launch = self._launch, None
        assert launch is not None
        if self._world is not None:
            return _native.labeled(self._label, lambda: launch(comm, ctypes.byref(self._handle)))
        # Whoever takes part is a member before or, if another thread admits newcomers meanwhile, afterwards.
        before = _native.member_count(comm)
        code = _native.labeled(self._label, lambda: launch(comm, ctypes.byref(self._handle)))
        if code == Result.SUCCESS:
            self._most = max(before, _native.member_count(comm))
        return code

    def launch(self) -> None:
        try:
            # From here on the communicator pins it, so that no interrupt between the next lines can free the memory.
            self._core.depend(self)
            error = self._core.attempt_with(self._launching, self._launch_on)
        except BaseException:
            if not self._handle.comm:
                self._core.release(self)
            raise
        if error is not None:
            self._core.release(self)
            error.tag = self.tag
            raise error

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
        visit = self._core.enter()
        if visit is None:
            self._end(*_CLOSED)  # its memory is released with the communicator
            return
        try:
            ids = (_native.PeerIdC * self._most)()
            info = _native.OperationInfoC(
                ctypes.sizeof(_native.OperationInfoC), participants=ctypes.addressof(ids), participants_max=self._most
            )
            code = _native.lib.pcclAwaitOperation(ctypes.byref(self._handle), timeout_ms, ctypes.byref(info))
            failed = code not in (Result.SUCCESS, Result.TIMEOUT)
            why = _native.last_failure(visit.handle) if failed else _native.Why("")
        finally:
            self._core.leave(visit)
        if code == Result.TIMEOUT:
            return
        if code == Result.SUCCESS and self._staged is not None:
            try:
                self._staged.finish()
            except Exception as error:
                code = int(Result.INTERNAL_ERROR)
                why = _native.Why(f"the result could not be copied to the device: {error}")
        # Fields that are not written on failure are zero.
        participants = tuple(one.digits.decode() for one in ids[: info.world])
        numbers = info.world, info.tx_bytes, info.rx_bytes, self.tag, info.sequence, info.rank
        blobs = self._blobs.take() if self._blobs is not None else []
        if self._arrivals is not None and not self._waits:
            self._arrivals.show_now()  # before the end is known
        self._let_go()
        self._end(code, why, OperationInfo(*numbers, participants, *how(info)), blobs)

    def _let_go(self) -> None:
        """Releases its memory, which the library no longer uses."""
        self._pins = self._staged = self._blobs = None
        self._core.release(self)

    def _end(
        self, code: int, why: _native.Why, info: OperationInfo, blobs: Sequence[Tuple[str, memoryview]] = ()
    ) -> None:
        with self._mutex:
            if self.outcome is not None:
                return
            self.outcome = Outcome(code, why, info, list(blobs), time.monotonic() - self._begin)
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except BaseException:  # a SystemExit, too, must not end the thread that serves all others
                _log.exception("a callback of the operation with tag %d failed", self.tag)

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
        return done.value or code != Result.SUCCESS

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Calls it once when the operation has ended, on any thread, perhaps at once."""
        with self._mutex:
            if self.outcome is None:
                self._callbacks.append(callback)
                return
        callback()

    def error(self) -> Optional[PCCLError]:
        outcome = self.outcome
        if outcome is None or outcome.code == Result.SUCCESS:
            return None
        return failure(
            self._awaiting,
            outcome.code,
            outcome.why,
            tag=self.tag,
            elapsed=outcome.elapsed,
        )


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


_T = TypeVar("_T")
_H = TypeVar("_H", bound="_Handle[Any]")


class _Handle(Generic[_T]):
    """What handles of operations of all kinds do."""

    def __init__(self, operation: Operation) -> None:
        self._future: Optional[Future[_T]] = None
        self._operation = operation

    @staticmethod
    def _of(outcome: Outcome) -> _T:
        """What it gives its caller."""
        raise NotImplementedError

    @property
    def tag(self) -> int:
        return self._operation.tag

    def wait(self) -> Tuple[bool, int, _T]:
        """Waits for the end: (is_success, status, what result() returns). Never raises for an operation that failed;
        status is the number of its Result. May be called again."""
        self._operation.wait()
        outcome = self._operation.outcome
        assert outcome is not None
        error = self._operation.error()
        return error is None, int(Result.SUCCESS if error is None else error.result), self._of(outcome)

    def test(self) -> bool:
        """Whether wait() would return at once. Does not wait."""
        return self._operation.test()

    def result(self, timeout: Optional[float] = None) -> _T:
        """Waits for the end; PCCLError if the operation failed, TimeoutError_ if it still runs
        after so many seconds."""
        begin = time.monotonic()
        if not self._operation.wait(timeout):
            raise TimeoutError_(
                f"the operation with tag {self.tag} is still under way after {timeout} s; it goes on",
                result=Result.RANK_CONNECTION_LOST,
                ext=Result.TIMEOUT,
                operation="pcclAwaitAsyncReduceFor",
                tag=self.tag,
                elapsed=time.monotonic() - begin,
            )
        return self._value()

    def exception(self, timeout: Optional[float] = None) -> Optional[PCCLError]:
        """Waits for the end; returns what result() would raise, or None."""
        try:
            self.result(timeout)
        except PCCLError as error:
            return error
        return None

    def _value(self) -> _T:
        error, outcome = self._operation.error(), self._operation.outcome
        if error is not None:
            raise error
        assert outcome is not None
        return self._of(outcome)

    def future(self) -> Future[_T]:
        """The end as a concurrent.futures.Future: result() is that of the handle. It cannot be canceled.
        One thread waits for the futures of all operations; their callbacks run on it."""
        operation = self._operation
        if operation.foreign:
            operation.wait()
        if self._future is None:
            future: Future[_T] = Future()
            future.set_running_or_notify_cancel()

            def ended() -> None:
                error, outcome = operation.error(), operation.outcome
                assert outcome is not None
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(self._of(outcome))

            self._future = future
            operation.when_ended(ended)
            if operation.outcome is None:
                watcher.add(operation)
        return self._future

    def torch_future(self) -> Any:
        """The same as a torch.futures.Future."""
        import torch

        made: Any = torch.futures.Future()

        def ended(future: Future[_T]) -> None:
            error = future.exception()
            if error is not None:
                made.set_exception(error)
            else:
                made.set_result(future.result())

        self.future().add_done_callback(ended)
        return made

    def __await__(self) -> Generator[Any, None, _T]:
        """In asyncio: the result, or PCCLError. Canceling the task only stops waiting; the operation
        continues."""
        return asyncio.wrap_future(self.future()).__await__()

    def close(self) -> None:
        """Waits for the end; any number of times."""
        self._operation.wait()

    def __enter__(self: _H) -> _H:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        operation = getattr(self, "_operation", None)
        if operation is not None and operation.outcome is None and self._future is None:
            _threads.janitor.put(operation.abandon)


class AsyncReduceHandle(_Handle[OperationInfo]):
    """A launched operation. Its buffers stay alive until it has ended, even if the handle is
    dropped. The communicator does not: dropping or closing it leaves the run, and the operation
    fails."""

    @staticmethod
    def _of(outcome: Outcome) -> OperationInfo:
        return outcome.info


class AsyncBlobsHandle(_Handle[List[Tuple[str, memoryview]]]):
    """A launched operation that gives blobs, whose result is what the method without _async returns;
    empty in wait() of one that failed. on_arrival is called by whatever waits: wait(), result(), or the
    thread that waits for futures, where what it raises is only logged."""

    @staticmethod
    def _of(outcome: Outcome) -> List[Tuple[str, memoryview]]:
        return outcome.blobs


class AsyncBlobHandle(_Handle[memoryview]):
    """A launched scatter of blobs, whose result is the part that scatter_v returns; empty in wait() of
    one that failed."""

    @staticmethod
    def _of(outcome: Outcome) -> memoryview:
        return outcome.blobs[0][1] if outcome.blobs else memoryview(b"")
