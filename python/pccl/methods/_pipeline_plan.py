"""Assignment and order of the computations in a pipeline. These functions use only data that is the same on all peers.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

FORWARD, BACKWARD = "forward", "backward"
WHOLE = -1  # in place of a stage number: all stages


class Action(NamedTuple):
    kind: str
    micro_batch: int


def schedule(stage: int, stages: int, micro_batches: int, ahead: int = 0) -> List[Action]:
    """Returns the actions of a stage in one-forward-one-backward order (1F1B). First come the forwards that the later
    stages need before they can send the first gradient back, and `ahead` more for each link in between, to keep it
    busy. After that, forwards and backwards alternate."""
    first = min(micro_batches, (stages - 1 - stage) * (1 + ahead))
    actions = [Action(FORWARD, number) for number in range(first)]
    for number in range(micro_batches):
        if first + number < micro_batches:
            actions.append(Action(FORWARD, first + number))
        actions.append(Action(BACKWARD, number))
    return actions


class Seat(NamedTuple):
    replica: int
    stage: int  # or WHOLE

    def stages(self, count: int) -> Sequence[int]:
        return range(count) if self.stage == WHOLE else (self.stage,)


def assign(peers: Sequence[Tuple[str, Optional[int]]], stages: int) -> Dict[str, Seat]:
    """Assigns replicas and stages to peers. peers: in order of rank, each with its stage, None for a peer without one,
    or WHOLE. Each peer with the whole model is a replica. The others keep their stages; a peer without one takes the
    stage with the fewest peers. If another distribution completes more replicas, the last peers of the fullest stage
    move. The k-th peers of all stages form a replica."""
    whole = [peer for peer, stage in peers if stage == WHOLE]
    of_stage: List[List[str]] = [
        [peer for peer, stage in peers if stage == number] for number in range(stages)
    ]
    for peer, stage in peers:
        if stage is None:
            min(of_stage, key=len).append(peer)
    rank = {peer: number for number, (peer, _) in enumerate(peers)}
    possible = sum(map(len, of_stage)) // stages
    while min(map(len, of_stage)) < possible:
        moved = max(of_stage, key=len).pop()
        min(of_stage, key=len).append(moved)
    seats = {peer: Seat(number, WHOLE) for number, peer in enumerate(whole)}
    for number, holders in enumerate(of_stage):
        for team, peer in enumerate(sorted(holders, key=rank.__getitem__)):
            seats[peer] = Seat(len(whole) + team, number)
    return seats


def complete(seats: Mapping[str, Seat], stages: int) -> Set[int]:
    """Returns the replicas that have all stages."""
    there: Dict[int, Set[int]] = {}
    for seat in seats.values():
        there.setdefault(seat.replica, set()).update(seat.stages(stages))
    return {replica for replica, numbers in there.items() if len(numbers) == stages}


class Handover(NamedTuple):
    donor: Optional[str]  # None: no peer has the stage, so all use its initial parameters
    needing: Tuple[str, ...]


Held = Mapping[str, Mapping[int, Tuple[int, str]]]  # for each peer, its stages with their round and a digest


def handovers(seats: Mapping[str, Seat], held: Held, stages: int, round: int) -> Dict[int, Handover]:
    """Returns the transfers after which all peers with the same stage have the same parameters of this round: the most
    common ones, or, if several are equally common, the ones that the lowest rank has."""
    found: Dict[int, Handover] = {}
    for stage in range(stages):
        wanting = [peer for peer, seat in seats.items() if stage in seat.stages(stages)]
        digests = {peer: of[stage][1] for peer, of in held.items() if stage in of and of[stage][0] == round}
        # A peer that moves drops its stage
        there = {peer: digest for peer, digest in digests.items() if peer in wanting}
        if not there:
            if wanting and round == 0:
                found[stage] = Handover(None, tuple(wanting))
            continue
        right = max(there.values(), key=list(digests.values()).count)
        needing = tuple(peer for peer in wanting if there.get(peer) != right)
        if needing:
            found[stage] = Handover(next(peer for peer in there if there[peer] == right), needing)
    return found


def missing(held: Held, stages: int, round: int) -> Sequence[int]:
    """Returns the stages for which no peer has this round's parameters."""
    there = {stage for of in held.values() for stage, (at, _) in of.items() if at == round}
    return [stage for stage in range(stages) if stage not in there and round > 0]


def counting(told: Mapping[str, Tuple[Seat, bool]], stages: int) -> Set[int]:
    """Returns the replicas that have all stages and have trained for the whole round. told: for each peer, its seat and
    whether it has trained for the whole round."""
    ready: Dict[str, Any] = {peer: seat for peer, (seat, is_ready) in told.items() if is_ready}
    return complete(ready, stages)
