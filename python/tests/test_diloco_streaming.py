"""DiLoCo in fragments that are reduced while training continues: the schedule, its arithmetic against a plain second
implementation, and runs whose peers join and leave. The contents of fragments: test_diloco_fragments. With real
processes: test_diloco_streaming_churn."""

import contextlib
import threading
import types

import pytest
import support
from test_diloco import Reference, admit, end, flat, refusal, start, train

import pccl
from pccl.diloco import SGD, DiLoCo, FragmentInfo, Line, Nesterov, StepInfo
from pccl.diloco._schedule import Schedule

np = pytest.importorskip("numpy")


def params(seed=0, dtype=np.float32):
    """Returns three fragments, each of several parameters, large enough for peer-to-peer transfers."""
    drawn = np.random.default_rng(seed)
    shapes = {"in.w": (50, 70), "h.0.w": (3001,), "h.0.b": (5,), "h.1.w": (60, 50), "h.1.b": (3,), "h.2.w": (41, 90)}
    return {name: drawn.normal(size=shape).astype(dtype) for name, shape in shapes.items()}


STRIDED = [["h.0.b", "h.0.w", "in.w"], ["h.1.b", "h.1.w"], ["h.2.w"]]


# ---- the schedule


class Clocks:
    """A second implementation of the schedule: a clock for each fragment, which counts down to its next slot."""

    def __init__(self, periods, offsets, delay):
        self._until = [offset or period for offset, period in zip(offsets, periods)]
        self._periods, self._delay = periods, delay
        self._ways = []  # (fragment, steps until it is due)

    def tick(self):
        self._ways = [(p, left - 1) for p, left in self._ways]
        launched = []
        for p in range(len(self._until)):
            self._until[p] -= 1
            if self._until[p] == 0:
                self._until[p] = self._periods[p]
                launched.append(p)
                self._ways.append((p, self._delay))
        landed = sorted(p for p, left in self._ways if left == 0)
        self._ways = [way for way in self._ways if way[1] > 0]
        return launched, landed


@pytest.mark.parametrize(
    "period, count, periods",
    [(1, 1, None), (1, 3, None), (5, 1, None), (6, 3, None), (7, 3, None), (10, 4, None), (6, 3, [6, 4, 15])],
)
def test_the_schedule_is_that_of_clocks(period, count, periods):
    each = periods or [period] * count
    for delay in range(min(each)):
        for offsets in (None, [(3 * p + 1) % own for p, own in enumerate(each)]):
            schedule = Schedule.make(period, count, offsets, delay, periods)
            clocks = Clocks(each, schedule.offsets, delay)
            assert schedule.launches(0) == schedule.lands(0) == []
            for step in range(1, 4 * max(each) + 1):
                launched, landed = clocks.tick()
                assert (schedule.launches(step), schedule.lands(step)) == (launched, landed)
                assert schedule.is_boundary(step) == (step % period == 0)
                assert schedule.acts(step) == bool(launched or landed or step % period == 0)


def test_fragments_are_spread_over_the_period():
    assert Schedule.make(51, 3, None, 5).offsets == (0, 17, 34)
    assert Schedule.make(10, 4, None, 0).offsets == (0, 2, 5, 7)


# ---- settings


FRAGMENTS = [["in", "h.0"], ["h.1"], ["h.2"]]

