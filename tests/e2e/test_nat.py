"""Peers behind firewalls: others cannot connect to them, so they dial the links in both directions themselves. Each
peer and the master run in a separate network namespace."""

import shutil
import subprocess
import sys

import harness
from harness import INTERNAL, LOST, SUCCESS
from harness import check, equal, poll
from namespaces import SKIPPED, V6, Network, need_root
from phases import PATIENT, RESTARTED, agree, go_on
from states import define, sync
from topologies import Picture

MASTER = 0  # its host; peer i is at host 1 + i
SIZES = (1, 1 << 14, 1 << 22)  # elements of 4 bytes: 4 B, 64 KiB, 16 MiB


class Hosts:
    """A master and members, of which those at `walled` are behind firewalls."""

    def __init__(self, run, walled, answer, count=4, near=False, **parameters):
        self.run = run
        self.parameters = parameters
        self.network = Network(count + 2)
        run.at_exit.append(self.network.remove)
        self.network.build()
        run.host = self.network.address(MASTER)
        self.start_master()
        self.peers = []
        for i in range(count):
            neighbors = [1 + other for other in walled if near and other != i]
            peer = self.add(i, answer if i in walled else None, neighbors)
            run.admit(peer, self.peers)
            self.peers.append(peer)

    def start_master(self, **limits):
        self.run.start_master(48148, prefix=self.network.prefix(MASTER), insecure=1, **{**PATIENT, **limits})

    def add(self, i, answer, neighbors=()):
        """Returns a peer that has not connected yet."""
        if answer:
            self.network.wall(1 + i, answer, neighbors)
        peer = self.run.peer(f"peer{i}", prefix=self.network.prefix(1 + i), where_ms=20, **self.parameters)
        peer.create(self.run.address, name=f"peer{i}")
        return peer


def reduce_all(peers, tag):
    for step, count in enumerate(SIZES):
        words = [tag + step, count, "f32", "sum"]
        calls = [peer.start("reduce", *words, f"mark:{bit}") for bit, peer in enumerate(peers)]
        for result in agree(calls, SUCCESS):
            equal(result["peers"], len(peers), "peers of the reduction")


def exchange_all(peers, tag):
    for count in (50, 100000):  # of which the first is tiny
        calls = [peer.start("collect", "all_to_all", tag, count) for peer in peers]
        for result in agree(calls, SUCCESS):
            check(result["right"] and result["peers"] == len(peers), f"{result}")


def send_all(peers, tag, apart=()):
    """Sends from each to the next one, and back, except between two peers in `apart`."""
    for way in (1, -1):
        for i, source in enumerate(peers):
            k = (i + way) % len(peers)
            if i in apart and k in apart:
                continue
            calls = [source.start("send", k, tag, 100000, i), peers[k].start("recv", i, tag, 100000)]
            for call in calls:
                check(call.wait(rc=SUCCESS)["right"], f"{call!r}")


def all_works(peers, tag, apart=()):
    reduce_all(peers, tag)
    exchange_all(peers, tag + 10)
    send_all(peers, tag + 11, apart)


def behind(run, answer):
    """One of four is behind a firewall: all operations work, also after a restart of the master; after its death the
    others continue."""
    hosts = Hosts(run, (1,), answer)
    peers = hosts.peers
    all_works(peers, 100)
    run.master.kill()
    hosts.start_master(**RESTARTED)
    all_works(peers, 200)
    for call in [peer.start("optimize") for peer in peers]:
        call.wait(rc=SUCCESS)
    all_works(peers, 300)
    ways = Picture(peers[0].do("topology")["text"]).ways
    equal({to for (_, to), way in ways.items() if way["reversed"]}, {"peer1"}, "the receivers that have dialed")
    check(all(way["source"] != "unreachable" for way in ways.values()), f"unreachable: {ways}")
    peers[1].kill()
    survivors = [peer for peer in peers if peer is not peers[1]]
    calls = [peer.start("reduce", 400, SIZES[1], "f32", "sum", f"mark:{bit}") for bit, peer in enumerate(survivors)]
    agree(calls, SUCCESS, LOST)
    go_on(run, survivors, rejoin=False)
    text = [line for _, line in run.master.lines if "departs" in line]
    equal(len(text), 1, f"departures: {text}")


def test_dropped(run):
    behind(run, "drop")


def test_refused(run):
    behind(run, "reject with tcp reset")


def state_from(run, donor):
    """The peer behind the firewall and one of the others differ: the content of the popular ones reaches both ways."""
    peers = Hosts(run, (1,), "drop").peers
    define(peers[donor], "w,u8,5000000,rand:1")
    for peer in peers:
        if peer is not peers[donor]:
            define(peer, "w,u8,5000000,rand:2")
    strategies = ["receive"] * 4
    strategies[donor] = "send"
    sync(peers, 1, strategies)


def test_state_from_behind(run):
    state_from(run, 1)


def test_state_to_behind(run):
    state_from(run, 0)


def test_two_behind(run):
    """Two peers that cannot be linked: the second one is refused, in words that name both."""
    hosts = Hosts(run, (0,), "drop", 1)
    second = hosts.add(1, "drop")
    words = second.start("connect").wait(rc=None)["words"]
    check("port of neither" in words and run.id_of(hosts.peers[0]) in words, words)


def found(peers, slot):
    told = [peer.do("members") for peer in peers]
    ids = ",".join(one["members"][one["rank"]] for one in told)
    return [peer.start("group", slot, ids) for peer in peers]


