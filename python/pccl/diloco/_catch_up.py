"""How newcomers of a streaming run get its state fragment by fragment, while the others train on.

From one slot of a fragment to the next nothing changes its outer copy. So it is sent in that time, in the background,
by those who hold it. With the weights of each reduction the peers tell each other who lacks its fragment: what follows
from that is the same on all of them, and nothing else needs to be agreed upon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .._communicator import Communicator
from .._errors import MembersChangedError, PeerLostError, TimeoutError_, TooFewPeersError
from ._arrays import Flats

_TAKERS_MAX = 16  # of one giver in one slot; the other newcomers get the fragment in later slots
# A transfer that failed so failed for both, and is begun again in the fragment's next slot.
_FAILED = (PeerLostError, MembersChangedError, TooFewPeersError, TimeoutError_)


@dataclass(frozen=True)
class Attendance:
    """Who took part in a reduction, in the order of the roster."""

    holders: Tuple[str, ...]  # of its fragment
    lacking: Tuple[str, ...]  # those who do not have it yet
    is_over: bool  # nobody lacks any fragment


class CatchUp:
    """The peers since the last meeting at which newcomers came; since then peers can only have left."""

    def __init__(self, roster: Sequence[str], own: str) -> None:
        self._roster, self.own = tuple(roster), own

    def entries(self, lacks: bool, count: int) -> List[float]:
        """This peer's part of what is summed up over all. lacks: the fragment of this reduction. count: how many it
        lacks in all."""
        return [1.0 + lacks + 2.0 * count if peer == self.own else 0.0 for peer in self._roster]

    def read(self, sums: Sequence[float]) -> Attendance:
        """None at all: this peer is alone."""
        told = {peer: int(value) - 1 for peer, value in zip(self._roster, sums) if value > 0}
        return Attendance(
            tuple(peer for peer, value in told.items() if value % 2 == 0),
            tuple(peer for peer, value in told.items() if value % 2 == 1),
            all(value == 0 for value in told.values()),
        )


class Gift(NamedTuple):
    """A fragment that one peer sends to another one."""

    giver: str
    taker: str


def gifts(attendance: Attendance, turn: int) -> List[Gift]:
    """Who sends the fragment to whom. A newcomer has a single giver, so that most of its link, and of the giver's, is
    left to reductions; holders take turns. turn: the number of the slot."""
    holders = attendance.holders
    takers = enumerate(attendance.lacking[: _TAKERS_MAX * len(holders)], turn)
    return [Gift(holders[place % len(holders)], taker) for place, taker in takers]


def carry(comm: Communicator, own: str, given: Sequence[Gift], arrays: Flats, first_tag: int) -> Optional[int]:
    """Sends and receives this peer's. Returns the bytes that it received; None: one failed. first_tag: the first
    of as many tags as there are arrays."""
    handles: List[Any] = []
    try:
        for gift in given:
            for tag, array in enumerate(arrays, first_tag):
                handles.append(_begin(comm, own, gift, array, tag))
    finally:  # the arrays are used until they have ended
        for handle in handles:
            if handle is not None:
                handle.wait()
    infos = [info for handle in handles if handle is not None for info in [_or_none(handle.result)] if info is not None]
    return sum(info.rx_bytes for info in infos) if len(infos) == len(handles) else None


def _begin(comm: Communicator, own: str, gift: Gift, array: Any, tag: int) -> Optional[Any]:
    """None: the other one is gone."""
    other, call = (gift.taker, comm.send_async) if gift.giver == own else (gift.giver, comm.recv_async)
    return _or_none(lambda: call(array, other, tag=tag))


def _or_none(call: Callable[[], Any]) -> Optional[Any]:
    try:
        return call()
    except _FAILED:
        return None