BAD = [
    (dict(fragments=0), "fragments: 0; expected at least 1"),
    (dict(fragments=13200), "fragments: 13200; expected at most the number of elements, 13199"),
    (dict(fragments="in"), "fragments: 'in'; expected a number, or a sequence"),
    (dict(fragments=True), "fragments: True; expected a number, or a sequence"),
    (dict(fragments=[["in"], "h"]), "fragments: number 1 is 'h', neither a module nor a sequence of names"),
    (dict(fragments=[["in", "h.0"], ["h.1"]]), "fragments: h.2.w is in no fragment"),
    (dict(fragments=[["in", "h"], ["h.1"]]), "fragments: h.1.b, h.1.w is in more than one fragment"),
    (dict(fragments=[["in", "h"], []]), "fragments: number 1 has no parameters"),
    (dict(fragments=[["in", "h"], ["g"]]), "no parameter 'g' and no parameter below it"),
    (dict(pattern="random"), "pattern: 'random'; expected strided, contiguous"),
    (dict(delay=4), "delay: 4; expected at least 0 and less than inner_steps=4"),
    (dict(delay=-1), "delay: -1"),
    (dict(alpha=1.5), "alpha: 1.5"),
    (dict(fragments=2, offsets=[1]), "offsets: 1 offsets for 2 fragments"),
    (dict(fragments=2, offsets=[1, 4]), "offsets: [1, 4]; expected each from 0 to inner_steps - 1 = 3"),
    (dict(fragments=2, periods=[4]), "periods: 1 periods for 2 fragments"),
    (dict(fragments=2, periods=[4, 0]), "periods: [4, 0]; expected each at least 1"),
    (dict(fragments=2, periods=[4, 2], delay=2), "delay: 2; expected at least 0 and less than the shortest period, 2"),
    (dict(fragments=2, periods=[4, 2], offsets=[0, 2]), "offsets: [0, 2]; expected each from 0 to its period"),
    (dict(fragments=2, codec=["int4"]), "codec: 1 codecs for 2 fragments"),
    (dict(fragments=2, mode="delayed"), "fragments, delay, alpha and periods require mode=\"sync\""),
    (dict(delay=1, mode="eager"), "fragments, delay, alpha and periods require mode=\"sync\""),
    (dict(periods=[4], mode="eager"), "fragments, delay, alpha and periods require mode=\"sync\""),
    (dict(fragments=3, outer=[Nesterov(), SGD()]), "outer: 2 optimizers for 3 fragments"),
    (dict(mode="eager", outer=lambda theta, momentum, mean: None), "requires a linear optimizer"),
    (dict(feedback=True), "feedback: requires the codec"),
    (dict(feedback=True, codec="u8-zps"), "feedback: requires the codec e4m3"),
    (dict(codec="int4", params=params(0, np.float64)), "codec: 'int4' does not pack float64"),
]


@pytest.mark.parametrize("settings, words", BAD)
def test_refused(address, settings, words):
    given = {"params": params(), "inner_steps": 4, **settings}
    with pytest.raises(pccl.InvalidArgument) as caught:
        DiLoCo(pccl.Communicator(address), given.pop("params"), **given)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "settings, words",
    [
        (dict(fragments=3), "this peer has h.0.b, h.0.w[0:2304], in.w[0:2112], the run has h.0.b, h.0.w, in.w"),
        (dict(delay=2), "delay: this peer has 2, the run has 1"),
        (dict(alpha=0.25), "alpha: this peer has 0.25, the run has 0.5"),
        (dict(offsets=[0, 1, 3]), "offsets: this peer has 1, the run has 2"),
        (dict(codec=pccl.QuantizationOptions("int4", block=64)), "the run has 'int4'"),
    ],
)
def test_who_comes_with_other_settings_is_told(address, settings, words):
    run = dict(inner_steps=6, fragments=FRAGMENTS, delay=1, alpha=0.5, codec="int4")
    first = DiLoCo(pccl.Communicator(address), params(), **run)
    first.join()
    other = DiLoCo(pccl.Communicator(address), params(), **{**run, **settings})
    assert words in refusal(first, other)
    first.close()


# ---- arithmetic


