"""The world of offloading.py: a ground station that cannot serve all users, and flying access points (agents) that take
over some of its users, under the constraints in the abstract of https://arxiv.org/abs/2402.02957. Requires numpy.

* Rate: all agents send in the same band, so a user's rate depends on its SINR; the ground station has another band.
* Quality of service: an agent serves a user only at MIN_RATE or more, on one of its ROOM channels. At one bit per
  second and hertz the signal exceeds the sum of all interference, so at most one agent can serve a user.
* Velocity: in each step an agent stays or moves by one cell. Agents and users are in cells of a finite grid.

A user stays with its agent while the rate is sufficient. The seed, the step and the agents' positions determine the
state of the world.
"""

from __future__ import annotations

import functools
import typing

import numpy as np

if typing.TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

SIDE, USERS, CROWDS = 24, 120, 6  # a cell is 100 m wide and a step takes 10 s, so agents fly at 10 m/s
DRIFT = 0.03  # speed of a crowd, in cells per step
CHANNEL, MIN_RATE = 1.0, 1.0  # MHz, Mbit/s
# In cells; exponent; relative to the power at one cell, for a range of 4 cells without interference
HEIGHT, LOSS, NOISE = 1.0, 3.0, 1 / 70
# Range within which an agent receives users, in cells; capacity of an agent and of the ground station
SENSE, ROOM = 6.0, 20
BASE: Ints = np.array([SIDE // 2, SIDE // 2])
MOVES: Ints = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]])
REMEMBERED = 100  # number of steps for which a received user is remembered
NAMES = ["users there", "own free users", "all free users", "other agents", "1"]  # names of the features
NOBODY = -1
SINR = 2 ** (MIN_RATE / CHANNEL) - 1  # sufficient SINR
FAR: Floats = np.sqrt(np.arange(2 * SIDE**2 + 1))  # indexed by the squared distance, as are the following
POWER: Floats = (FAR**2 + HEIGHT**2) ** (-LOSS / 2)  # received power
PULL: Floats = np.exp(-FAR / 4)
CROWD: Floats = np.exp(-FAR / 3.5)


class World:
    """The cells of the users, as a function of seed and step."""

    def __init__(self, seed: int) -> None:
        self.seed, dice = seed, np.random.default_rng(seed)
        self._start = dice.uniform(2, SIDE - 2, (CROWDS, 2))
        angles = dice.uniform(0, 2 * np.pi, CROWDS)
        self._speed = DRIFT * np.stack([np.cos(angles), np.sin(angles)], 1)
        self._crowd = dice.integers(0, CROWDS, USERS)
        self._offset = dice.normal(0, 1.6, (USERS, 2))

    @functools.lru_cache(maxsize=1)
    def at(self, step: int) -> tuple[Ints, Bools]:
        """Returns the cells of the users, and which of them the ground station does not serve. Crowds move in straight
        lines and are reflected at the edges."""
        path = np.mod(self._start + step * self._speed, 2 * SIDE)
        centers = np.minimum(path, 2 * SIDE - path)
        users = np.clip(np.rint(centers[self._crowd] + self._offset), 0, SIDE).astype(np.int64)
        power = POWER[apart(users, BASE)]
        nearest = np.argsort(-power, kind="stable")[:ROOM]
        offered = np.ones(USERS, bool)
        offered[nearest[power[nearest] >= SINR * NOISE]] = False
        return users, offered


def depot(number: int) -> Ints:
    """Returns the cell from which an agent takes off, next to the ground station."""
    cell: Ints = BASE + MOVES[number % len(MOVES)]
    return cell


def moves(place: Ints) -> Ints:
    """Returns the cells in which an agent can be after the next step, by action."""
    there: Ints = np.minimum(np.maximum(place + MOVES, 0), SIDE)
    return there


def apart(users: Ints, places: Ints) -> Ints:
    """Returns squared distances of shape (..., users), for places of shape (..., 2)."""
    x, y = places[..., :1] - users[:, 0], places[..., 1:] - users[:, 1]
    return x * x + y * y


def reaches(users: Ints, places: Ints, interference: Floats | float = 0.0) -> Bools:
    """Returns an array of shape (..., places, users), true where the rate is sufficient while all places send.
    interference: interference by others."""
    power = POWER[apart(users, places)]
    enough: Bools = power >= SINR * (NOISE + interference + power.sum(-2, keepdims=True) - power)
    return enough


def associate(users: Ints, places: Ints, before: Ints, wanting: Bools) -> Ints:
    """Returns the index of the agent that serves each user, or NOBODY. before: the result for the previous step.
    wanting: users that the ground station does not serve."""
    after = np.full(len(users), NOBODY)
    agent, user = np.nonzero(reaches(users, places) & wanting)
    order = np.lexsort((apart(users, places)[agent, user], before[user] != agent, agent))
    agent, user = agent[order], user[order]
    has_room = np.arange(len(agent)) - np.searchsorted(agent, agent) < ROOM
    after[user[has_room]] = agent[has_room]
    return after


class Memory:
    """The cells in which users were last received, and the interference that they measured."""

    def __init__(self) -> None:
        self.places, self._steps = np.zeros((USERS, 2), np.int64), np.full(USERS, -REMEMBERED - 1)
        self.interference = np.zeros(USERS)

    def note(self, step: int, users: Ints, heard: Bools) -> Bools:
        """Records the users that were received. Returns the users whose cell is known."""
        self.places[heard], self._steps[heard] = users[heard], step
        return step - self._steps <= REMEMBERED


def features(place: Ints, known: Memory, mine: Bools, free: Bools, others: Ints, room: Bools) -> Floats:
    """Returns one row per move: the users that could be served there, and how much the agent approaches three targets,
    each weighted by its own free capacity: free users to whom no other agent with capacity is nearer, all free users,
    and other agents. mine, free: users of this agent, and users without an agent, as far as it knows. others: known
    places of other agents. room: whether each of these has capacity."""
    there = moves(place)
    far = apart(known.places, there)
    could = POWER[far] >= SINR * (NOISE + known.interference)
    served = np.minimum((could & (mine | free)).sum(1), ROOM) / ROOM
    waiting = free & ~could[0]
    own = waiting & (far[0] < apart(known.places, others[room]).min(0, initial=2 * SIDE**2))
    idle = 1 - min(int(mine.sum()), ROOM) / ROOM
    crowd = CROWD[apart(others, there)].sum(1)
    pull = PULL[far]
    pulls = [_nearer(pull[:, which].sum(1)) * idle for which in (own, waiting)]
    return np.stack([served, *pulls, (crowd - crowd[0]) * idle, np.ones(len(MOVES))], 1)


def _nearer(pull: Floats) -> Floats:
    """Returns the change of the pull by each move, scaled to at most 1 in magnitude."""
    change: Floats = pull - pull[0]
    most = float(np.abs(change).max())
    if most > 0:
        change /= most
    return change
