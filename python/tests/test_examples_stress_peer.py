"""python/examples/stress_peer.py: peers are killed and started repeatedly, and none ever has a different bit."""

import random
import re

import launcher
import pytest

pytest.importorskip("numpy")

ROUNDS = 8


def test_churn(address, script):
    choose = random.Random(5)
    peers, everybody = [], []

    def start():
        peers.append(launcher.start(script, "stress_peer.py", address))
        everybody.append(peers[-1])

    start()
    start()
    launcher.wait_for(peers, "Reduce completed RX:")
    for _ in range(ROUNDS):
        if len(peers) < 3 or (len(peers) < 5 and choose.random() < 0.6):
            launcher.make_way(peers)
            start()
            launcher.wait_for(peers[-1:], "Reduce completed RX:")
        else:
            peers.pop(choose.randrange(len(peers))).kill()
            launcher.wait_for(peers, f": {len(peers)} peers")
    launcher.end_with_equal_digests(peers)

    seen = {}
    for peer in everybody:
        for line in peer.lines:
            found = re.match(r"step (\d+): \d+ peers, crc (\w+); ", line)
            if found:
                seen.setdefault(found[1], set()).add(found[2])
    assert len(seen) > ROUNDS and all(len(digests) == 1 for digests in seen.values())