class Streaming:
    """The reference of all peers' fragments."""

    def __init__(self, values, fragments, clocks, alpha, lr=0.7, momentum=0.9):
        self.parts = [Reference(self._of(values[0], names), lr, momentum) for names in fragments]
        self._fragments, self._clocks, self._alpha = fragments, clocks, values[0]["in.w"].dtype.type(alpha)
        self._rest = values[0]["in.w"].dtype.type(1 - alpha)
        self._ways = {}

    @staticmethod
    def _of(values, names):
        return np.concatenate([values[name].reshape(-1) for name in names])

    def tick(self, values):
        """Applies a step to each peer's values. Returns the fragments applied."""
        launched, landed = self._clocks.tick()
        for p in launched:
            theta = self.parts[p].theta
            self._ways[p] = [theta - self._of(own, self._fragments[p]) for own in values]
        for p in landed:
            self.parts[p].step(self._ways.pop(p))
            for own in values:
                self._mix(p, own)
        return landed

    def _mix(self, p, own):
        begin = 0
        for name in self._fragments[p]:
            size = own[name].size
            theta = self.parts[p].theta[begin : begin + size].reshape(own[name].shape)
            own[name][...] = theta if self._alpha == 0 else own[name] * self._alpha + theta * self._rest
            begin += size

    @property
    def theta(self):
        return np.concatenate([part.theta for part in self.parts])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "delay, alpha, offsets, periods",
    [
        (0, 0, None, None),
        (0, 0.5, None, None),
        (1, 0, None, None),
        (2, 0.5, None, None),
        (5, 0.25, [1, 5, 3], None),
        (2, 0.5, [0, 3, 1], [6, 15, 4]),
    ],
)
def test_it_is_the_reference_bit_by_bit(address, dtype, delay, alpha, offsets, periods):
    """For two peers, whose sums have only one order."""
    values = [params(0, dtype) for _ in range(2)]
    settings = dict(inner_steps=6, fragments=FRAGMENTS, delay=delay, alpha=alpha, offsets=offsets, periods=periods)
    settings.update(min_peers=2, bucket_bytes=8192, verify_every=0)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    mirror = [params(0, dtype) for _ in range(2)]
    reference = Streaming(mirror, STRIDED, Clocks(periods or [6] * 3, offsets or [0, 2, 4], delay), alpha)
    for step in range(1, 31):
        for i in range(2):
            train(values[i], i, step)
            train(mirror[i], i, step)
        infos = support.parallel([one.step for one in two])
        landed = reference.tick(mirror)
        for one, info, mine, wanted in zip(two, infos, values, mirror):
            assert [cost.fragment for cost in info.fragments] == landed and info.committed == bool(landed)
            assert all(cost.age == delay and cost.participants == 2 and cost.committed for cost in info.fragments)
            assert info.synced == (step % 6 == 0) and one.inner_step == step
            assert np.array_equal(one.state_dict()[f"theta.{dtype}"], reference.theta)
            assert np.array_equal(flat(mine), flat(wanted))
        assert two[0].digest() == two[1].digest()
    end(two)


def test_one_fragment_at_once_is_plain_diloco(address):
    """Bit by bit, with any codec."""
    for codec in (None, "u8-zps", "e3m0"):
        digests = []
        for more in ({}, dict(fragments=1, delay=0, alpha=0.0), dict(fragments=[["in", "h"]], offsets=[0])):
            values, group = [params() for _ in range(2)], support.Group(address, 2)  # in the same order each time
            settings = dict(inner_steps=2, min_peers=2, codec=codec, **more)
            two = [DiLoCo(comm, value, **settings) for comm, value in zip(group.members, values)]
            support.parallel([one.join for one in two])
            for step in range(6):
                for i in range(2):
                    train(values[i], i, step)
                infos = support.parallel([one.step for one in two])
            assert infos[0].synced and np.array_equal(flat(values[0]), flat(values[1]))
            digests.append((two[0].digest(), two[1].digest(), flat(values[0]).tobytes()))
            end(two)
        assert len(set(digests)) == 1 and digests[0][0] == digests[0][1]


def outer_of_users(theta, momentum, mean):
    momentum += mean
    theta -= 0.25 * momentum


def part_of(values, p):
    return np.concatenate([values[name].reshape(-1) for name in STRIDED[p]])


def test_outer_optimizers(address):
    """A different one for each fragment: two built-in ones, and a function."""
    values = [params() for _ in range(2)]
    outers = [SGD(0.5, 0.8), Nesterov(0.4, 0.9), outer_of_users]
    rules = [lambda mean, m: 0.5 * m, lambda mean, m: 0.4 * (mean + 0.9 * m), lambda mean, m: 0.25 * m]
    settings = dict(inner_steps=3, fragments=FRAGMENTS, min_peers=2)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], outer=outers, **settings))
    theta = [part_of(params(), p) for p in range(3)]
    m = [np.zeros_like(part) for part in theta]
    for step in range(1, 10):
        for i in range(2):
            train(values[i], i, step)
        trained = [[part_of(own, p) for own in values] for p in range(3)]
        (cost,) = support.parallel([one.step for one in two])[0].fragments
        p = cost.fragment
        mean = theta[p] - np.mean(trained[p], axis=0)
        m[p] = [0.8, 0.9, 1][p] * m[p] + mean
        theta[p] = theta[p] - rules[p](mean, m[p])
        assert np.allclose(two[0].state_dict()["theta.float32"], np.concatenate(theta), rtol=0, atol=1e-5)
        assert two[0].digest() == two[1].digest()
    end(two)


