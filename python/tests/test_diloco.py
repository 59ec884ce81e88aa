"""DiLoCo's arithmetic, settings and smaller parts, among peers in threads of one process."""

import math
import threading
import types
from array import array

import pytest
import support
from support import DEADLINE

import pccl
from pccl.diloco import AdamW, DiLoCo, LocalSGD, Nesterov, Sampler, _membership, _outer

np = pytest.importorskip("numpy")

MODES = ["sync", "delayed", "eager"]


def params(seed=0, dtype=np.float32):
    """Returns parameters for peer-to-peer transfers, in pieces of uneven size."""
    drawn = np.random.default_rng(seed)
    return {"b": drawn.normal(size=7).astype(dtype), "a": drawn.normal(size=(70, 1001)).astype(dtype)}


def flat(values):
    return np.concatenate([values[name].reshape(-1) for name in sorted(values)])


def start(address, count, make):
    """Returns instances that are in the run together: make(number, communicator)."""
    comms = [pccl.Communicator(address) for _ in range(count)]
    made = [make(i, comm) for i, comm in enumerate(comms)]
    support.parallel([one.join for one in made])
    return made


def admit(member, join):
    """Runs join() of a newcomer, while the member of the run continues until it has joined."""
    thread = threading.Thread(target=join)
    thread.start()
    while not member.step(samples=10).admitted:
        pass
    thread.join(DEADLINE)
    assert not thread.is_alive()


def refusal(member, newcomer):
    """Returns the newcomer's error, while the member of the run continues."""
    told = []

    def join():
        with pytest.raises(pccl.InvalidArgument) as caught:
            newcomer.join()
        told.append(str(caught.value))

    admit(member, join)
    return told[0]


def end(made):
    for one in made:
        one.close()


def train(values, number, step):
    """Makes a repeatable inner step that differs on each peer."""
    for index, name in enumerate(sorted(values)):
        drawn = np.random.default_rng((number, step, index))
        values[name] -= (drawn.normal(size=values[name].shape) * 0.01).astype(values[name].dtype)


class Reference:
    """The plain outer step of one peer: the reference for all peers."""

    def __init__(self, theta, lr, momentum):
        kind = theta.dtype.type
        self.theta, self.m = theta.copy(), np.zeros_like(theta)
        self.lr, self.momentum = kind(lr), kind(momentum)

    def step(self, deltas, weights=None):
        weights = [type(self.lr)(weight) for weight in weights or [1.0] * len(deltas)]
        total = deltas[0] * weights[0]
        for delta, weight in zip(deltas[1:], weights[1:]):
            total = total + delta * weight
        mean = total / type(self.lr)(sum(weights))
        self.m = self.momentum * self.m + mean
        self.theta = self.theta - self.lr * (mean + self.momentum * self.m)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sync_is_the_reference_bit_by_bit(address, dtype):
    """For two peers, whose sums have only one order."""
    values = [params(0, dtype) for _ in range(2)]
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], inner_steps=2, min_peers=2, bucket_bytes=65536))
    reference = Reference(flat(params(0, dtype)), 0.7, 0.9)
    for step in range(6):
        for i in range(2):
            train(values[i], i, step)
        phis = [flat(one) for one in values]
        infos = support.parallel([one.step for one in two])
        if step % 2 == 0:
            assert not any(info.synced for info in infos) and two[0].inner_step == step + 1
            continue
        reference.step([reference.theta - phi for phi in phis])
        for one, value, info in zip(two, values, infos):
            assert info.synced and info.committed and info.participants == 2 and info.round == step // 2 + 1
            assert info.rx_bytes > 0 and info.tx_bytes > 0 and not info.skipped and info.moved_bytes == 0
            assert np.array_equal(one.state_dict()[f"theta.{dtype}"], reference.theta)
            assert np.array_equal(one.state_dict()[f"momentum.{dtype}"], reference.m)
            assert np.array_equal(flat(value), reference.theta)
    assert two[0].digest() == two[1].digest()
    end(two)


def test_delayed_is_the_reference_one_round_late(address):
    values = [params() for _ in range(2)]
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], inner_steps=1, min_peers=2, mode="delayed"))
    reference = Reference(flat(params()), 0.7, 0.9)
    before = None
    for step in range(5):
        for i in range(2):
            train(values[i], i, step)
        deltas = [reference.theta - flat(one) for one in values]  # against the outer copy before its step
        infos = support.parallel([one.step for one in two])
        assert [info.committed for info in infos] == [step > 0] * 2
        if before is not None:
            reference.step(before)
        before = deltas
        for value in values:
            assert np.array_equal(flat(value), reference.theta)
    infos = support.parallel([one.finish for one in two])
    reference.step(before)
    assert all(info.committed and info.participants == 2 for info in infos)
    assert np.array_equal(flat(values[0]), reference.theta) and two[0].digest() == two[1].digest()
    assert two[0].round == 5
    end(two)


