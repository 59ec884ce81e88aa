"""How newcomers of a streaming run get its state fragment by fragment, while the others train on.

From one slot of a fragment to the next nothing changes its outer copy. So it is sent in that time, in the background,
by those who hold it. With the weights of each reduction the peers tell each other who lacks its fragment: what follows
from that is the same on all of them, and nothing else needs to be agreed upon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .._communicator import Communicator
from .._errors import InvalidArgument, MembersChangedError, PeerLostError, TooFewPeersError
from ._arrays import Flats

_GIVERS_MAX = 4  # of one fragment to one peer
_GONE = (PeerLostError, MembersChangedError, TooFewPeersError)


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


class Share(NamedTuple):
    """A contiguous part of each array of a fragment, that one peer sends to another one."""

    giver: str
    taker: str
    index: int
    count: int  # of parts that the taker gets

    def of(self, array: Any) -> Any:
        size = len(array)
        return array[size * self.index // self.count : size * (self.index + 1) // self.count]


def share_out(attendance: Attendance, turn: int) -> List[Share]:
    """Who sends what to whom. Holders take turns, and each newcomer gets its fragment from several, so that nobody's
    link carries much beside its own reductions. turn: the number of the slot."""
    holders = attendance.holders
    count = min(_GIVERS_MAX, len(holders))
    return [
        Share(holders[(turn + count * place + index) % len(holders)], taker, index, count)
        for place, taker in enumerate(attendance.lacking)
        for index in range(count)
    ]


def carry(comm: Communicator, own: str, shares: Sequence[Share], arrays: Flats, first_tag: int) -> Optional[int]:
    """Sends and receives this peer's shares, which may be none. Returns the bytes that it received, all it was to get;
    None: a giver is gone. first_tag: the first of as many tags as there are arrays."""
    handles: List[Any] = []
    received: Optional[int] = 0
    try:
        for share in shares:
            for tag, array in enumerate(arrays, first_tag):
                if len(share.of(array)) > 0:
                    handles.append((share, _begin(comm, own, share, share.of(array), tag)))
    finally:  # the arrays are used until they have ended
        for _, handle in handles:
            if handle is not None:
                handle.wait()
    for share, handle in handles:
        info = None if handle is None else _or_gone(handle.result)
        if share.taker == own:
            received = None if info is None or received is None else received + info.rx_bytes
    return received


def _begin(comm: Communicator, own: str, share: Share, array: Any, tag: int) -> Optional[Any]:
    """None: the other one is gone."""
    if share.giver == own:
        other, call = share.taker, comm.send_async
    else:
        other, call = share.giver, comm.recv_async
    try:
        return _or_gone(lambda: call(array, other, tag=tag))
    except InvalidArgument:
        if other in comm.members():
            raise
        return None


def _or_gone(call: Callable[[], Any]) -> Optional[Any]:
    try:
        return call()
    except _GONE:
        return None