@pytest.mark.parametrize("codec, share", [("e3m0", 0.135), ("int4", 0.135), ("e4m3", 0.27)])
def test_few_bits_on_the_way(address, codec, share):
    """With feedback and without: the same bits everywhere, and few bytes."""
    sent = {}
    for given in (dict(), dict(codec=codec), dict(codec=codec, feedback=True)):
        values = [params() for _ in range(2)]
        settings = dict(inner_steps=3, fragments=FRAGMENTS, delay=1, alpha=0.5, min_peers=2, **given)
        two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
        key = str(given)
        sent[key] = 0
        for step in range(9):
            for i in range(2):
                train(values[i], i, step)
            infos = support.parallel([one.step for one in two])
            assert two[0].digest() == two[1].digest()
            sent[key] += infos[0].tx_bytes
            assert infos[0].tx_bytes == sum(cost.tx_bytes for cost in infos[0].fragments)
        end(two)
    exact, *packed = sent.values()
    assert exact > 0 and all(0.1 * exact < few < share * exact for few in packed), sent


def leave_in_the_middle(comm):
    """Makes a communicator leave in the next reduction: its first bucket is done, the others are never launched."""
    once, many = comm.all_reduce_async, comm.all_reduce_multiple_with_retry

    def all_reduce_async(*buffers, **given):
        if given["tag"] % (1 << 24) == 2:
            comm.close()
        return once(*buffers, **given)

    def all_reduce_multiple_with_retry(descriptors, **given):
        if len(descriptors) > 1:
            many(descriptors[:1], **given)
            comm.close()
        return many(descriptors, **given)

    comm.all_reduce_async, comm.all_reduce_multiple_with_retry = all_reduce_async, all_reduce_multiple_with_retry


def kept_by(made):
    """Returns the sum of all peers' residuals."""
    tags = [bucket.tag for bucket in made[0]._fragments[0].reduction._buckets]
    return sum(np.concatenate([np.array(one.comm.get_feedback(tag), np.float64) for tag in tags]) for one in made)


@pytest.mark.parametrize("how", ["repeated", "given up", "siblings differ"])
def test_feedback_loses_nothing_by_a_reduction_that_does_not_count(address, how, monkeypatch):
    """The delivered and the kept parts add up to the trained parts plus the parts kept before."""
    delay = 1 if how == "given up" else 0
    values = [{"w": np.random.default_rng(7).normal(size=12000).astype(np.float32)} for _ in range(3)]
    settings = dict(inner_steps=2, delay=delay, codec="int4", feedback=True, bucket_bytes=1 << 14, max_in_flight=1)
    group = support.Group(address, 3)
    made = [DiLoCo(comm, own, outer=Nesterov(1.0, 0.0), **settings) for comm, own in zip(group.members, values)]
    support.parallel([one.join for one in made])
    theta = lambda: made[0].state_dict()["theta.float32"].astype(np.float64)
    for step in range(1, 4):
        change(values, step)
        support.parallel([one.step for one in made])
    change(values, 4)  # at which all launch
    if how == "siblings differ":
        answers = iter([False] * 3)
        monkeypatch.setattr(type(made[0]._inside), "agree", lambda *_: next(answers, True))
    count = 3 if how == "siblings differ" else 2
    before, kept = theta(), kept_by(made[:count])
    trained = sum(before - own["w"] for own in values[:count])
    if count == 2:
        leave_in_the_middle(made[2].comm)
    infos = support.parallel([lambda one=one: step_of_any(one, delay + 1) for one in made])
    assert infos[0].committed != (how == "given up") and np.std(kept) > 0.01
    assert bool(made[0]._fragments[0].reduction._kept) == (how == "given up")
    wanted = kept if how == "given up" else trained + kept
    assert np.allclose(count * (before - theta()) + kept_by(made[:count]), wanted, rtol=0, atol=1e-4)
    end(made)