def test_eager_is_its_formula(address):
    """Each peer has an outer copy, stepped with its share at once and the rest one round late. The shared one equals
    the one of "delayed"."""
    values = [params() for _ in range(2)]
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], inner_steps=1, min_peers=2, mode="eager"))
    anchor = Reference(flat(params()), 0.7, 0.9)
    own = [Reference(flat(params()).astype(np.float64), 0.7, 0.9) for _ in range(2)]
    before = None
    for step in range(6):
        starts = [flat(one) for one in values]
        for i in range(2):
            train(values[i], i, step)
        deltas = [begin - flat(one) for begin, one in zip(starts, values)]
        support.parallel([one.step for one in two])
        for i in range(2):
            rest = 0 if before is None else sum(before) / 2 - before[i] / 2
            own[i].step([deltas[i] / 2 + rest])
            assert np.allclose(flat(values[i]), own[i].theta, rtol=0, atol=1e-6)
        if before is not None:
            anchor.step(before)
        before = deltas
        assert np.allclose(two[0].state_dict()["theta.float32"], anchor.theta, rtol=0, atol=1e-6)
        assert two[0].digest() == two[1].digest() and not np.array_equal(flat(values[0]), flat(values[1]))
    support.parallel([one.finish for one in two])
    assert np.array_equal(flat(values[0]), flat(values[1])) and two[0].digest() == two[1].digest()
    end(two)


def test_weight_of_tokens(address):
    values = [params() for _ in range(2)]
    settings = dict(inner_steps=2, min_peers=2, weight="tokens")
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    reference = Reference(flat(params()), 0.7, 0.9)
    for step in range(4):
        for i in range(2):
            train(values[i], i, step)
        if step % 2 == 0:
            two[1].add_samples(250)
            support.parallel([lambda: two[0].step(50), lambda: two[1].step(samples=20)])
            continue
        phis = [flat(one) for one in values]
        support.parallel([lambda: two[0].step(50), lambda: two[1].step(30)])
        reference.step([reference.theta - phi for phi in phis], [100, 300])
        assert np.array_equal(flat(values[0]), reference.theta) and np.array_equal(flat(values[1]), reference.theta)
    assert two[0].samples == two[1].samples == 800
    for i in range(2):
        train(values[i], i, 9)
    two[0].step(), two[1].step()
    infos = support.parallel([one.step for one in two])  # no peer has counted samples
    assert not any(info.committed for info in infos) and np.array_equal(flat(values[1]), reference.theta)
    end(two)


def test_local_sgd_averages(address):
    values = [params() for _ in range(3)]
    three = start(address, 3, lambda i, comm: LocalSGD(comm, values[i], inner_steps=1, min_peers=3))
    for i in range(3):
        train(values[i], i, 0)
    mean = np.mean([flat(one).astype(np.float64) for one in values], axis=0)
    support.parallel([one.step for one in three])
    assert np.allclose(flat(values[0]), mean, rtol=0, atol=1e-6) and np.array_equal(flat(values[0]), flat(values[2]))
    end(three)


@pytest.mark.parametrize("mode", MODES)
def test_alone(address, mode):
    """The mean is this peer's delta; the run continues."""
    values = params()
    reference = Reference(flat(values), 0.7, 0.9)
    with DiLoCo(pccl.Communicator(address), values, inner_steps=1, mode=mode) as diloco:
        before = None
        for step in range(4):
            begin = flat(values)
            train(values, 0, step)
            delta = begin - flat(values)
            info = diloco.step(3)
            assert info.synced and info.participants == 1 and (info.tx_bytes, info.rx_bytes) == (0, 0)
            if mode == "sync":
                reference.step([delta])
            elif before is not None:
                reference.step([before])
            before = delta
            assert np.allclose(diloco.state_dict()["theta.float32"], reference.theta, rtol=0, atol=1e-6)
    assert diloco.samples == 12 and diloco.round == 4 and diloco.comm.closed


def test_few_bits(address):
    """float16 parameters: the outer copy has more digits, and rounding does not count as training."""
    values = [params(0, np.float16) for _ in range(2)]
    settings = dict(inner_steps=1, min_peers=2, outer=Nesterov(1e-5, 0.0))
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    theta = two[0].state_dict()["theta.float32"]
    for step in range(3):
        for one in values:
            one["b"] -= np.float16(0.5)
        support.parallel([one.step for one in two])
    now = two[0].state_dict()["theta.float32"]
    count = values[0]["a"].size
    assert np.array_equal(now[:count], theta[:count])
    assert np.allclose(theta[count:] - now[count:], 3 * 0.5e-5, rtol=0.05) and not np.array_equal(theta, now)
    assert np.array_equal(flat(values[0]), now.astype(np.float16))
    end(two)


