"""Elastic replicas. Here they are threads; killed ones are processes (elastic_run.py)."""

import contextlib
import copy
import functools
import json
import random
import threading
import zlib

import pytest
import support

import pccl

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402
from elastic_run import Residual  # noqa: E402
from pccl.diloco._inside import Inside  # noqa: E402
from pccl.torch import _replica, _statistics, _tensors  # noqa: E402

torch.set_num_threads(1)
_one_at_a_time = threading.Lock()  # draws initial values


def network(*layers):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(layers or (torch.nn.Linear(60, 60), torch.nn.Tanh(), torch.nn.Linear(60, 3))))


def backward(model, number):
    x = torch.randn(8, 60, generator=torch.Generator().manual_seed(number))
    model(x.to(next(model.parameters()).device)).square().mean().backward()


def crc(model):
    return zlib.crc32(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters()))


class Peer:
    """A replica of a plain module."""

    def __init__(self, address, model=None, make=lambda p: torch.optim.AdamW(p, lr=0.01), device="cpu", **given):
        self.model = network().to(device) if model is None else model
        self.optimizer = make(self.model.parameters())
        self.replica = ptorch.elastic(self.model, self.optimizer, address=address, **given)

    def step(self, number=0):
        self.optimizer.zero_grad()
        backward(self.model, number)
        self.optimizer.step()
        return crc(self.model)

    def close(self):
        self.replica.leave()


@pytest.fixture
def peers(address):
    """Returns peers(count), which starts replicas that have met; with min_peers they begin the run together."""
    made = []

    def make(count, **given):
        made.extend(support.parallel([lambda: Peer(address, **given)] * given.get("min_peers", 1)))
        while len(made) < count:
            admit(made, lambda: Peer(address, **given))
        return made

    yield make
    for one in made:
        one.replica.leave()


def steps(peers, count=1):
    """Makes steps of all at once; all end with the same bits."""

    def make(number, peer):
        return [peer.step(100 * peer.replica.step + number) for _ in range(count)][-1]

    found = support.parallel([lambda n=n, p=p: make(n, p) for n, p in enumerate(peers)])
    assert len(set(found)) == 1, found


def test_averages_of_the_living(peers):
    two = peers(2, make=lambda p: torch.optim.SGD(p, lr=0.1))
    first, expected = two[0].replica.step, copy.deepcopy(two[0].model)
    expected.zero_grad()
    for number in range(2):
        backward(expected, 100 * first + number)
    for p in expected.parameters():
        p.data -= 0.1 * p.grad / 2
    steps(two)
    for a, b in zip(two[0].model.parameters(), expected.parameters()):
        torch.testing.assert_close(a, b)
    about = [one.replica for one in two]
    assert sorted(one.rank for one in about) == [0, 1] and [one.is_root for one in about].count(True) == 1
    assert all(one.committed and one.step == first + 1 and one.world_size == 2 and one.ranks == (0, 1) for one in about)
    assert ptorch.committed() and about[0].stats.committed == first + 1 and about[0].stats.sent_bytes > 0


def admit(peers, make):
    """Adds one replica, which makes its first step with the others."""
    new = []

    def join():
        new.append(make())
        new.append(new[0].step(7))

    thread = threading.Thread(target=join, daemon=True)
    thread.start()
    wanted = peers[0].replica.world_size + 1
    while peers[0].replica.world_size < wanted:
        steps(peers)
    thread.join(support.DEADLINE)
    assert new[1] == crc(peers[0].model)
    peers.append(new[0])


def test_one_leaves_and_another_comes(peers, address):
    """The ranks of the remaining replicas do not change, the lowest one is the root, and the newcomer gets the free
    rank."""
    three = peers(3)
    steps(three)
    gone = next(one for one in three if one.replica.rank == 0)
    three.remove(gone)
    gone.replica.leave()
    steps(three, 2)
    assert all(one.replica.ranks == (1, 2) and one.replica.root == 1 for one in three)
    admit(three, lambda: Peer(address))
    steps(three)
    assert three[-1].replica.rank == 0 and three[-1].replica.stats.state_bytes > 0
    assert all(one.replica.ranks == (0, 1, 2) and one.replica.step == three[0].replica.step for one in three)


