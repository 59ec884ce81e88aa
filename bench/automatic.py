#!/usr/bin/env python3
"""Measures an automatic codec over links whose rate changes. Peers repeatedly sum the same tensor, first over 1 Gbit/s,
then over 50 Mbit/s, then over 1 Gbit/s again, and finally 200 times over 50 Mbit/s with 10 % of noise in the rate.
Prints the codec, the time and the reason for each operation, and a verdict on each goal: after a change of the rate the
codec follows within three operations, 9 of 10 later operations meet the budget, and noise changes the codec at most
once.

    build/venv/bin/python bench/automatic.py [--budget-ms 120 | --budget-percent 50 --gap-ms 120] [--wan]

Requires a Python with numpy, and the library and pccl-master of the build. By default two peers run on this host and
limit the rate of their sockets, which needs no privileges. With --wan they run on separate emulated hosts (tests/wan;
needs root), with a delay.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import stat
import sys
import time

from crew import ROOT, ask, crew

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
DELAY_MS = 5
FOLLOWS_WITHIN = 3
MET_PERCENT = 90
NOISE = 0.1
CHANGES_MOST = 1
SO_MAX_PACING_RATE = 47  # Linux


def read_size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)


def limit(mbit):
    """Limits the send rate of each connection of this process."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.stat(f"/proc/self/fd/{name}").st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                    one.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, int(mbit * 125000))
        except FileNotFoundError:  # closed in the meantime
            pass


def check_that_limits_hold():
    """Checks that the limit has an effect: some kernels that resemble Linux accept the option and ignore it."""
    count = 1 << 20
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as sender, server.accept()[0] as receiver:
            sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8 * count)
            sender.setblocking(False)
            given, got, start = bytes(count), 0, time.monotonic()
            sent = 0
            while got < count:
                try:
                    sent += sender.send(given[sent:]) if sent < count else 0
                except BlockingIOError:
                    pass
                got += len(receiver.recv(1 << 16))
            if time.monotonic() - start < 0.06:
                raise SystemExit("this system does not limit what a socket sends: --wan does")


def peer(arguments):
    """Reduces once for each received rate; prints the codec, the duration, and the gap before the operation."""
    import numpy  # pylint: disable=import-outside-toplevel

    import pccl  # pylint: disable=import-outside-toplevel

    comm = pccl.Communicator(arguments.peer, options={"port": 0})
    comm.connect()
    while len(comm.members()) < arguments.peers:
        comm.update_topology()
    given = numpy.random.default_rng(comm.rank).standard_normal(arguments.bytes // 4, numpy.float32)
    result = numpy.empty_like(given)
    budget = {"budget_percent": arguments.budget_percent} if arguments.budget_percent else {}
    option = pccl.QuantizationOptions("auto", **(budget or {"budget_ms": arguments.budget_ms}))
    print("ready", flush=True)
    end = time.monotonic()
    for line in sys.stdin:
        if float(line) > 0:
            limit(float(line))
        time.sleep(arguments.gap_ms / 1000)
        start, gap_ms = time.monotonic(), 1000 * (time.monotonic() - end)
        info = comm.all_reduce(given, result, op="sum", quantization_options=option)
        end = time.monotonic()
        told = {"codec": info.codec.name, "why": info.why, "ms": 1000 * (end - start), "gap_ms": gap_ms}
        print(json.dumps(told), flush=True)
    comm.close()


class Bench:
    """The peers, and the number of missed goals."""

    def __init__(self, arguments, wan, peers):
        self.arguments = arguments
        self.wan = wan
        self.peers = peers
        self.missed = 0

    def budget_ms(self, gap_ms, took_ms):
        percent = self.arguments.budget_percent
        return (gap_ms + took_ms) * percent / 100 if percent else self.arguments.budget_ms

    def use(self, rate):
        """Runs one operation at this rate, and returns its result. The shortest time counts: the last peer to launch
        waits for no other."""
        if self.arguments.wan:
            self.wan.set_rate(rate)
        told = ask(self.peers, 0 if self.arguments.wan else rate)
        if len({one["codec"] for one in told}) != 1:
            raise SystemExit(f"peers chose differently: {told}")
        seen = {"codec": told[0]["codec"], "ms": min(one["ms"] for one in told)}
        seen["met"] = seen["ms"] <= self.budget_ms(max(one["gap_ms"] for one in told), seen["ms"])
        print(f"{rate:7.1f} Mbit/s {seen['codec']:16} {seen['ms']:8.1f} ms  {told[0]['why']}", flush=True)
        return seen

    def judge(self, goal, figure, right):
        self.missed += not right
        print(f"{'met' if right else 'MISSED':6} {goal}: {figure}", flush=True)

    def judge_phase(self, rate, seen, codec, is_change):
        settled = max((i + 1 for i, one in enumerate(seen) if one["codec"] != codec), default=0)
        later = seen[settled:]
        met = sum(one["met"] for one in later)
        if is_change:
            goal = f"{rate} Mbit/s: {codec} within {FOLLOWS_WITHIN} operations"
            self.judge(goal, settled, settled <= FOLLOWS_WITHIN)
        goal = f"{rate} Mbit/s: the budget is met in {MET_PERCENT} % of the operations after that"
        self.judge(goal, f"{met} of {len(later)}", 100 * met >= MET_PERCENT * len(later))

    def run(self):
        rates = [int(rate) for rate in self.arguments.rates.split(",")]
        phases = [[self.use(rate) for _ in range(self.arguments.operations)] for rate in rates]
        draw = random.Random(1)
        slowest = min(rates)
        noisy = [self.use(slowest * draw.uniform(1 - NOISE, 1 + NOISE)) for _ in range(self.arguments.noisy)]
        print()
        codecs = {}  # the codec of each rate at the end of its first phase
        for i, rate in enumerate(rates):
            codec = codecs.setdefault(rate, phases[i][-1]["codec"])
            self.judge_phase(rate, phases[i], codec, i > 0)
        later = [one["codec"] for one in noisy[FOLLOWS_WITHIN:]]
        changes = sum(one != other for one, other in zip(later, later[1:]))
        goal = f"{slowest} Mbit/s with noise of {NOISE:.0%}: changes in {len(later)} operations, {CHANGES_MOST} at most"
        self.judge(goal, changes, changes <= CHANGES_MOST)


def measure(arguments):
    if not arguments.wan:
        if arguments.peers != 2:
            raise SystemExit("more than two peers need --wan: here each connection has the rate for itself")
        check_that_limits_hold()
    options = ("peers", "bytes", "budget_ms", "budget_percent", "gap_ms")
    links = {"rate_mbit": 1000, "delay_ms": DELAY_MS, "queue_kib": 1024} if arguments.wan else {}
    with crew(arguments, __file__, options, **links) as (wan, peers):
        bench = Bench(arguments, wan, peers)
        bench.run()
    return 1 if bench.missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--peers", type=int, default=2, help="more than 2 only with --wan")
    parser.add_argument("--bytes", type=read_size, default=2 << 20)
    parser.add_argument("--budget-ms", type=int, default=120)
    parser.add_argument("--budget-percent", type=int, default=0, help="of the time between two operations, instead")
    parser.add_argument("--gap-ms", type=int, default=0, help="what lies between two operations")
    parser.add_argument("--operations", type=int, default=20, help="in each phase")
    parser.add_argument("--rates", default="1000,50,1000", help="Mbit/s of each phase")
    parser.add_argument("--noisy", type=int, default=200, help="operations with noise in the rate")
    parser.add_argument("--wan", action="store_true", help="over the emulator")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    if arguments.peer:
        peer(arguments)
        return 0
    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