def test_a_delta_that_is_not_finite_counts_for_nothing(address):
    values = [params() for _ in range(2)]
    two = start(address, 2, lambda i, comm: LocalSGD(comm, values[i], inner_steps=1, min_peers=2))
    train(values[0], 0, 0)
    wanted = flat(values[0])
    values[1]["b"][3] = np.nan
    infos = support.parallel([one.step for one in two])
    assert [info.skipped for info in infos] == [False, True] and infos[0].committed
    assert np.allclose(flat(values[1]), wanted, rtol=0, atol=1e-6) and two[0].digest() == two[1].digest()
    values[0]["b"][3] = values[1]["b"][3] = np.inf
    infos = support.parallel([one.step for one in two])
    assert not any(info.committed for info in infos) and np.isfinite(flat(values[0])).all()
    for one in values:  # the sum is too large for the type
        one["b"][0] = -3e38
    infos = support.parallel([one.step for one in two])
    assert not any(info.committed or info.skipped for info in infos) and np.isfinite(flat(values[0])).all()
    end(two)


def test_verification_finds_what_differs(address, caplog):
    values = [params() for _ in range(3)]
    three = start(address, 3, lambda i, comm: DiLoCo(comm, values[i], inner_steps=1, min_peers=3, verify_every=2))
    three[1]._shared.theta[0][5] += 1  # a flipped bit
    moved = [[info.moved_bytes for info in support.parallel([one.step for one in three])] for _ in range(4)]
    assert moved[0] == moved[2] == moved[3] == [0, 0, 0]
    assert moved[1][0] == moved[1][2] == 0 and moved[1][1] > 0
    assert len({one.digest() for one in three}) == 1 and np.array_equal(flat(values[1]), flat(values[0]))
    said = [record.name for record in caplog.records if "differed from the others'" in record.message]
    assert said == ["pccl.diloco"]
    end(three)


def test_extra_state(address):
    """A newcomer receives it, with the counters."""
    cursors = [np.array([0, 0]), np.array([9, 9])]
    values = [params(i) for i in range(2)]
    comms = [pccl.Communicator(address) for _ in range(2)]
    both = [DiLoCo(comms[i], values[i], inner_steps=5, extra={"cursor": cursors[i]}) for i in range(2)]
    both[0].join()
    for _ in range(7):
        both[0].step(samples=10)
    cursors[0][:] = 3, 4
    admit(both[0], both[1].join)
    assert both[0].inner_step == both[1].inner_step > 5
    assert cursors[1].tolist() == [3, 4] and both[1].samples > 0 and both[1].samples % 50 == 0
    assert both[1].round == both[0].round and both[0].digest() == both[1].digest()
    assert [info.name for info in both[1].shared_tensors()] == [
        "diloco.counters", "diloco.theta.float32", "diloco.momentum.float32", "diloco.extra.cursor"
    ]
    end(both)


def test_resume(address, tmp_path):
    """From a file of numpy.savez: the same numbers as without the interruption."""
    straight, other = params(), params()
    with DiLoCo(pccl.Communicator(address), straight, inner_steps=2) as diloco:
        for step in range(8):
            train(straight, 0, step)
            diloco.step(4)
    with DiLoCo(pccl.Communicator(address), other, inner_steps=2) as diloco:
        for step in range(4):
            train(other, 0, step)
            diloco.step(4)
        np.savez(tmp_path / "state.npz", **diloco.state_dict())
    other = params(7)
    resumed = DiLoCo(pccl.Communicator(address), other, inner_steps=2)
    with np.load(tmp_path / "state.npz") as state:
        resumed.load_state_dict(state)
    assert resumed.inner_step == 4 and resumed.samples == 16
    with resumed:
        with pytest.raises(pccl.InvalidUsage, match="in the run"):
            resumed.load_state_dict({})
        for step in range(4, 8):
            train(other, 0, step)
            resumed.step(4)
    assert np.array_equal(flat(other), flat(straight)) and resumed.samples == diloco.samples + 16 == 32


def test_states_that_do_not_fit(address):
    diloco = DiLoCo(pccl.Communicator(address), params(), inner_steps=1)
    before, state = diloco.digest(), diloco.state_dict()
    for wrong in (
        {**state, "more": 1},
        {key: value for key, value in state.items() if key != "round"},
        {**state, "layout": 5},
        {**state, "round": -1},
        {**state, "momentum.float32": np.zeros(3, np.float32)},
    ):
        with pytest.raises(pccl.InvalidArgument, match="load_state_dict"):
            diloco.load_state_dict(wrong)
    assert diloco.digest() == before


def test_parameters_set_before_joining_count(address):
    values = params()
    diloco = DiLoCo(pccl.Communicator(address), values, inner_steps=1)
    values["b"][:] = 5
    info = diloco.step()
    assert info.joined and not info.synced and values["b"].tolist() == [5] * 7
    assert np.array_equal(diloco.state_dict()["theta.float32"], flat(values)) and diloco.inner_step == 0
    diloco.close()


