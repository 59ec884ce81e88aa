"""The world of a process: the peers that init_process_group has brought together, and whether all of them live."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence

from .._communicator import Communicator, Group
from .._handles import AsyncReduceHandle
from .._threads import SLICE_S

_LEFT = "it left"  # so the library's words end for a peer that went in order


class World:
    """Membership is fixed: once a peer is lost, no operation of this world succeeds any more.

    Operations of a group fail when one of its members is lost. What concerns others only, such as a receive from a
    peer that waits for the dead one itself, would wait on. So each rank keeps an operation of all under way that
    never completes: one rank does not take part in it. It fails when a peer is lost, and then everything does.
    """

    def __init__(self, comm: Communicator, rank: int, ids: Sequence[str], timeout: timedelta) -> None:
        self.comm = comm
        self.rank = rank
        self.ids = tuple(ids)
        self.ended: Optional[str] = None  # why it has, as far as that is known without asking the library
        self._watch: Optional[Group] = None
        self._sentinel: Optional[AsyncReduceHandle] = None
        if self.size > 1:
            self._watch = self.group(range(self.size), timeout)
            self._sentinel = self._watch.barrier_async(tag=1 if rank == 0 else 0)

    @property
    def size(self) -> int:
        return len(self.ids)

    def group(self, ranks: Sequence[int], timeout: timedelta) -> Group:
        """Founds a group of these. Returns when all of them have called it."""
        return self.comm.group([self.ids[rank] for rank in ranks], timeout=timeout.total_seconds())

    def why(self) -> Optional[str]:
        """Why nothing can succeed any more; None if the world is whole. Quick."""
        sentinel = self._sentinel
        if self.ended is None and sentinel is not None and sentinel.test() and sentinel._operation.wait_here(SLICE_S):
            self._sentinel = None
            error = sentinel._operation.error()
            if error is not None and not error.reason.endswith(_LEFT):
                self.ended = self.ended or self.named(error.reason)
        return self.ended

    def named(self, reason: str) -> str:
        """The library's reason, with the rank of the peer that it begins with in front."""
        ranks = self.ranks_in(reason)
        return f"rank {ranks[0]}: {reason}" if ranks else reason

    def ranks_in(self, words: str) -> List[int]:
        """Those whose peers are spoken of, in that order."""
        places = {words.find(f"peer {one[:8]}"): rank for rank, one in enumerate(self.ids)}
        return [places[at] for at in sorted(places) if at >= 0]

    def handle(self) -> str:
        """By which this process may be in another world (_reconfigure.py)."""
        return f"pccl://{self.comm.address}/{self.comm.id}"

    def retire(self, why: str) -> None:
        """Ends it, while this process stays in the run."""
        self.ended = self.ended or why
        self._sentinel = None
        if self._watch is not None:
            self._watch.close()

    def end(self, why: str) -> None:
        """Leaves the run; whatever is under way fails, here and, as far as it needs this rank, elsewhere."""
        self.ended = self.ended or why
        self.comm.close()  # the others hear that it left, and not only that it closed a group
        self.retire(why)

    def waits(self) -> str:
        """Who waits for whom, as far as this rank knows."""
        text: Any = self.comm.describe_waits()
        return str(text)
