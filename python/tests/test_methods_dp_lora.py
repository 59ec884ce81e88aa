"""DPLoRA: its accountant against exact values, the effect of clipping and noise on the sum of gradients, and training
with it."""

import json
import math
import signal
import statistics

import pytest
import support
from test_methods import bits, start, steps

import pccl

np = pytest.importorskip("numpy")

from lab import launch  # noqa: E402
from pccl.methods import Accountant, DPLoRA  # noqa: E402
from pccl.methods._accountant import divergence  # noqa: E402

ROWS, COLUMNS, EXAMPLES = 12, 7, 400


# ---- the accountant


def chance_below(value):
    return 0.5 * math.erfc(-value / math.sqrt(2))


def delta_of(epsilon, noise):
    """Returns the least delta of one release with Gaussian noise, exactly (Balle and Wang,
    https://arxiv.org/abs/1805.06530, theorem 8)."""
    at = epsilon * noise
    return chance_below(0.5 / noise - at) - math.exp(epsilon) * chance_below(-0.5 / noise - at)


def epsilon_of(delta, noise):
    low, high = 0.0, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle, noise) > delta else (low, middle)
    return high


@pytest.mark.parametrize("noise, steps_made", [(1.0, 1), (2.0, 1), (8.0, 1), (2.0, 50), (20.0, 1000), (50.0, 4)])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_without_drawing_it_is_close_to_the_exact_value_and_never_below(noise, steps_made, delta):
    """Several steps with this noise are one with noise / sqrt(steps)."""
    accountant = Accountant(noise, 1.0)
    accountant.add(steps_made)
    exact = epsilon_of(delta, noise / math.sqrt(steps_made))
    assert exact <= accountant.epsilon(delta) <= 1.15 * exact + 0.02


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 0.9])
@pytest.mark.parametrize("delta", [1e-5, 1e-7])
def test_the_closed_form_of_one_release_is_enough(epsilon, delta):
    """noise >= sqrt(2 ln(1.25 / delta)) / epsilon suffices; a third of it does not."""
    noise = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    one, less = Accountant(noise, 1.0), Accountant(noise / 3, 1.0)
    one.add()
    less.add()
    assert one.epsilon(delta) <= epsilon < less.epsilon(delta)


@pytest.mark.parametrize(
    "order, noise, rate", [(2, 1.0, 0.1), (3, 0.7, 0.5), (16, 2.0, 0.01), (40, 4.0, 0.3), (5, 1.0, 1.0)]
)
def test_the_divergence_is_that_of_the_definition(order, noise, rate):
    """The integral of (mixture / without)^order over without, by sums."""
    at = np.linspace(-30 * noise, 30 * noise + order, 400_001)
    logs = np.logaddexp(math.log1p(-rate) if rate < 1 else -np.inf, math.log(rate) + (2 * at - 1) / (2 * noise**2))
    density = order * logs - at**2 / (2 * noise**2) - 0.5 * math.log(2 * math.pi * noise**2)
    most = density.max()
    integral = most + math.log(np.exp(density - most).sum() * (at[1] - at[0]))
    assert divergence(order, noise, rate) == pytest.approx(integral / (order - 1), rel=1e-6)


def test_more_noise_fewer_examples_and_fewer_steps_cost_less():
    def epsilon(noise=2.0, rate=0.01, steps_made=100):
        accountant = Accountant(noise, rate)
        accountant.add(steps_made)
        return accountant.epsilon(1e-6)

    assert epsilon(noise=3.0) < epsilon() < epsilon(noise=1.0) < epsilon(noise=0) == math.inf
    assert epsilon(rate=0.001) < epsilon() < epsilon(rate=0.1) < epsilon(rate=1.0)
    assert 0 == epsilon(steps_made=0) < epsilon(steps_made=1) < epsilon() < epsilon(steps_made=101)


@pytest.mark.parametrize("noise", [1e-154, 1e-160, 1e-200])
@pytest.mark.parametrize("rate", [0.01, 1.0])
def test_noise_that_is_next_to_none_is_no_privacy(noise, rate):
    accountant = Accountant(noise, rate)
    accountant.add()
    assert accountant.epsilon(1e-6) > 1e300


