"""Real processes in bulk reductions, killed with SIGKILL at random moments and replaced: every success is over a
possible set of peers, with equal bits everywhere, every failure leaves its inputs intact, and the peers continue. A
longer run: test_kill_bulk.py --kills 300 --seed 7 (make kill N=300)."""

import argparse
import collections
import random
import statistics
import sys
import time

import harness
from harness import SUCCESS
from harness import check, equal, say
from loops import kill_all, right_steps
from phases import PATIENT

PEERS_MAX = 6
OPERATIONS, BYTES = 4, (16 << 10, 16 << 20)  # maximum number in a step; range of the size of each


class Churn:
    def __init__(self, run, seed):
        self.run = run
        self.shape = (seed, OPERATIONS, *BYTES)
        self.random = random.Random(seed)
        self.loops = {}  # peer -> its call, or None before it has joined
        self.connects = {}
        self.bits = {}  # the bit of each peer in a sum
        self.dead = {}  # peer -> its call, or None
        self.step_ms = 20.0  # approximate duration of a step
        self.error_ms, self.good_ms = [], []

    def spawn(self):
        recent = list(self.loops) + list(self.dead)[-2:]
        bit = self.random.choice([bit for bit in range(24) if bit not in [self.bits[peer] for peer in recent]])
        peer = self.run.peer()
        self.bits[peer] = bit
        peer.create(self.run.address)
        self.connects[peer] = peer.start("connect")
        self.loops[peer] = None

    def fill(self, count):
        while len(self.loops) < count:
            self.spawn()

    def mask(self, peers):
        return sum(1 << self.bits[peer] for peer in peers)

    def start_connected(self):
        for peer, loop in list(self.loops.items()):
            check(peer.alive(), f"{peer.name} has ended by itself")
            check(loop is None or loop.result is None, f"{peer.name} has stopped: {loop and loop.result}")
            if loop is None and self.connects[peer].result:
                equal(self.connects[peer].result["rc"], SUCCESS, f"connect: {self.connects[peer].result}")
                self.loops[peer] = peer.start("churn", self.bits[peer], *self.shape)

    def settle(self):
        """Waits until all have made a step in which all take part."""
        seen = {peer: len(loop.steps) if loop else 0 for peer, loop in self.loops.items()}
        everybody = self.mask(self.loops)

        def together(peer, loop):
            steps = loop.steps[seen[peer] :][-3:] if loop else []
            return any(all(op[0] == everybody for op in step["ops"]) for step in steps)

        def done():
            self.start_connected()
            return all(together(peer, loop) for peer, loop in self.loops.items())

        harness.wait_until(done, f"a step of {len(self.loops)} peers together")
        times = [step["at"] for step in next(iter(self.loops.values())).steps[-4:]]
        if len(times) == 4:
            self.step_ms = 0.5 * self.step_ms + 0.5 * (times[-1] - times[0]) / 3000

    def kill(self, victims):
        """Kills peers at a random moment of the next two steps; then the survivors must make a successful step."""
        time.sleep(self.random.uniform(0, 2 * self.step_ms) / 1000)  # a random moment, as part of the test
        since_us = [victim.kill() for victim in victims][0]
        for victim in victims:
            self.dead[victim] = self.loops.pop(victim)
        survivors, good = list(self.loops.values()), {}
        gone = self.mask(victims)

        def is_good(step):
            return step["at"] > since_us and not any(op[0] & gone for op in step["ops"])

        def all_good():
            self.start_connected()
            for loop in survivors:
                good[loop] = good.get(loop) or next((step for step in loop.steps[-6:] if is_good(step)), None)
            return all(good.values())

        if len(survivors) > 1:
            harness.wait_until(all_good, "a good step of the survivors")
            self.good_ms.append((max(step["at"] for step in good.values()) - since_us) / 1000)
            errors = [next((e["at"] for e in loop.failures if e["at"] >= since_us), None) for loop in survivors]
            if any(errors):
                self.error_ms.append((max(at for at in errors if at) - since_us) / 1000)
        for victim in victims:
            victim.end(harness.DEADLINE)

    # ---- the check

    def report(self):
        """Checks the steps of all peers. Returns a summary of the comparison and of the times of the survivors."""
        steps, operations = self.collect()
        return (
            f"operations failed by {len(self.error_ms)} of them; {steps} steps of {operations} operations compared\n"
            "ms, median / 99 % / most: "
            f"{summary('to the error', self.error_ms)}; {summary('to a good step', self.good_ms)}"
        )

    def collect(self):
        """Checks every step of all peers, including killed ones. Returns the number of steps and of operations."""
        loops = {peer: loop for peer, loop in {**self.loops, **self.dead}.items() if loop}
        seen = {}
        for peer, step in right_steps(loops):
            seen.setdefault(step["step"], {})[peer] = step["ops"]
        for number, reports in seen.items():
            contents = {str(ops) for ops in reports.values()}
            equal(len(contents), 1, f"different results of step {number}: {contents}")
            may = self.mask(reports) | self.mask(self.may_be_in(number, reports))
            for mask, *_ in next(iter(reports.values())):
                fits = mask & self.mask(reports) == self.mask(reports) and mask & ~may == 0
                check(fits, f"step {number} is of {mask:#x}, reported by {self.mask(reports):#x}, possible {may:#x}")
        return len(seen), sum(len(next(iter(reports.values()))) for reports in seen.values())

    def may_be_in(self, number, reports):
        """Returns the peers that were killed in this step: each has reported the step before, or none."""
        fallen = [peer for peer, loop in self.dead.items() if loop and peer not in reports]
        return [
            peer for peer in fallen if not self.dead[peer].steps or self.dead[peer].steps[-1]["step"] + 1 == number
        ]