def test_entries_of_the_mapping_may_be_replaced(address):
    values = params()
    with LocalSGD(pccl.Communicator(address), values, inner_steps=1) as diloco:
        values["b"] = values["b"] + 1
        wanted = flat(values)
        diloco.step()
        assert np.allclose(flat(values), wanted, rtol=0, atol=1e-6)
        values["b"] = np.zeros(8, np.float32)
        with pytest.raises(pccl.LayoutError, match="b was float32 .7,. and is now ndarray shape .8,."):
            diloco.step()
    assert diloco.comm.closed


BAD = [
    (dict(inner_steps=0), "inner_steps: 0"),
    (dict(inner_steps=1.5), "inner_steps: 1.5"),
    (dict(mode="async"), "mode: 'async'; expected sync, delayed, eager"),
    (dict(codec="u4"), "codec: 'u4'; expected None, 'u8-minmax', 'u8-zps', 'e4m3', 'e5m2', 'int4', 'e3m0', 'e2m1'"),
    (dict(weight="none"), "weight: 'none'"),
    (dict(min_peers=0), "min_peers: 0"),
    (dict(verify_every=-1), "verify_every: -1"),
    (dict(rounds=0), "rounds: 0"),
    (dict(linger_s=-1), "linger_s: -1"),
    (dict(linger_s=math.nan), "linger_s: nan"),
    (dict(bucket_bytes=0), "bucket_bytes is 0"),
    (dict(max_in_flight=0), "max_in_flight is 0"),
    (dict(outer=0.7), "outer: 0.7"),
    (dict(params={}), "no parameters"),
    (dict(params=[1]), "list is neither"),
    (dict(params={"a": [1.0]}), "list is neither"),
    (dict(params={"a": np.zeros(3, np.int32)}), "a is of type int32"),
    (dict(params={3: np.zeros(3)}), "the name 3"),
    (dict(params={"a": np.zeros(3), "b": [1]}), "b is a list"),
    (dict(extra={"x": [1]}), "extra: x is a list"),
    (dict(share_buffers=True), "requires a torch.nn.Module"),
]


@pytest.mark.parametrize("settings, words", BAD)
def test_refused(address, settings, words):
    given = {"params": params(), "inner_steps": 1, **settings}
    with pytest.raises(pccl.InvalidArgument, match=words.replace(".", "\\.")):
        DiLoCo(pccl.Communicator(address), given.pop("params"), **given)


def test_refused_values(address):
    for lr, momentum in ((0, 0.9), (math.nan, 0.9), (0.7, 1.0), (0.7, -0.1)):
        with pytest.raises(pccl.InvalidArgument, match="Nesterov"):
            Nesterov(lr, momentum)
    values = params()
    values["b"].flags.writeable = False
    with pytest.raises(pccl.LayoutError, match="read-only"):
        DiLoCo(pccl.Communicator(address), values, inner_steps=1)
    diloco = DiLoCo(pccl.Communicator(address), params(), inner_steps=1)
    with pytest.raises(pccl.InvalidUsage, match="not in the run"):
        diloco.finish()
    with diloco:
        with pytest.raises(pccl.InvalidArgument, match="samples: -1"):
            diloco.step(samples=-1)
        assert diloco.round == 0
        with pytest.raises(pccl.InvalidUsage, match="rejoin"):
            diloco.rejoin(pccl.Communicator(address))
    with pytest.raises(pccl.NotConnected, match="rejoin"):
        diloco.step()
    diloco.close()


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(inner_steps=7), "inner_steps: this peer has 7, the run has 5"),
        (dict(mode="eager"), "mode: this peer has 'eager', the run has 'sync'"),
        (dict(codec="u8-zps"), "codec: this peer has 'u8-zps', the run has 'exact'"),
        (dict(rounds=3), "rounds: this peer has 3, the run has None"),
        (
            dict(outer=Nesterov(0.5, 0.9)),
            "outer: this peer has Nesterov(lr=0.5, momentum=0.9), the run has Nesterov(lr=0.7, momentum=0.9)",
        ),
        (
            dict(params={"a": np.zeros(3, np.float32)}),
            "params: this peer has a: float32 (3,), the run has a: float32 (70, 1001)",
        ),
        (
            dict(extra={"x": np.zeros(3)}),
            "extra and buffers: this peer has diloco.extra.x: 3 of double, the run has nothing",
        ),
    ],
)
def test_who_comes_with_other_settings_is_told(address, settings, words):
    """And the run continues, alone and with the next one."""
    first = DiLoCo(pccl.Communicator(address), params(), inner_steps=5)
    first.join()
    given = {"params": params(), "inner_steps": 5, **settings}
    other = DiLoCo(pccl.Communicator(address), given.pop("params"), **given)
    told = refusal(first, other)
    second = DiLoCo(pccl.Communicator(address), params(), inner_steps=5)
    admit(first, second.join)
    assert told.startswith(words)
    assert support.world(first.comm) == 2 and other.comm.closed
    end([first, second])