# ---- gradients


def data(seed=0):
    """Returns a least-squares problem: examples, and their targets."""
    dice = np.random.default_rng(seed)
    inputs = dice.normal(size=(EXAMPLES, ROWS)).astype(np.float32)
    return inputs, inputs @ dice.normal(size=(ROWS, COLUMNS)).astype(np.float32)


def values_of(seed=0):
    drawn = np.random.default_rng(seed).normal(size=(ROWS, COLUMNS))
    return {"w": drawn.astype(np.float32), "b": np.ones(3, np.float32)}


def lora(comm, values, number=0, **given):
    inputs, wanted = data(number)

    def gradients(chosen):
        return {"w": (inputs[chosen], inputs[chosen] @ values["w"] - wanted[chosen])}

    common = {"examples": EXAMPLES, "batch": 20, "delta": 1e-4, "inner_steps": 2, "noise_seed": number}
    return DPLoRA(comm, values, gradients, **{**common, **given})


def alone(address, values, **given):
    (one,) = start(address, 1, lambda i, comm: lora(comm, values, **given))
    return one


def test_the_sum_is_that_of_each_examples_own_clipped_gradient(address):
    """Compared with gradients computed one by one, with several places in each example."""
    values, dice = {"w": np.zeros((ROWS, COLUMNS), np.float32)}, np.random.default_rng(1)
    rows, columns = dice.normal(size=(EXAMPLES, 3, ROWS)), dice.normal(size=(EXAMPLES, 3, COLUMNS))
    columns *= dice.uniform(0.01, 2, size=(EXAMPLES, 1, 1))
    rows[5, 1, 2] = np.inf
    one = DPLoRA(
        pccl.Communicator(address), values, lambda chosen: {"w": (rows[chosen], columns[chosen])}, examples=EXAMPLES,
        batch=EXAMPLES, rank=2, scale=0.5, clip=1.5, delta=1e-4,
    )
    a, b = one.adapters["w.a"], one.adapters["w.b"]
    b[...] = dice.normal(size=b.shape)
    found, wanted, clipped = one._clipped_sum(np.arange(EXAMPLES)), {"w.a": 0, "w.b": 0}, 0
    for i in range(EXAMPLES):
        whole = 0.5 * rows[i].T @ columns[i]
        both = {"w.a": whole @ b.T, "w.b": a.T @ whole}
        length = math.sqrt(sum(float(np.square(part).sum()) for part in both.values()))
        if i != 5:
            wanted = {name: wanted[name] + part * min(1, 1.5 / length) for name, part in both.items()}
            clipped += length > 1.5
    assert 0.1 * EXAMPLES < clipped < EXAMPLES - 1
    assert all(np.allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5) for name in wanted)
    one.close()


def test_one_example_changes_the_sum_by_at_most_the_clip(address):
    one = alone(address, values_of(), clip=0.25)
    one.adapters["w.b"][...] = 3
    chosen = np.arange(50)
    whole, less = one._clipped_sum(chosen), one._clipped_sum(chosen[:-1])
    change = math.sqrt(sum(float(np.square(whole[name] - less[name]).sum()) for name in whole))
    assert 0 < change <= 0.25 * (1 + 1e-9)
    one.close()


def test_places_that_nearly_cancel_change_the_sum_by_at_most_the_clip(address):
    """By a ten billionth of each one's content, which is still more than the clip."""
    dice = np.random.default_rng(2)
    rows = np.repeat(dice.normal(size=(EXAMPLES, 1, ROWS)), 2, axis=1)
    columns = 1e10 * dice.normal(size=(EXAMPLES, 2, COLUMNS))
    columns[:, 1] = dice.normal(size=(EXAMPLES, COLUMNS)) - columns[:, 0]
    one = DPLoRA(
        pccl.Communicator(address), {"w": np.zeros((ROWS, COLUMNS), np.float32)},
        lambda chosen: {"w": (rows[chosen], columns[chosen])}, examples=EXAMPLES, batch=EXAMPLES, delta=1e-4,
    )
    for i in range(EXAMPLES):
        found = one._clipped_sum(np.array([i]))
        assert math.sqrt(sum(float(np.square(part).sum()) for part in found.values())) <= 1 + 1e-5
    one.close()