def change(values, step):
    for i, own in enumerate(values):
        own["w"] += np.random.default_rng([i, step]).normal(size=own["w"].shape).astype(np.float32)


def step_of_any(one, steps):
    """Makes steps, also with a peer that leaves in the middle."""
    with contextlib.suppress(pccl.PCCLError):
        return [one.step() for _ in range(steps)][-1]


def test_tokens_weigh_what_was_counted_since_the_fragments_last_slot(address):
    values = [params() for _ in range(2)]
    fragments = [["in", "h.0"], ["h.1", "h.2"]]
    settings = dict(inner_steps=2, fragments=fragments, outer=Nesterov(1.0, 0.0), min_peers=2, weight="tokens")
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    counts = [(1, 3), (5, 5), (2, 8), (10, 1), (4, 4), (7, 2)]
    total = 0
    for step in range(1, len(counts) + 1):
        for i in range(2):
            train(values[i], i, step)
        trained = [{name: value.copy() for name, value in own.items()} for own in values]
        infos = support.parallel([lambda i=i: two[i].step(counts[step - 1][i]) for i in range(2)])
        (cost,) = infos[0].fragments
        weights = np.sum(counts[max(0, step - 2) : step], axis=0)
        for name in STRIDED[0] if cost.fragment == 0 else STRIDED[1] + STRIDED[2]:
            wanted = sum(own[name] * weight for own, weight in zip(trained, weights)) / sum(weights)
            assert np.allclose(values[0][name], wanted, rtol=0, atol=1e-5)
        total = int(np.sum(counts[:step])) if cost.fragment == 0 else total
        assert two[0].samples == two[1].samples == total
    end(two)


def test_what_is_not_finite_goes_when_the_fragment_is_applied(address):
    values = [params() for _ in range(2)]
    settings = dict(inner_steps=3, fragments=FRAGMENTS, delay=1, alpha=0.5, min_peers=2)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    values[1]["h.1.b"][1] = np.nan
    skipped = []
    for step in range(1, 4):
        infos = support.parallel([one.step for one in two])
        assert not infos[0].skipped and two[0].digest() == two[1].digest()
        skipped.append(infos[1].skipped)
    assert skipped == [False, True, False]  # the slot of that fragment is at step 1, and it is applied at step 2
    assert np.isfinite(flat(values[1])).all() and two[0].round == 1
    end(two)


def test_who_holds_something_else_gets_it_back(address):
    """At a verification, before which reductions in flight are applied early."""
    values = [params() for _ in range(3)]
    settings = dict(inner_steps=3, fragments=FRAGMENTS, delay=1, alpha=0.5, min_peers=3, verify_every=2)
    three = start(address, 3, lambda i, comm: DiLoCo(comm, values[i], **settings))
    for step in range(1, 7):
        for i in range(3):
            train(values[i], i, step)
        if step == 6:
            three[1]._shared.theta[0][7] += 1
        infos = support.parallel([one.step for one in three])
    assert [info.moved_bytes > 0 for info in infos] == [False, True, False]
    assert len({one.digest() for one in three}) == 1
    assert np.array_equal(np.concatenate([part_of(values[1], p) for p in range(3)]), three[0]._shared.theta[0])
    assert not np.array_equal(flat(values[1]), flat(values[0]))  # whose parameters are local
    end(three)


# ---- joining, leaving, the end


def test_newcomers_catch_up_in_mid_run(address):
    """Reductions in flight at their admission are applied early, by all alike."""
    values = [params(i) for i in range(3)]
    settings = dict(inner_steps=3, fragments=FRAGMENTS, delay=2, alpha=0.5, catch_up="whole")
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], min_peers=2, **settings))
    for step in range(1, 5):
        for i in range(2):
            train(values[i], i, step)
        support.parallel([one.step for one in two])
    late = DiLoCo(pccl.Communicator(address), values[2], min_peers=2, **settings)
    joined = []
    thread = threading.Thread(target=lambda: joined.append(late.join()))
    thread.start()
    ages, infos = set(), None
    while infos is None or not infos[0].admitted:
        step += 1
        for i in range(2):
            train(values[i], i, step)
        infos = support.parallel([one.step for one in two])
        ages |= {cost.age for cost in infos[0].fragments}
        assert two[0].digest() == two[1].digest()
    thread.join(support.DEADLINE)
    assert ages == {1, 2} and joined[0].joined and joined[0].moved_bytes > 0 and late.inner_step == step
    three = [*two, late]
    assert late.digest() == two[0].digest()
    for step in range(step + 1, step + 8):
        for i in range(3):
            train(values[i], i, step)
        infos = support.parallel([one.step for one in three])
        assert len({one.digest() for one in three}) == 1
        assert len({tuple(cost.fragment for cost in info.fragments) for info in infos}) == 1
    assert [(cost.participants, cost.age) for cost in infos[2].fragments] == [(3, 2)]
    end(three)


