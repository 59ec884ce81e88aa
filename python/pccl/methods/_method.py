"""The base class of all methods."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from .._described import takes
from .._errors import InvalidArgument, InvalidUsage, PeerLostError
from .._settings import integer, position
from ..diloco import _arrays, _membership
from ..diloco._arrays import Flats, Layout
from ..diloco._member import Member, StepInfo
from ..diloco._membership import Meeting, Membership
from ..diloco._reduction import FIRST_TAG, Reduction
from ..diloco._shared import Shared, check_shape, write_to
from ._hooks import Hooks, Named, as_numpy
from ._settings import Drawn, Settings

# Lower tags are used by DiLoCo's membership, higher ones by its fragments.
IDS_TAG, DATA_TAG = FIRST_TAG + 16, FIRST_TAG + 32

Gathered = List[Tuple[str, memoryview]]

_HOOKS = ("parts", "own_state", "shared_state", "room", "encode", "decode", "apply")

_log = logging.getLogger("pccl.methods")


class _Given(Settings):
    settings: Union[None, Mapping[str, Any], Drawn] = position(kw_only=False, default=None)

    def of_all(self) -> Drawn:
        """Returns the settings that all methods have."""
        if not isinstance(self.settings, Drawn):
            return self
        twice = [name for name, value in self.compared().items() if value != self._taken[name].default]
        if twice:
            raise InvalidArgument(f"{twice[0]}: given twice, by its name and in the settings")
        return self.settings

    def of_one(self, taken: Sequence[str]) -> Mapping[str, Any]:
        """Returns the settings of this method only. `taken`: names of the common settings."""
        own = self.settings
        if isinstance(own, Drawn):
            return {name: value for name, value in own.compared().items() if name not in taken}
        for name in own or {}:
            if not isinstance(name, str) or name in taken:
                raise InvalidArgument(f"settings: {name!r}; expected a name that methods do not already use")
        return own or {}


class Method(Member):
    """A peer in a run of a method, and the base class for new methods. All methods have these settings:

    settings: settings of the method by name, each a number, a string, True, False, None, or a tuple of these. They must
        be equal on all peers; a peer whose settings differ is refused with the name of the setting. Or a Settings,
        which includes the following settings as well.
    seed: seed of all random numbers that peers have in common; the same on all peers.
    inner_steps: number of steps that a peer trains independently between exchanges; together they are a round.
    min_peers: number of peers for which the end of a round waits.
    admit_every: newcomers are admitted at the end of each round whose number is a multiple of this.
    verify_every: all peers compare digests of their states in each round whose number is a multiple of this; 0: never.
    rounds: number of rounds after which the run is `finished`.

    After an exception from step() or join() this peer has left the run; rejoin() continues with a new communicator. All
    calls except close() must be made from one thread.

    A new method derives from this class and overrides hooks. At the end of each round they are called in this order:

    1. encode(change): returns this peer's contribution. If decode() is not overridden, contributions are arrays, which
       an all-reduce sums up; otherwise they are bytes, and each peer gets every peer's bytes.
    2. decode(told): called once for each peer's bytes.
    3. apply(theta, mean): makes the step.

    The constructor calls own_state(), shared_state() and room(). own_state() is called again whenever another peer's
    parameters have replaced this peer's. All arrays are numpy arrays, in dicts with the names of the parameters or with
    names that the hook chooses. A hook may write to the arrays, or replace them in the dict that it was given. Hooks
    run on a different thread from step(), and must not call the communicator.

    parts        class attribute, the number of exchanges in a round. encode() and apply() are called for each, with its
                 number in `part`. All means of a round are over the same peers. If a peer fails between two exchanges,
                 the exchanges are repeated.
    own, shared  dicts of arrays, initialized by own_state() and shared_state(). `own` belongs to this peer, and is part
                 of its state_dict(). `shared` is the same on all peers; encode() cannot write to it.

    If a hook raises, or returns an unsuitable value, step() raises the error. This peer then leaves the run, with its
    parameters, `own` and `shared` as they were at the end of the last round, and the others continue without it. If
    decode() raises for another peer's bytes, all peers ignore these, except for MemoryError, which does not depend on
    the bytes. A change or a contribution that is not finite is also ignored, and its peer's `own` is restored. If all
    contributions are ignored, or the result of apply() is not finite, the parameters and all states are restored.

    decode() and apply() must compute the same bits on all peers. Use + - * / and square roots of whole arrays, but
    neither matrix products nor sums, which machines round differently.
    """

    _kind = "Method"
    _is_common = True  # true if the parameters are the same on all peers at the end of each round
    _has_momentum = False  # true if the shared state includes a momentum
    parts = 1
    part = 0
    _hooks: Optional[Hooks] = None

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        changes = Method in cls.__bases__ or any(name in cls.__dict__ for name in _HOOKS)
        # Otherwise it keeps its base class's `_kind`, which peers compare
        if changes and "_kind" not in cls.__dict__:
            cls._kind = cls.__name__

    @takes(_Given)
    def __init__(self, given: _Given) -> None:
        """Calls hooks, so set the attributes that they use first."""
        common = given.of_all()
        integer(1)("parts", self.parts)
        self.inner_steps, self.seed, self._min_peers = common.inner_steps, common.seed, common.min_peers
        self._admit_every, self._verify_every = common.admit_every, common.verify_every
        named = _arrays.named_parameters(given.params)
        layout = Layout(named, [sorted(named)])
        if type(self)._exchange is Method._exchange:
            gathers = type(self).decode is not Method.decode
            self._hooks = Hooks(self, self._kind, self.parts, gathers, layout)
        extra = self._hooks.shared.arrays if self._hooks is not None else None
        shared = Shared(layout, extra, momentum=self._has_momentum, is_common=self._is_common)
        if self._hooks is not None:
            self._hooks.show(as_numpy(shared.theta))
        compared = [_membership.listing("params", layout.lines()), *self._compared(given, common)]
        if self._hooks is not None:
            compared.append(_membership.listing("room and shared_state", [*self._hooks.lines(), *shared.lines()]))
        membership = Membership(given.comm, self._kind, shared, common.min_peers, common.rounds, compared)
        super().__init__(layout, shared, membership, common.rounds)
        self._present = 0  # number of peers in the last meeting or exchange, the same on all peers

    def _compared(self, given: _Given, common: Drawn) -> List[_membership.Setting]:
        """Returns the settings that must be the same on all peers: first the common ones, then the method's."""
        compared = [
            _membership.number("inner_steps", common.inner_steps),
            _membership.number("seed", common.seed),
            _membership.number("min_peers", common.min_peers),
            _membership.number("admit_every", common.admit_every),
            _membership.number("verify_every", common.verify_every),
            _membership.limit("rounds", common.rounds),
        ]
        own = {**self._also_compared(), **given.of_one(["params", *(one.name for one in compared)])}
        return [*compared, *(_membership.setting(name, value) for name, value in own.items())]

    # ---- hooks

    def own_state(self, params: Named) -> Named:
        """Returns the initial arrays of `own`. Called again after another peer's parameters have replaced this peer's,
        because the old arrays belong to the old parameters."""
        return {}

    def shared_state(self, params: Named) -> Named:
        """Returns the initial arrays of `shared`, which must be the same on all peers. Newcomers get the run's arrays.
        """
        return {}

    def room(self, params: Named) -> Named:
        """Returns float32 or float64 arrays with the names and shapes of the contributions if these are arrays; by
        default, of the parameters. Called for each part."""
        return {name: np.zeros_like(array) for name, array in params.items()}

    def encode(self, change: Named) -> Any:
        """Returns this peer's contribution, by default the change itself: arrays as room() returns; or, with a
        decode(), bytes or an array whose bytes are sent. b"" means no contribution. change: the parameters at the end
        of the last round minus the current ones, always finite."""
        return change

    def decode(self, told: bytes) -> Named:
        """Returns arrays as room() does, for bytes that encode() returned. A faulty peer may send any bytes: raise an
        exception if they cannot come from encode(). The result must depend only on the bytes and on `shared`."""
        raise NotImplementedError

    def apply(self, theta: Named, mean: Named) -> None:
        """Makes the step by changing theta, the common parameters, and `shared`; by default subtracts the mean from
        theta. mean: the mean of the contributions, which may be overwritten. The result must depend only on these, so
        that all peers get the same bits."""
        for name, array in mean.items():
            theta[name] -= array

    @property
    def own(self) -> Named:
        return {} if self._hooks is None else self._hooks.own.given

    @property
    def shared(self) -> Named:
        return {} if self._hooks is None else self._hooks.shared.given

    # ---- overridden by methods in this package

    def _also_compared(self) -> Mapping[str, Any]:
        """Returns further values that must be equal on all peers, by name."""
        return {}

    def _exchange(self) -> StepInfo:
        """Makes the part of a round that involves the other peers."""
        assert self._hooks is not None
        info = self._hooks.run(self._shared.theta)
        self._present = info.participants
        self._layout.write(self._shared.theta)
        return info

    def _met(self) -> None:
        """Called on all peers after each meeting."""

    def _moved(self) -> None:
        """Initializes `own` again after the parameters were replaced."""
        if self._hooks is not None:
            self._hooks.begin_own()

    def _own(self) -> Named:
        """Returns this peer's unshared arrays for a state_dict(), as numpy arrays."""
        own = {} if self._hooks is None else self._hooks.own.arrays
        return {f"own.{name}": array for name, array in own.items()}

    # ---- steps

    def step(self) -> StepInfo:
        """Counts a step. Call it after each step of the optimizer. The last step of a round involves the other peers.
        If this peer is not in the run, the call only joins it, and drops earlier training."""
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
        return replace(self._completed(StepInfo(), meeting), joined=True, participants=self._present)

    def _reach(self) -> StepInfo:
        admits = (self.round + 1) % self._admit_every == 0
        if admits:
            self._membership.ask()
        info = self._exchange()
        self._shared.round, self._shared.position = self.round + 1, 0
        meeting = self._admit(admits)
        if meeting.moved_bytes > 0:  # this peer's state was wrong
            self._write()
            self._moved()
        return replace(self._completed(info, meeting), synced=True)

    def _completed(self, info: StepInfo, meeting: Meeting) -> StepInfo:
        return replace(
            info,
            round=self.round,
            waited_s=self._waited_s,
            admitted=meeting.newcomers,
            moved_bytes=meeting.moved_bytes,
            finished=self.finished,
        )

    def _admit(self, admits: bool) -> Meeting:
        """Admits newcomers or verifies the state. All peers reach the same decision, because it depends only on results
        that all have."""
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

    # ---- helpers for subclasses

    def _gather(self, payload: bytes, tag: int) -> Gathered:
        """Gathers each peer's bytes, in an order that is the same on all peers. Repeats it with the remaining peers
        after a loss."""
        while True:
            try:
                found = self._wait(lambda: self.comm.all_gather_v(payload, tag=tag, alone_ok=True))
            except PeerLostError:
                continue
            self._present = len(found)
            return found

    def _warn_of(self, peer: str, why: object) -> None:
        _log.warning("round %d: ignoring data from %s: %s", self.round, peer, why)

    def _all_ids(self) -> List[str]:
        """Returns the ids of all peers, in an order that is the same on all. All peers must call it."""
        return [peer for peer, _ in self._gather(b"", IDS_TAG)]

    def _average(self, reduction: Reduction, skipped: bool) -> StepInfo:
        """Averages the peers' deltas in the reduction, without those that are skipped. All peers must call it."""
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

    def _refresh(self) -> None:
        """Copies this peer's parameters to the shared state if each peer has different ones."""
        if not self._is_common:
            self._layout.read(self._shared.theta)

    def _restore(self) -> None:
        if self._is_common:
            super()._restore()

    # ---- checkpoints

    def state_dict(self) -> Dict[str, Any]:
        """Returns a copy of the shared state at the end of the last round: a flat dictionary of arrays and numbers for
        numpy.savez or torch.save. If each peer has different parameters, it includes this peer's current ones. It also
        includes this peer's unshared arrays, so each peer must load its own state."""
        self._notice_close()
        with self._busy:
            self._refresh()
            own = {name: flat.copy() for name, flat in self._own().items()}
            return {**self._shared.state_dict(), **own}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state before join() or rejoin(). The run continues from it, unless another peer is more advanced.
        Sets the parameters, and initializes unshared arrays that the state lacks. If it raises, nothing has changed."""
        if self._is_in_run():
            raise InvalidUsage(f"{self._kind}: load_state_dict() on a peer that is in the run")
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
