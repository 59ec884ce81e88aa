"""Verdicts of the master on slow or stopped peers and links, for faults in a network of separate hosts (tests/wan). The
tests check that the verdict on a fault occurs, and its content; a busy machine may cause other, correct verdicts on
slow peers. bench/verdicts.py counts correct first verdicts, and verdicts in healthy runs. sim verdicts-of-models checks
ten thousand modeled groups, with planted faults and without."""

import os
import signal
import statistics
import sys
import threading
import time

import harness
from harness import LOST, SUCCESS
from harness import check, equal, figure, say
from namespaces import need_root
from phases import PATIENT, agree, look
from topologies import picture

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wan"))
from wan import Wan  # noqa: E402 pylint: disable=wrong-import-position

RATE = 20  # Mbit/s of each pair of hosts
COUNT = 4
ELEMENTS = 65536  # of 8 bytes: all send to all
LARGE = 2000000  # of 4 bytes
LONG = 5000000  # of 4 bytes: seconds along the ring
LATER = {2: 16, 3: 2500000}  # by tag
SOUND_STEPS = 25
FAST = 100  # Mbit/s of each pair, for operations along the ring ...
RING_ELEMENTS = 1200000  # ... of 8 bytes
LEFT_MS = 10000
PATIENT_MS = 60000  # a host that stalls is not unreachable


class Hosts:
    """A master and members, on separate hosts; peer i is at host 1 + i."""

    def __init__(self, run, count=COUNT, **master):
        self.run = run
        self.wan = Wan(count + 1, rate_mbit=0, delay_ms=1, queue_kib=512)
        run.at_exit.append(self.wan.remove)
        self.wan.build()
        self.set_rates(RATE, range(count), range(count))
        run.host = self.wan.address(0)
        run.start_master(48148, prefix=self.wan.prefix(0), **PATIENT, **master)
        self.peers, self.loops = [], []
        for i in range(count):
            peer = run.peer(prefix=self.wan.prefix(1 + i), link_silence_ms=PATIENT_MS, connect_timeout_ms=PATIENT_MS)
            peer.create(run.address, name=peer.name)
            run.admit(peer, self.peers)
            self.peers.append(peer)
        self.ids = [look(peer)["peer"] for peer in self.peers]
        self.asked = self.peers[-1]  # without any fault

    def set_rates(self, mbit, senders, receivers):
        for sender in senders:
            for receiver in receivers:
                if sender != receiver:
                    self.wan.set_rate(mbit, 1 + sender, 1 + receiver)

    def loop(self, elements=ELEMENTS, steps=SOUND_STEPS):
        """Runs operations, one after another; returns when some have succeeded, and without a verdict."""
        self.loops = [peer.start("loop", bit, 1, elements, 1) for bit, peer in enumerate(self.peers)]
        harness.poll(lambda: all(len(loop.steps) >= steps for loop in self.loops), "sound steps")
        equal([one for one in self.verdicts() if one["class"] != "slow peer"], [], "verdicts of a sound run")

    def goes_on(self):
        check(not any(loop.result or loop.failures for loop in self.loops), "an operation has failed")

    def verdicts(self):
        return self.asked.do("verdicts")["verdicts"]

    def first_verdict(self):
        return harness.poll(self.verdicts, "a verdict")[0]

    def of(self, kind, *right):
        """Returns the verdicts of this class on one of these: a peer, or the two ends of a link."""
        return [one for one in self.verdicts() if one["class"] == kind and self.number(one) in right]

    def has_verdict(self, kind, *right):
        found = harness.poll(lambda: self.of(kind, *right), f"the verdict {kind} on {right}")[0]
        say(f"   {found['class']}: {found['evidence']}; {found['action']}")
        check(found["evidence"] and found["action"], f"what it is based on, and what is done: {found}")
        return found

    def number(self, verdict):
        """Returns the numbers of the peers in the verdict."""
        return tuple(self.ids.index(verdict[key]) for key in ("peer", "other") if verdict[key])

    def leaves(self, sender, receiver):
        """Checks that the ring leaves the link without a call of optimize, and that no operation fails."""
        link = (self.peers[sender].name, self.peers[receiver].name)
        harness.poll(lambda: link not in picture(self.asked).ring_ways(), "a ring without the link")
        made = [len(loop.steps) for loop in self.loops]
        harness.poll(lambda: all(len(loop.steps) > n + 2 for loop, n in zip(self.loops, made)), "steps along it")
        self.goes_on()

    def ends(self, kind, *right):
        harness.poll(lambda: not self.of(kind, *right), "the end of the verdict")


