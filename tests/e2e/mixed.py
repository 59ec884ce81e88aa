"""Processes that make steps of mixed collectives, while some are killed and new ones join."""

import random
import time

import harness
from harness import SUCCESS
from harness import check, equal, say
from loops import kill_all, right_steps
from phases import PATIENT

SCANS = ("exclusive_scan", "inclusive_scan")
KINDS = (
    "broadcast", "gather", "root_gather", "root_scatter", "all_to_all", "scatter", "root_sum", "barrier",
    "blobs", "root_blobs", "blobs_given", "blobs_for_all", *SCANS,
)
BULK = 100000  # elements of 4 bytes for each member


class Churn:
    """The processes."""

    def __init__(self, run, seed, *options):
        self.run = run
        self.seed = seed
        self.options = options
        self.loops = {}  # peer -> its call; None: it has not joined
        self.connects = {}
        self.dead = {}

    def spawn(self):
        peer = self.run.peer()
        peer.create(self.run.address)
        self.connects[peer] = peer.start("connect")
        self.loops[peer] = None

    def start_connected(self):
        for peer, loop in list(self.loops.items()):
            check(peer.alive(), f"{peer.name} has ended by itself")
            check(loop is None or loop.result is None, f"{peer.name} has stopped: {loop and loop.result}")
            if loop is None and self.connects[peer].result:
                equal(self.connects[peer].result["rc"], SUCCESS, f"connect: {self.connects[peer].result}")
                self.loops[peer] = peer.start("mixed", self.seed, 6, BULK, *self.options)

    def until_together(self):
        """Waits until all have made a further step in which all take part."""
        seen = {peer: len(loop.steps) if loop else 0 for peer, loop in self.loops.items()}

        def is_of_all(step):
            return all(world == len(self.loops) for _, world, _ in step["ops"])

        def done():
            self.start_connected()
            return all(
                loop and any(is_of_all(step) for step in loop.steps[seen[peer] :][-5:])
                for peer, loop in self.loops.items()
            )

        harness.wait_until(done, f"a step of {len(self.loops)} peers together")

    def until_every_kind(self):
        """Waits until each kind has been part of a step: the kinds are random."""

        def done():
            tried = str([step["ops"] for loop in self.started().values() for step in loop.steps])
            return all(f"'{kind}'" in tried for kind in KINDS)

        harness.wait_until(done, f"each of {KINDS}")

    def started(self):
        return {peer: loop for peer, loop in {**self.loops, **self.dead}.items() if loop}

    def verdict(self):
        loops = self.started()
        seen = {}
        for _, step in right_steps(loops):
            seen.setdefault(step["step"], set()).add(str(step["ops"]))
        check(all(len(reports) == 1 for reports in seen.values()), "peers took part in different operations")
        return len(seen), sum(len(loop.failures) for loop in loops.values())


def churn(run, kills, *options):
    seed = random.SystemRandom().randrange(1 << 32)
    say(f"seed {seed}")
    run.environment["PCCL_LOG_LEVEL"] = "WARN"
    run.start_master(**PATIENT)
    chance = random.Random(seed)
    rig = Churn(run, seed, *options)
    for _ in range(kills):
        while len(rig.loops) < chance.randint(3, 5):
            rig.spawn()
        rig.until_together()
        time.sleep(chance.uniform(0, 0.05))  # a random moment, as part of the test
        victim = chance.choice(list(rig.loops))
        victim.kill()
        rig.dead[victim] = rig.loops.pop(victim)
    rig.until_together()
    rig.until_every_kind()
    kill_all(rig.loops, rig.dead)
    steps, failed = rig.verdict()
    say(f"{kills} kills, {steps} steps, {failed} times that operations failed")