def test_newcomers_of_several_models_hear_what_the_run_has():
    """A concurrent newcomer with a third model is not taken for the run."""
    models = [["a: f32 (2,)", "b: f32 (7,)"], ["a: f32 (2,)", "b: f32 (9,)", "c: f32 (1,)"], ["a: f32 (3,)"]]
    everybody, given = threading.Barrier(len(models), timeout=DEADLINE), {}

    def highest(values, tag):
        everybody.wait()
        given[threading.get_ident()] = list(values)
        everybody.wait()
        values[:] = array("q", map(max, zip(*given.values())))
        return len(models)

    def compare(lines):
        setting = _membership.mark("params", models.index(lines), lines)
        state = types.SimpleNamespace(round=0, position=0)
        member = _membership.Membership(None, "DiLoCo", state, 1, None, [setting])
        member.established, member._highest = lines is models[0], highest
        try:
            member._compare()
        except pccl.InvalidArgument as error:
            return str(error)

    assert support.parallel([lambda lines=lines: compare(lines) for lines in models]) == [
        None,
        "params: this peer has b: f32 (9,), the run has b: f32 (7,)",
        "params: this peer has a: f32 (3,), the run has a: f32 (2,)",
    ]


def test_an_error_leaves_the_run(address):
    """The others continue."""
    values = [params() for _ in range(2)]
    two = [DiLoCo(pccl.Communicator(address), values[i], inner_steps=1) for i in range(2)]
    two[0].join()
    admit(two[0], two[1].join)
    values[1]["b"] = np.zeros(3)

    def breaks():
        with pytest.raises(pccl.LayoutError):
            two[1].step()

    infos = support.parallel([two[0].step, breaks])
    assert infos[0].participants == 1 and infos[0].committed
    values[1]["b"] = np.zeros(7, np.float32)
    admit(two[0], lambda: two[1].rejoin(pccl.Communicator(address)))
    assert two[0].digest() == two[1].digest() and np.array_equal(flat(values[0]), flat(values[1]))
    end(two)


@pytest.mark.parametrize("mode", MODES)
def test_finish_when_somebody_has_gone(address, mode):
    values = [params() for _ in range(3)]
    three = start(address, 3, lambda i, comm: DiLoCo(comm, values[i], inner_steps=1, min_peers=3, mode=mode))
    support.parallel([one.step for one in three])
    three[2].close()
    support.parallel([one.finish for one in three[:2]])
    assert three[0].digest() == three[1].digest() and np.array_equal(flat(values[0]), flat(values[1]))
    end(three)


def train_to_the_end(made, values):
    """Returns each peer's info of the last step."""
    step = 0
    while not made[0].finished:
        for i, value in enumerate(values):
            train(value, i, step)
        infos = support.parallel([one.step for one in made])
        step += 1
    return infos


@pytest.mark.parametrize("mode", MODES)
def test_who_comes_after_the_end_gets_the_final_parameters(address, mode):
    values = [params(i) for i in range(3)]
    settings = dict(inner_steps=1, min_peers=2, mode=mode, rounds=3, linger_s=DEADLINE)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    infos = train_to_the_end(two, values[:2])
    assert all(info.finished and info.round == 3 and info.committed for info in infos)
    digest, final = two[0].digest(), flat(values[0])  # before finish(), too
    assert two[1].digest() == digest and np.array_equal(flat(values[1]), final)
    threads = [threading.Thread(target=one.finish) for one in two]
    for thread in threads:
        thread.start()
    straggler = DiLoCo(pccl.Communicator(address), values[2], **settings)
    info = straggler.join()
    assert info.joined and info.finished and straggler.finished and straggler.round == 3
    assert straggler.digest() == digest and np.array_equal(flat(values[2]), final)
    with pytest.raises(pccl.InvalidUsage, match="after the end of the run, which has 3 rounds"):
        straggler.step()
    for one in two:
        one._linger_until = 0.0
    assert straggler.finish().finished
    for thread in threads:
        thread.join(DEADLINE)
        assert not thread.is_alive()
    end([*two, straggler])


@pytest.mark.parametrize("mode", MODES)
def test_who_waits_at_the_end_gets_the_final_parameters(address, mode):
    values = [params(i) for i in range(2)]
    settings = dict(inner_steps=1, mode=mode, rounds=1)
    member, waiting = (DiLoCo(pccl.Communicator(address), value, **settings) for value in values)
    member.join()
    infos = []
    thread = threading.Thread(target=lambda: infos.append(waiting.join()))
    thread.start()
    member._membership.wait_for_answer()  # it makes the same call, and one thread at a time may do so
    while not member.comm.are_peers_pending():
        pass
    train(values[0], 0, 0)
    assert member.step().finished
    thread.join(DEADLINE)
    assert infos[0].finished and infos[0].joined and np.array_equal(flat(values[0]), flat(values[1]))
    end([member, waiting])


