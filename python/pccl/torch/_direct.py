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
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from .. import _native
from .._core import Core
from .._enums import ReduceOp, Result, by_name
from .._handles import AsyncReduceHandle
from .._operation import _CLOSED, _NOTHING, Operation
from .._threads import SLICE_S, Turns
from . import _layout
from ._call import give_back
from ._futures import Work
from ._prepared import Prepared
from ._staging import Stage
from ._work import Ending, Part, Standing

_launch = _native.lib.pcclAllReduceWithOptionsAsync
# By itself, without types of arguments: their conversion takes longer than the call. It is given each in the form of C.
_carry_out = _native.lib["pcclAllReduceWithOptionsFor"]
_await = _native.lib.pcclAwaitOperation
_test = _native.lib.pcclTestAsyncReduce
_SUCCESS, _TIMEOUT = int(Result.SUCCESS), int(Result.TIMEOUT)
_SLICE_MS = int(1000 * SLICE_S)
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # subclasses may have their memory elsewhere, or none
_DTYPES: Dict[torch.dtype, Optional[int]] = {}
_OPS: Dict[Any, int] = {
    getattr(dist.ReduceOp.RedOpType, kind): int(ReduceOp[name.upper()])
    for kind, name in _layout.OPS.items()
    if kind != "PREMUL_SUM"  # has a factor
}
_SUM, _SUM_NUMBER = dist.ReduceOp.SUM, int(ReduceOp.SUM)  # its comparison takes a fraction of the look-up
_NO_DEVICES = Stage()
UNUSUAL = object()  # it has to go the general way


def _number_of(dtype: torch.dtype) -> Optional[int]:
    """Of the library's type."""
    if dtype not in _DTYPES:
        known = by_name(str(dtype).replace("torch.", "", 1))
        _DTYPES[dtype] = None if known is None else int(known)
    return _DTYPES[dtype]


class _Operation(Operation):
    """Nobody asks how it went, beyond whether it succeeded."""

    _blocking, _function = False, "pcclAllReduceWithOptions"
    _arrivals = None

    def __init__(self, core: Core, tag: int, handle: _native.AsyncReduceOpC, pins: Any) -> None:
        self.tag = tag
        self._core = core
        self._pid = core._pid
        self._work = pins
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


def all_reduce(group: Standing, tensor: torch.Tensor, given: Any) -> Any:
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
        give_back(group, prepared)
        return UNUSUAL
    except BaseException as interrupt:
        if handle.comm:
            follow(group, made, [tensor], None).interrupted(interrupt)
        else:
            give_back(group, prepared)
        raise
    finally:
        prepared.number = None
        pool.free.append(prepared)


def all_reduce_now(group: Standing, tensor: torch.Tensor, opts: Any) -> Any:
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
            give_back(group, prepared)
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


def follow(group: Standing, handle: Any, tensors: List[torch.Tensor], opts: Any) -> Work:
    """The work of an all-reduce that went directly."""
    ending = Ending(tensors, None, lambda: None, group._limit(opts), _NO_DEVICES)
    work = group._under_way[handle.tag] = Work(group, "all_reduce", [Part(group._comm, handle)], ending)
    return work


def _handed_over(
    group: Standing, tag: int, handle: _native.AsyncReduceOpC, tensor: torch.Tensor, opts: Any
) -> Tuple[_Operation, Work]:
    """What was launched there, as an operation and a work of its own, which take care of it from then on."""
    operation = _Operation(group._core, tag, handle, tensor.untyped_storage())
    group._core.depend(operation)
    return operation, follow(group, AsyncReduceHandle(operation), [tensor], opts)


def _interrupted(
    group: Standing, prepared: Prepared, handle: Any, tensor: torch.Tensor, opts: Any, by: BaseException
) -> None:
    """Before its launch, on its way, or when it is over. Within the visit."""
    done = ctypes.c_bool()
    if not handle.comm:
        give_back(group, prepared)
    elif _test(ctypes.byref(handle), ctypes.byref(done)) == _SUCCESS:
        _handed_over(group, prepared.tag, handle, tensor, opts)[1].interrupted(by)