def test_alone(peers):
    """A replica that is alone continues with its gradients, or waits if min_peers requires others."""
    one = peers(1)[0]
    before = one.step()
    assert one.replica.committed and one.replica.world_size == 1 and one.step() != before


def test_too_few(peers):
    two = peers(2, min_peers=2)
    steps(two)
    two.pop().replica.leave()
    before, remaining = crc(two[0].model), two[0]
    assert remaining.step() == before and not remaining.replica.committed and not ptorch.committed()
    assert remaining.replica.step == 1 and remaining.replica.stats.dropped == 1


def test_a_scheduler_goes_on_where_it_is(peers, address):
    """A program's actions after a step are in the state that a newcomer gets."""

    class Scheduled(Peer):
        def __init__(self, **given):
            self.model = network()
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0, momentum=0.9)
            self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
            state = {"scheduler": self.scheduler}
            self.replica = ptorch.elastic(self.model, self.optimizer, state, address=address, **given)

        def step(self, number=0):
            found = super().step(number)
            if self.replica.committed:
                self.scheduler.step()
            return found

    first = [Scheduled()]
    try:
        steps(first, 3)
        admit(first, Scheduled)
        steps(first, 2)
        for one in first:
            assert one.optimizer.param_groups[0]["lr"] == 0.5**one.replica.step
            assert one.scheduler.last_epoch == one.replica.step
        first[0].optimizer.param_groups[0]["lr"] = 1.0
        with pytest.raises(pccl.InvalidUsage, match="different settings"):
            steps(first)
    finally:
        for one in first:
            one.replica.leave()


def test_a_failed_backward_drops_the_step_of_all(peers):
    """As a collective of FSDP2 does in there."""
    two = peers(2, min_peers=2)
    steps(two)
    before = crc(two[0].model)

    def fails(peer, number):
        peer.optimizer.zero_grad()
        backward(peer.model, number)
        if number:
            ptorch._commit.note(RuntimeError("not today"))
        peer.optimizer.step()

    support.parallel([lambda n=n, p=p: fails(p, n) for n, p in enumerate(two)])
    assert [(one.replica.committed, one.replica.step, crc(one.model)) for one in two] == [(False, 1, before)] * 2
    assert not ptorch.committed()
    steps(two)
    assert ptorch.committed() and two[0].replica.step == 2


def test_an_interrupted_step_is_the_last_one(peers):
    """Ctrl-C in the middle of it: this replica has left, and the other one continues."""
    two = peers(2)
    steps(two)
    odd = two[1].replica.comm

    def interrupted(tensors, **given):
        odd.coalesced_async(tensors, **given)
        raise KeyboardInterrupt

    odd.coalesced = interrupted

    def tries():
        with pytest.raises(KeyboardInterrupt):
            two[1].step(1)

    support.parallel([two[0].step, tries])
    assert odd.closed and two[0].replica.committed and two[0].replica.world_size <= 2
    steps(two[:1])
    assert two[0].replica.world_size == 1
    two[1].step()  # alone


