"""The short way of an all-reduce whose tensor the library can reduce where it lies.

A small all-reduce takes the library less time than the general way (_call.py) takes the interpreter. So what that
looks at, copies, keeps and reports is left out here where it can not matter: the tensor is a plain one in the memory
of this process, dense and of a type that the library knows. Whatever else there is goes the general way, and what the
library refuses, too: it then gives the words.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Set, Tuple

import torch
import torch.distributed as dist

from .. import _collectives, _native
from .._core import Core, Visit
from .._enums import ReduceOp, Result, by_name
from .._reduce import _CLOSED, _NOTHING, AsyncReduceHandle, Operation
from .._threads import SLICE_S, Turns
from . import _layout

if TYPE_CHECKING:
    from ._backend import ProcessGroup
    from ._work import Work

_launch = _native.lib.pcclAllReduceWithOptionsAsync
# By itself, without types of arguments: their conversion takes longer than the call. It is given each in the form of C.
_carry_out = _native.lib["pcclAllReduceWithOptionsFor"]
_await = _native.lib.pcclAwaitOperation
_test = _native.lib.pcclTestAsyncReduce
_SUCCESS, _TIMEOUT = int(Result.SUCCESS), int(Result.TIMEOUT)
_SLICE_MS = int(1000 * SLICE_S)
_PAUSE_S = 0.001
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # subclasses may have their memory elsewhere, or none
_DTYPES: Dict[torch.dtype, Optional[int]] = {}
_OPS: Dict[Any, int] = {
    getattr(dist.ReduceOp.RedOpType, kind): int(ReduceOp[name.upper()])
    for kind, name in _layout.OPS.items()
    if kind != "PREMUL_SUM"  # has a factor
}
_SUM, _SUM_NUMBER = dist.ReduceOp.SUM, int(ReduceOp.SUM)  # its comparison takes a fraction of the look-up
UNUSUAL = object()  # it has to go the general way


def _number_of(dtype: torch.dtype) -> Optional[int]:
    """Of the library's type."""
    if dtype not in _DTYPES:
        known = by_name(str(dtype).replace("torch.", "", 1))
        _DTYPES[dtype] = None if known is None else int(known)
    return _DTYPES[dtype]


class Prepared(Visit):
    """What an all-reduce is made with, one after another: the visit of the communicator, options, and places of what
    _carry_out takes in the form of C, and of a handle. Whoever has taken it gives it back, unless the handle is needed
    for longer, or an interrupt came."""

    __slots__ = ("numbers", "number", "tag", "options", "address", "count", "operation", "place", "struct")

    def __init__(self, core: Core, ids: Any) -> None:
        self.handle, self.mark = core._handle, weakref.ref(self)
        self.numbers: Any = None  # the numbers that count it
        self.number: Optional[int] = None  # number of the operation, until the launch
        self.tag = -1
        self.struct = _native.CollectiveOptionsC(
            size=ctypes.sizeof(_native.CollectiveOptionsC),
            members=ctypes.addressof(ids),
            member_count=len(ids),
            alone_ok=True,
            factor=1.0,
        )
        self.options = ctypes.byref(self.struct)
        self.address, self.count = ctypes.c_void_p(), ctypes.c_size_t()
        self.operation = _native.AsyncReduceOpC()
        self.place = ctypes.byref(self.operation)


class Pool:
    """Those of a group: as many as threads have been in its all-reduces at once."""

    def __init__(self, core: Core, members: Tuple[str, ...]) -> None:
        self._core, self._ids = core, _collectives.peer_ids("members", members)
        # Other threads change both meanwhile, so each use of them is one step.
        self.made: Set[weakref.ref[Prepared]] = set()
        self.free: List[Prepared] = []

    def take(self) -> Prepared:
        try:
            return self.free.pop()
        except IndexError:
            return self.make()

    def make(self) -> Prepared:
        made = Prepared(self._core, self._ids)
        self.made.add(weakref.ref(made, self.made.discard))
        return made

    def wait_for_others(self, holder: Any) -> None:
        """Until no other thread is in all_reduce_now() with its tag: at most for about a slice."""
        while any(self._is_before(mark(), holder) for mark in self.made.copy()):
            time.sleep(_PAUSE_S)

    def _is_before(self, one: Optional[Prepared], holder: Any) -> bool:
        if one is None or one.tag != holder.tag or one.mark not in self._core._visits:
            return False
        number = one.number
        return number is not None and number < holder.number  # of two that wait, the first one goes on


class _Operation(Operation):
    """Nobody asks how it went, beyond whether it succeeded."""

    _awaiting = "pcclAwaitAsyncReduce"
    _staged = _blobs = _arrivals = _job = None
    _waits = False

    def __init__(self, core: Core, tag: int, handle: _native.AsyncReduceOpC, pins: Any) -> None:
        self.tag = tag
        self.outcome = None
        self._core = core
        self._pid = core._pid
        self._pins = pins
        self._turns = Turns()
        self._mutex = threading.Lock()
        self._callbacks = []
        self._handle, self._by_reference = handle, ctypes.byref(handle)
        self._begin = time.monotonic()

    def launched(self, call: Callable[[Any, Any], int]) -> bool:
        """Whether the library has launched it. From here on the communicator keeps its memory."""
        core = self._core
        core.depend(self)
        try:
            visit = core.enter()
            if visit is not None:
                try:
                    call(visit.handle, self._by_reference)
                finally:
                    core.leave(visit)
        finally:
            is_launched = bool(self._handle.comm)
            if not is_launched:
                core.release(self)
        return is_launched

    def _await(self, timeout_ms: int) -> None:
        visit = self._core.enter()
        if visit is None:
            self._end(*_CLOSED)
            return
        try:
            code = _await(self._by_reference, timeout_ms, None)
            why = _NO_WORDS if code in (_SUCCESS, _TIMEOUT) else _native.last_failure(visit.handle)
        finally:
            self._core.leave(visit)
        if code != _TIMEOUT:
            self.awaited(code, why)

    def awaited(self, code: int, why: _native.Why) -> None:
        self._let_go()
        self._end(code, why, _NOTHING)


