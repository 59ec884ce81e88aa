"""python/examples/one_byte.py, averaging.py, sketching.py, sparse.py, private_adapters.py, pipeline.py and
offloading.py survive a kill and a late joiner, with equal bits in every round if parameters are common; and they learn.
"""

import re
import signal
import statistics

import launcher
import pytest
import support
from test_examples_diloco import states

pytest.importorskip("numpy")


def losses(peer):
    return [float(line.rsplit(" ", 1)[1]) for line in peer.lines if line.startswith("round ")]


def equal_where_both_were(peers):
    one, other, late = map(states, peers)
    assert set(one) & set(late) and set(one) & set(other)
    for pair in ((one, other), (one, late), (other, late)):
        assert all(pair[0][number] == pair[1][number] for number in set(pair[0]) & set(pair[1]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["one_byte.py", "sketching.py", "sparse.py", "private_adapters.py"])
def test_churn_with_equal_bits(address, script, name):
    peers = [launcher.start(script, name, address) for _ in range(3)]
    launcher.wait_for(peers, ": 3 peers")
    peers.pop(1).kill()
    launcher.wait_for(peers, ": 2 peers")
    launcher.make_way(peers)
    peers.append(launcher.start(script, name, address))
    launcher.wait_for(peers, ": 3 peers")
    for peer in peers:
        peer.kill(signal.SIGTERM)
    assert [peer.end() for peer in peers] == [0, 0, 0]
    equal_where_both_were(peers)


@pytest.mark.sampled(3)
def test_a_pipeline_comes_and_goes(address, script):
    """In addition to a peer with the whole model a stage is killed, and another peer takes it; a stage has the same
    bits on all peers that have it."""
    peers = [launcher.start(script, "pipeline.py", address, *more) for more in (["--whole"], [], [])]
    launcher.wait_for(peers, ": 2 replicas")
    peers.pop(2).kill()
    launcher.wait_for(peers[1:], ", idle")
    launcher.make_way(peers)
    peers.append(launcher.start(script, "pipeline.py", address))
    launcher.wait_for(peers, ": 2 replicas")
    peers[0].line(peers[2].line("stage ").rsplit(" ", 1)[0])
    for peer in peers:
        peer.kill(signal.SIGTERM)
    assert [peer.end() for peer in peers] == [0, 0, 0]
    whole, one, other = ({line for line in peer.lines if line.startswith("stage ")} for peer in peers)
    assert one & whole and other & whole
    at = {line.rsplit(" ", 1)[0] for line in whole}
    assert {line for line in one | other if line.rsplit(" ", 1)[0] in at} <= whole


@pytest.mark.sampled(3)
@pytest.mark.parametrize("more, count", [([], 2), pytest.param(["--partial", "0.02"], 3, marks=pytest.mark.nightly)])
def test_churn_of_averages(address, script, more, count):
    peers = [launcher.start(script, "averaging.py", address, *more) for _ in range(3)]
    launcher.wait_for(peers, f": {count} averaged")
    peers.pop(1).kill()
    launcher.wait_for(peers, ": 2 averaged")
    launcher.make_way(peers)
    peers.append(launcher.start(script, "averaging.py", address, *more))
    launcher.wait_for(peers, f": {count} averaged")
    for peer in peers:
        peer.kill(signal.SIGTERM)
    assert [peer.end() for peer in peers] == [0, 0, 0]


def served(peer):
    """Returns agents, and the users that all of them serve, by round."""
    found = (re.match(r"round (\d+): (\d+) agents, .* of (\d+) ", line) for line in peer.lines)
    return {int(one[1]): (int(one[2]), int(one[3])) for one in found if one}


def phases(gone, came, last):
    """Returns ranges of rounds: 50 before the kill, all until the newcomer has joined, and 50 after that."""
    return {
        "before the kill": range(gone - 50, gone), "after it": range(gone, came),
        "with the newcomer": range(came, min(came + 49, last) + 1),
    }


@pytest.mark.sampled(3)
def test_agents_come_and_go(address, script):
    """One is killed in flight, one is new, and one lands each time its battery is empty and takes off again; the
    weights have the same bits on all, and all count the same users."""
    peers = [
        launcher.start(script, "offloading.py", address, "--seed", 4, "--number", i, *more)
        for i, more in enumerate([(), (), ("--battery", 150)])
    ]
    launcher.wait_for(peers, ": 3 agents")
    for _ in range(100):
        peers[0].line(": 3 agents")
    killed = peers.pop(1)
    killed.kill()
    launcher.wait_for(peers, ": 2 agents")
    launcher.make_way(peers)
    peers.append(launcher.start(script, "offloading.py", address, "--seed", 4, "--number", 3))
    launcher.wait_for(peers, ": 3 agents")
    peers[1].line("landed after ")
    peers[1].line(": 3 agents")
    for peer in peers:
        peer.kill(signal.SIGTERM)
    assert [peer.end() for peer in peers] == [0, 0, 0]
    equal_where_both_were(peers)
    one, other, late = map(served, peers)
    assert all({**found, **one} == {**one, **found} for found in (other, late))
    for name, rounds in phases(max(served(killed)) + 1, min(late), max(one)).items():
        support.figure(f"agents.{name}", statistics.mean(one[round][1] for round in rounds), f"users, rounds {rounds}")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name, more",
    [
        ("one_byte.py", ["--rounds", "150"]),
        ("averaging.py", ["--rounds", "30"]),
        ("sketching.py", ["--rounds", "150", "--kind", "hadamard"]),
        ("sparse.py", ["--rounds", "30"]),
        ("private_adapters.py", ["--rounds", "60"]),
    ],
)
def test_they_learn(address, script, name, more):
    peer = launcher.start(script, name, address, *more)
    assert peer.end() == 0
    assert losses(peer)[-1] < 0.7 * losses(peer)[0], losses(peer)[::10]