class Scaled(Peer):
    """With a scaler, and the usual loop for it."""

    def __init__(self, address, **given):
        self.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
        self.infinite = False
        super().__init__(address, scaler=self.scaler, **given)

    def step(self, number=0):
        self.optimizer.zero_grad()
        x = torch.randn(8, 60, generator=torch.Generator().manual_seed(number))
        self.scaler.scale(self.model(x).square().mean() * (float("inf") if self.infinite else 1.0)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return crc(self.model)


def test_a_scaler_leaves_a_step_out_on_all(address):
    def told(peers):
        return [(p.replica.committed, p.replica.step, crc(p.model), p.scaler.get_scale()) for p in peers]

    two = support.parallel([lambda: Scaled(address, min_peers=2)] * 2)
    try:
        steps(two)
        assert told(two) == [(True, 1, crc(two[0].model), 1024)] * 2
        before = crc(two[0].model)
        two[1].infinite = True
        steps(two)
        assert told(two) == [(False, 1, before, 512)] * 2 and not ptorch.committed()
        two[1].infinite = False
        ptorch._commit.note(RuntimeError("not today"))  # of one replica: no step, and the scale is unchanged
        steps(two)
        assert told(two) == [(False, 1, before, 512)] * 2
        steps(two)
        assert all(one.replica.committed and one.replica.step == 2 and one.replica.stats.dropped == 2 for one in two)
        admit(two, lambda: Scaled(address, min_peers=2))
        assert len({one.scaler.get_scale() for one in two}) == 1
        two[0].scaler.load_state_dict({**two[0].scaler.state_dict(), "scale": 3.0})
        with pytest.raises(pccl.InvalidUsage, match="different settings"):
            steps(two)
    finally:
        for one in two:
            one.close()
    assert "unscale_" not in vars(two[0].scaler)


def test_packed_gradients(peers):
    two = peers(2, quantization=pccl.QuantizationOptions("int4", block=64))
    steps(two, 3)
    elements = sum(p.numel() for p in two[0].model.parameters())
    assert two[0].replica.stats.sent_bytes < 3 * 4 * elements / 3


def test_stop_is_for_all(peers):
    two = peers(2)
    steps(two)
    two[1].replica.stop()
    assert not two[1].replica.stopped
    steps(two)
    assert two[0].replica.stopped and two[1].replica.stopped


def test_one_is_drained(peers):
    """It leaves after the step of its request, and the others repeat nothing."""
    three = peers(3)
    steps(three)
    three[2].replica.drain()
    steps(three)

    def ends():
        with three[2].replica:
            three[2].step()

    found = support.parallel([lambda: three[0].step(1), lambda: three[1].step(1), ends])
    assert found == [found[0], found[0], None]
    assert three[2].replica.drained == "the master drained this peer: it requested its drain"
    steps(three[:2])
    assert all(p.replica.stats.repeated == 0 and p.replica.stats.dropped == 0 for p in three)
    assert three[0].replica.world_size == 2 and not three[0].replica.drained


def test_who_is_drained_and_out_of_the_run_does_not_come_back(operator):
    address, command = operator
    peer = Peer(address)
    with peer.replica as replica:
        peer.step()
        replica.drain()
        command("expel", replica.comm)
        while True:
            peer.step()
    assert "cannot connect again" in replica.drained and replica.step == replica.stats.committed == 1


def test_clipping_and_accumulation(peers):
    """Clipped gradients are averages, and the gradients of several backwards are averaged once."""
    two = peers(2, make=lambda p: torch.optim.SGD(p, lr=1.0))

    def step(peer, number):
        peer.optimizer.zero_grad()
        for part in range(3):
            backward(peer.model, 10 * number + part)
        assert peer.replica.average_gradients() and peer.replica.average_gradients()
        norm = torch.nn.utils.clip_grad_norm_(peer.model.parameters(), 1e-3)
        with pytest.raises(pccl.InvalidUsage, match="must be followed by"):
            peer.model(torch.zeros(1, 60))
        with torch.no_grad():
            peer.model(torch.zeros(1, 60))
        peer.optimizer.step()
        return float(norm)

    norms = support.parallel([lambda n=n, p=p: step(p, n) for n, p in enumerate(two)])
    assert norms[0] == norms[1] and crc(two[0].model) == crc(two[1].model)


def test_gradients_that_are_sparse_or_missing(address):
    """A parameter that only one of them used counts as one with a gradient of zero on the other; a sparse gradient
    becomes dense."""

    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.table = torch.nn.Embedding(50, 60, sparse=True)
            self.often, self.seldom = torch.nn.Linear(60, 3), torch.nn.Linear(60, 3)

        def forward(self, x):
            found = self.table(torch.arange(8)) + x
            return self.often(found) if self.often.training else self.seldom(found)

    given = {"address": address, "min_peers": 2, "make": lambda p: torch.optim.SGD(p, lr=0.1)}
    two = support.parallel([lambda: Peer(model=Words(), **given)] * 2)
    two[1].model.often.eval()
    before = [p.detach().clone() for p in two[0].model.parameters()]
    steps(two)
    assert all(not torch.equal(a, b) for a, b in zip(before, two[0].model.parameters()))
    for one in two:
        one.replica.leave()


@pytest.mark.parametrize(
    "what, model, make",
    [
        (
            "model, optimizer and state: this peer has module.0.weight: 300 of float, the run has module.0.weight: 360",
            lambda: network(torch.nn.Linear(60, 5)),
            torch.optim.AdamW,
        ),
        ("optimizer", network, torch.optim.SGD),
    ],
)
def test_another_model_or_optimizer_is_refused(peers, address, what, model, make):
    """With a message, on the newcomer; the others continue."""
    first = peers(1)
    words = []

    def join():
        try:
            Peer(address, model(), lambda p: make(p, lr=0.01))
        except Exception as error:
            words.append(error)

    thread = threading.Thread(target=join, daemon=True)
    thread.start()
    while not words:
        steps(first)
    thread.join(support.DEADLINE)
    with pytest.raises(pccl.InvalidArgument, match=what):
        raise words[0]
    steps(first)
    assert first[0].replica.committed


def test_misuse(address, monkeypatch):
    monkeypatch.delenv("PCCL_MASTER", raising=False)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for given, words in [
        ((model, model), "a module and an optimizer, not Sequential and Sequential"),
        ((torch.nn.LazyLinear(3), optimizer), "not initialized yet: weight, bias"),
        ((torch.nn.Linear(1, 1, device="meta"), optimizer), "not initialized yet"),
        ((network(), optimizer), "4 of the optimizer's parameters are not the model's"),
        ((model, torch.optim.LBFGS(model.parameters())), "closure"),
        ((model, optimizer), "PCCL_MASTER"),
    ]:
        with pytest.raises(pccl.InvalidArgument, match=words):
            ptorch.elastic(*given)
    for wrong in ({"min_peers": 0}, {"step": -1}, {"state": {"elastic.step": torch.zeros(1)}}):
        with pytest.raises(pccl.InvalidArgument, match="elastic: "):
            ptorch.elastic(model, optimizer, address=address, **wrong)
    fused, scaler = torch.optim.Adam(model.parameters(), fused=True), torch.amp.GradScaler("cpu")
    with pytest.raises(pccl.InvalidArgument, match="scaler: not supported with a fused optimizer"):
        ptorch.elastic(model, fused, address=address, scaler=scaler)
    monkeypatch.setenv("PCCL_MASTER", address)
    with ptorch.elastic(model, optimizer) as replica:
        backward(model, 0)
        with pytest.raises(pccl.InvalidUsage, match="closure"):
            optimizer.step(lambda: 0)
        optimizer.step()
    assert replica.comm.closed
    optimizer.step()  # it belongs to the program again


def test_the_one_with_the_most_steps_gives_its_state(address):
    """For a run that begins from a checkpoint that only some have."""
    other = network()
    torch.nn.init.ones_(other[0].weight)
    made = support.parallel([lambda: Peer(address, other, min_peers=2, step=5), lambda: Peer(address, min_peers=2)])
    try:
        assert [one.replica.step for one in made] == [5, 5] and bool((made[1].model[0].weight == 1).all())
        steps(made)
        assert [one.replica.step for one in made] == [6, 6]
    finally:
        for one in made:
            one.replica.leave()


@pytest.mark.parametrize("siblings_see", ["the same", "others"])
def test_those_who_were_in_tell_newcomers_whether_all_are(group, siblings_see):
    """If one process of a replica has just joined, and one of another replica has just failed, all groups are equally
    large. The first of these two was established."""

    class Siblings(Inside):
        def highest(self, *numbers):
            return list(numbers) if siblings_see == "the same" else [number + 1 for number in numbers]

    model = network()
    content = _replica.Content(model, torch.optim.SGD(model.parameters(), lr=0.1), {}, 0)
    two = [_replica.Replicas(comm, Siblings(), content, 1, []) for comm in group(2).members]
    two[0].established = True
    assert support.parallel([functools.partial(one._is_whole, True) for one in two]) == [siblings_see == "the same"] * 2


def test_what_was_received_in_part_is_undone():
    """All peers with the state have failed during the transfer."""
    import array

    model, numbers = network(), array.array("d", [1.0, 2.0])
    content = _replica.Content(model, torch.optim.SGD(model.parameters(), lr=0.1), {"numbers": numbers}, 3)
    before, kept = crc(model), content.keep()
    with torch.no_grad():
        model[0].weight.zero_()
    numbers[0] = 7.0
    content.count_step()
    content.restore(kept)
    assert (crc(model), numbers[0], content.round) == (before, 1.0, 3)


def test_a_backward_that_is_not_whole(address):
    """Of a DistributedDataParallel: an error, and the others continue."""

    class Half(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = torch.nn.Linear(60, 3), torch.nn.Linear(60, 3)

        def forward(self, x):
            return self.used(x)

    distributed = torch.distributed
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        for find in (True, False):
            model = torch.nn.parallel.DistributedDataParallel(Half(), find_unused_parameters=find)
            with contextlib.closing(Peer(address, model)) as one:
                if find:
                    assert one.step() and one.replica.committed
                with pytest.raises(pccl.InvalidUsage, match="without a complete backward"):
                    one.optimizer.step() if find else one.step()
                assert one.replica.comm.closed
    finally:
        distributed.destroy_process_group()


# ---- buffers that differ


def batch(number):
    return torch.randn(4, 3, 4, 4, generator=torch.Generator().manual_seed(number)) * (1 + number % 7)


class Normalized(torch.nn.Module):
    """Forward changes `scale`, too."""

    def __init__(self, seed=0):
        super().__init__()
        with _one_at_a_time:
            torch.manual_seed(0)
            self.body, self.head = Residual(3, 4), torch.nn.Linear(4, 3)
        self.norm = torch.nn.BatchNorm2d(4, momentum=None)
        self.register_buffer("constant", torch.randn(3, generator=torch.Generator().manual_seed(seed)))
        self.register_buffer("scale", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(2), persistent=False)

    def forward(self, x):
        x = self.norm(self.body(x))
        if self.training:
            self.scale.mul_(0.9).add_(0.1 * x.detach().square().mean())
        return self.head(x.mean((2, 3))) + self.constant


class Replica(Peer):
    """Replica of a model with running statistics."""

    def __init__(self, address, model=Normalized, **given):
        super().__init__(address, model(), lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), **given)
        self.at_first = buffers(self.model)

    def step(self, number=0):
        self.optimizer.zero_grad()
        self.model(batch(number)).square().mean().backward()
        self.optimizer.step()
        return crc(self.model)


def buffers(model):
    return {name: buffer.clone() for name, buffer in model.named_buffers()}


def differing(a, b):
    a, b = buffers(a.model), buffers(b.model)
    return {name.split(".")[-1] for name in a if not torch.equal(a[name], b[name])}


@pytest.fixture
def replicas(address):
    """Returns replicas(count), which starts replicas of one run; the first min_peers begin it together."""
    made = []

    def make(count, **given):
        made.extend(support.parallel([lambda: Replica(address, **given)] * given.get("min_peers", 1)))
        while len(made) < count:
            admit(made, lambda: Replica(address, **given))
        return sorted(made, key=lambda one: one.replica.rank)

    yield make
    for one in made:
        one.close()


def test_statistics_may_differ(replicas):
    """No replica is removed; newcomers begin with the statistics of one. The second newcomer meets two holders."""
    three = replicas(3)
    steps(three, 3)
    assert [one.replica.stats.returns for one in three] == [0, 0, 0]
    assert all(one.replica.world_size == 3 for one in three)
    assert differing(*three[:2]) == {"running_mean", "running_var", "scale"}
    for one in three:
        if one.replica.stats.state_bytes > 0:
            assert one.at_first["norm.num_batches_tracked"] > 0 and one.at_first["scale"] > 0


def meet(replicas, address, **given):
    """Adds a newcomer to these. Returns the exception of each; the newcomer is last."""
    raised = [None] * (len(replicas) + 1)

    def goes_on(at):
        one, before = replicas[at], replicas[at].replica.stats.admissions
        while one.replica.stats.admissions == before:
            one.step(at)

    def comes(_):
        new = Replica(address, **given)
        replicas.append(new)
        new.step(99)

    def guarded(work, at):
        try:
            work(at)
        except pccl.PCCLError as error:
            raised[at] = error

    works = [goes_on] * len(replicas) + [comes]
    threads = [threading.Thread(target=guarded, args=pair, daemon=True) for pair in zip(works, range(len(works)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(support.DEADLINE)
        assert not thread.is_alive()
    return raised


@pytest.mark.parametrize("what", ["body.first.weight", "constant", "optimizer"])
def test_one_that_differs_is_told_so(replicas, address, what):
    """The odd replica raises, and does not return; the majority continues with the newcomer."""
    three = replicas(3, min_peers=3)
    steps(three)
    model, name = three[1].model, f"module.{what}"
    with torch.no_grad():
        if what == "optimizer":
            name = "module.body.first.weight, optimizer.body.first.weight.momentum_buffer"
            three[1].optimizer.state[model.body.first.weight]["momentum_buffer"][0, 0, 0, 0] += 1
        else:
            dict([*model.named_parameters(), *model.named_buffers()])[what].view(-1)[-1] += 1
    others, odd = [three[0], three[2]], three[1]
    raised = meet(three, address, min_peers=3)
    assert isinstance(raised[1], pccl.StateMismatch) and [one for one in raised if one] == [raised[1]], raised
    assert f"{name}: replica 1 differs from the majority" in str(raised[1]), raised[1]
    assert odd.replica.comm.closed and odd.replica.stats.returns == 0
    steps([*others, three[3]])
    assert others[0].replica.ranks == (0, 1, 2) and len(three) == 4


def test_no_majority(replicas, address):
    """All replicas and the newcomer raise."""
    two = replicas(2, min_peers=2)
    steps(two)
    two[0].model.constant += 1
    raised = meet(two, address, min_peers=2)
    assert all(isinstance(one, pccl.StateMismatch) for one in raised), raised
    words = "module.constant: replicas 0, 1 differ, and no version has a majority"
    assert all(words in str(one) for one in raised), raised


def test_own_may_differ(replicas, address):
    two = replicas(2, min_peers=2, own=lambda name: name.endswith("constant"))
    two[0].model.constant += 1
    assert meet(two, address, min_peers=2, own=lambda name: name.endswith("constant")) == [None] * 3
    assert differing(two[0], two[1]) >= {"constant"} and two[2].replica.world_size == 3


def test_a_buffer_that_comes_late(replicas, address):
    three = replicas(3, min_peers=3)
    three[2].model.register_buffer("late", torch.zeros(1))
    raised = meet(three, address, min_peers=3)
    assert raised[:2] + raised[3:] == [None] * 3 and "differ from the original ones: module.late" in str(raised[2])


def test_founders_begin_with_the_same(address):
    """The first replicas begin with equal statistics for any seeds. One with the most steps provides the state."""

    def found(step, seed):
        def make():
            model = Normalized(seed)
            model.norm.running_mean.fill_(seed)
            return model

        return Replica(address, make, min_peers=3, step=step)

    for given in [(0, 1), (0, 2), (0, 3)], [(5, 1), (5, 2), (0, 3)]:
        three = support.parallel([lambda one=one: found(*one) for one in given])
        try:
            assert {one.replica.step for one in three} == {given[0][0]}
            assert differing(three[0], three[1]) == differing(three[0], three[2]) == set()
            assert three[0].model.norm.running_mean[0] in [seed for step, seed in given if step == given[0][0]]
            steps(three)
        finally:
            support.parallel([one.close for one in three])


@pytest.mark.sampled(3)
def test_broadcast_buffers(replicas):
    """Forward begins with the root's buffers, including buffers that are not persistent."""
    two = replicas(2, min_peers=2, broadcast_buffers=True)
    for one in two:
        one.model.body.register_forward_pre_hook(lambda *_, one=one: vars(one).update(began=buffers(one.model)))
    for step in range(3):
        two[0].model.cache += step
        root = buffers(two[0].model)
        steps(two)
        for name in root:
            assert torch.equal(two[0].began[name], root[name]) and torch.equal(two[1].began[name], root[name]), name
    assert differing(*two) == {"running_mean", "running_var", "scale"}  # changed by forward since then


_DDP = """
import os, sys, torch
from test_torch_elastic import Normalized, batch
rank = int(os.fork() == 0)
store = torch.distributed.FileStore(sys.argv[1], 2)
torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(Normalized())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(4):
    optimizer.zero_grad()
    model(batch(100 * step + rank)).square().mean().backward()
    optimizer.step()
torch.save(model.module.state_dict(), f"{sys.argv[1]}.{rank}")
torch.distributed.barrier()
if rank == 0:
    os.wait()
    print("saved", flush=True)
os._exit(0)
"""


@pytest.mark.nightly
def test_broadcast_buffers_is_what_ddp_does(replicas, script, tmp_path):
    reference = script(_DDP, tmp_path / "store", env={"OMP_NUM_THREADS": "1"})
    two = replicas(2, min_peers=2, broadcast_buffers=True)
    steps(two, 4)
    reference.line("saved")
    assert "running_mean" in differing(*two)  # of the last forward
    for rank, one in enumerate(two):
        expected = torch.load(tmp_path / f"store.{rank}")
        for name, tensor in one.model.state_dict().items():
            torch.testing.assert_close(tensor, expected[name], msg=lambda text: f"{rank} {name}: {text}")


def test_the_root_of_buffers_dies(replicas, address):
    three = replicas(3, min_peers=1, broadcast_buffers=True)
    three.pop(0).close()
    steps(three, 2)
    raised = meet(three, address, broadcast_buffers=True)
    assert raised == [None] * 3 and all(one.replica.stats.returns == 0 for one in three)
    steps(three)
    alone = three[0]
    for one in three[1:]:
        one.close()
    alone.step()
    assert alone.replica.committed and alone.replica.world_size == 1


def test_which_buffers_are_known_to_differ():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            instance = torch.nn.InstanceNorm1d(2, track_running_stats=True)
            self.norms = torch.nn.ModuleList([torch.nn.BatchNorm1d(2), torch.nn.SyncBatchNorm(2), instance])
            for name in ("replaced", "changed", "constant", "evaluated"):
                self.register_buffer(name, torch.zeros(2))

        def forward(self):
            if self.training:
                self.replaced = self.replaced + 1
                self.changed[0] += 1
            else:
                self.evaluated += 1

    module = Odd()
    found = _statistics.Statistics([(name, place) for name, place in _tensors.persistent_buffers(module)])
    assert len(found.names) == 9 and all(name.startswith("norms.") for name in found.names)
    hooks = found.watch(module, lambda call: call)
    module.eval()()
    assert len(found.names) == 9
    module.train()()
    assert {name for name in found.names if "norms" not in name} == {"replaced", "changed"}
    for hook in hooks:
        hook.remove()


# ---- a compiler, and processes


@pytest.mark.nightly
def test_compiled(address):
    """A compiled module, and one that is compiled afterwards."""
    for compile_first in (True, False):
        made = torch.compile(network(), backend="aot_eager") if compile_first else network()
        with contextlib.closing(Peer(address, made)) as one:
            one.model = made if compile_first else torch.compile(made, backend="aot_eager")
            before = crc(one.model)
            assert one.step() != before and one.step() and one.replica.step == 2


def run(script, address, **given):
    seed = random.SystemRandom().randrange(1 << 32)
    program = script(
        "import sys, elastic_run; elastic_run.main(*sys.argv[1:])",
        address,
        json.dumps({"seed": seed, **given}),
        env={"OMP_NUM_THREADS": "1"},
    )
    told = json.loads(program.line('{"kind"'))
    assert program.end() == 0
    print(told, "seed", seed)
    assert told["processes"] >= given.get("replicas", 4) + given["kills"] + given.get("drains", 0), told
    assert told["loss_difference"] <= 0.08, told
    assert told["returns"] == given.get("stops", 0), told
    support.figure("elastic_next_step_after_kill", told["max_s"], "s")


@pytest.mark.master(silence_ms=2000, heartbeat_ms=500)
def test_kills(script, address):
    """And one is stopped until the others consider it dead; then it returns."""
    run(script, address, kind="resnet", kills=2, pause=0.4, stops=1)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["ddp", "plain", "fsdp2", "resnet", "resnet_fsdp2", "sampled", "sampled_fsdp2"])
def test_twenty_kills(script, address, kind):
    run(script, address, kind=kind, kills=20)


@pytest.mark.nightly
def test_processes_that_die_where_they_would_vote(script, address):
    """Their siblings vote: a step with different replicas in two groups does not count, nor do its samples."""
    run(script, address, kind="sampled_fsdp2", replicas=3, kills=4, at_vote=True)


@pytest.mark.nightly
@pytest.mark.parametrize("shards", [2, 3])
def test_drained_processes_of_replicas(script, address, shards):
    """One of several processes is drained: its siblings leave with it, and the other replicas repeat nothing."""
    run(script, address, kind="fsdp2", kills=0, drains=4, shards=shards)