_NO_WORDS = _native.Why("")


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether its elements lie in the memory of this process as they are reduced."""
    return (
        type(tensor) in _PLAIN
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


def _arguments(tensor: torch.Tensor, given: Any) -> Optional[Tuple[int, int, int, int]]:
    """Address, count, type and operation; None: for one of these it has to go the general way."""
    op = _SUM_NUMBER if given == _SUM else _OPS.get(given.op)
    dtype = _DTYPES.get(tensor.dtype) or _number_of(tensor.dtype)
    if op is None or dtype is None or not is_plain(tensor):
        return None
    try:
        count, address = tensor.numel(), tensor.data_ptr()
    except RuntimeError:  # one that a function transform has wrapped has no memory
        return None
    if count == 0 or address == 0:
        return None
    return address, count, dtype, op


def all_reduce(group: ProcessGroup, tensor: torch.Tensor, given: Any) -> Any:
    """The operation, in place, under the group's next tag; or UNUSUAL."""
    arguments = _arguments(tensor, given)
    if arguments is None:
        return UNUSUAL
    pool, handle = group._pool, _native.AsyncReduceOpC()
    prepared = pool.take()
    try:
        prepared.struct.tag = tag = group._take_number(prepared)
        operation = _Operation(group._core, tag, handle, tensor.untyped_storage())
        made = AsyncReduceHandle(operation)  # takes care of what was launched, if that is interrupted
        options = prepared.options
        if operation.launched(lambda comm, place: _launch(arguments[0], *arguments, options, comm, place)):
            prepared.number = None
            return made
        group._give_back(prepared)
        return UNUSUAL
    except BaseException as interrupt:
        if handle.comm:
            group._follow(made, [tensor], None).interrupted(interrupt)
        else:
            group._give_back(prepared)
        raise
    finally:
        prepared.number = None
        pool.free.append(prepared)


def all_reduce_now(group: ProcessGroup, tensor: torch.Tensor, opts: Any) -> Any:
    """The same, which waits for it: None, if it has succeeded. Or the work of one that takes longer or has failed, for
    whoever waits for that; most end before anything is made that only such need."""
    arguments = _arguments(tensor, opts.reduceOp)
    if arguments is None:
        return UNUSUAL
    address, count, dtype, op = arguments
    pool, core = group._pool, group._core
    prepared = pool.take()
    handle = prepared.operation
    handle.comm = None
    is_free = False
    try:
        core._visits.add(prepared.mark)
        if core._closing:
            return UNUSUAL
        prepared.struct.tag = group._take_number(prepared)
        memory, elements = prepared.address, prepared.count
        memory.value, elements.value = address, count
        options, comm, place = prepared.options, prepared.handle, prepared.place
        code = _carry_out(memory, memory, elements, dtype, op, options, comm, _SLICE_MS, place)
        if code == _SUCCESS:
            prepared.number = None
            is_free = True
            return None
        if not handle.comm:
            group._give_back(prepared)
            return UNUSUAL
        why = _NO_WORDS if code == _TIMEOUT else _native.last_failure(prepared.handle)
        operation, work = _handed_over(group, prepared.tag, handle, tensor, opts)
        if code != _TIMEOUT:
            operation.awaited(code, why)
        return work
    except BaseException as interrupt:
        _interrupted(group, prepared, handle, tensor, opts, interrupt)
        raise
    finally:
        core._visits.discard(prepared.mark)
        if core._closing:
            core.left()
        if is_free:  # not before the mark of this use is gone: another thread makes its own with it
            pool.free.append(prepared)


def _handed_over(
    group: ProcessGroup, tag: int, handle: _native.AsyncReduceOpC, tensor: torch.Tensor, opts: Any
) -> Tuple[_Operation, Work]:
    """What was launched there, as an operation and a work of its own, which take care of it from then on."""
    operation = _Operation(group._core, tag, handle, tensor.untyped_storage())
    group._core.depend(operation)
    return operation, group._follow(AsyncReduceHandle(operation), [tensor], opts)


def _interrupted(
    group: ProcessGroup, prepared: Prepared, handle: Any, tensor: torch.Tensor, opts: Any, by: BaseException
) -> None:
    """Before its launch, on its way, or when it is over. Within the visit."""
    done = ctypes.c_bool()
    if not handle.comm:
        group._give_back(prepared)
    elif _test(ctypes.byref(handle), ctypes.byref(done)) == _SUCCESS:
        _handed_over(group, prepared.tag, handle, tensor, opts)[1].interrupted(by)
