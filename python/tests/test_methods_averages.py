"""PairAverage and PartialAverage: the effect of a round on the distance from the mean, and lost peers."""

import json
import signal

import pytest
import support
from test_methods import bits, start, steps

import pccl

np = pytest.importorskip("numpy")

from lab import launch  # noqa: E402
from pccl.methods import PairAverage, PartialAverage, _random  # noqa: E402


def values_of(seed, size=20_000):
    """Returns parameters large enough for peer-to-peer transfers."""
    return {"w": np.random.default_rng(seed).normal(size=size).astype(np.float32)}


def spread(vectors):
    """Returns the squared distance from the mean."""
    return float(np.square(vectors - vectors.mean(0)).sum())


def spread_of(values):
    return spread(np.stack([one["w"] for one in values]).astype(np.float64))


@pytest.mark.parametrize("count", [4, 6, 8])
def test_pairs_bring_all_together_as_fast_as_they_should(count):
    """The pairs of peers, over many seeds: after three rounds, to the third power of (n-2)/(2(n-1))."""
    before = after = 0.0
    for seed in range(600):
        vectors = np.random.default_rng(seed).normal(size=(count, 4))
        before += spread(vectors)
        for round in range(3):
            order = _random.order(seed, _random.PARTNERS, round, count)
            for one, other in zip(order[::2], order[1::2]):
                vectors[[one, other]] = (vectors[one] + vectors[other]) / 2
        after += spread(vectors)
    wanted = (count - 2) / (2 * (count - 1))
    assert 0.9 * wanted <= (after / before) ** (1 / 3) <= 1.1 * wanted


def test_a_round_of_pairs(address):
    values = [values_of(i) for i in range(4)]
    before, mean = spread_of(values), sum(one["w"].astype(np.float64) for one in values) / 4
    made = start(address, 4, lambda i, comm: PairAverage(comm, values[i], inner_steps=1, min_peers=4))
    infos = steps("one-byte", made, values)
    assert all(info.committed and info.participants == 2 and info.tx_bytes == 80_000 for info in infos)
    assert 0.9 / 3 <= spread_of(values) / before <= 1.1 / 3
    assert len({bits(one) for one in values}) == 2  # the two of a pair have the same bits
    for _ in range(9):
        steps("one-byte", made, values)
    assert spread_of(values) < before * 1e-2
    assert np.allclose(sum(one["w"].astype(np.float64) for one in values) / 4, mean, atol=1e-6)
    for one in made:
        one.close()


def test_momentum_adds_a_part_of_the_last_change(address):
    """Two peers are always one pair: it is the step of heavy-ball SGD on their mean, beginning with it."""
    values = [values_of(i) for i in range(2)]
    made = start(address, 2, lambda i, comm: PairAverage(comm, values[i], inner_steps=1, momentum=0.5, min_peers=2))
    mean = last = None
    for round in range(5):
        begun = [one["w"].astype(np.float64) for one in values]
        for number, one in enumerate(values):
            one["w"] -= np.float32(0.1 * (number + 1 + round))
        trained = [one["w"].astype(np.float64) for one in values]
        support.parallel([one.step for one in made])
        mean = sum(trained) / 2
        last = [mean - own + (0.5 * before if round > 0 else 0) for own, before in zip(begun, last or begun)]
        for one, own, change in zip(values, begun, last):
            assert np.allclose(one["w"], own + change, atol=1e-5)
    state = made[0].state_dict()
    assert np.allclose(state["last.float32"], last[0], atol=1e-5) and (state["start.float32"] == values[0]["w"]).all()
    for one in made:
        one.close()


def test_one_of_an_odd_number_rests(address):
    values = [values_of(i) for i in range(3)]
    made = start(address, 3, lambda i, comm: PairAverage(comm, values[i], inner_steps=1, min_peers=3))
    resting = set()
    for _ in range(12):
        infos = steps("one-byte", made, values)
        assert sorted(info.participants for info in infos) == [1, 2, 2]
        assert all(info.committed == (info.participants == 2) for info in infos)
        resting.add([info.participants for info in infos].index(1))
    assert resting == {0, 1, 2}
    for one in made:
        one.close()


