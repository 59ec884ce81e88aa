"""Agents that act, tell each other what they see, and learn one policy together."""

from __future__ import annotations

import math
import struct
from typing import Any, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np

from .._described import takes
from .._errors import InvalidArgument
from .._settings import finite, position, setting
from ..diloco._member import StepInfo
from ..diloco._settings import Trained, Verified
from ._hooks import as_numpy
from ._method import DATA_TAG, Gathered, Method
from ._settings import Drawn


class Agent(Protocol):
    """What a program does in the world. `round` is the number of the exchange, and the same on all."""

    def tell(self, round: int) -> bytes:
        """What all are to know of this agent: its state, and what it holds."""

    def hear(self, round: int, told: Mapping[str, bytes], own: str) -> Tuple[float, Any]:
        """told: what each agent that is there told, by its id, in an order that is the same on all;
        own: this agent's id. Returns what its last action has earned, and the features of each action
        that it may take now: an array of (actions, features)."""

    def act(self, action: int) -> None:
        """Does what was chosen."""


class _Choice(NamedTuple):
    features: Any
    value: float


class CooperativeSarsaSettings(Drawn, Verified, Trained):
    agent: Agent = position(kw_only=False)
    discount: float = setting(default=0.9, check=finite(zero=True))
    lr: float = setting(default=0.05, check=finite(most=math.inf))
    explore: float = setting(default=0.1, check=finite(zero=True), same=False)
    explore_seed: Optional[int] = setting(default=None, same=False)

    def _check(self) -> None:
        for name in ("tell", "hear", "act"):
            if not callable(getattr(self.agent, name, None)):
                raise InvalidArgument(f"agent: {self.agent!r} has no {name}()")


class CooperativeSarsa(Method):
    """Each peer is an agent. In each step all agents tell each other what they see and hold; then each
    chooses its next action by what it has heard: one of the highest value or, with the chance
    `explore`, any. Values are linear in features; the weights are learned by SARSA from what all
    agents have found, so that one that has just come knows what the others know. One that has gone,
    for whatever reason, is not heard any more, which is all that the others notice.

    params: the weights: one array of one dimension.
    agent: see Agent. An exception of it leaves step() and changes nothing of the run.
    discount: of what is earned later. lr: of the mean of what the agents have found in a step.
    explore: of this agent; may be set between steps.
    explore_seed: makes that repeatable, for tests; each agent needs one of its own.

    Weights are the same bits on all peers after each step. What an agent found with values that are not
    finite counts for nothing. For the other settings see Method.
    """

    @takes(CooperativeSarsaSettings)
    def __init__(self, given: CooperativeSarsaSettings) -> None:
        self.agent, self.discount, self.lr = given.agent, given.discount, given.lr
        self.explore, self._explore_seed = given.explore, given.explore_seed
        super().__init__(given.comm, given.params, given)
        shapes = [slot.shape for slot in self._layout.whole.slots]
        if len(shapes) != 1 or len(shapes[0]) != 1:
            raise InvalidArgument(f"params: the shapes {shapes}; expected one array of one dimension, the weights")
        (self._weights,) = as_numpy(self._shared.theta)
        self._forget()

    def _forget(self) -> None:
        self._chosen: Optional[_Choice] = None  # the last action's
        self._found: Optional[Any] = None  # what it adds to the weights, which nobody has been told
        self._heard: Gathered = []
        self._skipped = False

    # ---- steps

    def _join(self) -> StepInfo:
        self._forget()
        return super()._join()

    def step(self) -> StepInfo:
        """All tell and hear; then this agent learns and acts."""
        if not self._is_in_run():
            return self.join()
        self._check_not_finished()
        round = self.round
        self._payload = self._packed(self.agent.tell(round))
        info = self._jointly(self._reach)
        self._found = None  # all have it, whatever hear() does now
        told = {peer: bytes(said[self._size :]) for peer, said in self._heard}
        earned, features = self.agent.hear(round, told, self._own_id)
        self.agent.act(self._choose(float(earned), self._checked(features)))
        return info

    @property
    def _size(self) -> int:
        """Of what is told of the weights."""
        return 1 + int(self._weights.nbytes)

    def _packed(self, told: bytes) -> bytes:
        found = np.zeros_like(self._weights) if self._found is None else self._found
        said: bytes = struct.pack("<?", self._found is not None) + found.tobytes() + told
        return said

    def _exchange(self) -> StepInfo:
        heard = self._gather(self._payload, DATA_TAG)
        self._own_id = self.comm.id
        self._heard = [(peer, said) for peer, said in heard if self._is_sound(peer, said)]
        # In this order, so that it does not matter in which they came.
        found = sorted(bytes(said[1 : self._size]) for _, said in self._heard if said[0])
        committed = self._learn([np.frombuffer(one, self._weights.dtype) for one in found])
        self._write()
        received = sum(len(said) for _, said in heard) - len(self._payload)
        return StepInfo(
            participants=len(heard), committed=committed, tx_bytes=len(self._payload), rx_bytes=received,
            skipped=self._skipped,
        )

    def _is_sound(self, peer: str, said: memoryview) -> bool:
        """What no agent can have packed is not heard: all see the same bytes."""
        if len(said) < self._size:
            why = f"{len(said)} bytes; expected at least {self._size}"
        elif not np.isfinite(np.frombuffer(said[1 : self._size], self._weights.dtype)).all():
            why = "it is not finite"
        else:
            return True
        self._warn_of(peer, why)
        return False

    def _learn(self, found: Sequence[Any]) -> bool:
        weights = self._weights.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for one in found:
                weights += weights.dtype.type(self.lr / len(found)) * one
        if not found or not np.isfinite(weights).all():
            return False
        self._weights[...] = weights
        return True

    def _checked(self, features: Any) -> Any:
        features = np.asarray(features, self._weights.dtype)
        if features.ndim != 2 or len(features) == 0 or features.shape[1] != len(self._weights):
            raise InvalidArgument(f"features: {features.shape}; expected (actions, {len(self._weights)})")
        return features

    def _choose(self, earned: float, features: Any) -> int:
        values = features @ self._weights
        dice = np.random.default_rng(None if self._explore_seed is None else [self._explore_seed, self.round])
        explores = dice.random() < self.explore
        # While nothing is known, all values are equal, and any action is as good as another.
        known = np.where(np.isnan(values), -np.inf, values)
        action = int(dice.choice(len(values) if explores else np.flatnonzero(known == known.max())))
        before, self._chosen = self._chosen, _Choice(features[action], float(values[action]))
        self._found, self._skipped = None, False
        if before is not None:
            surprise = earned + self.discount * self._chosen.value - before.value
            found = before.features * self._weights.dtype.type(surprise)
            self._skipped = not bool(np.isfinite(found).all())
            self._found = None if self._skipped else found
        return action
