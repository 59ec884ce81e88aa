"""The cellular world of examples/cells.py, with agents that learn together over the library, with agents that learn by
themselves, and with a particle swarm. All have the same budget: so many steps of the world.

    python -m lab.agents ADDRESS NUMBER --workers 4 --steps 200        one agent, in a process of its own
"""

import argparse
import json
import os
import pathlib
import signal
import sys
import threading

import numpy as np

import pccl
from pccl.methods import CooperativeSarsa

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import cells  # noqa: E402
import offloading  # noqa: E402

from .peer import gather  # noqa: E402

AGENTS, STEPS = 5, 600


def exploring(step, steps):
    return max(0.02, 0.3 * (1 - step / (0.4 * steps)))


def score(totals):
    """The mean of the users that were served in the second half."""
    return float(np.mean(totals[len(totals) // 2 :]))


# ---- together


def fly(method, flyer, steps, each=lambda: None):
    """Returns how many users all served in each step."""
    totals = []
    method.join()
    while method.round < steps:
        method.explore = exploring(method.round, method.rounds)
        method.step()
        totals.append(flyer.total)
        each()
    return totals


def made(comm, seed, number, min_peers, steps):
    """An agent, and what it flies."""
    flyer = offloading.Flyer(seed, number)
    weights = {"weights": np.zeros(len(cells.NAMES))}
    method = CooperativeSarsa(
        comm, weights, flyer, explore_seed=seed * 100 + number, min_peers=min_peers, rounds=steps, admit_every=5
    )
    return method, flyer


def together(address, seed, agents=AGENTS, steps=STEPS):
    """(totals, flyers, weights), of threads of this process."""
    found = [None] * agents

    def one(number):
        method, flyer = made(pccl.Communicator(address), seed, number, agents, steps)
        found[number] = fly(method, flyer, steps), flyer, method.state_dict()["theta.float64"]
        method.close()

    _in_threads(one, agents)
    totals, flyers, weights = zip(*found)
    return totals[0], flyers, weights


def story(address, seed, steps=STEPS, falls_in=200):
    """Flyers: four, of which the last one falls in this step; then another one takes off."""
    flyers, ready, fallen = [None] * 5, threading.Barrier(4), threading.Event()

    def one(number):
        if number == 4:
            fallen.wait()
        with pccl.Communicator(address) as comm:
            if number < 4:
                ready.wait()
                gather(comm, 4)
            method, flyers[number] = made(comm, seed, number, 1, steps)
            fly(method, flyers[number], falls_in if number == 3 else steps)
        if number == 3:
            fallen.set()

    _in_threads(one, len(flyers))
    return flyers


def _in_threads(call, count):
    threads = [threading.Thread(target=call, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# ---- each by itself


def apart(seed, agents=AGENTS, steps=STEPS, lr=0.05, discount=0.9):
    """Independent Q-learning: the same features, rewards, rates and exploration; but an agent knows of its own users
    and those that it hears, and has weights of its own."""
    world, dice = cells.World(seed), np.random.default_rng([seed, 1])
    places = np.array([cells.depot(number) for number in range(agents)])
    serving, totals = np.full(cells.USERS, cells.NOBODY), []
    weights, last = np.zeros((agents, len(cells.NAMES))), [None] * agents
    memories = [cells.Memory() for _ in range(agents)]
    for step in range(steps):
        users = world.users(step)
        offered = cells.offered(users)
        serving = cells.associate(users, places, serving, offered)
        totals.append(int((serving != cells.NOBODY).sum()))
        for number, own in enumerate(weights):
            mine = serving == number
            heard = np.linalg.norm(users - places[number], axis=1) <= cells.SENSE
            free = offered & ~mine & memories[number].note(step, users, heard)
            nobody = np.zeros((0, 2)), np.zeros(0, bool)
            found = cells.features(places[number], memories[number].places, mine, free, *nobody)
            values = found @ own
            if last[number] is not None:
                surprise = mine.sum() / cells.ROOM + discount * values.max() - last[number] @ own
                own += lr * surprise * last[number]
            explores = dice.random() < exploring(step, steps)
            action = int(dice.choice(len(values) if explores else np.flatnonzero(values == values.max())))
            last[number] = found[action]
            places[number] = cells.moved(places[number], action)
    return totals


# ---- a swarm


def swarm(seed, agents=AGENTS, steps=STEPS, particles=10, inertia=0.72, pull=1.49, forgets=0.995):
    """A particle is a place for each agent. In each step one of them is tried, without flying there; the agents are at
    the best that is known, without flying there either. What a particle has found fades, because crowds drift."""
    world, dice = cells.World(seed), np.random.default_rng([seed, 2])
    at = dice.uniform(0, cells.SIDE, (particles, agents, 2))
    speed, best, found, totals = dice.normal(0, 1, at.shape), at.copy(), np.full(particles, -1.0), []
    for step in range(steps):
        users, one = world.users(step), step % particles

        def served(places):
            nobody = np.full(cells.USERS, cells.NOBODY)
            return int((cells.associate(users, places, nobody, cells.offered(users)) != cells.NOBODY).sum())

        now = served(at[one])
        found *= forgets
        if now > found[one]:
            best[one], found[one] = at[one], now
        leader = best[np.argmax(found)]
        totals.append(served(leader))
        own, others = dice.random((2, agents, 2))
        speed[one] = inertia * speed[one] + pull * (own * (best[one] - at[one]) + others * (leader - at[one]))
        speed[one] = np.clip(speed[one], -4, 4)
        at[one] = np.clip(at[one] + speed[one], 0, cells.SIDE)
    return totals


# ---- a process


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--dies-in", type=int, default=-1, help="the step before which it is killed")
    given = parser.parse_args()
    with pccl.Communicator(given.address) as comm:
        gather(comm, given.workers)
        method, flyer = made(comm, given.seed, given.number, 1, given.steps)

        def told():
            round, *place, _ = flyer.path[-1]
            users = np.flatnonzero(flyer.mine).tolist()
            print(json.dumps({
                "round": round, "place": place, "users": users, "total": flyer.total, "digest": method.digest(),
            }), flush=True)
            if method.round == given.dies_in:
                os.kill(os.getpid(), signal.SIGKILL)

        fly(method, flyer, given.steps, told)
        method.close()


if __name__ == "__main__":
    main()