class Staggering:
    """A peer that is stopped for 20 of every 30 ms."""

    def __init__(self, peer):
        self.peer = peer
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.over.is_set():
            self.peer.signal(signal.SIGSTOP)
            time.sleep(0.02)
            self.peer.signal(signal.SIGCONT)
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


# ---- faults during operations


def narrow_link(hosts, mbit, sender=0, receiver=1):
    hosts.set_rates(mbit, [sender], [receiver])


def narrow_way_out(hosts, mbit, sender=0):
    hosts.set_rates(mbit, [sender], range(len(hosts.peers)))


def narrow_way_in(hosts, mbit, receiver=0):
    hosts.set_rates(mbit, range(len(hosts.peers)), [receiver])


def lose(hosts, percent, sender=0, receiver=1):
    hosts.wan.set_loss(percent, 1 + sender, 1 + receiver)


def test_link_is_slow(run):
    """One third of the rate from one host to another. Acknowledgments of the opposite direction wait in the same queue,
    so that only the amount distinguishes the two."""
    hosts = Hosts(run)
    hosts.loop()
    narrow_link(hosts, RATE / 3)
    found = hosts.has_verdict("slow link", (0, 1), (1, 0))
    hosts.goes_on()
    hosts.leaves(*hosts.number(found))


def test_long_operation_leaves_link(run):
    """One long operation along a ring, of which one link becomes slow: it continues along another ring, without a call,
    and succeeds. So do a small and a large one that a peer enters only then."""
    hosts = Hosts(run)
    sender, receiver = picture(hosts.asked).ring_ways()[0]
    names = [peer.name for peer in hosts.peers]

    def start(tag, elements, bit):
        return hosts.peers[bit].start("reduce", tag, elements, "f32", "sum", f"mark:{bit}", "inplace")

    calls = [start(1, LONG, bit) for bit in range(COUNT)]
    others = {tag: [start(tag, elements, bit) for bit in range(COUNT - 1)] for tag, elements in LATER.items()}
    hosts.set_rates(RATE / 3, [names.index(sender)], [names.index(receiver)])
    harness.poll(lambda: (sender, receiver) not in picture(hosts.asked).ring_ways(), "a ring without the link")
    check(not any(call.result for call in calls), "the operation is under way")
    run.master.wait_line("on a better ring")
    for tag, elements in LATER.items():
        agree(others[tag] + [start(tag, elements, COUNT - 1)], SUCCESS)
    agree(calls, SUCCESS)


def test_sender_is_slow(run):
    """All traffic from one host has a third of the rate; then the rate is restored, and the verdict ends."""
    hosts = Hosts(run)
    hosts.loop()
    narrow_way_out(hosts, RATE / 3)
    hosts.has_verdict("slow sender", (0,))
    hosts.goes_on()
    narrow_way_out(hosts, RATE)
    hosts.ends("slow sender", (0,))


def test_sender_in_a_ring_is_slow(run):
    """It uses one link of each, so the verdict is on this link, and the ring leaves it; the next is slow, too."""
    hosts = Hosts(run)
    hosts.set_rates(FAST, range(COUNT), range(COUNT))
    hosts.loop(RING_ELEMENTS, 5)  # more than a second each
    hosts.set_rates(FAST / 3, [0], range(COUNT))
    hosts.has_verdict("slow link", *((0, other) for other in range(1, COUNT)))
    hosts.has_verdict("slow sender", (0,))
    hosts.goes_on()


def test_receiver_is_slow(run):
    """All traffic to one host has a third of the rate."""
    hosts = Hosts(run)
    hosts.loop()
    narrow_way_in(hosts, RATE / 3)
    hosts.has_verdict("slow receiver", (0,))
    hosts.goes_on()


def test_lossy_link(run):
    """Two percent of the packets between two hosts are lost, in one direction."""
    hosts = Hosts(run)
    hosts.loop()
    lose(hosts, 2)
    found = hosts.has_verdict("slow link", (0, 1))
    check("retransmitted" in found["evidence"], f"the evidence {found}")
    hosts.goes_on()


def test_staggering_peer(run):
    hosts = Hosts(run)
    hosts.loop()
    with Staggering(hosts.peers[0]):
        hosts.has_verdict("slow peer", (0,))
        hosts.goes_on()


def test_late_peer(run):
    """One peer computes for an additional half second before each operation."""
    hosts = Hosts(run)
    tag = 0
    while not hosts.of("slow computation", (0,)) and tag < 100:
        tag += 1
        reduce_late(hosts, tag, 0)
    hosts.has_verdict("slow computation", (0,))


