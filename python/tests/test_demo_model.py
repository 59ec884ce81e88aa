"""The demo's transformer: its gradients match its loss, it does not look ahead, and it learns."""

import sys

import pytest
import support

np = pytest.importorskip("numpy")
sys.path.insert(0, str(support.PACKAGE / "examples" / "demo"))

import model  # noqa: E402  the path comes first
import text  # noqa: E402

SMALL = model.Shape(width=8, heads=2, blocks=2, context=6)


def some_text(rows, length, seed=3):
    return np.random.default_rng(seed).integers(0, 256, (rows, length)).astype(np.uint8)


@pytest.mark.parametrize("length", [SMALL.context + 1, 4])
def test_gradients(length):
    network, random = model.Transformer(SMALL, seed=1, dtype=np.float64), np.random.default_rng(2)
    network.flat += 0.1 * random.standard_normal(network.size)  # the norms' gains too
    batch = some_text(3, length)
    assert network.train(batch) == pytest.approx(network.loss(batch), rel=1e-12)
    analytic = network.flat_gradient.copy()
    for name, values in network.params.items():
        gradient, flat = network.gradients[name].ravel(), values.reshape(-1)
        seen = np.argsort(-np.abs(gradient))[:4]  # the most significant ones, and some others
        for place in {*map(int, seen), *map(int, random.integers(0, flat.size, 3))}:
            before, width = flat[place], 1e-5
            flat[place] = before + width
            above = network.loss(batch)
            flat[place] = before - width
            below = network.loss(batch)
            flat[place] = before
            assert gradient[place] == pytest.approx((above - below) / (2 * width), rel=1e-5, abs=1e-9), (name, place)
    assert np.array_equal(analytic, network.flat_gradient)
    assert all(np.any(gradient) for gradient in network.gradients.values())


def test_no_look_ahead():
    network, line = model.Transformer(SMALL, seed=1), some_text(1, SMALL.context)[0]
    odds = [network.next_odds(line[:count]) for count in range(1, len(line) + 1)]
    changed = line.copy()
    changed[3:] ^= 1
    for count, before in enumerate(odds, 1):
        equal = np.allclose(network.next_odds(changed[:count]), before, atol=1e-7)
        assert equal == (count <= 3)
        assert before.sum() == pytest.approx(1, rel=1e-5)


def test_learns():
    network, batch = model.Transformer(SMALL, seed=1), some_text(4, SMALL.context + 1)
    optimizer = model.AdamW(network.size, decay=0)
    first = network.loss(batch)
    for step in range(150):
        network.train(batch)
        optimizer.step(network.flat, network.flat_gradient, 0.02)
    assert first > 5 and network.loss(batch) < 1


def test_adamw_first_step():
    """The first step is the rate in the gradient's direction, for any size of the gradient, plus the decay."""
    values, gradient = np.array([1, -2, 3], np.float32), np.array([3, -4, 0], np.float32)
    model.AdamW(3, decay=0.1).step(values, gradient, 0.01)
    assert np.linalg.norm(gradient) == pytest.approx(1)  # clipped
    assert values == pytest.approx([1 - 0.01 - 0.001, -2 + 0.01 + 0.002, 3 - 0.003], abs=1e-6)


def test_rate():
    rates = [model.rate_at(step, 1000, 2.0) for step in range(1200)]
    assert rates[0] == pytest.approx(0.04) and max(rates) == rates[50] == 2.0
    assert rates[50:1001] == sorted(rates[50:1001], reverse=True)
    assert rates[1000] == rates[1199] == pytest.approx(0.2)


def test_text():
    train, held_back = text.load()
    assert len(train) > 5 * len(held_back) > 100_000
    again = text.load()
    assert np.array_equal(train, again[0]) and np.array_equal(held_back, again[1])
    assert bytes(text.cut(train, [5, 7], 4)[1]) == train.tobytes()[7:11]
    ends = text.pieces(held_back, 3, 10)
    assert bytes(ends[0]) == held_back.tobytes()[:10] and bytes(ends[2]) == held_back.tobytes()[-10:]