@pytest.mark.parametrize("delay", [0, 2])
def test_the_end_has_all_that_was_trained(address, delay):
    """The last reductions are of all fragments; a later newcomer gets the result."""
    values = [params() for _ in range(2)]
    settings = dict(inner_steps=4, fragments=FRAGMENTS, delay=delay, alpha=0.5, rounds=2, outer=Nesterov(1.0, 0.0))
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], min_peers=2, **settings))
    for step in range(1, 9):
        assert not two[0].finished
        for i in range(2):
            train(values[i], i, step)
        trained = [np.mean([part_of(own, p) for own in values], axis=0) for p in range(3)]
        infos = support.parallel([one.step for one in two])
    for p in (0, 1):  # with a delay number 2 was in flight, and the rest was mixed with it
        assert np.allclose(part_of(values[0], p), trained[p], rtol=0, atol=1e-6)
    assert {cost.fragment for cost in infos[0].fragments} == {0, 1, 2} and infos[0].finished and two[1].finished
    assert two[0].digest() == two[1].digest() and np.array_equal(flat(values[0]), flat(values[1]))
    with pytest.raises(pccl.InvalidUsage, match="after the end"):
        two[0].step()
    state = two[0].state_dict()
    end(two)
    more = DiLoCo(pccl.Communicator(address), params(5), **{**settings, "rounds": 3})
    more.load_state_dict(state)
    with more:
        while not more.finished:
            more.step()
    assert more.round == 3


def test_finish_applies_what_is_on_its_way(address):
    values = [params() for _ in range(2)]
    settings = dict(inner_steps=6, fragments=FRAGMENTS, delay=3, alpha=0.5, min_peers=2)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], **settings))
    for step in range(1, 6):
        for i in range(2):
            train(values[i], i, step)
        support.parallel([one.step for one in two])
    infos = support.parallel([one.finish for one in two])
    assert [(cost.fragment, cost.age, cost.committed) for cost in infos[0].fragments] == [(2, 1, True)]
    assert two[0].digest() == two[1].digest() and np.array_equal(flat(values[0]), flat(values[1]))
    assert "position" in two[0].state_dict()  # parameters and outer copy may differ under alpha
    support.parallel([one.step for one in two])
    end(two)


def test_who_leaves_does_not_disturb_the_others(address):
    """A reduction in flight is given up, unless it ends before; then the others continue."""
    values = [params() for _ in range(3)]
    settings = dict(inner_steps=6, fragments=FRAGMENTS, delay=2, min_peers=1, bucket_bytes=4096)
    group = support.Group(address, 3)
    three = [DiLoCo(comm, value, **settings) for comm, value in zip(group.members, values)]
    support.parallel([one.join for one in three])
    for step in range(1, 18):
        if step == 9:
            three.pop().close()
        for i in range(len(three)):
            train(values[i], i, step)
        infos = support.parallel([one.step for one in three])
        assert len({one.digest() for one in three}) == 1
    assert [(cost.participants, cost.committed) for cost in infos[0].fragments] in ([], [(2, True)])
    three.pop().close()
    for step in range(18, 31):
        info = three[0].step()
    assert all(cost.participants == 1 and cost.committed and cost.tx_bytes == 0 for cost in info.fragments)
    assert three[0].inner_step == 30
    end(three)


