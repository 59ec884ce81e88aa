"""Sends and receives of plain tensors by two library calls: one launches, the other awaits. Objects for the operation
and its handle are created only if it takes longer, fails, or is used in some other way."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from datetime import timedelta
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from .. import _native, _operation
from .._enums import Attribute, Result
from .._handles import AsyncReduceHandle
from .._threads import SLICE_S
from . import _layout
from ._futures import Work
from ._staging import Stage
from ._untraced import untrace
from ._work import CollectiveError, Part, Standing

# Without argument types, as in _call.py.
SEND, RECV = _native.lib["pcclSendAsync"], _native.lib["pcclRecvAsync"]
_await_operation, _get_attribute = _native.lib["pcclAwaitOperation"], _native.lib["pcclGetAttribute"]
_NOW = int(Attribute.GLOBAL_WORLD_SIZE_NOW)
_SUCCESS, _TIMEOUT = int(Result.SUCCESS), int(Result.TIMEOUT)
_SLICE_MS = int(1000 * SLICE_S)
_PAUSE_S = 0.001
_UNLIMITED = timedelta(0)
_NO_DEVICES = Stage()


class Transfer(Work):
    """A transfer in progress. It has no parts before _adopt()."""

    _error: Optional[CollectiveError] = None
    _over = False
    _finish = _record = None
    _stage = _NO_DEVICES

    def __init__(self, group: Standing, function: Any, peer: int, tensors: List[torch.Tensor], tag: int) -> None:
        dist.Work.__init__(self)
        self._group: Any = group
        self._function, self._peer, self._tag = function, peer, tag
        self._parts = []
        self._outputs = tensors if function is RECV else []
        self._pins: Any = tensors[0]
        self._handle = _native.AsyncReduceOpC()
        self._claims: List[int] = []  # threads that want to await the transfer or make parts of it; the first one may
        self._begin = time.monotonic()
        self._limit_s = group._timeout.total_seconds()
        self._ending = threading.Lock()
        self._pid = os.getpid()

    def _title(self) -> str:
        self._name = f"{'send to' if self._function is SEND else 'receive from'} rank {self._peer}"
        return super()._title()

    def _locally(self) -> None:
        for output in self._outputs:
            output.detach().zero_()

    def _claim(self) -> bool:
        """Claims the transfer for this thread. Returns true for one thread; others wait until the transfer has parts or
        has ended, and get false. An interrupted thread keeps its claim for its next call."""
        self._claims.append(threading.get_ident())
        while not self._parts and not self._over:
            if self._is_mine():
                return True
            time.sleep(_PAUSE_S)
        return False

    def _is_mine(self) -> bool:
        return self._claims[:1] == [threading.get_ident()]

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        if timeout <= _UNLIMITED and not self._over:
            self._await_raw(_SLICE_MS)
            if self._over and self._error is None:
                group = self._group
                if group._under_way or group._pairs:
                    group._sweep()
                return True
        return super().wait(timeout)

    def _await(self, seconds: Optional[float]) -> None:
        if not self._over:
            self._await_raw(_SLICE_MS if seconds is None else min(_SLICE_MS, int(1000 * seconds)))
        super()._await(seconds)

    def _await_raw(self, milliseconds: int) -> None:
        core, place = self._group._world.comm._core, ctypes.byref(self._handle)
        code, why = _TIMEOUT, _operation.NO_WORDS
        try:
            if not self._claim():
                return
            visit = core.enter() if self._pid == os.getpid() else None
            if visit is not None:
                try:
                    code = _await_operation(place, milliseconds, None)
                    if code == _SUCCESS:
                        self._over, self._pins = True, None
                        self._group._pairs.pop(id(self), None)
                        return
                    if code != _TIMEOUT:
                        why = _native.last_failure(visit.handle)
                finally:
                    core.leave(visit)
            self._adopt(code, why)
        except BaseException as interrupt:
            if not self._is_mine():
                raise  # another thread awaits it
            if not self._over and not self._parts:
                done = ctypes.c_bool()
                if _native.lib.pcclTestAsyncReduce(place, ctypes.byref(done)) == _SUCCESS:
                    self._adopt(_TIMEOUT, _operation.NO_WORDS)
            self.interrupted(interrupt)
            raise

    def _adopt(self, code: int, why: _native.Why) -> None:
        """Creates an Operation for the transfer. code: result of the last library call."""
        comm = self._group._world.comm
        operation = _operation.adopted(comm._core, self._tag, self._handle, self._pins.untyped_storage())
        operation._function, operation._pid = "pcclSend" if self._function is SEND else "pcclRecv", self._pid
        if code != _TIMEOUT:
            operation.awaited(code, why)
        self._parts, self._pins = [Part(comm, AsyncReduceHandle(operation))], None

    def _ensure_parts(self) -> None:
        if not self._over and self._claim():
            self._adopt(_TIMEOUT, _operation.NO_WORDS)

    def is_completed(self) -> bool:
        self._ensure_parts()
        return super().is_completed()

    def ends_soon(self) -> bool:
        self._ensure_parts()
        return super().ends_soon()

    def get_future(self) -> Any:
        self._ensure_parts()
        return super().get_future()


def begin(group: Any, function: Any, tensors: List[torch.Tensor], peer: int, tag: int) -> Optional[Work]:
    """Launches a transfer with this rank of the group. Returns None if it has launched nothing."""
    tensor, world = tensors[0], group._world
    count = tensor.numel()
    if len(tensors) != 1 or not count or not _layout.is_plain(tensor) or group._ended or world.ended:
        return None
    core, pool = world.comm._core, group._pool
    call = pool.free.pop() if pool.free else pool.make()
    options = call.pair_given or call.pair_options()
    work = Transfer(group, function, peer, tensors, tag)
    visit = core.enter()
    if visit is None:
        return None
    try:
        _get_attribute(visit.handle, _NOW, call.seen_place)
        if call.seen.value != world._seen:
            return None  # a peer has left: the general path determines which one
        call._address.value, call._elements.value, call.pair.c.tag = tensor.data_ptr(), count, tag
        group._pairs[id(work)] = work
        code = function(
            call._address, call._elements, _layout.DTYPES[tensor.dtype], world.ids.index(group._ids[peer]), options,
            visit.handle, ctypes.byref(work._handle)
        )
        if code == _SUCCESS:
            return work
        work._over = True
        group._pairs.pop(id(work), None)
        return None
    except BaseException:
        if not work._handle.comm:
            work._over = True
        raise
    finally:
        core.leave(visit)
        pool.free.append(call)


untrace(Transfer)