def test_noise_has_the_size_it_should(address):
    """noise * clip for each number of the sum, of which lr / batch makes a step; within 3 %."""
    values = {"w": np.zeros((300, 200), np.float32)}

    def nothing(chosen):
        return {"w": (np.zeros((len(chosen), 300)), np.zeros((len(chosen), 200)))}

    one = DPLoRA(
        pccl.Communicator(address), values, nothing, examples=EXAMPLES, batch=10, rank=100, clip=0.5, noise=2.0, lr=5.0,
        delta=1e-4, inner_steps=1,
    )
    one.join()
    before = {name: adapter.copy() for name, adapter in one.adapters.items()}
    one.step()
    moved = np.concatenate([(one.adapters[name] - before[name]).reshape(-1) for name in before])
    assert float(moved.std()) == pytest.approx(5.0 / 10 * 2.0 * 0.5, rel=0.03)
    assert not np.array_equal(one.adapters["w.a"], before["w.a"])
    one.close()


def test_without_a_seed_no_two_peers_add_the_same_noise(address):
    found = []
    for noise_seed in (1, 1, None, None):
        one = alone(address, values_of(), noise_seed=noise_seed)
        steps("one-byte", [one], [{}], 2)
        found.append(bits(one.adapters))
        one.close()
    assert found[0] == found[1] and len(set(found[1:])) == 3


def test_each_example_is_drawn_with_the_same_chance(address):
    """Each independently: so their number has the expected variance, too."""
    one = alone(address, values_of(), batch=100, lr=1e-9)
    counts, sizes, gradients = np.zeros(EXAMPLES), [], one.gradients

    def told(chosen):
        assert len(set(chosen.tolist())) == len(chosen)
        counts[chosen] += 1
        sizes.append(len(chosen))
        return gradients(chosen)

    one.gradients = told
    for _ in range(1000):
        one._descend()
        one._shared.position += 1
    assert abs(statistics.mean(sizes) - 100) < 1.5 and 60 < statistics.variance(sizes) < 90
    assert 180 < counts.min() and counts.max() < 320
    one.close()


# ---- training


def test_it_learns_with_equal_bits_and_writes_the_sum(address):
    """Others receive only adapters; the parameters are the frozen ones plus the adapters' product."""
    values = [values_of() for _ in range(3)]
    given = {"rank": 7, "noise": 0.5, "clip": 1.0, "lr": 1.0, "min_peers": 3}
    made = start(address, 3, lambda i, comm: lora(comm, values[i], **given))
    frozen, losses = values_of(), []
    inputs, wanted = data()
    for _ in range(60):
        infos = steps("one-byte", made, values)
        losses.append(float(np.square(inputs @ values[0]["w"] - wanted).mean()))
        if infos[0].synced:
            assert len({bits(one) for one in values}) == len({one.digest() for one in made}) == 1
            assert all(info.committed and info.participants == 3 for info in infos)
    assert losses[-1] < 0.3 * losses[0], losses
    adapters = made[0].adapters
    assert np.allclose(values[0]["w"], frozen["w"] + adapters["w.a"] @ adapters["w.b"], atol=1e-5)
    assert (values[0]["b"] == frozen["b"]).all()
    assert infos[0].tx_bytes < 1.5 * 4 * sum(adapter.size for adapter in adapters.values())
    assert 0 < made[0].epsilon < math.inf
    for one in made:
        one.close()


