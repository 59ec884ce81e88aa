#!/usr/bin/env python3
"""Flying access points that take over users of a full ground station (cells.py) and learn one policy.

Each access point is a peer. In each step it sends its cell, the users that it serves and the users that it receives.

    python offloading.py 127.0.0.1:48148                 start any number of peers at any time; Ctrl-C lands one
    python offloading.py 127.0.0.1:48148 --battery 200   lands when the battery is empty, and takes off again

All agents have the same weights after each step. If one is killed, its users become free and the others continue.
"""

from __future__ import annotations

import argparse
import signal
import struct
import typing
from typing import Mapping

import cells
import numpy as np

import pccl
from pccl.methods import CooperativeSarsa

if typing.TYPE_CHECKING:
    from cells import Bools, Floats, Ints

PLACE = struct.Struct("<3B")  # number, cell
MASK_BYTES = (cells.USERS + 7) // 8


def exploring(round: int) -> float:
    return max(0.02, 0.3 * (1 - round / 160))


def _masks(said: list[bytes]) -> Bools:
    """Returns an array of shape (agents, 2, users): the users that each agent serves, and the users that it receives.
    """
    bits = np.frombuffer(b"".join(one[PLACE.size :] for one in said), np.uint8).reshape(len(said), 2, MASK_BYTES)
    return np.unpackbits(bits, axis=2, count=cells.USERS).astype(bool)


class Flyer:
    """An agent. sees: true to choose actions with the others' messages; false to use only the users that it receives
    itself, while the others still occupy users and the band."""

    def __init__(self, world: cells.World, number: int, sees: bool = True) -> None:
        self.world, self.number, self.sees = world, number, sees
        self.path: list[tuple[int, int, int, int]] = []  # step, cell, users
        self.take_off()

    def take_off(self) -> None:
        self.place, self.mine = cells.depot(self.number), np.zeros(cells.USERS, bool)
        self.total = 0  # number of users that all agents serve together
        self.memory = cells.Memory()

    def tell(self, round: int) -> bytes:
        heard = cells.apart(self.world.at(round)[0], self.place) <= cells.SENSE**2
        return PLACE.pack(self.number, *self.place) + np.packbits([self.mine, heard], axis=1).tobytes()

    def hear(self, round: int, told: Mapping[str, bytes], own: str) -> tuple[float, Floats]:
        order = sorted(told, key=lambda peer: (told[peer], peer))  # by number
        said, me = [told[peer] for peer in order], order.index(own)
        places = np.array([PLACE.unpack_from(one)[1:] for one in said])
        mine, heard = _masks(said).swapaxes(0, 1)
        users, offered = self.world.at(round)
        serving = cells.associate(users, places, np.where(mine.any(0), mine.argmax(0), cells.NOBODY), offered)
        served = serving != cells.NOBODY
        self.mine, self.total = serving == me, int(served.sum())
        self.path.append((round, int(self.place[0]), int(self.place[1]), int(self.mine.sum())))
        # What this agent knows. The code below uses nothing else about users and other agents.
        known = np.arange(len(said)) if self.sees else np.array([me])
        hears = heard[known].any(0)
        memory, wanting = self.memory, offered & self.memory.note(round, users, hears)
        power = cells.POWER[cells.apart(memory.places, places)]
        power = power.sum(0) - power[me]
        memory.interference = np.where(self.sees | hears, power, memory.interference)
        self.know(places[known], int(np.flatnonzero(known == me)[0]), wanting)
        others = known[known != me]
        room = np.bincount(serving[served], minlength=len(said))[others] < cells.ROOM
        free = wanting & ~(served if self.sees else self.mine)
        return self.mine.sum() / cells.ROOM, cells.features(self.place, memory, self.mine, free, places[others], room)

    def know(self, places: Ints, me: int, wanting: Bools) -> None:
        """Passes knowledge to planners: the cells of the known agents, of which this is number `me`, and the known
        users that can be served."""

    def act(self, action: int) -> None:
        self.place = cells.moves(self.place)[action]


def agent(
    comm: pccl.Communicator, seed: int, number: int, min_peers: int = 1, rounds: int | None = None
) -> tuple[CooperativeSarsa, Flyer]:
    flyer, weights = Flyer(cells.World(seed), number), {"weights": np.zeros(len(cells.NAMES))}
    method = CooperativeSarsa(
        comm, weights, flyer, explore_seed=seed * 100 + number, min_peers=min_peers, rounds=rounds, admit_every=5
    )
    return method, flyer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
    parser.add_argument("--number", type=int, choices=range(256), default=0, metavar="0..255", help="of this agent")
    parser.add_argument("--seed", type=int, default=1, help="of the world; the same for all")
    parser.add_argument("--agents", type=int, default=1, help="wait until this many are there")
    parser.add_argument("--battery", type=int, default=1_000_000_000, help="steps that it can fly")
    parser.add_argument("--rounds", type=int, default=1_000_000_000)
    args = parser.parse_args()

    stopping: list[bool] = []
    signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

    method, flyer = agent(pccl.Communicator(args.master), args.seed, args.number, args.agents, args.rounds)
    battery = args.battery
    method.join()
    while not stopping and not method.finished:
        if battery == 0:
            method.close()
            print(f"landed after {method.round} rounds", flush=True)
            flyer.take_off()
            battery = args.battery
            method.rejoin(pccl.Communicator(args.master))
        method.explore = exploring(method.round)
        info, battery = method.step(), battery - 1
        own = flyer.mine.sum()
        print(f"round {info.round}: {info.participants} agents, {own} users of {flyer.total} are this one's")
        print(f"state {info.round} {method.digest()}", flush=True)
    method.close()


if __name__ == "__main__":
    main()
