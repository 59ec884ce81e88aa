"""python/examples/diloco.py survives a kill and a late joiner, with equal bits in every round."""

import signal

import launcher
import pytest

pytest.importorskip("numpy")


def states(peer):
    return dict(line.split()[1:] for line in peer.lines if line.startswith("state "))


@pytest.mark.parametrize("mode", ["sync", "eager"])
def test_churn(address, script, mode):
    peers = [launcher.start(script, "diloco.py", address, "--mode", mode) for _ in range(3)]
    launcher.wait_for(peers, ": 3 peers")
    peers.pop(1).kill()
    launcher.wait_for(peers, ": 2 peers")
    launcher.make_way(peers)
    peers.append(launcher.start(script, "diloco.py", address, "--mode", mode))
    launcher.wait_for(peers, ": 3 peers")
    for peer in peers:
        peer.kill(signal.SIGTERM)
    assert [peer.end() for peer in peers] == [0, 0, 0]
    one, other, late = map(states, peers)
    assert len(set(one) & set(late)) > 0 and set(one) & set(other)
    assert all(one[number] == other[number] for number in set(one) & set(other))
    assert all(one[number] == late[number] for number in set(one) & set(late))


@pytest.mark.parametrize("library", [[], ["--torch"]])
def test_it_learns(address, script, library):
    if library:
        pytest.importorskip("torch")
    peer = launcher.start(script, "diloco.py", address, "--rounds", "40", "--codec", "u8-minmax", *library)
    peer.line("ended")
    losses = [float(line.rsplit(" ", 1)[1]) for line in peer.lines if line.startswith("round ")]
    assert losses[-1] < 0.2 and losses[-1] < losses[0], losses
    assert peer.end() == 0
