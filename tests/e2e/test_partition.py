"""Networks that break between hosts: each peer and the master in a separate network namespace."""

import sys

import harness
from harness import INVALID_USAGE, LOST, SUCCESS
from harness import check, equal, figure, now_us, say, wait_ms
from loops import SMALL, all_right, in_both_sizes, longest_pause_ms, more_steps, start_loop, start_loops
from namespaces import Network, need_root
from mixed import SCANS
from phases import PATIENT, STRICT, agree, knew
from topologies import Picture

LINK_MS = DIAL_MS = 2000
MASTER = 0  # its host; peer i is at host 1 + i


class Hosts:
    """A master and members, on separate hosts."""

    def __init__(self, run, count, limits=None, link_ms=LINK_MS, peers=None, **master):
        self.run = run
        self.network = Network(count + 1)
        run.at_exit.append(self.network.remove)
        self.network.build()
        run.host = self.network.address(MASTER)
        run.start_master(48148, prefix=self.network.prefix(MASTER), insecure=1, **(limits or STRICT), **master)
        self.peers = []
        for i in range(count):
            peer = run.peer(
                f"peer{i}",
                prefix=self.network.prefix(1 + i),
                link_silence_ms=link_ms,
                connect_timeout_ms=DIAL_MS,
                dial_max_ms=100,
                where_ms=20,
                **(peers or {}),
            )
            peer.create(self.run.address, name=f"peer{i}")
            self.run.admit(peer, self.peers)
            self.peers.append(peer)

    def host(self, peer):
        return 1 + self.peers.index(peer)

    def ids(self):
        """Returns their names in the master's messages."""
        return {peer: self.run.id_of(peer) for peer in self.peers}


def said(run, part, since_us):
    line = run.master.wait_line(part)
    figure(f"ms until the master said '{part}'", (now_us() - since_us) / 1000, "ms")
    return line


# ---- the network between two peers, which both reach the master


def test_no_path_for_a_send(run):
    """Two of 18 peers do not reach each other. A send between them fails at both with the reason; others succeed. With
    a path it succeeds, too."""
    hosts = Hosts(run, 18)
    source, destination, other = hosts.peers[2], hosts.peers[11], hosts.peers[10]
    for how, words in (("drop", "no answer"), ("deny", "no route")):
        hosts.network.cut(hosts.host(source), hosts.host(destination), how)
        calls = [source.start("send", 11, 1, 100000, 5), destination.start("recv", 2, 1, 100000)]
        for call in (source.start("send", 10, 2, 100000, 6), other.start("recv", 2, 2, 100000)):
            check(call.wait(rc=SUCCESS)["right"], f"{call!r} has got something else")
        for call in calls:
            told = call.wait(rc=LOST)["words"]
            check("no link to peer" in told and words in told, told)
        hosts.network.heal(hosts.host(source), hosts.host(destination))
    for call in (source.start("send", 11, 3, 100000, 7), destination.start("recv", 2, 3, 100000)):
        check(call.wait(rc=SUCCESS)["right"], f"{call!r} has got something else")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")


def laps(peer, others):
    """Returns the number of times that a sum in the order of ranks passes rank 0 on the ring."""
    ranks = [other.do("members")["rank"] for other in others]
    seen = Picture(peer.do("topology")["text"])
    places = {ranks[int(seen.names[i].removeprefix("peer"))]: place for place, i in enumerate(seen.order)}
    steps = [(places[rank + 1] - places[rank]) % len(places) for rank in range(len(places) - 1)]
    return sum(steps) // len(places)


def test_slow_scans_in_laps(run):
    """A group of 66 has no links between all its members. Broken links change the ring, so a sum passes each peer
    several times."""
    hosts = Hosts(run, 66, PATIENT)
    peers = hosts.peers
    for first in (4, 20, 40):
        hosts.network.cut(hosts.host(peers[first]), hosts.host(peers[first + 1]))
        run.master.wait_line(f"'peer{first + 1}' failed and is avoided")
    for call in [peer.start("update") for peer in peers]:
        call.wait(rc=SUCCESS)
    rounds = laps(peers[0], peers)
    say(f"{rounds} laps more than one")
    check(rounds > 0, "the ring has the order of ranks")
    for number, kind in enumerate(SCANS):
        for count in (10, 5000, 100000):
            calls = [peer.start("collect", kind, number, count, "launched") for peer in peers]
            for result in agree(calls, SUCCESS):
                check(result["right"] and result["peers"] == len(peers), f"{kind} of {count}: {result}")


def other_ring(run, break_it, count):
    """Two neighbors of four lose their link: the ring changes, no peer is removed, no call fails. Small payloads hardly
    wait, because they do not need the link; large ones wait until it is abandoned."""
    hosts = Hosts(run, 4)
    loops = start_loops(hosts.peers, count=count)
    since_us = now_us()
    break_it(hosts.network, 2, 3)
    line = said(run, "is avoided", since_us)
    more_steps(loops, world=4)
    all_right(loops)
    ids = hosts.ids()
    check(ids[hosts.peers[1]] in line and ids[hosts.peers[2]] in line, f"who: {line}")
    figure("ms that the loops paused", longest_pause_ms(loops), "ms")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")
    hosts.network.heal(2, 3)


