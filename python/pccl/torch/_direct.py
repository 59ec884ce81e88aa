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
from .._enums import ReduceOp, Result, by_name
from .._reduce import _CLOSED, _NOTHING, AsyncReduceHandle, Operation
from . import _layout
from ._staging import is_on_device

if TYPE_CHECKING:
    from ._backend import ProcessGroup

_launch = _native.lib.pcclAllReduceWithOptionsAsync
_await = _native.lib.pcclAwaitOperation
_SUCCESS, _TIMEOUT = int(Result.SUCCESS), int(Result.TIMEOUT)
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # subclasses may have their memory elsewhere, or none
_DTYPES: Dict[torch.dtype, Optional[int]] = {}
_OPS: Dict[Any, int] = {
    getattr(dist.ReduceOp.RedOpType, kind): int(ReduceOp[name.upper()])
    for kind, name in _layout.OPS.items()
    if kind != "PREMUL_SUM"  # has a factor
}


def _number_of(dtype: torch.dtype) -> Optional[int]:
    """Of the library's type."""
    if dtype not in _DTYPES:
        known = by_name(str(dtype).replace("torch.", "", 1))
        _DTYPES[dtype] = None if known is None else int(known)
    return _DTYPES[dtype]


class _Operation(Operation):
    """Nobody asks how it went, beyond whether it succeeded."""

    _awaiting = "pcclAwaitAsyncReduce"
    _staged = _blobs = _arrivals = _job = None
    _waits = False

    def __init__(self, group: ProcessGroup, tag: int, pins: Any) -> None:
        self.tag = tag
        self.outcome = None
        self._core = group._comm._core
        self._pid = self._core._pid
        self._pins = pins
        self._turn = threading.Lock()
        self._mutex = threading.Lock()
        self._callbacks = []
        self._handle = _native.AsyncReduceOpC()
        self._by_reference = ctypes.byref(self._handle)
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
            self._let_go()
            self._end(code, why, _NOTHING)


_NO_WORDS = _native.Why("")


class Options:
    """Those of a group's operations, a struct for each tag: what is under way has a tag of its own."""

    def __init__(self, members: Tuple[str, ...]) -> None:
        self._ids = _collectives.peer_ids("members", members)
        self._of_tags: Dict[int, Tuple[Any, Any]] = {}

    def of(self, tag: int) -> Any:
        """By reference."""
        found = self._of_tags.get(tag)
        if found is None:
            made = _native.CollectiveOptionsC(
                size=ctypes.sizeof(_native.CollectiveOptionsC),
                tag=tag,
                members=ctypes.addressof(self._ids),
                member_count=len(self._ids),
                alone_ok=True,
                factor=1.0,
            )
            found = self._of_tags[tag] = made, ctypes.byref(made)
        return found[1]


def all_reduce(group: ProcessGroup, tensor: torch.Tensor, given: Any) -> Optional[AsyncReduceHandle]:
    """The operation, in place, under the group's next tag; None if it has to go the general way."""
    op = _OPS.get(given.op)
    dtype = _number_of(tensor.dtype)
    if op is None or dtype is None or type(tensor) not in _PLAIN:
        return None
    if not tensor.is_cpu or is_on_device(tensor) or tensor.layout is not torch.strided:
        return None
    if not tensor.is_contiguous() or tensor.is_neg():
        return None
    try:
        count, address = tensor.numel(), tensor.data_ptr()
    except RuntimeError:  # one that a function transform has wrapped has no memory
        return None
    if count == 0 or address == 0:
        return None
    tag = group._next_tag()
    options = group._options.of(tag)
    operation = _Operation(group, tag, tensor.untyped_storage())
    handle = AsyncReduceHandle(operation)  # takes care of what was launched, if that is interrupted
    if operation.launched(lambda comm, place: _launch(address, address, count, dtype, op, options, comm, place)):
        return handle
    group._sequence -= 1
    return None
