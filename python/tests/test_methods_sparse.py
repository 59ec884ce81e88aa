"""SparseLoCo: the sent and the kept parts, clipping, newcomers, invalid bytes; and its learning by the number of bytes.
"""

import logging
import statistics

import pytest
import support
from test_methods import admit, bits, start, steps

import pccl

np = pytest.importorskip("numpy")

from lab import launch  # noqa: E402
from pccl.methods import SparseLoCo  # noqa: E402
from pccl.methods._sparse import CHUNK, Sparse  # noqa: E402

SIZE = 3 * CHUNK + 100


def values_of(seed, size=SIZE):
    return {"w": np.random.default_rng(seed).normal(size=size).astype(np.float32)}


def make_of(values, **given):
    given = {"inner_steps": 1, "kept": 512, "min_peers": len(values), **given}
    return lambda i, comm: SparseLoCo(comm, values[i], **given)


def packed_of(values, kept):
    """Returns the bytes, their values, and the rest."""
    codec, left = Sparse(len(values), kept), values.copy()
    packed, means = np.zeros(codec.bytes, np.uint8), np.zeros_like(values)
    codec.pack(left, packed)
    codec.add(packed, 1.0, means)
    return packed, means, left


# ---- the codec


@pytest.mark.parametrize("kept", [64, 512, 4096])
def test_fourteen_bits_for_each_that_is_kept(kept):
    values = np.random.default_rng(kept).normal(size=8 * CHUNK).astype(np.float32)
    packed, means, left = packed_of(values, kept)
    heads = 8 * 8
    assert (8 * (packed.nbytes - heads)) / (8 * kept) == 14.0
    chosen = np.concatenate([
        CHUNK * number + np.sort(np.argsort(-np.abs(chunk), kind="stable")[:kept])
        for number, chunk in enumerate(values.reshape(8, CHUNK))
    ])
    assert (np.flatnonzero(means) == chosen).all() and (np.sign(means[chosen]) == np.sign(values[chosen])).all()
    assert all(len(np.unique(np.abs(chunk))) <= 3 for chunk in means.reshape(8, CHUNK))
    assert (left == values - means).all()
    square = Sparse(len(values), kept).square(packed)
    assert abs(square / float(np.square(means, dtype=np.float64).sum()) - 1) < 1e-6


def test_it_is_exact_where_there_are_two_magnitudes():
    values = np.zeros(2 * CHUNK, np.float32)
    values[5::16] = 0.3
    values[8::16] = -7
    _, means, left = packed_of(values, 512)
    assert (means == values).all() and not left.any()


def test_bytes_that_nobody_packs_are_refused():
    packed, _, _ = packed_of(np.ones(100, np.float32), 2048)
    codec = Sparse(100, 2048)
    packed[8] ^= 1
    with pytest.raises(pccl.InvalidArgument, match="chunk 0: invalid index 1 after 1: expected ascending indices"):
        codec.square(packed)
    sums = np.zeros(100, np.float32)
    with pytest.raises(pccl.InvalidArgument, match="chunk 0: invalid index 1 after 1: expected ascending indices"):
        codec.add(packed, 1.0, sums)
    assert not sums.any()
    with pytest.raises(pccl.InvalidArgument, match="an element is not finite"):
        codec.pack(np.full(100, np.inf, np.float32), packed)
    with pytest.raises(pccl.InvalidArgument, match="1 to 4096, not 0"):
        Sparse(100, 0)


# ---- rounds


def train(values, number, round, scale=1.0):
    values["w"] -= np.float32(scale) * np.random.default_rng([number, round]).normal(size=SIZE).astype(np.float32)


@pytest.mark.parametrize("decay", [0.95, 0.0])
def test_what_was_sent_and_what_is_kept_are_all_that_was_trained(address, decay):
    values = [values_of(0) for _ in range(3)]
    made = start(address, 3, make_of(values, decay=decay, clip=False))
    inputs, sent, steps_made = ([np.zeros(SIZE) for _ in range(3)] for _ in range(3))
    for round in range(12):
        before = [one["w"].copy() for one in values]
        for number, one in enumerate(values):
            train(one, number, round)
            inputs[number] = decay * inputs[number] + (before[number] - one["w"])
        told = support.parallel([one.step for one in made])
        assert all(info.committed and info.participants == 3 and not info.skipped for info in told)
        assert len({bits(one) for one in values}) == 1
        for number, one in enumerate(made):
            means = np.zeros(SIZE, np.float32)
            one._changes.codecs[0].add(one._changes.packed, 1.0, means)
            sent[number] = decay * sent[number] + means
            steps_made[number] = means
        mean = sum(part.astype(np.float64) for part in steps_made) / 3
        assert np.allclose(values[0]["w"], before[0] - mean, atol=1e-5)
    for number, one in enumerate(made):
        kept = one.state_dict()["feedback.float32"]
        assert np.abs(sent[number] + kept - inputs[number]).max() <= 1e-4 and np.abs(kept).max() > 1
        one.close()


def test_who_has_sent_more_than_the_median_counts_as_much(address):
    values = [values_of(0) for _ in range(3)]
    start_of_all = values[0]["w"].copy()
    made = start(address, 3, make_of(values, kept=CHUNK))
    for number, scale in enumerate((1.0, 3.0, 100.0)):
        train(values[number], number, 0, scale)
    changes = [packed_of(start_of_all - one["w"], CHUNK)[1].astype(np.float64) for one in values]
    support.parallel([one.step for one in made])
    lengths = [np.linalg.norm(change) for change in changes]
    wanted = sum(change * min(1.0, lengths[1] / length) for change, length in zip(changes, lengths)) / 3
    assert np.allclose(values[0]["w"], start_of_all - wanted, atol=1e-4)
    assert len({bits(one) for one in values}) == 1
    for one in made:
        one.close()