def half_behind(run, answer):
    """Two of four are behind firewalls: no operation needs a link between these, except sends and groups of the two,
    which end in words. When a third one dies, the latest of the two leaves with it."""
    hosts = Hosts(run, (2, 3), answer)
    peers, apart = hosts.peers, (2, 3)
    all_works(peers, 100, apart)
    calls = [peers[2].start("send", 3, 120, 100000, 0), peers[3].start("recv", 2, 120, 100000)]
    tiny = [peers[2].start("send", 3, 121, 10, 7), peers[3].start("recv", 2, 121, 10)]
    for call in tiny:
        check(call.wait(rc=SUCCESS)["right"], f"{call!r}")
    reduce_all(peers, 130)
    for call in calls:
        check("port of neither" in call.wait(rc=INTERNAL)["words"], f"{call!r}")
    for call in found(peers[2:], 1):
        check("cannot be linked" in call.wait(rc=INTERNAL)["words"], f"{call!r}")
    for call in found(peers, 2):
        call.wait(rc=SUCCESS)
    collected = [peer.start("collect", "all_to_all", 140, 100000, slot=2) for peer in peers]
    for result in agree(collected, SUCCESS):
        check(result["right"], f"{result}")
    run.master.kill()
    hosts.start_master(**RESTARTED)
    all_works(peers, 200, apart)
    for call in [peer.start("optimize") for peer in peers]:
        call.wait(rc=SUCCESS)
    all_works(peers, 300, apart)
    ways = Picture(peers[0].do("topology")["text"]).ways
    closed = {names for names, way in ways.items() if way["source"] == "unreachable"}
    equal(closed, {("peer2", "peer3"), ("peer3", "peer2")}, "unreachable")
    peers[1].kill()
    survivors = (peers[0], peers[2])
    calls = [peer.start("reduce", 400, SIZES[1], "f32", "sum", f"mark:{bit}") for bit, peer in enumerate(survivors)]
    words = peers[3].start("reduce", 400, SIZES[1], "f32", "sum", "mark:2").wait(rc=None)["words"]
    check("port of neither" in words, words)
    agree(calls, SUCCESS, LOST)
    go_on(run, survivors, rejoin=False)


def test_half_dropped(run):
    half_behind(run, "drop")


def test_slow_half_refused(run):
    half_behind(run, "reject with tcp reset")


def test_state_between(run):
    """The state of a peer behind a firewall reaches another such peer through one that only receives."""
    peers = Hosts(run, (2, 3), "drop").peers
    define(peers[2], "w,u8,5000000,rand:1")
    for peer in (peers[0], peers[1], peers[3]):
        define(peer, "w,u8,5000000,rand:2")
    sync(peers, 1, ["receive", "receive", "send", "receive"])


def test_behind_one_firewall(run):
    """All are behind one firewall, and the master is outside: all works as without one."""
    peers = Hosts(run, (0, 1, 2), "drop", 3, near=True).peers
    all_works(peers, 100)
    for call in [peer.start("optimize") for peer in peers]:
        call.wait(rc=SUCCESS)
    ways = Picture(peers[0].do("topology")["text"]).ways
    check(all(way["source"] != "unreachable" for way in ways.values()), f"unreachable: {ways}")


SILENT = """
import socket, sys
one = socket.create_server(("", 7)) if sys.argv[1] == "" else socket.create_connection((sys.argv[1], 7))
print(one.getsockname()[1], flush=True)
one = one.accept()[0] if sys.argv[1] == "" else one
sys.stdin.read()
"""


def start_silent(run, prefix, address):
    """Starts one end of a connection that is never used: the end that listens, if `address` is empty."""
    one = subprocess.Popen(
        prefix + [sys.executable, "-c", SILENT, address], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    run.at_exit.append(one.kill)
    return int(one.stdout.readline())


def idle(run, seconds, **parameters):
    """The router of a peer forgets silent connections. It has forgotten one, and all links of the peer, which were idle
    as long, are still in use."""
    hosts = Hosts(run, (1,), "drop", 3, **parameters)
    peers, network = hosts.peers, hosts.network
    network.forget(2, seconds)
    all_works(peers, 100)  # over all links, for the limit applies from the next packet on
    start_silent(run, network.prefix(MASTER), "")
    port = start_silent(run, network.prefix(2), network.address(MASTER))
    check(network.remembers(2, port), "the router does not know the silent connection")
    links = network.sockets(2)
    poll(lambda: not network.remembers(2, port), "the router forgets the silent connection", 3 * seconds + 30)
    all_works(peers, 200)
    check(links <= network.sockets(2), f"{links} became {network.sockets(2)}")


def test_idle(run):
    idle(run, 12)


def test_slow_idle(run):
    """A minute, with a limit of silence under which idle links would send nothing for five."""
    idle(run, 60, link_silence_ms=600000)


def over_both(run, expected, *broken):
    """Peers with IPv4 and IPv6 in separate networks, and a master with IPv4 only. `broken` hosts drop IPv6."""
    network = Network(3)
    run.at_exit.append(network.remove)
    network.build()
    network.separate()
    for host in broken:
        network.wall(host, "drop", family="ip6")
    run.host = network.address(MASTER)
    run.start_master(48148, prefix=network.prefix(MASTER), insecure=1)
    peers = []
    for host in (1, 2):
        peer = run.peer(prefix=network.prefix(host), where_ms=20)
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    reduce_all(peers, 1)
    equal(network.connections(1), {run.host, expected or network.address(2)}, "the other ends")


def test_v6_first(run):
    over_both(run, f"{V6}3")


def test_v6_broken(run):
    over_both(run, None, 1, 2)


if sys.argv[1:] != ["--list"]:
    need_root()
    if not shutil.which("nft"):
        harness.say("skipped: no nft (nftables)")
        sys.exit(SKIPPED)
harness.main()
