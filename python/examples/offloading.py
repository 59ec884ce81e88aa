#!/usr/bin/env python3
"""Flying access points that take users off a full base station (the world of cells.py), and learn together how. Each
is a peer: it tells the others where it is, whom it serves and whom it hears.

    python offloading.py 127.0.0.1:48148                 as many as you like, whenever you like; Ctrl-C lands that one
    python offloading.py 127.0.0.1:48148 --battery 200   lands when it is empty, and takes off again

All have the same weights after each step. If one falls from the sky, its users are left, and the others go on.
"""

import argparse
import signal
import struct

import cells
import numpy as np

import pccl
from pccl.methods import CooperativeSarsa

PLACE = struct.Struct("<B2f")
MASK_BYTES = (cells.USERS + 7) // 8


def packed(mask):
    return np.packbits(mask).tobytes()


def mask_of(said):
    return np.unpackbits(np.frombuffer(said, np.uint8), count=cells.USERS).astype(bool)


class Flyer:
    """An agent in the world of this seed."""

    def __init__(self, seed, number):
        self.world, self.number, self.path = cells.World(seed), number, []
        self.take_off()

    def take_off(self):
        self.place, self.mine = cells.depot(self.number), np.zeros(cells.USERS, bool)
        self.total = 0  # users that all agents serve
        self.memory = cells.Memory()

    def tell(self, round):
        heard = np.linalg.norm(self.world.users(round) - self.place, axis=1) <= cells.SENSE
        return PLACE.pack(self.number, *self.place) + packed(self.mine) + packed(heard)

    def hear(self, round, told, own):
        order = sorted(told, key=lambda peer: (told[peer], peer))  # by number
        places = np.array([PLACE.unpack_from(told[peer])[1:] for peer in order])
        mine, heard = (
            np.array([mask_of(told[peer][begin : begin + MASK_BYTES]) for peer in order])
            for begin in (PLACE.size, PLACE.size + MASK_BYTES)
        )
        users, me = self.world.users(round), order.index(own)
        before = np.where(mine.any(0), mine.argmax(0), cells.NOBODY)
        offered = cells.offered(users)
        serving = cells.associate(users, places, before, offered)
        self.mine, self.total = serving == me, int((serving != cells.NOBODY).sum())
        self.path.append((round, *self.place, int(self.mine.sum())))
        free = offered & (serving == cells.NOBODY) & self.memory.note(round, users, heard.any(0))
        room = np.bincount(serving[serving != cells.NOBODY], minlength=len(places)) < cells.ROOM
        others = np.arange(len(places)) != me
        return self.mine.sum() / cells.ROOM, cells.features(
            self.place, self.memory.places, self.mine, free, places[others], room[others]
        )

    def act(self, action):
        self.place = cells.moved(self.place, action)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
    parser.add_argument("--number", type=int, choices=range(256), default=0, metavar="0..255", help="of this agent")
    parser.add_argument("--battery", type=int, default=1_000_000_000, help="steps that it can fly")
    parser.add_argument("--rounds", type=int, default=1_000_000_000)
    args = parser.parse_args()

    stopping = []
    signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

    weights = {"weights": np.zeros(len(cells.NAMES))}
    flyer, battery = Flyer(1, args.number), args.battery
    method = CooperativeSarsa(pccl.Communicator(args.master), weights, flyer, rounds=args.rounds)
    method.join()
    while not stopping and not method.finished:
        if battery == 0:
            method.close()
            print(f"landed after {method.round} rounds", flush=True)
            flyer.take_off()
            battery = args.battery
            method.rejoin(pccl.Communicator(args.master))
        method.explore = max(0.02, 0.3 * (1 - method.round / 300))
        info, battery = method.step(), battery - 1
        own = flyer.mine.sum()
        print(f"round {info.round}: {info.participants} agents, {own} users of {flyer.total} are this one's")
        print(f"state {info.round} {method.digest()}", flush=True)
    method.close()


if __name__ == "__main__":
    main()
