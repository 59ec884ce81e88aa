"""Grids of peers times shards, as threads of one process."""

import pytest
import support

pytest.importorskip("torch")

from pccl.torch import fill_grid, grid_is_full  # noqa: E402


def answers(group, shards):
    """Returns the answer of all, after checking that it is the same."""
    found = {grid_is_full(comm, shards) for comm in group.members}
    assert len(found) == 1
    return found.pop()


def test_full_and_not(address):
    peers = support.Group(address, 0)
    for number, full in enumerate([False, True, False, True, False, True]):
        peers.admit(peer_group=number % 2)
        peers.all(lambda comm, _: comm.update_topology())
        assert answers(peers, 2) is full
        assert not answers(peers, 3)
    peers.members.pop(0).close()
    peers.all(lambda comm, _: comm.update_topology())
    assert not answers(peers, 2)
    peers.members.pop(0).close()
    peers.all(lambda comm, _: fill_grid(comm, 2))
    assert answers(peers, 2)
    peers.close()


def test_filling_asks_for_siblings(address):
    peers = support.Group(address, 1, peer_group=0)

    class Dead(Exception):
        pass

    asked = []

    def check():
        asked.append(True)
        if len(asked) == 3:
            raise Dead

    with pytest.raises(Dead):
        fill_grid(peers.members[0], 2, check=check, pause_s=0)
    assert len(asked) == 3
    peers.close()
