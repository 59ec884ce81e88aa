"""The world of a process: the peers of init_process_group, and whether all of them are alive."""

from __future__ import annotations

import ctypes
import logging
import weakref
from datetime import timedelta
from typing import Any, List, Optional, Sequence

from .. import _native
from .._communicator import Communicator, Group
from .._enums import Attribute
from .._errors import PCCLError
from .._handles import AsyncReduceHandle
from .._threads import SLICE_S

_log = logging.getLogger("pccl.peer")
_NOT_ENTERED = "verdict of the master: not entered"
_NOW = int(Attribute.GLOBAL_WORLD_SIZE_NOW)
_OVER = "the group has ended: "  # prefix of reasons that were known before the launch
_LEFT = "it left"  # suffix of the library's reason for a peer that left in an orderly way


class _Start(logging.Filter):
    """Until the first operation has completed, drops verdicts about ranks that have not entered it, because processes
    start at different times. The library still logs the peers for which an operation waits."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = weakref.ref(world)

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith(_NOT_ENTERED):
            return True
        world = self._world()
        if world is not None and world.ended is None and not any(group.has_met() for group in world.groups):
            return False
        _log.removeFilter(self)
        return True


class World:
    """The world. Its membership is fixed: once a peer is lost, all later operations of this world fail.

    The library only fails the operations of groups that contain the lost peer. Operations among other peers would
    continue to wait, such as a receive from a peer that itself waits for the lost one. Each rank therefore checks the
    number of members. If it changes, the rank launches an operation in a group of all ranks, which fails if one of them
    is lost.
    """

    def __init__(self, comm: Communicator, rank: int, ids: Sequence[str], timeout: timedelta) -> None:
        self.comm = comm
        self.rank = rank
        self.ids = tuple(ids)
        self.groups: weakref.WeakSet[Any] = weakref.WeakSet()  # process groups, which have has_met()
        self.ended: Optional[str] = None  # reason for the world's end, if it is known without calling the library
        self._watch: Optional[Group] = None
        # Number of the run's members at the last check; None: the next check must be thorough
        self._seen: Optional[int] = None
        self._probe: Optional[AsyncReduceHandle] = None
        if self.size > 1:
            self._seen = self._members_now()
            self._watch = self.group(range(self.size), timeout)
            _log.addFilter(_Start(self))

    @property
    def size(self) -> int:
        return len(self.ids)

    def group(self, ranks: Sequence[int], timeout: timedelta) -> Group:
        """Creates a group of these ranks. Returns when all of them have called it."""
        return self.comm.group([self.ids[rank] for rank in ranks], timeout=timeout.total_seconds())

    def why(self) -> Optional[str]:
        """Returns the reason why all operations fail, or None if all ranks are alive. Fast."""
        watch = self._watch
        if self.ended is not None or watch is None:
            return self.ended
        count = self._members_now()
        try:
            if count != self._seen:
                self._seen = count
                self._probe = self._probe or watch.barrier_async(tag=0)
            probe = self._probe
            if probe is not None and probe.test() and probe._operation.wait_here(SLICE_S):
                self._probe = None
                failed = probe._operation.error()
                if failed is not None:
                    raise failed
        except PCCLError as error:
            reason = error.reason[len(_OVER) :] if error.reason.startswith(_OVER) else error.reason
            if reason.endswith(_LEFT):
                self._watch = None
                watch.close()
            else:
                self.ended = self.ended or self.named(reason)
        return self.ended

    def _members_now(self) -> int:
        """Returns the number of the run's members in the latest list from the master, or 0 once the communicator is
        closed."""
        core, count = self.comm._core, ctypes.c_int()
        visit = core.enter()
        if visit is not None:
            try:
                _native.lib.pcclGetAttribute(visit.handle, _NOW, ctypes.byref(count))
            finally:
                core.leave(visit)
        return count.value

    def look_closer(self) -> None:
        """Makes the next why() launch the operation of all ranks. Needed because a member may have left and another one
        joined."""
        self._seen = None

    def named(self, reason: str) -> str:
        """Returns the library's reason, preceded by the rank of the peer with which it begins."""
        ranks = self.ranks_in(reason)
        return f"rank {ranks[0]}: {reason}" if ranks else reason

    def ranks_in(self, words: str) -> List[int]:
        """Returns the ranks of the peers mentioned in the text, in order."""
        places = {words.find(f"peer {one[:8]}"): rank for rank, one in enumerate(self.ids)}
        return [places[at] for at in sorted(places) if at >= 0]

    def handle(self) -> str:
        """Returns the handle of this process for another world (_reconfigure.py)."""
        return f"pccl://{self.comm.address}/{self.comm.id}"

    def retire(self, why: str) -> None:
        """Ends the world, while this process stays in the run."""
        self.ended = self.ended or why
        self._probe = None
        watch = self._watch
        if watch is not None:
            watch.close()

    def end(self, why: str) -> None:
        """Leaves the run. Operations in progress fail, on this rank and on all ranks where they need it."""
        self.ended = self.ended or why
        self.comm.close()  # first, so that the others see a departure, not only the end of a group
        self.retire(why)

    def waits(self) -> str:
        """Returns a line for each wait known to this rank."""
        text: Any = self.comm.describe_waits()
        return str(text)