PEER = r"""
import json, os, signal, sys
import numpy as np
import pccl
from pccl.methods import PairAverage, PartialAverage
address, about = sys.argv[1], json.loads(sys.argv[2])
class Mortal(pccl.Communicator):
    doomed = False
    def send_async(self, *given, **more):
        handle = super().send_async(*given, **more)
        if self.doomed:  # its partner is there, and waits for what never comes
            print("dies", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return handle
comm = Mortal(address)
params = {"w": np.full(20_000, about["number"], np.float32)}
method = PairAverage(comm, params, inner_steps=1, min_peers=about["peers"], admit_every=1000)
method._min_peers = 1
method.join()
for round in range(about["rounds"]):
    comm.doomed = about["dies_in"] == round
    info = method.step()
    print(json.dumps({"round": info.round, "participants": info.participants, "committed": info.committed,
                      "value": float(params["w"][0]), "same": bool((params["w"] == params["w"][0]).all())}), flush=True)
comm.close()
"""


def test_a_partner_that_dies_costs_its_pair_that_round_only(address, script):
    rounds, dies_in, victim = 8, 2, 1
    about = [{"number": i, "peers": 4, "rounds": rounds, "dies_in": dies_in if i == victim else -1} for i in range(4)]
    peers = [script(PEER, address, json.dumps(one)) for one in about]
    for number, peer in enumerate(peers):
        assert peer.end() == (-signal.SIGKILL if number == victim else 0), peer.lines
    told = [[json.loads(line) for line in peer.lines if line.startswith("{")] for peer in peers]
    assert len(told[victim]) == dies_in and all(len(lines) == rounds for i, lines in enumerate(told) if i != victim)
    left = [lines for i, lines in enumerate(told) if i != victim]
    assert all(line["same"] for lines in left for line in lines)
    for round in range(rounds):
        committed = sum(lines[round]["committed"] for lines in left)
        # Its partner of the round continues alone, the other pair is not disturbed; the same holds for each later one.
        assert committed == (3 if round < dies_in else 2), (round, told)
        for lines in left:
            if round > 0 and not lines[round]["committed"]:
                assert lines[round]["value"] == lines[round - 1]["value"]


def test_a_part_is_averaged_and_the_rest_is_left(address):
    values = [values_of(i) for i in range(3)]
    before = np.stack([one["w"] for one in values])
    made = start(address, 3, lambda i, comm: PartialAverage(comm, values[i], fraction=0.05, min_peers=3))
    (info, *_) = steps("one-byte", made, values)
    after = np.stack([one["w"] for one in values])
    changed = (after != before).any(0)
    chosen = np.unique(_random.indices(0, _random.INDICES, 0, 0, 1000, 20_000))
    assert set(np.flatnonzero(changed)) == set(chosen) and 0.04 < changed.mean() <= 0.05
    assert (after[:, changed] == after[0, changed]).all()
    assert np.allclose(after[0, changed], before[:, changed].mean(0), atol=1e-6)
    assert info.participants == 3 and info.committed and info.tx_bytes < 3 * 4 * 1000
    values[1]["w"][:] = np.nan
    infos = steps("one-byte", made, values)
    assert [info.skipped for info in infos] == [False, True, False] and all(info.committed for info in infos)
    assert np.isfinite(values[0]["w"]).all() and np.isnan(values[1]["w"]).mean() < 1
    for one in made:
        one.close()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "given, most, sent",
    [
        ({"method": "pair"}, 2.59, 24 * 4 * 44096),
        ({"method": "pair", "momentum": 0.5}, 2.46, 24 * 4 * 44096),
        ({"method": "partial"}, 2.59, 600 * 1200),
    ],
)
def test_they_learn_more_than_one_alone(given, most, sent):
    """In the laboratory, where one alone reaches about 2.59, and plain averages of pairs 2.51."""
    with pccl.MasterNode("127.0.0.1:0") as master:
        found = launch.peers(f"127.0.0.1:{master.port}", 4, module="methods", steps=600, **given)
    assert max(lines[-2]["loss"] for lines in found) < most
    assert max(lines[-2]["tx"] for lines in found) <= sent, support.figure("sent", found[0][-2]["tx"], "bytes")
