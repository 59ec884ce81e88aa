"""What all methods have in common."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .._communicator import Communicator
from .._errors import InvalidArgument, InvalidUsage, PeerLostError
from ..diloco import _arrays, _membership
from ..diloco._arrays import Flats, Layout
from ..diloco._member import Member, StepInfo, check_whole
from ..diloco._membership import Meeting, Membership, Setting
from ..diloco._reduction import FIRST_TAG, Reduction
from ..diloco._shared import Shared, check_shape, write_to

# Tags of DiLoCo's membership are below, those of its fragments above.
ROLL_TAG, DATA_TAG = FIRST_TAG + 16, FIRST_TAG + 32

Gathered = List[Tuple[str, memoryview]]

_log = logging.getLogger("pccl.methods")


class Method(Member):
    """A peer in a run of one of the methods. All have these settings:

    seed: of everything that is drawn alike by all; the same on all peers.
    inner_steps: steps that a peer trains by itself before it talks to others; a round.
    min_peers: with fewer, the end of a round waits for more.
    admit_every: newcomers are admitted at the end of every so many rounds.
    verify_every: all peers compare their state by digests once in so many rounds; 0: never.
    rounds: after so many the run is `finished`.

    An exception that leaves step() or join() means that this peer has left the run; rejoin()
    continues with a new communicator. All calls except close() must come from one thread.
    """

    _kind = "Method"

    def __init__(
        self,
        comm: Communicator,
        params: Any,
        settings: Sequence[Setting],
        *,
        inner_steps: int = 1,
        seed: int = 0,
        min_peers: int = 1,
        admit_every: int = 10,
        verify_every: int = 50,
        rounds: Optional[int] = None,
        momentum: bool = False,
        is_common: bool = True,
    ) -> None:
        """For methods. settings: what else must be the same on all peers. is_common: so are the
        parameters, at the end of each round."""
        check_whole(
            ("inner_steps", inner_steps, 1), ("seed", seed, 0), ("min_peers", min_peers, 1),
            ("admit_every", admit_every, 1), ("verify_every", verify_every, 0),
            ("rounds", 1 if rounds is None else rounds, 1),
        )
        if seed >= 1 << 63:
            raise InvalidArgument(f"seed: {seed}; expected less than 2**63")
        self.inner_steps, self.seed = inner_steps, seed
        self._min_peers, self._admit_every, self._verify_every = min_peers, admit_every, verify_every
        self._is_common = is_common
        named = _arrays.named_parameters(params)
        layout = Layout(named, [sorted(named)])
        shared = Shared(layout, momentum=momentum, is_common=is_common)
        common = (
            _membership.listing("params", layout.lines()),
            _membership.number("inner_steps", inner_steps),
            _membership.number("seed", seed),
            _membership.number("min_peers", min_peers),
            _membership.number("admit_every", admit_every),
            _membership.number("verify_every", verify_every),
            _membership.limit("rounds", rounds),
        )
        membership = Membership(comm, self._kind, shared, min_peers, rounds, [*common, *settings])
        super().__init__(layout, shared, membership, rounds)
        self._present = 0  # peers at the last meeting or exchange, as all peers know it

    # ---- what each method does in its own way

    def _exchange(self) -> StepInfo:
        """The joint part of a round."""
        raise NotImplementedError

    def _met(self) -> None:
        """After each meeting, joint with all who have met."""

    def _moved(self) -> None:
        """The parameters are others than those that what is this peer's own was made for."""

    def _own(self) -> Dict[str, Any]:
        """What is this peer's own, as arrays of numpy that a state_dict() has beside what is shared."""
        return {}

    # ---- steps

    def step(self) -> StepInfo:
        """Call it after each step of the optimizer. The last one of a round is joint with others. If
        this peer is not in the run, the call only joins: what was trained before is dropped."""
        if not self._is_in_run():
            return self.join()
        self._check_not_finished()
        if self._shared.position + 1 < self.inner_steps:
            self._shared.position += 1
            return StepInfo(round=self.round)
        return self._jointly(self._reach)

    def _check_not_finished(self) -> None:
        if self.finished:
            raise InvalidUsage(f"{self._kind}: step() after the end of the run, which has {self.rounds} rounds")

    def _join(self) -> StepInfo:
        if not self._has_state:
            self._layout.read(self._shared.theta)
        self._membership.enter(self.comm)
        meeting = self._meet()
        self._write()
        if meeting.moved_bytes > 0 or not self._has_state:
            self._moved()
        self._in_run = self._has_state = True
        return replace(self._told(StepInfo(), meeting), joined=True, participants=self._present)

    def _reach(self) -> StepInfo:
        admits = (self.round + 1) % self._admit_every == 0
        if admits:
            self._membership.ask()
        info = self._exchange()
        self._shared.round, self._shared.position = self.round + 1, 0
        meeting = self._admit(admits)
        if meeting.moved_bytes > 0:  # what this peer had was wrong
            self._write()
            self._moved()
        return replace(self._told(info, meeting), synced=True)

    def _told(self, info: StepInfo, meeting: Meeting) -> StepInfo:
        return replace(
            info,
            round=self.round,
            waited_s=self._waited_s,
            admitted=meeting.newcomers,
            moved_bytes=meeting.moved_bytes,
            finished=self.finished,
        )

    def _admit(self, admits: bool) -> Meeting:
        """All peers decide this alike, by what joint calls have told them."""
        is_pending = admits and self._wait(self._membership.answer)
        if is_pending or self.finished or self._present < self._min_peers:
            self._refresh()
            self._wait(self.comm.update_topology)
            return self._meet()
        verifies = self._is_common and self._verify_every > 0 and self.round % self._verify_every == 0
        if verifies and self._present > 1:
            return Meeting(self._present, moved_bytes=self._wait(self._membership.verify))
        return Meeting(self._present)

    def _meet(self) -> Meeting:
        room, more_room = self._layout.zeros(), self._layout.zeros() if self._shared.momentum else []
        meeting = self._wait(lambda: self._membership.meet(room, more_room))
        self._present = meeting.participants
        self._met()
        return meeting

    # ---- for those that need it

    def _gather(self, payload: bytes, tag: int) -> Gathered:
        """What each peer gives, in an order that is the same on all; repeated with those who
        remain."""
        while True:
            try:
                found = self._wait(lambda: self.comm.all_gather_v(payload, tag=tag, alone_ok=True))
            except PeerLostError:
                continue
            self._present = len(found)
            return found

    def _warn_of(self, peer: str, why: object) -> None:
        _log.warning("round %d: what %s has sent counts for nothing: %s", self.round, peer, why)

    def _call_roll(self) -> List[str]:
        """Joint: the ids of all peers, in an order that is the same on all."""
        return [peer for peer, _ in self._gather(b"", ROLL_TAG)]

    def _average(self, reduction: Reduction, skipped: bool) -> StepInfo:
        """Joint: makes the mean of what the peers have put in the reduction; the one of those that
        are skipped counts for nothing."""
        reduction.give(0.0 if skipped else 1.0, 0)
        if reduction.has_feedback:
            reduction.keep(self.comm)
        reduced = self._wait(lambda: reduction.run(self.comm, True))
        assert reduced is not None
        self._present = reduced.participants
        committed = reduced.weight > 0 and reduction.mean_is_finite()
        (reduction.count if committed else reduction.take_back)()
        return StepInfo(
            participants=reduced.participants,
            committed=committed,
            tx_bytes=reduced.tx_bytes,
            rx_bytes=reduced.rx_bytes,
            skipped=skipped,
        )

    # ---- arrays

    @staticmethod
    def _views(flats: Flats) -> List[Any]:
        """The flat arrays as numpy's, in the same memory."""
        return [flat.numpy() if _arrays.is_tensor(flat) else flat for flat in flats]

    def _refresh(self) -> None:
        """Where each peer's parameters are its own, they are what it shows of itself."""
        if not self._is_common:
            self._layout.read(self._shared.theta)

    def _restore(self) -> None:
        if self._is_common:
            super()._restore()

    # ---- checkpoints

    def state_dict(self) -> Dict[str, Any]:
        """A copy of what is shared, of the end of the last round, as a flat dictionary of arrays and
        numbers for numpy.savez or torch.save; where each peer's parameters are its own, with these
        as they are now. With what else is this peer's own: let each peer load its own."""
        self._notice_close()
        with self._busy:
            self._refresh()
            own = {name: flat.copy() for name, flat in self._own().items()}
            return {**self._shared.state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Call it before join() or rejoin(): the run continues from here, unless another peer has
        come further. Sets the parameters. What is a peer's own, and the state lacks, begins anew.
        Errors change nothing."""
        if self._is_in_run():
            raise InvalidUsage(f"{self._kind}: load_state_dict() of a peer that is in the run")
        with self._busy:
            own = self._own()
            shared = {name: value for name, value in state.items() if name not in own}
            given = {name: state[name] for name in own if name in state}
            self._shared.check(shared)
            for name, value in given.items():
                check_shape(name, value, own[name])
            self._shared.load_state_dict(shared)
            self._write()
            self._moved()
            for name, value in given.items():
                write_to(own[name], value)
            self._has_state = True


def check_fraction(name: str, value: Any, *, zero: bool = False, most: float = 1.0) -> float:
    number = _number(name, value)
    if not (0 <= number if zero else 0 < number) or number > most:
        least = "at least 0" if zero else "more than 0"
        limit = "" if most == float("inf") else f" and at most {most:g}"
        raise InvalidArgument(f"{name}: {value!r}; expected {least}{limit}")
    return number


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0:
        raise InvalidArgument(f"{name}: {value!r}; expected a finite number")
    return float(value)
