"""Peers behind firewalls: others cannot connect to them, so they dial the links in both directions themselves. Each
peer and the master run in a separate network namespace."""

import shutil
import sys

import harness
from harness import LOST, SUCCESS
from harness import check, equal
from namespaces import SKIPPED, Network, need_root
from phases import RESTARTED, SILENCE_MS, agree, go_on
from states import define, sync
from topologies import Picture

MASTER = 0  # its host; peer i is at host 1 + i
SIZES = (1, 1 << 14, 1 << 22)  # elements of 4 bytes: 4 B, 64 KiB, 16 MiB
LIMITS = {"silence_ms": SILENCE_MS, "heartbeat_ms": SILENCE_MS // 5}


class Hosts:
    """A master and members, of which those at `walled` are behind firewalls."""

    def __init__(self, run, walled, answer, count=4):
        self.run = run
        self.network = Network(count + 2)
        run.at_exit.append(self.network.remove)
        self.network.build()
        run.host = self.network.address(MASTER)
        self.start_master()
        self.peers = []
        for i in range(count):
            peer = self.add(i, answer if i in walled else None)
            run.admit(peer, self.peers)
            self.peers.append(peer)

    def start_master(self, **limits):
        self.run.start_master(48148, prefix=self.network.prefix(MASTER), insecure=1, **{**limits, **LIMITS})

    def add(self, i, answer):
        """Returns a peer that has not connected yet."""
        if answer:
            self.network.wall(1 + i, answer)
        peer = self.run.peer(f"peer{i}", prefix=self.network.prefix(1 + i), where_ms=20)
        peer.create(self.run.address, name=f"peer{i}")
        return peer


def reduce_all(peers, tag):
    for step, count in enumerate(SIZES):
        words = [tag + step, count, "f32", "sum"]
        calls = [peer.start("reduce", *words, f"mark:{bit}") for bit, peer in enumerate(peers)]
        for result in agree(calls, SUCCESS):
            equal(result["peers"], len(peers), "peers of the reduction")


def exchange_all(peers, tag):
    for count in (50, 100000):
        calls = [peer.start("collect", "all_to_all", tag, count) for peer in peers]
        for result in agree(calls, SUCCESS):
            check(result["right"] and result["peers"] == len(peers), f"{result}")


def send_all(peers, tag):
    """Sends from each to the next one, and back."""
    for way in (1, -1):
        for i, source in enumerate(peers):
            k = (i + way) % len(peers)
            calls = [source.start("send", k, tag, 100000, i), peers[k].start("recv", i, tag, 100000)]
            for call in calls:
                check(call.wait(rc=SUCCESS)["right"], f"{call!r}")


def all_works(peers, tag):
    reduce_all(peers, tag)
    exchange_all(peers, tag + 10)
    send_all(peers, tag + 11)


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


if sys.argv[1:] != ["--list"]:
    need_root()
    if not shutil.which("nft"):
        harness.say("skipped: no nft (nftables)")
        sys.exit(SKIPPED)
harness.main()