@in_both_sizes
def pair_dropped(run, count):
    other_ring(run, lambda network, a, b: network.cut(a, b), count)


@in_both_sizes
def pair_denied(run, count):
    other_ring(run, lambda network, a, b: network.cut(a, b, "deny"), count)


@in_both_sizes
def pair_forth(run, count):
    other_ring(run, lambda network, a, b: network.drop(a, b), count)


@in_both_sizes
def pair_back(run, count):
    other_ring(run, lambda network, a, b: network.drop(b, a), count)


@in_both_sizes
def pair_of_three(run, count):
    """Every ring of three needs every pair: one of the two is removed, with the reason; the others continue; it rejoins
    only after the network is repaired."""
    hosts = Hosts(run, 3, warm_up_ms=4000)
    loops = start_loops(hosts.peers, count=count)
    since_us = now_us()
    hosts.network.cut(2, 3)
    said(run, "no ring without", since_us)
    gone = harness.wait_until(lambda: next((loop for loop in loops if loop.result), None), "one to go")
    check("link" in gone.result["words"], f"words: {gone.result['words']}")
    rest = [loop for loop in loops if loop is not gone]
    more_steps(rest, world=2)
    all_right(loops)
    say(f"{gone.peer.name} went: {gone.result['words']}")
    words = gone.peer.do("connect", rc=None)["words"]
    check("neighbor" in words, f"words of a connect while the network is cut: {words}")
    hosts.network.heal(2, 3)
    gone.peer.do("connect", rc=SUCCESS)  # the loops of the others admit it
    back = start_loop(gone.peer, 5, count=count)
    harness.wait_until(lambda: back.steps, "a step after the return")
    more_steps(rest + [back], world=3)
    all_right(rest + [back])


@in_both_sizes
def pair_mends(run, count):
    """A cut that ends before a probe is due has no effect, even if the link was needed."""
    hosts = Hosts(run, 3, PATIENT, link_ms=60000)
    loops = start_loops(hosts.peers, count=count)
    for _ in range(5):
        hosts.network.cut(2, 3)
        if count == SMALL:
            more_steps(loops, 2)
        else:
            wait_ms(250)
        hosts.network.heal(2, 3)
        more_steps(loops, 2, world=3)
    all_right(loops)
    check(not any("avoided" in text or "no ring" in text for _, text in run.master.lines), "something was noticed")


@in_both_sizes
def islands(run, count):
    """Two pairs that reach only each other and the master: peers are removed, with the reason, until the remaining ones
    reach each other."""
    hosts = Hosts(run, 4)
    loops = start_loops(hosts.peers, count=count)
    since_us = now_us()
    for a in (1, 2):
        for b in (3, 4):
            hosts.network.cut(a, b)

    def rest():
        return [loop for loop in loops if not loop.result]

    def settled():
        return len({hosts.host(loop.peer) <= 2 for loop in rest()}) < 2

    harness.wait_until(settled, "one island to be left")
    figure("ms until one island was left", (now_us() - since_us) / 1000, "ms")
    stay = rest()
    check(stay, "nobody stays")
    for loop in loops:
        if loop.result:
            check("link" in loop.result["words"], f"words: {loop.result['words']}")
    if len(stay) == 2:
        more_steps(stay, world=2)
    else:  # one peer of each island was removed first, because cut links are discovered one by one
        stay[0].peer.do("stop")
        equal(stay[0].wait(rc=SUCCESS)["world"], 1, "world of the last one")
    all_right(loops)
    say(f"{len(stay)} left")


# ---- the network between a peer and the master; the peers reach each other


NOT_HEARD = ("not heard", "silent")


def lonely(run, break_it, count, reasons=NOT_HEARD):
    """A peer and the master lose each other: it is removed; the others' call fails once, with one of these reasons; the
    peer gets the reason after its return, and rejoins."""
    hosts = Hosts(run, 3)
    victim, *others = hosts.peers[2], hosts.peers[0], hosts.peers[1]
    calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:1", "inplace") for peer in others]
    for peer in others:
        peer.until_waiting()
    since_us = now_us()
    break_it(hosts.network)
    own = victim.start("update")
    results = [call.wait(rc=LOST) for call in calls]
    for result in results:
        check(result["intact"], "input changed")
        check(any(reason in result["words"] for reason in reasons), f"words: {result['words']}")
    knew(results, since_us, "the others knew")
    for call in [peer.start("multi", 3, 2, 10, count, "f32", "sum", "rand:1") for peer in others]:
        equal(call.wait(rc=SUCCESS)["peers"], 2, "peers")
    hosts.network.heal(MASTER, 3)
    hosts.network.plug(3)
    result = own.wait()
    check(result["rc"] != SUCCESS and result["words"], f"the victim's call: {result}")
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")
    run.admit(victim, others)
    for call in [peer.start("reduce", 6, count, "f32", "sum", "rand:1") for peer in others + [victim]]:
        call.wait(rc=SUCCESS)


