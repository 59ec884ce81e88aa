"""Elastic replicas. Here they are threads; those that are killed are processes (elastic_run.py)."""

import contextlib
import copy
import json
import random
import threading
import zlib

import pytest
import support

import pccl

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402
from pccl.diloco._inside import Inside  # noqa: E402
from pccl.torch import _replica  # noqa: E402

torch.set_num_threads(1)


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
        self.model = model or network().to(device)
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
    """peers(count): so many that have met; those of one run are founded together if they count on that many."""
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
    """Of all at once; all end with the same bits."""

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
    """One more, who makes its first step with the others."""
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
    """The ranks of those who stay do not change, the lowest one is the root, and the newcomer's is the one that is
    free."""
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
    """A replica that is alone goes on with its own gradients, or waits where that is not wanted."""
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
    """What a program does behind a step is in the state that a newcomer gets."""

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
    """As a collective does that FSDP2 calls in there."""
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
    """Ctrl-C in the middle of it: this replica has left, and the other one goes on."""
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
    two[1].step()  # by itself


class Scaled(Peer):
    """With a scaler, and the loop as it always is then."""

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
        ptorch._commit.note(RuntimeError("not today"))  # of one of them: no step, and no other scale
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


def test_clipping_and_accumulation(peers):
    """Gradients that are clipped are averages, and those of several backwards are averaged once."""
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
    """A parameter that only one of them used counts as one with a gradient of zero at the other; a sparse gradient
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
            "model, optimizer and state: this peer has module.0.weight: 300 of float, the run module.0.weight: 3600 ",
            lambda: network(torch.nn.Linear(60, 5)),
            torch.optim.AdamW,
        ),
        ("optimizer", network, torch.optim.SGD),
    ],
)
def test_another_model_or_optimizer_is_refused(peers, address, what, model, make):
    """In words, at the newcomer; the others go on."""
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
    with pytest.raises(pccl.InvalidArgument, match="scaler: not with a fused optimizer"):
        ptorch.elastic(model, fused, address=address, scaler=scaler)
    monkeypatch.setenv("PCCL_MASTER", address)
    with ptorch.elastic(model, optimizer) as replica:
        backward(model, 0)
        with pytest.raises(pccl.InvalidUsage, match="closure"):
            optimizer.step(lambda: 0)
        optimizer.step()
    assert replica.comm.closed
    optimizer.step()  # it is the program's again


def test_the_one_with_the_most_steps_gives_its_state(address):
    """Where a run begins from a checkpoint that only some have."""
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
    """Where one process of a replica has just come in, and one of another replica has just died, all groups are equally
    large. The first of these two has been in."""

    class Siblings(Inside):
        def highest(self, *numbers):
            return list(numbers) if siblings_see == "the same" else [number + 1 for number in numbers]

    model = network()
    content = _replica.Content(model, torch.optim.SGD(model.parameters(), lr=0.1), {}, 0)
    two = [_replica.Replicas(comm, Siblings(), content, 1, []) for comm in group(2).members]
    two[0].established = True
    assert support.parallel([one._is_whole for one in two]) == [siblings_see == "the same"] * 2


def test_what_was_received_in_part_is_undone():
    """All who had the state have died meanwhile."""
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
    """Of a DistributedDataParallel: words, and the others go on."""

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
                with pytest.raises(pccl.InvalidUsage, match="without a whole backward"):
                    one.optimizer.step() if find else one.step()
                assert one.replica.comm.closed
    finally:
        distributed.destroy_process_group()


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
    assert told["processes"] >= 4 + given["kills"] and told["loss_difference"] <= 0.08, told
    support.figure("elastic_next_step_after_kill", told["max_s"], "s")


@pytest.mark.master(silence_ms=2000, heartbeat_ms=500)
def test_kills(script, address):
    """And one is stopped for so long that the others take it for dead; then it comes back."""
    run(script, address, kind="ddp", kills=2, pause=0.4, stops=1)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["ddp", "plain", "fsdp2"])
def test_twenty_kills(script, address, kind):
    run(script, address, kind=kind, kills=20)
