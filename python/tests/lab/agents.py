"""The agents of examples/offloading.py, in processes over the library, and in one process: the same functions pack,
unpack, learn and choose, and only the gather is a dictionary.

    python -m lab.agents ADDRESS NUMBER --workers 4 --steps 200        one agent, in a separate process
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import statistics
import sys
import typing
from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np

import pccl
from pccl.methods._sarsa import Learner

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import cells  # noqa: E402
import offloading  # noqa: E402

from .peer import gather  # noqa: E402

if typing.TYPE_CHECKING:
    from cells import Bools, Floats, Ints

AGENTS, STEPS = 5, 400
HAND_SET = (2.0, 1.0, 0.1, -0.5, 0.0)
T95 = 2.776  # Student's t for five seeds


def score(totals: Sequence[int]) -> float:
    """Returns the mean of the users that were served in the second half."""
    return float(np.mean(totals[len(totals) // 2 :]))


# ---- controls


class QLearner(Learner):
    def _next(self, values: Any, action: int) -> float:
        return float(values.max())


class Stays(offloading.Flyer):
    def act(self, action: int) -> None:
        pass


class Searcher(offloading.Flyer):
    """Flies to the best placement of a particle swarm. A particle has a cell for each known agent; in each step all are
    tried on the known users, the first is the agents' present placement, and one starts from the best with one agent
    elsewhere. Agents with the same knowledge compute the same swarm."""

    def __init__(self, world: cells.World, number: int, sees: bool = True, particles: int = 30) -> None:
        super().__init__(world, number, sees)
        self._dice = np.random.default_rng([world.seed, 2] if sees else [world.seed, 2, number])
        self._count, self._at = particles, np.zeros(0)

    def value(self, users: Ints, at: Floats, wanting: Bools) -> Ints:
        others = 0.0 if self.sees else self.memory.interference
        reached = (cells.reaches(users, np.rint(at).astype(np.int64), others) & wanting).sum(-1)
        return np.minimum(reached, cells.ROOM).sum(-1)

    def know(self, places: Ints, me: int, wanting: Bools) -> None:
        if len(self._at) == 0:
            self._at = self._dice.uniform(0, cells.SIDE, (self._count, *places.shape))
            self._speed, self._best = self._dice.normal(0, 1, self._at.shape), self._at.copy()
        self._at[0] = places
        # Crowds drift: so the previous best is tried once more, too.
        now, best = (self.value(self.memory.places, at, wanting) for at in (self._at, self._best))
        self._best = np.where((now > best)[:, None, None], self._at, self._best)
        leader = self._best[np.argmax(np.maximum(now, best))]
        own, others = self._dice.random((2, *self._at.shape))
        pulls = own * (self._best - self._at) + others * (leader - self._at)
        self._speed = np.clip(0.72 * self._speed + 1.49 * pulls, -4, 4)
        self._at = np.clip(self._at + self._speed, 0, cells.SIDE)
        one, of = self._dice.integers(1, self._count), self._dice.integers(len(places))
        self._at[one], self._speed[one] = leader, 0
        self._at[one, of] = self._dice.uniform(0, cells.SIDE, 2)
        self.plan = np.rint(leader).astype(np.int64)
        self._target = self.plan[me]

    def act(self, action: int) -> None:
        super().act(int(np.abs(cells.moves(self.place) - self._target).sum(1).argmin()))


class Control(NamedTuple):
    flyer: Callable[..., offloading.Flyer] = offloading.Flyer
    learner: Callable[..., Learner] = Learner
    lr: float = 0.05
    weights: Sequence[float] = (0.0,) * len(cells.NAMES)
    explore: Optional[float] = None  # None: as the example does
    common: bool = True  # weights


HANDS = {"lr": 0.0, "weights": HAND_SET}
CONTROLS = {
    "stays where it took off": Control(Stays),
    "random": Control(lr=0.0, explore=1.0),
    "hand-set weights": Control(explore=0.0, **HANDS),
    "hand-set weights, explores": Control(**HANDS),
    "Q-learning, own weights": Control(learner=QLearner, common=False),
    "Q-learning, common weights": Control(learner=QLearner),
    "SARSA, own weights": Control(common=False),
    "SARSA, common weights": Control(),
    "particle swarm": Control(Searcher, lr=0.0),
}
EXAMPLE = "SARSA, common weights"


def run(
    seed: int, control: Control = Control(), sees: bool = True, agents: int = AGENTS, steps: int = STEPS
) -> list[int]:
    """Returns the users that all serve, in each step. sees: agents use the others' observations. All learn from each
    agent's results if the weights are common."""
    world = cells.World(seed)
    flyers = [control.flyer(world, number, sees) for number in range(agents)]
    learners = [
        control.learner(np.array(control.weights), control.lr, 0.9, seed * 100 + number) for number in range(agents)
    ]
    totals = []
    for step in range(steps):
        said = [(str(n), memoryview(one.pack(flyers[n].tell(step)))) for n, one in enumerate(learners)]
        for number, (flyer, one) in enumerate(zip(flyers, learners)):
            told, found = one.unpack(said, _refuse)
            one.learn(found if control.common else one.unpack(said[number : number + 1], _refuse)[1])
            earned, features = flyer.hear(step, told, str(number))
            explore = offloading.exploring(step) if control.explore is None else control.explore
            flyer.act(one.choose(step, explore, earned, features))
        totals.append(flyers[0].total)
    return totals


