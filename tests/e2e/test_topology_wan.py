"""Optimization over slow links: peers on separate hosts, with a rate for each pair (tests/wan).

The best ring follows from measured rates, which a busy machine changes: its discovery is only a figure here. unit/solve
and sim topology-* test the best ring for given rates; unit/meter tests the rates from given arrivals.
"""

import itertools
import os
import random
import statistics
import sys

import harness
from harness import SUCCESS
from harness import check, equal, figure, now_us, poll, say
from namespaces import need_root
from phases import agree
from topologies import nobody_went, optimize, picture, random_sums, reduce, updated

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wan"))
from networks import NETWORKS  # noqa: E402 pylint: disable=wrong-import-position
from wan import Wan  # noqa: E402 pylint: disable=wrong-import-position

MEGABIT = 1e6 / 8
DRAWS = 10
DEGRADED = 8  # Mbit/s
PATIENT_MS = 5000  # a host that stalls for a second is not unreachable
LADDER = (10, 12, 14, 17, 20, 24, 29, 35, 42, 50, 60, 72, 86, 100)  # Mbit/s; noise could separate closer rates
FAILED = 12  # pcclTopologyOptimizationFailed
DELAY_MS = 5
QUEUE_MS = 20  # the duration of a full queue at the full rate
MASTER = 0  # its host; peer i is at host 1 + i
# Both are in the initial ring, 0 1 2 3; only 0 2 1 3 and its reverse avoid them.
NARROW = ({0, 1}, {2, 3})


def best_slowest(rates, count):
    """Returns the rate of the slowest path of the best ring, by exhaustive search."""
    rings = ((0, *order) for order in itertools.permutations(range(1, count)))
    return max(min(rates[way] for way in zip(ring, ring[1:] + ring[:1])) for ring in rings)


class Far:
    """A master and members, on separate hosts."""

    def __init__(self, run, count, rate, narrow_rate, narrow=NARROW, **master):
        queue_kib = max(64, int(rate * MEGABIT * QUEUE_MS / 1000 / 1024))
        self.wan = Wan(count + 1, rate_mbit=0, delay_ms=DELAY_MS, queue_kib=queue_kib)
        run.at_exit.append(self.wan.remove)
        self.wan.build()
        for a in range(count):
            for b in range(a):
                self.set_rate(narrow_rate if {a, b} in narrow else rate, a, b)
        run.host = self.wan.address(MASTER)
        run.environment["PCCL_WHERE_MS"] = "20"
        run.start_master(48148, prefix=self.wan.prefix(MASTER), **master)
        self.peers = []
        for i in range(count):
            patience = {"link_silence_ms": PATIENT_MS, "connect_timeout_ms": PATIENT_MS}
            peer = run.peer(prefix=self.wan.prefix(1 + i), **patience)
            peer.create(run.address, name=peer.name)
            run.admit(peer, self.peers)
            self.peers.append(peer)

    def set_rate(self, mbit, a, b):
        """Sets the rate of the paths between two peers, in both directions."""
        self.wan.set_rate(mbit, 1 + a, 1 + b)
        self.wan.set_rate(mbit, 1 + b, 1 + a)

    def cut(self, a, b):
        self.wan.cut(1 + a, 1 + b)

    def number(self, name):
        return next(i for i, peer in enumerate(self.peers) if peer.name == name)

    def ring_pairs(self, seen):
        return [{self.number(a), self.number(b)} for a, b in seen.ring_ways()]

    def ring_seen(self, *pairs):
        """Returns the common picture of the ring, and whether it avoids these pairs."""
        pictures = [picture(peer) for peer in self.peers]
        equal(len({tuple(seen.ring()) for seen in pictures}), 1, "different rings")
        return pictures[0], not any(pair in pairs for pair in self.ring_pairs(pictures[0]))

    def ring_without(self, pair):
        seen, is_without = self.ring_seen(pair)
        check(is_without, f"the ring uses {pair}: {seen.ring()} {seen.ways}")
        return seen


def describe(far, seen):
    for (a, b), way in sorted(seen.ways.items()):
        say(f"   {a} -> {b}: {way['rate'] / MEGABIT:.1f} Mbit/s, {way['rtt'] / 1000:.1f} ms, {way['source']}")
    say(f"   ring {seen.ring()}, slowest {seen.slowest() / MEGABIT:.1f} Mbit/s")


