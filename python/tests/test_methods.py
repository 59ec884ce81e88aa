"""The common behavior of pccl.methods: settings and their messages, checkpoints, newcomers, lost peers, the end of a
run; among peers in threads of one process."""

import re
import threading
import types

import pytest
import support
from test_diloco import end, refusal

import pccl
from pccl.diloco import SGD, DiLoCo, Nesterov

np = pytest.importorskip("numpy")

from pccl.methods import (  # noqa: E402
    CooperativeSarsa,
    DeMo,
    DPLoRA,
    Method,
    OneByte,
    PairAverage,
    PartialAverage,
    PowerSGD,
    Sketched,
    SparseLoCo,
    _random,
)

SIZE = 3000  # plus one more array, for uneven sizes


def params(seed=0, dtype=np.float32):
    drawn = np.random.default_rng(seed)
    return {"b": drawn.normal(size=7).astype(dtype), "a": drawn.normal(size=(3, SIZE // 3)).astype(dtype)}


def length(values):
    return float(sum(np.square(part, dtype=np.float64).sum() for part in values.values()))


def one_byte(comm, values, **given):
    return OneByte(comm, values, lambda probe: length(values) / SIZE, **{"probes": 2, "lr": 0.2, **given})


def pair(comm, values, **given):
    return PairAverage(comm, values, **{"inner_steps": 1, **given})


def rolling(comm, values, **given):
    return pair(comm, values, **{"momentum": 0.5, **given})


def sketched(comm, values, **given):
    return Sketched(comm, values, **{"outer": Nesterov(0.5, 0.5), **given})


def sparse(comm, values, **given):
    return SparseLoCo(comm, values, **{"inner_steps": 1, "kept": 512, **given})


def dp_lora(comm, values, **given):
    """Learns to map its input to 0."""
    inputs = np.random.default_rng(8).normal(size=(50, 3))
    common = {"examples": 50, "batch": 10, "rank": 2, "delta": 1e-3, "inner_steps": 1, "noise_seed": 6}

    def gradients(chosen):
        return {"a": (inputs[chosen], inputs[chosen] @ np.asarray(values["a"]))}

    return DPLoRA(comm, values, gradients, **{**common, **given})


class Mean(Method):
    """A method without hooks."""


def demo(comm, values, **given):
    return DeMo(comm, values, **{"lr": 0.01, **given})


def power(comm, values, **given):
    return PowerSGD(comm, values, **{"rank": 2, "outer": Nesterov(0.5, 0.5), **given})


class Explorer:
    """An agent in a world of numbers."""

    def tell(self, round):
        return b"here"

    def hear(self, round, told, own):
        assert set(told.values()) == {b"here"}
        return 1.0, np.random.default_rng(round).normal(size=(3, 7))

    def act(self, action):
        assert action in range(3)


def sarsa(comm, values, **given):
    return CooperativeSarsa(comm, {"b": values["b"]}, Explorer(), **{"explore_seed": 4, **given})


METHODS = {
    "one-byte": one_byte, "pair": pair, "pair with momentum": rolling, "partial": PartialAverage,
    "sketched": sketched, "sparse": sparse, "dp-lora": dp_lora, "sarsa": sarsa, "demo": demo, "power": power,
    "none": Mean,
}
# Methods with the same parameters on all peers.
COMMON = ["one-byte", "sketched", "sparse", "dp-lora", "sarsa", "demo", "power", "none"]
ON_THEIR_OWN = ["one-byte", "dp-lora", "sarsa"]  # only their optimizer changes the parameters


def params_of_a_newcomer(name, seed, dtype=np.float32):
    """Returns parameters. Part of a model with adapters is frozen, and the same on all; of an agent's world, "a" is not
    in the run."""
    return params(0 if name in ("dp-lora", "sarsa") else seed, dtype)


def start(address, count, make):
    """Returns instances that are in the run together: make(number, communicator)."""
    made = [make(i, comm) for i, comm in enumerate(support.Group(address, count).members)]
    support.parallel([one.join for one in made])
    return made


def train(name, values, number):
    if name not in ON_THEIR_OWN:
        for part in values.values():
            part *= part.dtype.type(1 - 0.01 * (number + 1))


def steps(name, made, values, count=1):
    for _ in range(count):
        for number, one in enumerate(values):
            train(name, one, number)
        infos = support.parallel([one.step for one in made])
    return infos


def bits(values):
    return b"".join(values[name].tobytes() for name in sorted(values))


def admit(name, made, values, newcomer):
    """Returns the newcomer's info, while the others make steps until it has joined."""
    told = []
    thread = threading.Thread(target=lambda: told.append(newcomer.join()))
    thread.start()
    while thread.is_alive() and not any(support.parallel([one.comm.are_peers_pending for one in made])):
        pass  # the run's rounds may be few, and quicker than the newcomer's connect
    while not steps(name, made, values)[0].admitted:
        pass
    thread.join(support.DEADLINE)
    return told[0]


def refused(one, newcomer):
    """Returns the newcomer's error, while the other one makes steps."""
    return refusal(types.SimpleNamespace(step=lambda samples: one.step()), newcomer)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", METHODS)
def test_steps_come_and_go(address, name, dtype):
    """Three train, one leaves, a newcomer gets the others' state, and all end together."""
    values = [params(0, dtype) for _ in range(3)]
    made = start(address, 3, lambda i, comm: METHODS[name](comm, values[i], admit_every=3, rounds=40))
    infos = steps(name, made, values, 3)
    assert all(info.synced and info.round == 3 and not info.joined and not info.skipped for info in infos)
    assert any(info.committed for info in infos) and max(info.participants for info in infos) >= 2
    assert all(info.tx_bytes > 0 for info in infos if info.participants > 1)
    made.pop(1).close()
    values.pop(1)
    steps(name, made, values, 3)
    late = params_of_a_newcomer(name, 5, dtype)
    newcomer = METHODS[name](pccl.Communicator(address), late, admit_every=3, rounds=40)
    info = admit(name, made, values, newcomer)
    assert info.joined and info.participants == 3 and info.moved_bytes > 0 and info.round == made[0].round
    assert name not in COMMON or bits(late) == bits(values[0])
    assert name in COMMON or bits(late) in {bits(one) for one in values}
    made, values = [*made, newcomer], [*values, late]
    while not made[0].finished:
        infos = steps(name, made, values)
        assert name not in COMMON or len({one.digest() for one in made}) == 1
    assert all(info.finished for info in infos) and name not in COMMON or len({bits(one) for one in values}) == 1
    with pytest.raises(pccl.InvalidUsage, match="the end of the run, which has 40 rounds"):
        made[0].step()
    end(made)


@pytest.mark.parametrize("name", METHODS)
def test_the_same_seeds_make_the_same_bits(address, name):
    found = []
    for _ in range(2):
        values = [params(0) for _ in range(2)]
        made = start(address, 2, lambda i, comm: METHODS[name](comm, values[i], min_peers=2, seed=7))
        steps(name, made, values, 6)
        found.append({bits(one) for one in values})
        end(made)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", METHODS)
def test_a_state_goes_on(address, name):
    """Two load the states that two others have saved, and end with the same result as these."""
    values = [params(0) for _ in range(2)]
    made = start(address, 2, lambda i, comm: METHODS[name](comm, values[i], min_peers=2, admit_every=4))
    steps(name, made, values, 3)
    states = [one.state_dict() for one in made]
    steps(name, made, values, 4)
    order = made[0].comm.members().index(made[0].comm.id)
    end(made)
    again = [params_of_a_newcomer(name, 9) for _ in range(2)]
    made = [METHODS[name](pccl.Communicator(address), one, min_peers=2, admit_every=4) for one in again]
    for one, state in zip(made, states):
        one.load_state_dict(state)
        with pytest.raises(pccl.InvalidArgument, match="only one of them has round"):
            one.load_state_dict({key: value for key, value in state.items() if key != "round"})
    support.parallel([one.join for one in made])
    assert made[0].round == 3
    swapped = made[0].comm.members().index(made[0].comm.id) != order
    steps(name, made, again, 4)
    # Peers are numbered in order of their arrival: with the other number a peer of OneByte probes elsewhere. A new
    # agent has done nothing yet.
    same = [bits(one) for one in again] == [bits(one) for one in values]
    assert same or (swapped and name == "one-byte") or name == "sarsa"
    with pytest.raises(pccl.InvalidUsage, match="load_state_dict\\(\\) on a peer that is in the run"):
        made[0].load_state_dict(states[0])
    end(made)


@pytest.mark.parametrize("name", METHODS)
def test_alone(address, name):
    values = params(0)
    (one,) = start(address, 1, lambda i, comm: METHODS[name](comm, values, admit_every=1))
    infos = [steps(name, [one], [values])[0] for _ in range(3)]
    assert all(info.synced and info.participants == 1 and info.rx_bytes == 0 for info in infos)
    one.close()
    with pytest.raises(pccl.InvalidUsage, match="rejoin\\(\\) takes a new one"):
        one.step()
    assert one.rejoin(pccl.Communicator(address)).joined and one.round == 3
    one.close()


@pytest.mark.parametrize(
    "name, other, words",
    [
        ("one-byte", {"epsilon": 0.5}, "epsilon: this peer has 0.5, the run has 0.001"),
        ("one-byte", {"codec": "float32"}, "codec: this peer has 'float32', the run has 'byte'"),
        ("pair", {"seed": 3}, "seed: this peer has 3, the run has 0"),
        ("pair", {"momentum": 0.5}, "momentum: this peer has 0.5, the run has 0.0"),
        ("partial", {"fraction": 0.25}, "fraction: this peer has 0.25, the run has 0.005"),
        ("sketched", {"kind": "hadamard"}, "kind: this peer has 'hadamard', the run has 'count'"),
        ("sketched", {"outer": SGD(0.5)}, "outer: this peer has SGD"),
        ("sparse", {"kept": 64}, "kept: this peer has 64, the run has 512"),
        ("sparse", {"clip": False}, "clip: this peer has False, the run has True"),
        ("demo", {"kept": 8}, "kept: this peer has 8, the run has 4"),
        ("demo", {"lr": round}, "lr: this peer has 'round', the run has "),
        ("power", {"rank": 1}, "rank: this peer has 1, the run has 2"),
        ("power", {"outer": SGD(0.5)}, "outer: this peer has SGD"),
        ("none", {"inner_steps": 2}, "inner_steps: this peer has 2, the run has 1"),
        ("sarsa", {"discount": 0.5}, "discount: this peer has 0.5, the run has 0.9"),
        ("dp-lora", {"clip": 2.0}, "clip: this peer has 2.0, the run has 1.0"),
        ("dp-lora", {"rank": 3}, "params: this peer has a.a: float32 \\(3, 3\\), the run has a.a: float32 \\(3, 2\\)"),
    ],
)
def test_a_newcomer_with_other_settings_is_told(address, name, other, words):
    values = params(0)
    (one,) = start(address, 1, lambda i, comm: METHODS[name](comm, values, admit_every=1))
    newcomer = METHODS[name](pccl.Communicator(address), params_of_a_newcomer(name, 1), admit_every=1, **other)
    assert re.search(words, refused(one, newcomer))
    one.close()


@pytest.mark.parametrize(
    "other, words",
    [
        (
            lambda comm: PairAverage(comm, params(1), inner_steps=1),
            "this peer has PairAverage, the run has PartialAverage",
        ),
        (lambda comm: DiLoCo(comm, params(1), inner_steps=1), "this peer has DiLoCo, the run has PartialAverage"),
    ],
)
def test_a_method_is_told_from_another(address, other, words):
    values = params(0)
    (one,) = start(address, 1, lambda i, comm: PartialAverage(comm, values, admit_every=1))
    assert refused(one, other(pccl.Communicator(address))) == f"method: {words}"
    assert one.step().synced
    one.close()


@pytest.mark.parametrize(
    "make, given, words",
    [
        (one_byte, {"probes": 0}, "probes: 0; expected an integer of at least 1"),
        (one_byte, {"probes": 70000}, "probes: 70000; expected at most 65536"),
        (one_byte, {"epsilon": 0}, "epsilon: 0; expected more than 0 and at most 1"),
        (one_byte, {"lr": float("nan")}, "lr: nan; expected a finite number"),
        (one_byte, {"codec": "bit"}, "codec: 'bit'; expected byte, float32"),
        (one_byte, {"replay": 3}, "replay: 3; expected True or False"),
        (pair, {"inner_steps": 0}, "inner_steps: 0; expected an integer of at least 1"),
        (pair, {"momentum": 1.0}, "momentum: 1.0; expected at least 0 and at most 0.99"),
        (pair, {"seed": 1 << 63}, "seed: 9223372036854775808; expected less than 2\\*\\*63"),
        (pair, {"admit_every": 0}, "admit_every: 0; expected an integer of at least 1"),
        (PartialAverage, {"fraction": 1.5}, "fraction: 1.5; expected more than 0 and at most 1"),
        (PartialAverage, {"codec": "u9"}, "codec: 'u9'; expected None, 'u8-minmax'"),
        (sketched, {"ratio": 0.5}, "ratio: 0.5; expected at least 1"),
        (sketched, {"kind": "none"}, "kind: 'none'; expected count, hadamard"),
        (sketched, {"noise": 1.0}, "noise: requires clip, as noise is a multiple of clip"),
        (sketched, {"noise": -1.0, "clip": 1.0}, "noise: -1.0; expected at least 0"),
        (sparse, {"kept": 0}, "kept: 0; expected an integer of at least 1"),
        (sparse, {"kept": 4097}, "kept: 4097; expected at most 4096"),
        (sparse, {"decay": 1.5}, "decay: 1.5; expected at least 0 and at most 1"),
        (sparse, {"lr": 0}, "lr: 0; expected more than 0"),
        (sparse, {"clip": 2}, "clip: 2; expected True or False"),
        (demo, {"chunk": 48}, "chunk: 48; expected a power of two up to 256"),
        (demo, {"kept": 0}, "kept: 0; expected an integer of at least 1"),
        (demo, {"kept": 65}, "kept: 65; expected at most chunk, 64"),
        (demo, {"lr": 0}, "lr: 0; expected more than 0"),
        (power, {"rank": 0}, "rank: 0; expected an integer of at least 1"),
        (power, {"outer": 0.1}, "outer: 0.1 is not a pccl.diloco.Nesterov or an SGD"),
        (sketched, {"outer": 0.1}, "outer: 0.1 is not a pccl.diloco.Nesterov or an SGD"),
        (dp_lora, {"batch": 51}, "batch: 51; expected at most examples, 50"),
        (dp_lora, {"delta": 0.1}, "delta: 0.1; expected less than 1 / 50"),
        (dp_lora, {"delta": 0}, "delta: 0; expected more than 0 and less than 1"),
        (dp_lora, {"rank": 4}, "rank: 4; expected at most 3, for a, which is \\(3, 1000\\)"),
        (dp_lora, {"targets": ["b"]}, "targets: 'b' has 1 dimensions; expected a parameter with 2"),
        (dp_lora, {"targets": ["c"]}, "targets: 'c' is not a parameter; expected a parameter with 2 dimensions"),
        (dp_lora, {"targets": []}, "targets: expected names of parameters of two dimensions"),
        (dp_lora, {"noise": -1.0}, "noise: -1.0; expected at least 0"),
    ],
)
def test_bad_settings_are_told_in_words(address, make, given, words):
    with pccl.Communicator(address) as comm:
        with pytest.raises(pccl.InvalidArgument, match=words):
            make(comm, params(0), **given)


def test_random_numbers_never_change():
    """They are part of the protocol: other numbers are another protocol."""
    assert _random.raw(1, 2, 3, 4, 3).tolist() == RAW
    assert _random.signs(1, 2, 3, 4, 70, "float32").astype(int).tolist()[:8] == SIGNS
    assert (_random.signs(1, 2, 3, 4, 70, "float32")[:64] == _random.signs(1, 2, 3, 4, 64, "float64")).all()
    assert _random.order(5, 0, 6, 6) == ORDER


RAW = [15304873005091984411, 7790104309783628986, 960311309288673700]
SIGNS = [1, 1, -1, 1, 1, -1, -1, -1]
ORDER = [2, 0, 1, 4, 5, 3]
