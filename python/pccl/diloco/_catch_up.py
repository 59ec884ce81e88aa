"""Catch-up of newcomers in a streaming run: they receive the state fragment by fragment, while the other peers continue
to train.

A fragment's outer copy does not change between two of its slots. During that time the peers that hold it send it in the
background. Peers report the fragments that they lack along with the weights of each reduction. From these reports all
peers derive the same transfers, without further communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from .._communicator import Communicator
from .._errors import MembersChangedError, PeerLostError, TimeoutError_, TooFewPeersError
from ._arrays import Flats

_RECEIVERS_MAX = 16  # maximum for each sender and slot; further newcomers get the fragment in later slots
# If a transfer fails with one of these errors, it fails for both peers and is repeated in the fragment's next slot.
_FAILED = (PeerLostError, MembersChangedError, TooFewPeersError, TimeoutError_)


@dataclass(frozen=True)
class Attendance:
    """The participants of a reduction, in the order of the roster."""

    holders: Tuple[str, ...]  # peers that hold the fragment
    lacking: Tuple[str, ...]  # peers that lack it
    is_over: bool  # true if no peer lacks a fragment


class CatchUp:
    """The peers that took part in the last meeting that admitted newcomers. Since then, peers can only have left."""

    def __init__(self, roster: Sequence[str], own: str) -> None:
        self._roster, self.own = tuple(roster), own

    def entries(self, lacks: bool, count: int) -> List[float]:
        """Returns this peer's contribution to the sums over all peers. lacks: whether this peer lacks the fragment of
        this reduction. count: number of fragments that it lacks."""
        return [1.0 + lacks + 2.0 * count if peer == self.own else 0.0 for peer in self._roster]

    def read(self, sums: Sequence[float]) -> Attendance:
        """Decodes the attendance from the sums. It is empty if this peer is alone."""
        told = {peer: int(value) - 1 for peer, value in zip(self._roster, sums) if value > 0}
        return Attendance(
            tuple(peer for peer, value in told.items() if value % 2 == 0),
            tuple(peer for peer, value in told.items() if value % 2 == 1),
            all(value == 0 for value in told.values()),
        )


class Transfer(NamedTuple):
    """A fragment that one peer sends to another one."""

    sender: str
    receiver: str


def transfers_of(attendance: Attendance, turn: int) -> List[Transfer]:
    """Returns the transfers of the fragment. Each newcomer has only one sender, which leaves most of the bandwidth of
    both to reductions. The holders take turns. turn: number of the slot."""
    holders = attendance.holders
    receivers = enumerate(attendance.lacking[: _RECEIVERS_MAX * len(holders)], turn)
    return [Transfer(holders[place % len(holders)], receiver) for place, receiver in receivers]


def carry(comm: Communicator, own: str, given: Sequence[Transfer], arrays: Flats, first_tag: int) -> Optional[int]:
    """Performs this peer's transfers. Returns the number of bytes received, or None if a transfer failed. first_tag:
    first of the tags, one for each array."""
    handles: List[Any] = []
    try:
        for transfer in given:
            for tag, array in enumerate(arrays, first_tag):
                handles.append(_begin(comm, own, transfer, array, tag))
    finally:  # the operations use the arrays until they have ended
        for handle in handles:
            if handle is not None:
                handle.wait()
    infos = [info for handle in handles if handle is not None for info in [_or_none(handle.result)] if info is not None]
    return sum(info.rx_bytes for info in infos) if len(infos) == len(handles) else None


def _begin(comm: Communicator, own: str, transfer: Transfer, array: Any, tag: int) -> Optional[Any]:
    """Starts a transfer. Returns None if the other peer has left."""
    other, call = (transfer.receiver, comm.send_async) if transfer.sender == own else (transfer.sender, comm.recv_async)
    return _or_none(lambda: call(array, other, tag=tag))


def _or_none(call: Callable[[], Any]) -> Optional[Any]:
    try:
        return call()
    except _FAILED:
        return None