def reduce(hosts, which, tag, elements):
    """Starts the operation at these peers; returns the calls."""
    return [hosts.peers[i].start("reduce", tag, elements, "f32", "sum", f"mark:{i}") for i in which]


def reduce_late(hosts, tag, late, late_ms=500):
    """Runs one operation, which one of the peers enters late."""
    calls = reduce(hosts, set(range(len(hosts.peers))) - {late}, tag, ELEMENTS)
    harness.wait_ms(late_ms)
    agree(calls + reduce(hosts, [late], tag, ELEMENTS), SUCCESS)


def stop_within(hosts, tag, which, mbit):
    """Stops the peer during an operation, which takes long enough for this. Returns the calls."""
    hosts.set_rates(mbit, range(len(hosts.peers)), range(len(hosts.peers)))
    calls = reduce(hosts, range(len(hosts.peers)), tag, LARGE)

    def moves():
        found = [entry for entry in look(hosts.asked)["operations"] if entry["tag"] == tag]
        stopped = look(hosts.peers[which])["operations"]
        return found and found[0]["received_bytes"] > 0 and stopped[-1]["sent_bytes"] > 0

    harness.poll(moves, "the middle of the transfer")
    hosts.peers[which].stop()
    return calls


def test_late_peer_is_expelled(run):
    """A master with this setting expels it. The others continue; after a while it may rejoin."""
    hosts = Hosts(run, slow_peer="expel", slow_peer_limit_s=1)
    late, *others = hosts.peers
    tag, result = 0, {"rc": SUCCESS}
    while result["rc"] == SUCCESS and tag < 100:
        tag += 1
        calls = reduce(hosts, range(1, COUNT), tag, ELEMENTS)
        harness.wait_ms(500)
        result = reduce(hosts, [0], tag, ELEMENTS)[0].wait()
        agree(calls, *([SUCCESS] if result["rc"] == SUCCESS else [SUCCESS, LOST]))
    check("slow computation for" in result["words"], f"the words of the expelled: {result}")
    agree(reduce(hosts, range(1, COUNT), tag + 1, ELEMENTS), SUCCESS)
    refused = late.start("connect").wait()
    check("may join again in" in refused["words"], f"the words of a refusal: {refused}")

    def asks_again():
        connect = late.start("connect")
        harness.poll(lambda: connect.result or late.do("waits")["text"], "an answer")
        return None if connect.result else connect

    run.let_in(harness.poll(asks_again, "the end of the cool-down"), others)
    agree(reduce(hosts, range(COUNT), tag + 2, ELEMENTS), SUCCESS)


def test_stops_before(run):
    """One peer is stopped before it enters an operation."""
    hosts = Hosts(run)
    hosts.peers[0].stop()
    calls = reduce(hosts, range(1, COUNT), 1, LARGE)
    hosts.has_verdict("not entered", (0,))
    hosts.peers[0].resume()
    agree(calls + reduce(hosts, [0], 1, LARGE), SUCCESS)
    hosts.ends("not entered", (0,))


def test_stops_within(run):
    """One peer is stopped during an operation."""
    hosts = Hosts(run)
    calls = stop_within(hosts, 1, 0, RATE / 10)
    hosts.has_verdict("hang", (0,))
    hosts.set_rates(RATE, range(COUNT), range(COUNT))
    hosts.peers[0].resume()
    agree(calls, SUCCESS)
    hosts.ends("hang", (0,))


def figure_left(run):
    """The rate of operations ten seconds after a link has become slow, relative to the earlier rate: the best ring
    without the link has the same rate. The operations are too large for direct exchange."""
    hosts = Hosts(run)
    hosts.set_rates(FAST, range(COUNT), range(COUNT))
    hosts.loop(RING_ELEMENTS)
    asked = hosts.loops[-1]
    before = statistics.median(step["us"] for step in asked.steps[-10:])
    narrow_link(hosts, FAST / 3)
    harness.wait_ms(LEFT_MS)
    made = len(asked.steps)
    harness.poll(lambda: len(asked.steps) >= made + 10, "steps afterwards", 60)
    after = statistics.median(step["us"] for step in asked.steps[made:])
    hosts.goes_on()
    figure("rate ten seconds after a link became slow, of that before", round(before / after, 2), "")


if __name__ == "__main__":  # bench/verdicts.py uses the faults above
    if sys.argv[1:] != ["--list"]:
        need_root()
    harness.main()
