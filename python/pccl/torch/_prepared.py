"""Arguments of the short way of an all-reduce (_direct.py), prepared once and used again."""

from __future__ import annotations

import ctypes
import time
import weakref
from typing import Any, List, Optional, Set, Tuple

from .. import _collectives, _native
from .._core import Core, Visit

_PAUSE_S = 0.001


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
