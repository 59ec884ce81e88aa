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
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

import torch
import torch.distributed as dist

from .. import _collectives, _native
from .._core import Core
from .._enums import ReduceOp, Result, by_name
from .._reduce import _CLOSED, _NOTHING, AsyncReduceHandle, Operation
from .._threads import SLICE_S
from . import _layout

if TYPE_CHECKING:
    from ._backend import ProcessGroup

_launch = _native.lib.pcclAllReduceWithOptionsAsync
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
_SUM = dist.ReduceOp.SUM, int(ReduceOp.SUM)  # by itself: its comparison takes a fraction of the look-up
UNUSUAL = object()  # it has to go the general way


def _number_of(dtype: torch.dtype) -> Optional[int]:
    """Of the library's type."""
    if dtype not in _DTYPES:
        known = by_name(str(dtype).replace("torch.", "", 1))
        _DTYPES[dtype] = None if known is None else int(known)
    return _DTYPES[dtype]


class Slot:
    """What the operations of a group under one tag have in common, of which one at a time is under way."""

    __slots__ = ("tag", "options", "handle", "place", "pins", "visit", "_struct")

    def __init__(self, tag: int, ids: Any) -> None:
        self.tag = tag
        self._struct = _native.CollectiveOptionsC(
            size=ctypes.sizeof(_native.CollectiveOptionsC),
            tag=tag,
            members=ctypes.addressof(ids),
            member_count=len(ids),
            alone_ok=True,
            factor=1.0,
        )
        self.options = ctypes.byref(self._struct)
        self.pins: Any = None  # memory of the operation that all_reduce_now() waits for
        self.visit: Any = None  # the mark of that which it makes
        self.renew()

    def renew(self) -> None:
        """Somebody else keeps the handle of now."""
        self.handle = _native.AsyncReduceOpC()
        self.place = ctypes.byref(self.handle)


class Slots(Dict[int, Slot]):
    """Those of a group, by tag."""

    def __init__(self, members: Tuple[str, ...]) -> None:
        super().__init__()
        self._ids = _collectives.peer_ids("members", members)

    def __missing__(self, tag: int) -> Slot:
        made = self[tag] = Slot(tag, self._ids)
        return made

    def wait_for_others(self, tag: int, core: Core) -> None:
        """Until no other thread is in all_reduce_now() with it: at most for about a slice."""
        slot = self.get(tag)
        while slot is not None and core.is_in_use_by(slot.visit):
            time.sleep(_PAUSE_S)


class _Operation(Operation):
    """Nobody asks how it went, beyond whether it succeeded."""

    _awaiting = "pcclAwaitAsyncReduce"
    _staged = _blobs = _arrivals = _job = None
    _waits = False

    def __init__(self, core: Core, slot: Slot, pins: Any) -> None:
        """Takes the handle of the slot."""
        self.tag = slot.tag
        self.outcome = None
        self._core = core
        self._pid = core._pid
        self._pins = pins
        self._turn = threading.Lock()
        self._mutex = threading.Lock()
        self._callbacks = []
        self._handle, self._by_reference = slot.handle, slot.place
        self._begin = time.monotonic()
        slot.renew()

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


def _arguments(tensor: torch.Tensor, given: Any) -> Optional[Tuple[int, int, int, int, int]]:
    """Of _launch; None: for one of these it has to go the general way."""
    op = _SUM[1] if given == _SUM[0] else _OPS.get(given.op)
    dtype = _DTYPES.get(tensor.dtype) or _number_of(tensor.dtype)
    if op is None or dtype is None or not is_plain(tensor):
        return None
    try:
        count, address = tensor.numel(), tensor.data_ptr()
    except RuntimeError:  # one that a function transform has wrapped has no memory
        return None
    if count == 0 or address == 0:
        return None
    return address, address, count, dtype, op


def all_reduce(group: ProcessGroup, tensor: torch.Tensor, given: Any) -> Any:
    """The operation, in place, under the group's next tag; or UNUSUAL."""
    arguments = _arguments(tensor, given)
    if arguments is None:
        return UNUSUAL
    slot = group._slots[group._next_tag()]
    options = slot.options
    operation = _Operation(group._core, slot, tensor.untyped_storage())
    handle = AsyncReduceHandle(operation)  # takes care of what was launched, if that is interrupted
    if operation.launched(lambda comm, place: _launch(*arguments, options, comm, place)):
        return handle
    group._sequence -= 1
    return UNUSUAL


def all_reduce_now(group: ProcessGroup, tensor: torch.Tensor, opts: Any) -> Any:
    """The same, which waits for it: None, if it has succeeded. Or the work of one that takes longer or has failed, for
    whoever waits for that; most end before anything is made that only such need."""
    arguments = _arguments(tensor, opts.reduceOp)
    if arguments is None:
        return UNUSUAL
    core = group._core
    slot = group._slots[group._next_tag()]
    visit = core.enter()
    if visit is None:
        return UNUSUAL
    handle, slot.visit, slot.pins = slot.handle, visit.mark, tensor.untyped_storage()
    try:
        if _launch(*arguments, slot.options, visit.handle, slot.place) != _SUCCESS:
            group._sequence -= 1
            slot.pins = None
            return UNUSUAL
        code = _await(slot.place, _SLICE_MS, None)
        if code == _SUCCESS:
            slot.pins = None
            return None
        why = _NO_WORDS if code == _TIMEOUT else _native.last_failure(visit.handle)
        operation, followed = _handed_over(core, slot)
        if code != _TIMEOUT:
            operation.awaited(code, why)
        return group._follow(followed, [tensor], opts)
    except BaseException as interrupt:
        if slot.handle is handle:
            if _is_under_way(slot):
                group._follow(_handed_over(core, slot)[1], [tensor], opts).interrupted(interrupt)
            slot.pins = None
        raise
    finally:
        core.leave(visit)


def _is_under_way(slot: Slot) -> bool:
    done = ctypes.c_bool()
    return bool(slot.handle.comm) and _test(slot.place, ctypes.byref(done)) == _SUCCESS


def _handed_over(core: Core, slot: Slot) -> Tuple[_Operation, AsyncReduceHandle]:
    """What is under way there, as an operation of its own, and the handle that takes care of it from then on."""
    operation = _Operation(core, slot, slot.pins)
    core.depend(operation)
    slot.pins = None
    return operation, AsyncReduceHandle(operation)