def test_a_newcomer_begins_without_feedback(address):
    values = [values_of(0) for _ in range(2)]
    made = start(address, 2, make_of(values, min_peers=1, admit_every=1))
    for _ in range(3):
        steps("sparse", made, values)
    late = values_of(7)
    newcomer = SparseLoCo(pccl.Communicator(address), late, inner_steps=1, kept=512, admit_every=1)
    newcomer.load_state_dict(made[0].state_dict())
    assert newcomer.state_dict()["feedback.float32"].any()
    steps("sparse", made, values)  # so the loaded state is an old one
    assert admit("sparse", made, values, newcomer).moved_bytes > 0
    assert not newcomer.state_dict()["feedback.float32"].any() and bits(late) == bits(values[0])
    assert made[0].state_dict()["feedback.float32"].any()
    made.pop(1).close()  # its unsent part is lost with it
    made, values = [made[0], newcomer], [values[0], late]
    steps("sparse", made, values, 2)
    assert bits(late) == bits(values[0]) and newcomer.state_dict()["feedback.float32"].any()
    for one in made:
        one.close()


def test_a_peer_whose_state_was_wrong_begins_without_feedback(address):
    values = [values_of(0) for _ in range(3)]
    made = start(address, 3, make_of(values, verify_every=2))
    steps("sparse", made, values)
    made[2]._changes.theta[0][5] += 1
    infos = steps("sparse", made, values)
    assert [info.moved_bytes > 0 for info in infos] == [False, False, True]
    assert [bool(one.state_dict()["feedback.float32"].any()) for one in made] == [True, True, False]
    assert len({bits(one) for one in values}) == 1
    for one in made:
        one.close()


def test_a_change_that_is_not_finite_counts_for_nothing(address):
    values = [values_of(0) for _ in range(2)]
    made = start(address, 2, make_of(values))
    steps("sparse", made, values)
    before = made[1].state_dict()["feedback.float32"]
    train(values[0], 0, 0)
    values[1]["w"][3] = np.nan
    infos = support.parallel([one.step for one in made])
    assert [info.skipped for info in infos] == [False, True] and all(info.committed for info in infos)
    assert bits(values[0]) == bits(values[1]) and np.isfinite(values[0]["w"]).all()
    assert (made[1].state_dict()["feedback.float32"] == before).all()
    for one in values:
        one["w"][3] = np.inf
    infos = support.parallel([one.step for one in made])
    assert not any(info.committed for info in infos) and np.isfinite(values[0]["w"]).all()
    for one in made:
        one.close()


@pytest.mark.parametrize("wrong", [b"no", b"\xff" * 10_000_000, None])
def test_what_no_codec_makes_counts_for_nothing(address, monkeypatch, caplog, wrong):
    values = [values_of(0) for _ in range(3)]
    made = start(address, 3, make_of(values))
    liar = made[1]
    monkeypatch.setattr(liar._changes, "packed", np.frombuffer(wrong or b"\xff" * liar.packed_bytes, np.uint8))
    monkeypatch.setattr(liar._changes, "pack", lambda: True)
    monkeypatch.setattr(type(liar._changes), "bytes", made[0].packed_bytes)
    for number, one in enumerate(values):
        train(one, number, 0)
    with caplog.at_level(logging.WARNING, "pccl.methods"):
        infos = support.parallel([one.step for one in made])
    assert all(info.committed and info.participants == 3 for info in infos)
    assert len({bits(one) for one in values}) == 1 and np.isfinite(values[0]["w"]).all()
    assert f"ignoring data from {liar.comm.id}: " in caplog.text
    for one in made:
        one.close()


def test_a_state_that_does_not_fit_changes_nothing(address):
    values = values_of(0)
    (one,) = start(address, 1, make_of([values]))
    steps("sparse", [one], [values], 2)
    state = one.state_dict()
    one.close()
    with pytest.raises(pccl.InvalidArgument, match="load_state_dict: feedback.float32 is ndarray"):
        one.load_state_dict({**state, "feedback.float32": np.zeros(3, np.float32), "round": 9})
    with pytest.raises(pccl.InvalidArgument, match="only one of them has feedback.float64"):
        one.load_state_dict({**state, "feedback.float64": np.zeros(3)})
    assert one.round == 2 and (one.state_dict()["feedback.float32"] == state["feedback.float32"]).all()
    del state["feedback.float32"]
    one.load_state_dict(state)
    assert not one.state_dict()["feedback.float32"].any()


# ---- learning


@pytest.mark.nightly
def test_it_learns_with_few_bytes():
    """In the laboratory, means of three seeds: a round's bytes are 1/17 of the parameters, and the total is 1/8 of
    DiLoCo's; the loss is within 0.3 of DiLoCo's, and 0.15 below its own without feedback."""
    ends = {}
    for name, given in {
        "diloco": {"method": "diloco"},
        "sparse": {"method": "sparse", "kept": 512},
        "forgetful": {"method": "sparse", "kept": 512, "decay": 0.0},
    }.items():
        losses, sent = zip(*[launch.learn(seed, 1500, **given) for seed in range(3)])
        ends[name] = statistics.mean(losses), max(sent)
        support.figure(f"methods.{name}", ends[name][0], "nats")
    assert ends["sparse"][0] <= ends["diloco"][0] + 0.3 and ends["sparse"][1] <= ends["diloco"][1] / 8, ends
    assert ends["sparse"][0] <= ends["forgetful"][0] - 0.15, ends
    assert Sparse(44096, 512).bytes <= 4 * 44096 / 17
