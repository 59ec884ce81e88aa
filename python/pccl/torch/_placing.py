"""Assigns experts to peers. These are pure functions of reports that are the same on all peers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple


@dataclass(frozen=True)
class Holding:
    """The report of one peer.

    versions: version of its copy of each expert; higher versions have been trained for longer. owned: experts that it
        has computed so far.
    """

    versions: Tuple[int, ...]
    owned: Tuple[int, ...] = ()


@dataclass(frozen=True)
class Move:
    """An expert whose parameters one peer sends to another. Both peers are given as indices into the holdings."""

    expert: int
    source: int
    target: int


def place(before: Sequence[Optional[int]], peers: int) -> List[int]:
    """Returns the peer of each expert. before: the current peer of each expert, or None. peers: number of peers.

    The numbers of experts per peer differ by at most one. Experts move only to achieve that balance. An expert without
    a peer is assigned to the peer with the fewest experts, so the initial assignment is round-robin.
    """
    had = [sum(owner == peer for owner in before) for peer in range(peers)]
    each, more = divmod(len(before), peers)
    by_load = sorted(range(peers), key=lambda peer: (-had[peer], peer))
    room = {peer: each + (place < more) for place, peer in enumerate(by_load)}
    free = dict(room)
    after: List[Optional[int]] = []
    for owner in before:
        stays = owner is not None and free[owner] > 0
        after.append(owner if stays else None)
        if owner is not None and stays:
            free[owner] -= 1
    placed: List[int] = []
    for owner in after:
        if owner is None:
            owner = min((peer for peer in range(peers) if free[peer]), key=lambda peer: (room[peer] - free[peer], peer))
            free[owner] -= 1
        placed.append(owner)
    return placed


def owners_of(holdings: Sequence[Holding], experts: int) -> List[Optional[int]]:
    """Returns the peer that has computed each expert so far. If there are several, returns the one with the highest
    version."""
    found: List[Optional[int]] = []
    for expert in range(experts):
        have = [peer for peer, one in enumerate(holdings) if expert in one.owned]
        found.append(max(have, key=lambda peer: (holdings[peer].versions[expert], -peer), default=None))
    return found


def heirs_of(owners: Sequence[Optional[int]], peers: int) -> List[Optional[int]]:
    """Returns the peer that would get each expert if only its current peer failed. None: no peer has it, or none would
    be left."""
    if peers < 2:
        return [None] * len(owners)
    heirs: List[Optional[int]] = []
    without = {}
    for expert, owner in enumerate(owners):
        if owner is None:
            heirs.append(None)
            continue
        if owner not in without:
            left = [peer for peer in range(peers) if peer != owner]
            stay = [None if one is None or one == owner else left.index(one) for one in owners]
            without[owner] = [left[one] for one in place(stay, len(left))]
        heirs.append(without[owner][expert])
    return heirs


def moves_to(targets: Sequence[Optional[int]], holdings: Sequence[Holding]) -> List[Move]:
    """Returns the transfers after which each target has the best available version of its expert."""
    moves = []
    for expert, target in enumerate(targets):
        versions = [one.versions[expert] for one in holdings]
        if target is None or versions[target] == max(versions):
            continue
        have = [peer for peer, version in enumerate(versions) if version == max(versions)]
        source = min(have, key=lambda peer: (expert not in holdings[peer].owned, peer))
        moves.append(Move(expert, source, target))
    return moves
