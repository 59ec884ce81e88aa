"""Agents that act, exchange observations, and learn one policy together."""

from __future__ import annotations

import math
import struct
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

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
    """An agent, implemented by the program. `round` is the number of the exchange, the same on all peers."""

    def tell(self, round: int) -> bytes:
        """Returns the agent's message to all agents: its state, and anything else that they need."""

    def hear(self, round: int, told: Mapping[str, bytes], own: str) -> Tuple[float, Any]:
        """Returns the reward of the agent's last action, and the features of each action that it may take now, as an
        array of shape (actions, features). told: the messages of the present agents by id, in an order that is the same
        on all peers. own: this agent's id."""

    def act(self, action: int) -> None:
        """Performs the chosen action."""


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


class Learner:
    """The local part of SARSA for one agent. Changes `weights` in place."""

    def __init__(self, weights: Any, lr: float, discount: float, explore_seed: Optional[int] = None) -> None:
        self.weights, self.lr, self.discount, self._explore_seed = weights, lr, discount, explore_seed
        self.forget()

    def forget(self) -> None:
        """Drops the last action and its result."""
        self._chosen: Optional[_Choice] = None
        self._found: Optional[Any] = None  # change to the weights that has not been sent
        self.skipped = False

    def sent(self) -> None:
        """Marks the change to the weights as sent."""
        self._found = None

    def pack(self, told: bytes) -> bytes:
        found = np.zeros_like(self.weights) if self._found is None else self._found
        said: bytes = struct.pack("<?", self._found is not None) + found.tobytes() + told
        return said

    def unpack(self, heard: Gathered, warn: Callable[[str, str], None]) -> Tuple[Dict[str, bytes], List[bytes]]:
        """Returns the agents' messages by id, and their changes to the weights, sorted. All peers ignore bytes that
        cannot come from pack(), with a warning."""
        told, found, size = {}, [], 1 + int(self.weights.nbytes)
        for peer, said in heard:
            if len(said) < size:
                warn(peer, f"{len(said)} bytes; expected at least {size}")
            elif not np.isfinite(np.frombuffer(said[1:size], self.weights.dtype)).all():
                warn(peer, "not finite")
            else:
                told[peer] = bytes(said[size:])
                if said[0]:
                    found.append(bytes(said[1:size]))
        return told, sorted(found)

    def learn(self, found: Sequence[bytes]) -> bool:
        """Adds the learning rate times the mean of `found` to the weights. Returns false if they did not change."""
        weights = self.weights.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for one in found:
                weights += weights.dtype.type(self.lr / len(found)) * np.frombuffer(one, weights.dtype)
        if not found or not np.isfinite(weights).all():
            return False
        self.weights[...] = weights
        return True

    def choose(self, round: int, explore: float, earned: float, features: Any) -> int:
        """Returns the next action. Stores the change to the weights that results from the last action, for pack()."""
        features = np.asarray(features, self.weights.dtype)
        if features.ndim != 2 or len(features) == 0 or features.shape[1] != len(self.weights):
            raise InvalidArgument(f"features: {features.shape}; expected (actions, {len(self.weights)})")
        values = features @ self.weights
        generator = np.random.default_rng(None if self._explore_seed is None else [self._explore_seed, round])
        explores = generator.random() < explore
        # Initially all values are equal, so the choice among the best actions is random.
        known = np.where(np.isnan(values), -np.inf, values)
        action = int(generator.choice(len(values) if explores else np.flatnonzero(known == known.max())))
        before, self._chosen = self._chosen, _Choice(features[action], float(values[action]))
        self._found, self.skipped = None, False
        if before is not None:
            surprise = earned + self.discount * self._next(values, action) - before.value
            found = before.features * self.weights.dtype.type(surprise)
            self.skipped = not bool(np.isfinite(found).all())
            self._found = None if self.skipped else found
        return action

    def _next(self, values: Any, action: int) -> float:
        """Returns the value of the next action. Q-learning would return the best value instead."""
        return float(values[action])


class CooperativeSarsa(Method):
    """Runs an agent on each peer. In each step all agents exchange messages. Then each uses them to select its next
    action: one with the highest value or, with probability `explore`, any. Values are linear in the features. SARSA
    learns the weights from the results of all agents, so a newcomer has the knowledge of the others. An agent that
    leaves is simply missing from the next exchange.

    params: the weights, as a single one-dimensional array. agent: see Agent. If it raises, step() raises the exception,
        and the run is unchanged. discount: factor of later rewards. lr: factor of the mean of the agents' changes in a
        step. explore: probability for this agent; may be set between steps. explore_seed: makes exploration
        reproducible, for tests; each agent needs a different one.

    After each step the weights have the same bits on all peers. An agent's change that is not finite is left out. For
    the other settings see Method.
    """

    @takes(CooperativeSarsaSettings)
    def __init__(self, given: CooperativeSarsaSettings) -> None:
        self.agent, self.discount, self.lr = given.agent, given.discount, given.lr
        self.explore = given.explore
        super().__init__(given.comm, given.params, given)
        shapes = [slot.shape for slot in self._layout.whole.slots]
        if len(shapes) != 1 or len(shapes[0]) != 1:
            raise InvalidArgument(f"params: the shapes {shapes}; expected one array of one dimension, the weights")
        (weights,) = as_numpy(self._shared.theta)
        self._learner = Learner(weights, self.lr, self.discount, given.explore_seed)
        self._messages: Mapping[str, bytes] = {}

    # ---- steps

    def _join(self) -> StepInfo:
        self._learner.forget()
        return super()._join()

    def step(self) -> StepInfo:
        """Exchanges the messages. Then this agent learns and acts."""
        if not self._is_in_run():
            return self.join()
        self._check_not_finished()
        round = self.round
        self._payload = self._learner.pack(self.agent.tell(round))
        info = self._jointly(self._reach)
        self._learner.sent()  # even if hear() raises
        earned, features = self.agent.hear(round, self._messages, self._own_id)
        self.agent.act(self._learner.choose(round, self.explore, float(earned), features))
        return info

    def _exchange(self) -> StepInfo:
        heard = self._gather(self._payload, DATA_TAG)
        self._own_id = self.comm.id
        self._messages, found = self._learner.unpack(heard, self._warn_of)
        committed = self._learner.learn(found)
        self._write()
        received = sum(len(said) for _, said in heard) - len(self._payload)
        return StepInfo(
            participants=len(heard), committed=committed, tx_bytes=len(self._payload), rx_bytes=received,
            skipped=self._learner.skipped,
        )