@pytest.mark.parametrize("mode", MODES)
def test_the_end_has_the_bits_of_finish(address, mode):
    digests = []
    for rounds in (3, None):
        values = [params() for _ in range(2)]
        settings = dict(inner_steps=1, min_peers=2, mode=mode, rounds=rounds)
        two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
        for step in range(3):
            for i in range(2):
                train(values[i], i, step)
            support.parallel([one.step for one in two])
        if rounds is None:
            support.parallel([one.finish for one in two])
        digests.append(two[0].digest())
        end(two)
    assert digests[0] == digests[1]


def test_a_finished_run_that_is_started_again(address):
    """It is finished; a peer without a state receives its state, and with more rounds it continues."""
    settings = dict(inner_steps=1, rounds=2)
    with DiLoCo(pccl.Communicator(address), params(), **settings) as diloco:
        while not diloco.finished:
            diloco.step(5)
    state = diloco.state_dict()
    values = [params(i) for i in range(2)]
    again = DiLoCo(pccl.Communicator(address), values[0], min_peers=3, **settings)
    again.load_state_dict(state)
    assert again.finished
    assert again.join().finished  # although it is alone
    fresh = DiLoCo(pccl.Communicator(address), values[1], min_peers=3, **settings)
    joined = threading.Thread(target=fresh.join)
    joined.start()
    while again.comm.get_attribute(pccl.Attribute.PEER_GROUP_WORLD_SIZE) < 2:
        again.comm.update_topology()
    again._membership.meet(again._delta, again._mean)
    joined.join(DEADLINE)
    assert fresh.finished and fresh.digest() == again.digest() and np.array_equal(flat(values[0]), flat(values[1]))
    end([again, fresh])
    more = DiLoCo(pccl.Communicator(address), params(9), inner_steps=1, rounds=4)
    more.load_state_dict(state)
    with more:
        while not more.finished:
            more.step(5)
    assert (more.round, more.samples) == (4, 20)


def test_closing_ends_another_threads_step(address):
    two = start(address, 2, lambda i, comm: DiLoCo(comm, params(), inner_steps=1, min_peers=2))
    ended = []

    def waits():
        try:
            two[0].step()  # the other one is missing
        except pccl.PCCLError as error:
            ended.append(error)

    thread = threading.Thread(target=waits)
    thread.start()
    while not two[0].comm._core._inside:
        pass
    two[0].close()
    thread.join(DEADLINE)
    assert not thread.is_alive() and ended
    end(two)


def test_sampler():
    sampler = Sampler(5, peer="a")
    drawn = sampler.indices(3, 100, 1000)
    assert drawn == Sampler(5, peer="a").indices(3, 100, 1000) and len(drawn) == 100
    assert sampler.indices(3, 10, 1000) == drawn[:10] and set(drawn) <= set(range(1000))
    others = [Sampler(6, peer="a"), Sampler(5, peer="b"), Sampler(5), Sampler(5)]
    rows = [one.indices(3, 100, 1000) for one in (sampler, *others)] + [sampler.indices(4, 100, 1000)]
    assert len({tuple(row) for row in rows}) == 6
    counts = np.bincount(sampler.indices(0, 20000, 10), minlength=10)
    assert abs(counts - 2000).max() < 300
    assert sampler.indices(0, 0, 10) == []
    for bad in ((0, -1, 10), (0, 1, 0)):
        with pytest.raises(pccl.InvalidArgument):
            sampler.indices(*bad)


@pytest.mark.parametrize("codec", [None, "bf16"])
@pytest.mark.parametrize("mode", ["sync", "delayed"])
def test_models_of_16_bits_exchange_16(address, mode, codec):
    """All peers end with equal parameters; a codec given by name also sends 32-bit models as 16 bits."""
    kind = np.float16 if codec is None else np.float32
    values = [params(0, kind) for _ in range(3)]
    settings = {"inner_steps": 1, "min_peers": 3, "bucket_bytes": 65536, "codec": codec, "mode": mode}
    three = start(address, 3, lambda i, comm: DiLoCo(comm, values[i], **settings))
    sent = []
    for step in range(3):
        for i in range(3):
            train(values[i], i, step)
        infos = support.parallel([one.step for one in three])
        sent.append(sum(info.tx_bytes for info in infos))
    count = len(flat(params()))
    assert max(sent) < 2 * count * 2 * 2 * 1.1  # 2 (n - 1) bytes for each element of 2 bytes, and some for the weights
    assert len({one.digest() for one in three}) == 1
    end(three)