def leaves_narrow_pairs(run, rate, narrow_rate):
    far = Far(run, 4, rate, narrow_rate)
    reduce(far.peers, 1)
    equal(sum(pair in NARROW for pair in far.ring_pairs(picture(far.peers[0]))), 2, "narrow pairs in the first ring")
    before = [peer.cpu_s() for peer in far.peers]
    figure("ms of an optimization", optimize(far.peers), "ms")
    figure("CPU seconds of the dearest peer", max(peer.cpu_s() - was for peer, was in zip(far.peers, before)), "s")
    seen, is_without = far.ring_seen(*NARROW)
    describe(far, seen)
    figure("the ring is without the narrow pairs", is_without, "yes")
    figure("Mbit/s of the slowest link of the ring", seen.slowest() / MEGABIT, "Mbit/s")
    for way, known in seen.ways.items():
        if known["source"] != "unreachable":
            check(known["rtt"] / 1000 >= 2 * DELAY_MS - 1, f"a round trip of {way} shorter than the delay: {known}")
    random_sums(far.peers, 2, 40000)
    updated(far.peers)
    far.ring_seen()
    figure("ms of an optimization when all is known", optimize(far.peers), "ms")
    far.ring_seen()
    nobody_went(run)


def test_narrow_pairs(run):
    """Two pairs have a tenth of the others' rate: the ring avoids them."""
    leaves_narrow_pairs(run, 20, 2)


def figure_goal(run):
    """The same with four concurrent paths of 400 Mbit/s through the emulator."""
    leaves_narrow_pairs(run, 400, 40)


def figure_draws(run):
    """Six peers with thirty paths of random rates, ten times: the share of adopted rings with the optimal slowest path,
    and the share with at least half of its rate."""
    count, right, fair = 6, 0, 0
    seed = random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    far = Far(run, count, 100, 100, fresh_ms=1)
    for draw in range(DRAWS):
        rates = {way: dice.choice(LADDER) for way in itertools.permutations(range(count), 2)}
        for (a, b), rate in rates.items():
            far.wan.set_rate(rate, 1 + a, 1 + b)
        took_ms = optimize(far.peers)
        seen, _ = far.ring_seen()
        ring = [far.number(name) for name in seen.ring()]
        slowest = min(rates[way] for way in zip(ring, ring[1:] + ring[:1]))
        best = best_slowest(rates, count)
        right += slowest == best
        fair += slowest >= best / 2
        known = seen.slowest() / MEGABIT
        say(f"draw {draw}: {took_ms:.0f} ms, slowest link {slowest} Mbit/s of the best {best}, known as {known:.1f}")
    random_sums(far.peers, 1, 40000)
    nobody_went(run)
    say(f"seed {seed}")
    figure("rings as good as the best", right, f"of {DRAWS}")
    figure("rings at least half as good as the best", fair, f"of {DRAWS}")


ACCESS_MBIT = 100
UNEQUAL_FLOATS = 1 << 20  # 4 MiB


def seconds_of_a_sum(far, tag):
    """Returns the median of five reductions after a first one, each timed from the entry of the last peer."""
    took_s = []
    for i in range(6):
        calls = [peer.start("reduce", tag + i, UNEQUAL_FLOATS, "f32", "sum", "const:1") for peer in far.peers]
        took_s.append(min(result["us"] for result in agree(calls, SUCCESS)) / 1e6)
    return statistics.median(took_s[1:])


def sums_on(run, name):
    network = NETWORKS[name]
    count = len(network.up)
    far = Far(run, count, 0, 0, narrow=())
    far.wan.tell(f"queue {int(ACCESS_MBIT * MEGABIT * QUEUE_MS / 1000 / 1024)}")
    network.lay_out(far.wan, range(1, 1 + count))
    figure("seconds of 4 MiB at least", network.bound_s(4 * UNEQUAL_FLOATS), "s")
    figure("seconds of 4 MiB before an optimization", seconds_of_a_sum(far, 100), "s")
    describe(far, picture(far.peers[0]))
    figure("ms of an optimization", optimize(far.peers), "ms")
    describe(far, far.ring_seen()[0])
    figure("seconds of 4 MiB", seconds_of_a_sum(far, 200), "s")
    nobody_went(run)