def test_an_error_leaves_the_run(address):
    """With a fragment in flight; the others continue, and it may return."""
    values = [params() for _ in range(2)]
    settings = dict(inner_steps=3, fragments=FRAGMENTS, delay=2, alpha=0.5, catch_up="whole")
    group = support.Group(address, 2)
    two = [DiLoCo(comm, value, **settings) for comm, value in zip(group.members, values)]
    support.parallel([one.join for one in two])
    support.parallel([one.step for one in two])
    kept, values[1]["h.2.w"] = values[1]["h.2.w"], np.zeros(3, np.float32)

    def breaks():
        with pytest.raises(pccl.LayoutError, match="h.2.w was float32"):
            for _ in range(3):
                two[1].step()

    support.parallel([lambda: [two[0].step() for _ in range(3)], breaks])
    values[1]["h.2.w"] = kept
    admit(two[0], lambda: two[1].rejoin(pccl.Communicator(address)))
    for _ in range(6):
        infos = support.parallel([one.step for one in two])
        assert two[0].digest() == two[1].digest()
    assert infos[1].fragments[0].participants == 2
    end(two)


def test_who_comes_after_the_end_gets_the_final_parameters(address):
    values = [params(i) for i in range(3)]
    settings = dict(inner_steps=3, fragments=FRAGMENTS, delay=1, alpha=0.5, rounds=2, linger_s=support.DEADLINE)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], min_peers=2, **settings))
    for _ in range(6):
        support.parallel([one.step for one in two])
    digest = two[0].digest()
    threads = [threading.Thread(target=one.finish) for one in two]
    for thread in threads:
        thread.start()
    late = DiLoCo(pccl.Communicator(address), values[2], min_peers=2, **settings)
    info = late.join()
    assert info.finished and late.digest() == digest and np.array_equal(flat(values[2]), flat(values[0]))
    for one in two:
        one._linger_until = 0.0
    assert late.finish().finished
    for thread in threads:
        thread.join(support.DEADLINE)
        assert not thread.is_alive()
    end([*two, late])


def run_from(address, at, until, settings, states=None):
    """Runs two peers from one step to another. Returns their states, parameters and digest then."""
    values = [params() for _ in range(2)]
    group = support.Group(address, 2)
    two = [DiLoCo(comm, value, **settings) for comm, value in zip(group.members, values)]
    if states is not None:
        for one, state in zip(two, states):
            one.load_state_dict(state)
            assert one.inner_step == at
    support.parallel([one.join for one in two])
    for step in range(at + 1, until + 1):
        for i in range(2):
            train(values[i], i, step)
        support.parallel([lambda i=i: two[i].step(i + 1) for i in range(2)])
    found = [one.state_dict() for one in two], [flat(value).tobytes() for value in values], two[0].digest()
    end(two)
    return found


@pytest.mark.parametrize(
    "given",
    [
        dict(fragments=FRAGMENTS),
        dict(fragments=3, delay=2, alpha=0.5),
        dict(fragments=3, delay=2, alpha=0.5, codec=["int4", "e3m0", None], feedback=True),
        dict(codec="int4", feedback=True),
    ],
)
def test_resume_at_any_inner_step(address, tmp_path, given):
    """From a file of numpy.savez, with the reductions in flight and the residuals of error feedback: the same bits as
    without the interruption."""
    settings = dict(inner_steps=4, min_peers=2, weight="tokens", **given)
    _, *straight = run_from(address, 0, 11, settings)
    for at in range(1, 9):
        states, *_ = run_from(address, 0, at, settings)
        for i, state in enumerate(states):
            np.savez(tmp_path / f"{i}.npz", **state)
        loaded = [dict(np.load(tmp_path / f"{i}.npz")) for i in range(2)]
        _, *resumed = run_from(address, at, 11, settings, loaded)
        assert resumed == straight, at