def test_bf16_is_the_nearest(address):
    """The mean equals the mean of the deltas to eight bits."""
    values = [params(0) for _ in range(2)]
    before = flat(params(0))
    two = start(address, 2, lambda i, comm: LocalSGD(comm, values[i], inner_steps=1, min_peers=2, codec="bf16"))
    for i in range(2):
        train(values[i], i, 0)
    deltas = [before - flat(one) for one in values]
    support.parallel([one.step for one in two])
    wanted = before - (deltas[0] + deltas[1]) / 2
    error = np.abs(flat(values[0]) - wanted)
    scale = np.maximum(np.abs(deltas[0]), np.abs(deltas[1]))
    assert (error <= scale * 2.0**-7 + 1e-7).all() and error.max() > 0
    assert np.array_equal(flat(values[0]), flat(values[1]))
    end(two)


@pytest.mark.parametrize("codec", ["auto", "exact"])
def test_codecs_by_name(address, codec):
    values = [params(0, np.float16 if codec == "exact" else np.float32) for _ in range(2)]
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], inner_steps=1, min_peers=2, codec=codec))
    infos = [support.parallel([one.step for one in two])[0] for _ in range(3)]
    assert infos[0].committed and infos[0].tx_bytes >= 4 * len(flat(values[0]))  # the first one is exact
    assert two[0].digest() == two[1].digest()
    end(two)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"codec": "bf17"}, "'auto'.*'bf16' or 'exact'"),
        ({"codec": "bf16", "feedback": True}, "codec e4m3, e5m2, int4, e3m0, e2m1 or auto"),
        ({"codec": "u8-minmax", "feedback": True}, "codec e4m3, e5m2, int4, e3m0, e2m1 or auto"),
        ({"mode": "eager", "outer": Nesterov(lambda step: 0.7)}, "not a schedule"),
    ],
)
def test_wrong_codecs_and_rates(given, words):
    with pytest.raises(pccl.InvalidArgument, match=words):
        DiLoCo(pccl.Communicator("127.0.0.1:1"), params(), inner_steps=1, **given)


def test_bf16_of_doubles():
    with pytest.raises(pccl.InvalidArgument, match="does not pack float64"):
        DiLoCo(pccl.Communicator("127.0.0.1:1"), params(0, np.float64), inner_steps=1, codec="bf16")


def halving(step):
    return 0.8 * 0.5 ** (step // 2 - 1)


@pytest.mark.parametrize("mode", ["sync", "delayed"])
def test_a_schedule_of_the_outer_rate(address, mode):
    """It is a function of the step at which the delta was measured, also if it is applied a round later."""
    values = [params(0) for _ in range(2)]
    rule = Nesterov(halving, 0.9)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], inner_steps=2, min_peers=2, outer=rule, mode=mode))
    seen = []
    for one in two:
        for fragment in one._fragments:
            fragment.outer = Nesterov(lambda step, rate=halving: seen.append((step, rate(step))) or rate(step), 0.9)
    for step in range(8):
        for i in range(2):
            train(values[i], i, step)
        support.parallel([one.step for one in two])
    rates = [(2, 0.8), (4, 0.4), (6, 0.2), (8, 0.1)]
    if mode == "delayed":
        rates.pop()  # it is in flight
    assert sorted(seen) == sorted(rates * 2)
    assert two[0].digest() == two[1].digest()
    end(two)


def test_a_schedule_that_gives_no_rate(address):
    values = params()
    with pytest.raises(pccl.InvalidArgument, match="expected a number above 0"):
        with DiLoCo(pccl.Communicator(address), values, inner_steps=1, outer=Nesterov(lambda step: math.nan)) as one:
            one.step()


def test_a_newcomer_with_another_schedule_is_refused(address):
    member = DiLoCo(pccl.Communicator(address), params(), inner_steps=1, outer=Nesterov(halving))
    member.join()
    newcomer = DiLoCo(pccl.Communicator(address), params(), inner_steps=1, outer=Nesterov(0.8))
    assert "halving" in refusal(member, newcomer)
    member.close()


def test_the_outer_optimizer_is_not_replaced():
    one = DiLoCo(pccl.Communicator("127.0.0.1:1"), params(), inner_steps=1)
    with pytest.raises(pccl.InvalidUsage, match="a schedule: Nesterov"):
        one.outer = Nesterov(0.1)
    assert one.outer == Nesterov(0.7, 0.9)


def test_participants_are_those_of_the_last_reductions(address):
    """Also in steps without one, and before the first."""
    first = DiLoCo(pccl.Communicator(address), params(), inner_steps=3)
    assert [first.step().participants for _ in range(4)] == [1] * 4
    second = DiLoCo(pccl.Communicator(address), params(), inner_steps=3)
    admit(first, second.join)
    two = [first, second]
    told = [support.parallel([one.step for one in two]) for _ in range(7)]
    assert [info.participants for info, _ in told[3:]] == [2] * 4
    second.close()
    alone = [first.step().participants for _ in range(4)]
    assert alone[-1] == 1 and 0 not in alone
    assert first.join().participants == 1
    first.close()