def _refuse(peer: str, why: str) -> None:
    raise AssertionError(f"agent {peer}: {why}")


def bound(seed: int, steps: int = STEPS) -> list[int]:
    """Returns the swarm's placements with all users known and without travel."""
    world = cells.World(seed)
    one = Searcher(world, 0)
    totals, one.plan = [], np.array([cells.depot(number) for number in range(AGENTS)])
    for step in range(steps):
        users, offered = world.at(step)
        one.memory.places = users
        one.know(one.plan, 0, offered)
        totals.append(int(one.value(users, one.plan, offered)))
    return totals


# ---- tables


BLIND = ("stays where it took off", "random")
CELLS = [(name, sees) for name in CONTROLS for sees in ([False] if name in BLIND else [False, True])]
HANDS_EXPLORE = "hand-set weights, explores"
COMPARED = [  # all in pairs of the same seed
    ("sharing what agents hear, hand-set weights", (HANDS_EXPLORE, True), (HANDS_EXPLORE, False)),
    ("sharing what agents hear, SARSA", (EXAMPLE, True), (EXAMPLE, False)),
    ("sharing what agents hear, particle swarm", ("particle swarm", True), ("particle swarm", False)),
    ("sharing the weights, SARSA", (EXAMPLE, True), ("SARSA, own weights", True)),
    ("sharing the weights, Q-learning", ("Q-learning, common weights", True), ("Q-learning, own weights", True)),
    ("SARSA in place of Q-learning", (EXAMPLE, True), ("Q-learning, common weights", True)),
    ("SARSA in place of hand-set weights", (EXAMPLE, True), ("hand-set weights", True)),
    ("SARSA in place of hand-set weights that explore", (EXAMPLE, True), (HANDS_EXPLORE, True)),
    ("particle swarm in place of SARSA", ("particle swarm", True), (EXAMPLE, True)),
    ("particle swarm in place of hand-set weights that explore", ("particle swarm", True), (HANDS_EXPLORE, True)),
]


def scored(what: tuple[str, bool, int]) -> float:
    name, sees, seed = what
    return score(bound(seed) if name == "bound" else run(seed, CONTROLS[name], sees))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Returns the mean, and half of the 95 % interval; the constant is for five values."""
    assert len(values) == 5
    return statistics.mean(values), T95 * statistics.stdev(values) / len(values) ** 0.5


# ---- processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--dies-in", type=int, default=-1, help="the step before which it is killed")
    given = parser.parse_args()
    with pccl.Communicator(given.address) as comm:
        gather(comm, given.workers)
        method, flyer = offloading.agent(comm, given.seed, given.number, rounds=given.steps)
        method.join()
        while not method.finished:
            method.explore = offloading.exploring(method.round)
            method.step()
            round, x, y, _ = flyer.path[-1]
            users = np.flatnonzero(flyer.mine).tolist()
            print(json.dumps({
                "round": round, "place": [x, y], "users": users, "total": flyer.total, "digest": method.digest(),
            }), flush=True)
            if method.round == given.dies_in:
                os.kill(os.getpid(), signal.SIGKILL)
        method.close()


if __name__ == "__main__":
    main()