@in_both_sizes
def control_dropped(run, count):
    lonely(run, lambda network: network.cut(MASTER, 3), count)


@in_both_sizes
def control_denied(run, count):
    lonely(run, lambda network: network.cut(MASTER, 3, "deny"), count)


@in_both_sizes
def control_forth(run, count):
    """Packets from the peer to the master are lost."""
    lonely(run, lambda network: network.drop(3, MASTER), count)


@in_both_sizes
def control_back(run, count):
    """Packets from the master to the peer are lost: the peer closes the connection after the silence limit, which the
    master sees."""
    lonely(run, lambda network: network.drop(MASTER, 3), count)


@in_both_sizes
def host_vanishes(run, count):
    """No packets leave its host, and no host gets an error. The master's limit of silence equals the limit of a peer's
    connections to it, full of unacknowledged bytes: either may detect it."""
    reasons = (*NOT_HEARD, "a connection to peer", "a connection from peer", "its link to peer")
    lonely(run, lambda network: network.unplug(3), count, reasons)


@in_both_sizes
def control_cut_for_good(run, count):
    """The victim, permanently cut off from its master, ends its calls with a reason after master_lost_ms."""
    lost_ms = 3000
    hosts = Hosts(run, 2, peers={"master_lost_ms": lost_ms, "alone_ms": lost_ms - 1})
    other, victim = hosts.peers
    call = victim.start("reduce", 5, count, "f32", "sum", "rand:1", "inplace")
    since_us = now_us()
    hosts.network.cut(MASTER, 2)
    result = call.wait(rc=LOST)
    check(result["at"] - since_us >= lost_ms * 1000, "it gave up too early")
    knew([result], since_us, "it gave up")
    check(result["intact"] and "master" in result["words"], f"{result}")
    for verb in ("update", "pending"):
        victim.do(verb, rc=INVALID_USAGE)
    other.do("update", rc=SUCCESS)


# ---- all peers


@in_both_sizes
def master_unreachable_in_time(run, count):
    """The master's host is off the network for less than the silence limit: all wait, no call fails."""
    hosts = Hosts(run, 3, PATIENT)
    loops = start_loops(hosts.peers, count=count)
    for _ in range(2):
        hosts.network.unplug(MASTER)
        wait_ms(500)
        hosts.network.plug(MASTER)
        more_steps(loops, world=3)
    all_right(loops)
    say(f"longest pause {longest_pause_ms(loops):.0f} ms")


@in_both_sizes
def master_unreachable_too_long(run, count):
    """The same for longer: the master takes its isolation for the loss of all. All calls end with a reason, all peers
    return."""
    hosts = Hosts(run, 3)
    loops = start_loops(hosts.peers, count=count)
    since_us = now_us()
    hosts.network.unplug(MASTER)
    said(run, " ended", since_us)
    hosts.network.plug(MASTER)
    for loop in loops:
        result = loop.wait()
        check(result["rc"] != SUCCESS and result["words"], f"{loop!r}: {result}")
    all_right(loops)
    first, *others = hosts.peers
    first.do("connect", rc=SUCCESS)
    inside = [first]
    for peer in others:
        run.admit(peer, inside)
        inside.append(peer)
    for call in [peer.start("reduce", 6, count, "f32", "sum", "rand:1") for peer in inside]:
        call.wait(rc=SUCCESS)


def crawl(run, kbit, steps, **shape):
    """Data beyond the host's queue is lost, and its replacement may be, too: a second without an answer is common there
    and no silence. The limits are the default ones."""
    hosts = Hosts(run, 3, {"silence_ms": 10000, "heartbeat_ms": 2500}, link_ms=10000)
    loops = start_loops(hosts.peers, in_flight=0, **shape)  # 0: failures would be reported
    hosts.network.crawl(2, kbit)
    since_us = now_us()

    def slow_steps(loop):
        return [step for step in loop.steps if step["at"] - step["us"] > since_us]

    def enough(loop):
        return loop.result or loop.failures or len(slow_steps(loop)) >= steps

    harness.wait_until(lambda: all(map(enough, loops)), f"{steps} slow steps")
    for loop in loops:
        check(not loop.failures and loop.result is None, f"{loop!r} failed")
        check(all(step["world"] == 3 for step in slow_steps(loop)), f"somebody went, says {loop!r}")
    all_right(loops)
    took_us = [step["us"] for step in slow_steps(loops[0])]
    say(f"{sum(took_us) / len(took_us) / 1000:.0f} ms for each step")


def test_crawl(run):
    """A host sends at 128 kbit/s: all are slow, all results are correct, no peer is removed."""
    crawl(run, 128, 20)


def test_crawl_bulk(run):
    """A host sends at 2 Mbit/s. Its queue (60,000 bytes, see Network.crawl) drains in 0.24 s; at 128 kbit/s this would
    take 3.75 s."""
    crawl(run, 2000, 4, tags=2, count=20000)


if sys.argv[1:] != ["--list"]:
    need_root()
harness.main()