class MomentsReference:
    """torch.optim.AdamW, written down in float64."""

    def __init__(self, theta, rule):
        self.theta, self.rule = theta.astype(np.float64), rule
        self.m, self.v, self.t = np.zeros_like(self.theta), np.zeros_like(self.theta), 0

    def step(self, mean):
        (one, two), lr = self.rule.betas, self.rule.lr
        self.t += 1
        self.m = one * self.m + (1 - one) * mean
        self.v = two * self.v + (1 - two) * mean * mean
        self.theta *= 1 - lr * self.rule.weight_decay
        denominator = np.sqrt(self.v / (1 - two**self.t)) + self.rule.eps
        self.theta -= lr / (1 - one**self.t) * self.m / denominator


@pytest.mark.parametrize(
    "wrong",
    [
        dict(lr=0), dict(lr="1"), dict(lr=None), dict(lr=math.inf), dict(betas=(1, 0.9)), dict(betas=(0.9,)),
        dict(betas=0.9), dict(betas=("a", "b")), dict(eps=0), dict(eps="x"), dict(eps=math.inf), dict(eps=None),
        dict(weight_decay=-1), dict(weight_decay=math.inf), dict(weight_decay=[]),
    ],
)
def test_wrong_settings_of_adamw(wrong):
    with pytest.raises(pccl.InvalidArgument, match=f"AdamW: {next(iter(wrong))} is .*, expected "):
        AdamW(**wrong)


def test_equal_settings_have_equal_words():
    assert _outer.words(AdamW(lr=1, betas=[0, 0.5], eps=1)) == _outer.words(AdamW(1.0, (0.0, 0.5), 1.0, 0))
    assert _outer.words(Nesterov(lr=np.float64(0.5), momentum=0)) == _outer.words(Nesterov(0.5, 0.0))


def test_models_of_16_and_of_32_bits_together(address):
    """Without a codec their defaults differ."""
    member = DiLoCo(pccl.Communicator(address), params(), inner_steps=1)
    member.join()
    mine = "'bf16' (the default of a 16-bit model); name a codec on all peers"
    words = f"codec: this peer has {mine}, the run has 'exact'"
    setting = _membership.codecs(["bf16"], is_default=True)
    assert setting.number == _membership.codecs(["bf16"], is_default=False).number
    newcomer = DiLoCo(pccl.Communicator(address), params(0, np.float16), inner_steps=1)
    assert refusal(member, newcomer) == words
    member.close()


ADAMW = AdamW(0.01, (0.9, 0.99), 1e-6, 0.1)


def test_adamw_is_the_reference(address):
    values = [params(0) for _ in range(2)]
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], inner_steps=2, min_peers=2, outer=ADAMW))
    reference = MomentsReference(flat(params(0)), ADAMW)
    for step in range(8):
        for i in range(2):
            train(values[i], i, step)
        phis = [flat(one).astype(np.float64) for one in values]
        theta = two[0].state_dict()["theta.float32"].astype(np.float64)
        support.parallel([one.step for one in two])
        if step % 2:
            reference.step(theta - (phis[0] + phis[1]) / 2)
            assert np.abs(two[0].state_dict()["theta.float32"] - reference.theta).max() < 1e-5
    assert two[0].digest() == two[1].digest() and (two[0].state_dict()["second.float32"] > 0).any()
    end(two)


@pytest.mark.parametrize("settings", [{}, {"fragments": 2, "delay": 1}], ids=["whole", "fragments"])
def test_a_newcomer_gets_the_moments(address, settings):
    values = [params(0), params(1)]
    given = {"inner_steps": 3, "outer": ADAMW, **settings}
    member = DiLoCo(pccl.Communicator(address), values[0], **given)
    for step in range(7):
        train(values[0], 0, step)
        member.step()
    newcomer = DiLoCo(pccl.Communicator(address), values[1], **given)
    last = []  # the round that both end with
    is_known = threading.Event()

    def go_on():
        while not last or member.round < last[0]:
            if member.step().admitted:
                last.append(member.round + 4)
                is_known.set()
        member.finish()

    def come():
        newcomer.join()  # may return before the member's step that admits it
        assert is_known.wait(DEADLINE)
        while newcomer.round < last[0]:
            newcomer.step()
        newcomer.finish()

    support.parallel([go_on, come])
    assert member.digest() == newcomer.digest()
    assert newcomer.state_dict()["second.float32"].any()
    end([member, newcomer])


def test_a_checkpoint_has_the_moments(address):
    values = params()
    with DiLoCo(pccl.Communicator(address), values, inner_steps=1, outer=ADAMW) as one:
        for step in range(3):
            train(values, 0, step)
            one.step()
        saved, digest = one.state_dict(), one.digest()
    other = DiLoCo(pccl.Communicator("127.0.0.1:1"), params(3), inner_steps=1, outer=ADAMW)
    other.load_state_dict(saved)
    assert other.digest() == digest
    with pytest.raises(pccl.InvalidArgument, match="only one of them has second"):
        DiLoCo(pccl.Communicator("127.0.0.1:1"), params(), inner_steps=1).load_state_dict(saved)
