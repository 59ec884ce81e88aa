"""Sketches: their theory, their leaks, and training with them."""

import pytest
import support
from test_methods import bits, start, steps

import pccl
from pccl.diloco import SGD

np = pytest.importorskip("numpy")

from lab import launch  # noqa: E402
from pccl.methods import CountSketch, Hadamard, Sketched  # noqa: E402

KINDS = {"count": CountSketch, "hadamard": Hadamard}


def vector(seed, size=500):
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_what_comes_back_is_what_went_in(kind):
    """Within 4 standard errors, over 2,000 rounds; and not if it is scaled wrongly."""
    rounds, given = 2000, vector(0, 60)
    one = KINDS[kind](len(given), 8, "float32", 3)
    total, squares = np.zeros(len(given)), np.zeros(len(given))
    for round in range(rounds):
        one.draw(round)
        back = one.restore(one.sketch(given)).astype(np.float64)
        total, squares = total + back, squares + back**2
    mean = total / rounds
    error = np.sqrt((squares / rounds - mean**2) / rounds)
    whole = float(np.dot(mean - given, given)) / float(np.dot(given, given))  # in the direction of the input
    assert (np.abs(mean - given) <= 4.5 * error).all() and (np.abs(mean - given) <= 4 * error).mean() > 0.99
    assert abs(whole) < 0.05
    assert (np.abs(1.5 * mean - given) > 4 * error).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 5, 300, 5000])
def test_the_sum_of_sketches_is_the_sketch_of_the_sum(kind, size):
    one = KINDS[kind](size, 8, "float32", 3)
    one.draw(7)
    parts = [vector(seed, size) for seed in range(4)]
    together, apart = one.sketch(sum(parts)), sum(one.sketch(part) for part in parts)
    assert len(together) == one.width and np.allclose(together, apart, rtol=0, atol=1e-5 * max(1, np.abs(apart).max()))
    assert len(one.restore(together)) == size


@pytest.mark.parametrize("kind", KINDS)
def test_it_sends_an_eighth(kind):
    one = KINDS[kind](44_096, 8, "float32", 0)
    assert one.width <= 1.05 * 44_096 / 8


def gradient(weights, image, label):
    """Returns the gradient of one layer and one sample: the change of a peer's parameters."""
    scores = image @ weights
    odds = np.exp(scores - scores.max())
    odds /= odds.sum()
    odds[label] -= 1
    return np.outer(image, odds)


def attack(one, sketched, weights):
    """Searches for the image whose gradient has this sketch, for each label, by least squares (at weights of 0 the odds
    do not depend on the image)."""
    inputs, classes = weights.shape
    found = []
    for label in range(classes):
        columns = [one.sketch(gradient(weights, unit, label).reshape(-1)) for unit in np.eye(inputs)]
        matrix = np.stack(columns, 1).astype(np.float64)
        image, *_ = np.linalg.lstsq(matrix, sketched, rcond=None)
        found.append((float(np.square(matrix @ image - sketched).sum()), image))
    return min(found, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_alone_leaks_and_noise_hides(address, kind):
    """With the seed an observer can compute the image from a peer's sketch; with noise as large as the clip this fails.
    """
    inputs, classes = 64, 10
    cosines = {}
    for noise in (0.0, 1.0):
        image = vector(5, inputs)
        values = {"w": np.zeros((inputs, classes), np.float32)}
        settings = {"ratio": 8, "kind": kind, "clip": 1.0, "noise": noise, "noise_seed": 11, "outer": SGD(1.0)}
        (peer,) = start(address, 1, lambda i, comm: Sketched(comm, values, **settings))
        values["w"] -= gradient(values["w"], image, 3).astype(np.float32)
        peer.step()
        sent = peer._reduction.delta[0].astype(np.float64)
        one = KINDS[kind](inputs * classes, 8, "float32", 0)
        found = attack(one, sent, np.zeros((inputs, classes)))
        cosines[noise] = float(found @ image / np.linalg.norm(found) / np.linalg.norm(image))
        peer.close()
    assert cosines[0.0] > 0.95 and abs(cosines[1.0]) < 0.3, cosines


def test_noise_has_the_size_it_should(address):
    """And is different each time without noise_seed."""
    found = []
    for noise_seed in (1, 1, None, None):
        values = {"w": np.zeros(50_000, np.float32)}
        given = {"ratio": 1, "clip": 2.0, "noise": 0.5, "noise_seed": noise_seed}
        (peer,) = start(address, 1, lambda i, comm: Sketched(comm, values, kind="hadamard", **given))
        peer.step()
        found.append(values["w"].copy())
        peer.close()
    assert np.array_equal(found[0], found[1]) and not np.array_equal(found[2], found[3])
    assert all(abs(float(one.std()) - 1.0) < 0.03 for one in found)


def test_a_change_is_clipped_and_what_is_not_finite_left_out(address):
    values = [{"w": np.zeros(1000, np.float32)} for _ in range(2)]
    made = start(
        address, 2, lambda i, comm: Sketched(comm, values[i], ratio=1, kind="hadamard", clip=3.0, min_peers=2)
    )
    for one in values:
        one["w"] -= 1
    infos = steps("one-byte", made, values)
    assert all(info.committed for info in infos) and bits(values[0]) == bits(values[1])
    assert abs(float(np.linalg.norm(values[0]["w"])) - 3) < 1e-4
    values[1]["w"][3] = np.inf
    before = values[0]["w"].copy()
    values[0]["w"] -= 0.01
    infos = steps("one-byte", made, values)
    assert [info.skipped for info in infos] == [False, True] and all(info.committed for info in infos)
    assert np.allclose(values[0]["w"], before - 0.01, atol=1e-4) and bits(values[0]) == bits(values[1])
    for one in made:
        one.close()


@pytest.mark.nightly
def test_it_learns_as_much_from_an_eighth():
    """In the laboratory: a model of Python learns C."""
    ends = {}
    for method in ("dense", "count", "hadamard"):
        with pccl.MasterNode("127.0.0.1:0") as master:
            found = launch.peers(
                f"127.0.0.1:{master.port}", 4, module="methods", method=method, task="c", steps=200, rate=0.3
            )
        assert len({lines[-2]["parameters"] for lines in found}) == 1
        ends[method] = found[0][-2]["loss"], found[0][-2]["tx"]
        support.figure(f"methods.{method}", ends[method][0], "nats")
    for method in ("count", "hadamard"):
        assert ends[method][0] <= ends["dense"][0] + 0.05 and ends[method][1] <= 0.13 * ends["dense"][1], ends