def test_who_resumes_elsewhere_gets_the_state_of_the_one_that_has_come_furthest(address):
    settings = dict(inner_steps=4, fragments=FRAGMENTS, delay=2, min_peers=2, outer=Nesterov(1.0, 0.0))
    (ahead, _), *_ = run_from(address, 0, 7, settings)
    (behind, _), *_ = run_from(address, 0, 5, settings)
    values = [params() for _ in range(2)]
    two = [DiLoCo(pccl.Communicator(address), value, **settings) for value in values]
    for one, state in zip(two, (ahead, behind)):
        one.load_state_dict(state)
    infos = support.parallel([one.join for one in two])
    assert [info.moved_bytes > 0 for info in infos] == [False, True]
    assert [one.inner_step for one in two] == [7, 7] and two[0].digest() == two[1].digest()
    assert np.array_equal(np.concatenate([part_of(values[1], p) for p in range(3)]), ahead["theta.float32"])
    infos = support.parallel([one.step for one in two])
    assert [(cost.fragment, cost.age, cost.participants) for cost in infos[1].fragments] == [(2, 2, 2)]
    own = (ahead["theta.float32"] - ahead["delta.float32"])[-41 * 90 :]  # the other peer's delta is of another copy
    assert np.allclose(part_of(values[1], 2), own, rtol=0, atol=1e-6)
    for step in range(9, 14):
        for i in range(2):
            train(values[i], i, step)
        infos = support.parallel([one.step for one in two])
        assert two[0].digest() == two[1].digest()
    end(two)


def test_states_that_do_not_fit(address):
    settings = dict(inner_steps=4, fragments=FRAGMENTS, delay=2, alpha=0.5)
    values = params()
    diloco = DiLoCo(pccl.Communicator(address), values, **settings)
    diloco.join()
    for _ in range(3):
        diloco.step()
    state = diloco.state_dict()
    diloco.close()
    assert state["position"] == 3 and state["launched"][2] == 2
    values["h.2.w"][:] = 9
    before = diloco.digest()
    for wrong, words in (
        ({**state, "position": 4}, "position: 4; expected 0 to 3"),
        ({**state, "weights": [1.0]}, "weights has 1 entries: expected one for each of the 3 fragments"),
        ({**state, "own.float32": np.zeros(3, np.float32)}, "own.float32"),
        ({key: value for key, value in state.items() if key != "given"}, "only one of them has given"),
        ({**state, "more": 1}, "only one of them has more"),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            diloco.load_state_dict(wrong)
        assert diloco.digest() == before and (values["h.2.w"] == 9).all()
    other = DiLoCo(pccl.Communicator(address), params(), inner_steps=4, fragments=[["h.2", "in"], ["h.0", "h.1"]])
    with pytest.raises(pccl.InvalidArgument, match="other names, shapes or types, or in other fragments"):
        other.load_state_dict(state)


@pytest.mark.parametrize("given", [{"periods": [6]}, {"offsets": [1]}])
def test_a_state_of_a_boundary_at_which_nothing_is_applied(address, given):
    """With a single fragment: it has this peer's parameters, as within a round."""
    values, again = params(), params(1)
    diloco = DiLoCo(pccl.Communicator(address), values, inner_steps=2, **given)
    diloco.join()
    for step in range(2):
        train(values, 0, step)
        diloco.step()
    trained, state = flat(values), diloco.state_dict()
    assert state["round"] == 1 and (flat(values) != state["theta.float32"]).any()
    diloco.close()
    other = DiLoCo(pccl.Communicator(address), again, inner_steps=2, **given)
    other.load_state_dict(state)
    assert (flat(again) == trained).all()
    other.join()
    assert (flat(again) == trained).all()
    other.close()


# ---- the line of a terminal


class Terminal:
    def __init__(self, is_terminal):
        self.said, self.isatty, self.flush = "", lambda: is_terminal, lambda: None

    def write(self, text):
        self.said += text


def test_the_line_of_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run, there, nowhere = types.SimpleNamespace(round=3), Terminal(True), Terminal(False)
    lines = [Line(there), Line(nowhere)]
    one = FragmentInfo(1, participants=4, committed=True, tx_bytes=12345, waited_s=0.25, age=5)
    zero = FragmentInfo(0, age=5)
    infos = [StepInfo(), *(StepInfo(fragments=(cost,)) for cost in (one, zero)), StepInfo(synced=True, finished=True)]
    for info in infos:
        for line in lines:
            line.show(run, info)
    first = "\r\x1b[Kround 3, 4 peers | 1: 12.3 kB, waited 0.2 s, 5 old"
    both = "\r\x1b[Kround 3, 4 peers | 0: given up | 1: 12.3 kB, waited 0.2 s, 5 old"
    assert there.said == first + both + both + "\n" and nowhere.said == ""
    monkeypatch.setenv("COLUMNS", "20")
    lines[0].show(run, StepInfo(synced=True))
    assert there.said.endswith("\r\x1b[K" + both[4:][:19])