def summary(name, values):
    values = sorted(values)
    if not values:
        return f"{name}: none"
    return f"{name} {statistics.median(values):.1f} / {values[len(values) * 99 // 100]:.1f} / {values[-1]:.1f}"


def churn(run, least, seed):
    say(f"seed {seed}")
    start = time.monotonic()
    run.environment["PCCL_LOG_LEVEL"] = "WARN"
    run.start_master(**PATIENT)
    rig = Churn(run, seed)
    while len(rig.dead) < least:
        rig.fill(rig.random.randint(2, PEERS_MAX))
        rig.settle()
        count = 2 if len(rig.loops) > 3 and rig.random.random() < 0.15 else 1
        rig.kill(rig.random.sample(list(rig.loops), count))
    rig.fill(2)  # one peer alone makes no step
    rig.settle()
    kills = len(rig.dead)
    kill_all(rig.loops, rig.dead)
    say(f"{kills} kills in {time.monotonic() - start:.0f} s; {rig.report()}")


Name = collections.namedtuple("Name", "name")  # stands in for a peer


class Report:
    """Stands in for a call."""

    def __init__(self, *steps):
        self.steps = [{"step": number, "ops": ops, "right": True} for number, ops in steps]
        self.failures = []


def test_verdict(run):
    """The check must detect these errors: sums over impossible sets of peers, and results that differ."""

    def judged(living, dead):
        rig = Churn(run, 1)
        rig.loops, rig.dead = living, dead
        rig.bits = {peer: int(peer.name) for peer in [*living, *dead]}
        try:
            rig.collect()
        except harness.Failure as failure:
            return str(failure)
        return "right"

    a, b, c = (Name(str(bit)) for bit in range(3))
    both, alone, more = [0b11, "x"], [0b01, "y"], [0b111, "z"]
    pair = {a: Report((7, [both])), b: Report((7, [both]))}
    equal(judged(pair, {}), "right", "two peers")
    of_three = {a: Report((7, [more])), b: Report((7, [more]))}
    equal(judged(of_three, {c: Report((6, [[0b100, "v"]]))}), "right", "one died")
    equal(judged(of_three, {c: Report()}), "right", "one died in its first")
    check("different results" in judged({a: Report((7, [both])), b: Report((7, [[3, "w"]]))}, {}), "other bits")
    check("is of 0x1" in judged({a: Report((7, [alone])), b: Report((7, [alone]))}, {}), "one is not in it")
    check("is of 0x7" in judged(of_three, {}), "a stranger is in it")
    dead = {c: Report((3, [[0b100, "v"]]))}
    check("is of 0x7" in judged(of_three, dead), "one long dead is in it")


def random_seed():
    return random.SystemRandom().randrange(1 << 32)


def test_10(run):
    churn(run, 10, random_seed())


def test_slow_30(run):
    churn(run, 30, random_seed())


def test_10_with_pools(run):
    """With four connections to each neighbor."""
    run.environment["PCCL_CONNECTION_POOL_SIZE"] = "4"
    churn(run, 10, random_seed())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--seed", type=int, default=random_seed())
    arguments = parser.parse_args()
    try:
        with harness.Run("kill") as run:
            churn(run, arguments.kills, arguments.seed)
    except harness.Failure as failure:
        say(f"FAILED (seed {arguments.seed}): {failure}")
        sys.exit(1)


if any(word.startswith("--kills") for word in sys.argv):
    main()
else:
    harness.main()
