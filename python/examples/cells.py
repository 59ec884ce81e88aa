"""A small cellular world: a base station that is full, users in crowds that drift, and flying access points (agents)
that take users off it. Needs numpy.

An agent serves users within RANGE, so many as it has room for; it hears users within SENSE. In each step it moves to a
neighboring cell, or stays. A user stays with its agent for as long as that is in range, and otherwise takes the
nearest one that has room. Whoever knows the step and where all agents are knows the same of the world.
"""

from __future__ import annotations

import numpy as np

SIDE, USERS, CROWDS = 24.0, 120, 6
RANGE, SENSE, ROOM = 3.5, 6.0, 20
BASE, BASE_RANGE, BASE_ROOM = np.array([SIDE / 2, SIDE / 2]), 4.0, 20
DRIFT = 0.03  # of a crowd, in cells a step
MOVES = np.array([[0, 0], [0, 1], [1, 0], [0, -1], [-1, 0]], float)
REMEMBERED = 100  # steps since a user was heard
NAMES = ["users there", "own free users", "all free users", "other agents", "1"]  # of the features
NOBODY = -1


class World:
    """Where users are, as a function of the seed and the step."""

    def __init__(self, seed):
        dice = np.random.default_rng(seed)
        self._start = dice.uniform(2, SIDE - 2, (CROWDS, 2))
        angles = dice.uniform(0, 2 * np.pi, CROWDS)
        self._speed = DRIFT * np.stack([np.cos(angles), np.sin(angles)], 1)
        self._crowd = dice.integers(0, CROWDS, USERS)
        self._offset = dice.normal(0, 1.6, (USERS, 2))

    def users(self, step):
        """Crowds go straight on, and are reflected at the edge."""
        path = np.mod(self._start + step * self._speed, 2 * SIDE)
        centers = np.minimum(path, 2 * SIDE - path)
        return np.clip(centers[self._crowd] + self._offset, 0, SIDE)


def depot(number):
    """Where an agent takes off: around the base station."""
    return np.floor(BASE) + MOVES[number % len(MOVES)]


def moved(place, action):
    return np.clip(place + MOVES[action], 0, SIDE)


def associate(users, places, before, wanting):
    """For each user the agent that serves it (its place in the list), or NOBODY. before: the same of the last step.
    wanting: the users that the base station does not serve; see offered()."""
    after = np.full(len(users), NOBODY)
    if len(places) == 0:
        return after
    far = np.linalg.norm(users[:, None] - places[None], axis=2)
    kept = np.flatnonzero(wanting & (before != NOBODY) & (far[np.arange(len(users)), before] <= RANGE))
    after[kept] = before[kept]
    room = ROOM - np.bincount(after[kept], minlength=len(places))
    near = (far <= RANGE) & (wanting & (after == NOBODY))[:, None]
    pairs = np.argwhere(near)
    for user, agent in pairs[np.argsort(far[near], kind="stable")]:
        if after[user] == NOBODY and room[agent] > 0:
            after[user] = agent
            room[agent] -= 1
    return after


def offered(users):
    """The users that the base station has no room for."""
    far = np.linalg.norm(users - BASE, axis=1)
    served = np.argsort(far, kind="stable")[:BASE_ROOM]
    left = np.ones(len(users), bool)
    left[served[far[served] <= BASE_RANGE]] = False
    return left


class Memory:
    """Where users were when they were heard last."""

    def __init__(self):
        self.places, self._steps = np.zeros((USERS, 2)), np.full(USERS, -REMEMBERED - 1)

    def note(self, step, users, heard):
        """Returns which users it knows of."""
        self.places[heard], self._steps[heard] = users[heard], step
        return step - self._steps <= REMEMBERED


def features(place, users, mine, free, others, idle):
    """What is known of each move: users it could serve there; how much nearer it comes to free users to whom nobody
    else with room is nearer, and to all free ones, and to other agents, the more so the more room it has. mine, free:
    which users are its own, and which nobody's, as far as it knows. others: places of the agents that it knows of;
    idle: which of them have room."""
    there = np.clip(place + MOVES, 0, SIDE)
    far = np.linalg.norm(there[:, None] - users[None], axis=2)
    served = np.minimum(((far <= RANGE) & (mine | free)).sum(1), ROOM) / ROOM
    waiting = free & (far[0] > RANGE)
    to_others = np.linalg.norm(users[:, None] - others[None, idle], axis=2)
    own = waiting & (far[0] < to_others.min(1, initial=np.inf))
    room = 1 - min(mine.sum(), ROOM) / ROOM
    pulls = [_nearer(far[:, which]) * room for which in (own, waiting)]
    crowd = np.exp(-np.linalg.norm(there[:, None] - others[None], axis=2) / RANGE).sum(1)
    return np.stack([served, *pulls, (crowd - crowd[0]) * room, np.ones(len(MOVES))], 1)


def _nearer(far):
    """For each move, from -1 to 1: by how much of a cell it comes nearer to some of these, the near ones first."""
    pull = np.exp(-far / 4).sum(1)
    most = np.abs(pull - pull[0]).max()
    return (pull - pull[0]) / most if most > 0 else 0 * pull