def test_what_was_spent_stays_spent(address):
    """After a checkpoint, and when a peer returns."""
    one = alone(address, values_of())
    steps("one-byte", [one], [{}], 3)
    spent, state = one.epsilon, one.state_dict()
    one.close()
    assert one.rejoin(pccl.Communicator(address)).joined and one.epsilon == spent
    one.close()
    again = lora(pccl.Communicator(address), values_of())
    assert again.epsilon == 0
    with pytest.raises(pccl.InvalidArgument, match="only one of them has spent"):
        again.load_state_dict({key: value for key, value in state.items() if key != "spent"})
    with pytest.raises(pccl.InvalidArgument, match="spent: expected [0-9]+ numbers of at least 0"):
        again.load_state_dict({**state, "spent": [1.0]})
    with pytest.raises(pccl.InvalidArgument, match="only one of them has round"):
        again.load_state_dict({key: value for key, value in state.items() if key != "round"})
    assert again.epsilon == 0
    again.load_state_dict(state)
    assert again.epsilon == spent and again.round == one.round
    steps("one-byte", [again], [{}], 3)
    assert again.epsilon > spent
    again.close()


def test_an_exception_of_the_gradients_changes_nothing(address):
    one = alone(address, values_of())
    before, gradients = bits(one.adapters), one.gradients
    one.gradients = lambda chosen: 1 // 0
    with pytest.raises(ZeroDivisionError):
        one.step()
    assert bits(one.adapters) == before and one.epsilon == 0
    one.gradients = gradients
    assert steps("one-byte", [one], [{}], 2)[0].synced
    one.close()


@pytest.mark.parametrize(
    "told, words",
    [
        (lambda n: {}, "gradients: missing w"),
        (lambda n: {"w": (np.zeros((n, ROWS)), np.zeros((n, 3)))}, "gradients: w: .* expected"),
        (lambda n: {"w": (np.zeros((n + 1, ROWS)), np.zeros((n + 1, COLUMNS)))}, "gradients: w: .* expected"),
    ],
)
def test_gradients_that_do_not_fit_are_told(address, told, words):
    one = alone(address, values_of(), batch=EXAMPLES)
    one.gradients = lambda chosen: told(len(chosen))
    with pytest.raises(pccl.InvalidArgument, match=words):
        one.step()
    one.close()


def test_other_frozen_parameters_are_told(address):
    from test_methods import refused

    one = alone(address, values_of(), admit_every=1)
    newcomer = lora(pccl.Communicator(address), values_of(3), admit_every=1)
    assert refused(one, newcomer).startswith("frozen parameters: this peer has")
    one.close()


def told(**given):
    with pccl.MasterNode("127.0.0.1:0") as master:
        return launch.peers(f"127.0.0.1:{master.port}", 4, module="methods", method="dp-lora", task="c", **given)


def test_a_kill_in_the_middle_leaves_it_out():
    """The others continue with equal bits, the mean is over three, and the privacy of none changes."""
    given = {"batch": 64, "inner_steps": 4, "rank": 6, "rate": 1.0, "noise": 2.0}
    found = told(steps=40, **given, tell_every=4, min_peers=1, killed=(2,), dies_in=19)
    assert len(found[2]) < 11  # the killed one
    alive = [lines[:-1] for number, lines in enumerate(found) if number != 2]
    assert [line["participants"] for line in alive[0]] == [0, 4, 4, 4, 4] + [3] * 6
    for at in zip(*alive):
        assert len({line["parameters"] for line in at}) == len({line["epsilon"] for line in at}) == 1
    assert found[2][-1]["epsilon"] == alive[0][len(found[2]) - 1]["epsilon"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_it_learns_with_a_tenth_of_the_bytes_and_noise(seed):
    """In the laboratory: a model of Python learns C. A round of the whole model sends 50 times its numbers, both ways,
    less a part."""
    ends = {}
    for noise in (0.0, 2.0):
        given = {"steps": 200, "batch": 512, "inner_steps": 4, "rank": 6, "rate": 4.0, "noise": noise}
        found = told(seed=seed, **given)
        assert len({lines[-2]["parameters"] for lines in found}) == 1
        first, last = found[0][0], found[0][-2]
        ends[noise] = last["loss"]
        support.figure(f"methods.dp_lora.noise_{noise:g}", last["loss"], f"nats, epsilon {last['epsilon']:.2f}")
        assert last["tx"] <= 0.1 * 50 * 2 * 3 / 4 * 44_096 * 4
    assert first["loss"] - ends[0.0] >= 0.3 and ends[2.0] <= ends[0.0] + 0.05, (first, ends)
    assert 0 < last["epsilon"] < 1