def figure_shared_lines(run):
    """Two sites of four peers, each with one line of 25 Mbit/s. A ring that crosses once each way takes 2.35 s;
    direct exchange over all pairs takes 5.4 s."""
    sums_on(run, "two sites")


def figure_bad_pair(run):
    """One pair of eight peers has 2 Mbit/s, all others 100. A ring that avoids it takes 0.6 s, direct exchange 4.2 s.
    """
    sums_on(run, "bad pair")


def figure_equal(run):
    """Eight equal peers of 100 Mbit/s: the gain from known rates."""
    sums_on(run, "equal")


def leaves_link_that_degrades(run, verb):
    run.environment["PCCL_CONNECTION_POOL_SIZE"] = "1"  # a connection's rate is measured after each MiB
    far = Far(run, 4, 80, 80, narrow=())
    optimize(far.peers)
    pair = far.ring_pairs(picture(far.peers[0]))[1]
    for tag in range(12):  # its figure decreases gradually
        calls = [peer.start("reduce", tag, 250000, "f32", "sum", "rand:1") for peer in far.peers]
        for call in calls:
            call.begun()
        far.set_rate(DEGRADED, *pair)
        agree(calls, SUCCESS)
    since_us = now_us()
    for call in [peer.start(verb) for peer in far.peers]:
        call.wait(rc=SUCCESS)
    figure(f"ms of an {verb} after a link has degraded", (now_us() - since_us) / 1000, "ms")
    seen, is_without = far.ring_seen(pair)
    describe(far, seen)
    figure("the ring is without the degraded link", is_without, "yes")
    random_sums(far.peers, 100, 100000)
    nobody_went(run)


def test_degrades_update(run):
    """The rate of a link drops to a tenth during reductions: the ring should avoid it after the next update."""
    leaves_link_that_degrades(run, "update")


def test_degrades_optimize(run):
    leaves_link_that_degrades(run, "optimize")


def sums_of_all(peers):
    """With retry: a link that is lost or restored fails one of them."""
    calls = [peer.start("multi", 4, 2, 50, 40000, "i64", "sum", "ramp:1:1") for peer in peers]
    equal({result["peers"] for result in agree(calls, SUCCESS)}, {len(peers)}, "peers of the sums")


def test_pair_cut(run):
    """Two neighbors cannot reach each other, which has not been detected yet: the ring avoids that link, and no peer is
    removed."""
    far = Far(run, 4, 20, 20)
    pair = far.ring_pairs(picture(far.peers[0]))[0]
    far.cut(*pair)
    took_ms = optimize(far.peers)
    seen = far.ring_without(pair)
    for a, b in seen.ways:
        if {far.number(a), far.number(b)} == pair:
            equal(seen.ways[(a, b)]["source"], "unreachable", f"way {a} to {b}")
    say(f"{took_ms:.0f} ms")
    sums_of_all(far.peers)  # the end of the link may be detected during one
    updated(far.peers)
    far.ring_without(pair)
    optimize(far.peers)
    far.ring_without(pair)
    nobody_went(run)
    far.wan.heal(*(1 + number for number in pair))
    updated(far.peers)
    random_sums(far.peers, 2, 40000)


def test_no_ring(run):
    """Among four peers only two pairs reach each other, and the master has a long limit for links: all get the error
    that there is no ring, no peer is removed, and after the repair all works as before."""
    far = Far(run, 4, 20, 20, settle_ms=60000)
    for a in (0, 1):
        for b in (2, 3):
            far.cut(a, b)

    def refused():
        results = [call.wait() for call in [peer.start("optimize") for peer in far.peers]]
        equal(len({result["rc"] for result in results}), 1, f"different results {results}")
        return results if results[0]["rc"] == FAILED else None

    for result in poll(refused, "the master to hear that the links are lost"):  # until then they count as paths
        check("no ring" in result["words"], f"words: {result}")
        equal(result["world"], 4, "world")
    for a in (0, 1):
        for b in (2, 3):
            far.wan.heal(1 + a, 1 + b)
    updated(far.peers)
    sums_of_all(far.peers)  # links are restored
    nobody_went(run)


if sys.argv[1:] != ["--list"]:
    need_root()
harness.main()
