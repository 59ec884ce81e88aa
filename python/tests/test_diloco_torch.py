"""DiLoCo of torch modules, and the classes that hook an optimizer."""

import copy

import pytest
import support
import test_diloco

import pccl
from pccl.diloco import SGD, AdamW, DiLoCo, Nesterov

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402

torch.set_num_threads(1)


def model(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 300), torch.nn.BatchNorm1d(300), torch.nn.Linear(300, 2)).to(dtype)


def train(module, optimizer, number, step):
    generator = torch.Generator().manual_seed(1000 * number + step)
    images = torch.randn(16, 8, generator=generator).to(module[0].weight)
    optimizer.zero_grad()
    module(images).float().square().mean().backward()
    optimizer.step()


def start(address, count, make):
    comms = [pccl.Communicator(address) for _ in range(count)]
    made = [make(i, comm) for i, comm in enumerate(comms)]
    support.parallel([one.join for one in made])
    return made


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_the_outer_step_is_that_of_torch(address, momentum):
    """torch.optim.SGD with the mean of the deltas as gradient, by two peers."""
    modules = [model() for _ in range(2)]
    optimizers = [torch.optim.AdamW(module.parameters(), lr=0.01) for module in modules]
    settings = dict(inner_steps=3, outer=Nesterov(0.7, momentum), min_peers=2)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, modules[i], **settings))
    outer = copy.deepcopy(modules[0])
    sgd = torch.optim.SGD(outer.parameters(), lr=0.7, momentum=momentum, nesterov=momentum > 0)
    for step in range(9):
        for i in range(2):
            train(modules[i], optimizers[i], i, step)
        if step % 3 == 2:
            for kept, one, other in zip(outer.parameters(), *(module.parameters() for module in modules)):
                kept.grad = ((kept - one) + (kept - other)).detach() / 2
            sgd.step()
        support.parallel([one.step for one in two])
    assert two[0].round == 3 and two[0].digest() == two[1].digest()
    for kept, *both in zip(outer.parameters(), *(module.parameters() for module in modules)):
        assert torch.equal(both[0], both[1]) and torch.allclose(kept, both[0], rtol=0, atol=1e-6)
    for one in two:
        one.close()


@pytest.mark.parametrize("mode", ["sync", "delayed", "eager", "streaming"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_modules(address, dtype, mode):
    modules = [model(i, dtype) for i in range(2)]
    frozen = torch.full((2,), 7.0)
    for module in modules:
        module.register_parameter("frozen", torch.nn.Parameter(frozen.clone(), requires_grad=False))
    optimizers = [torch.optim.AdamW(module.parameters(), lr=0.01) for module in modules]
    how = dict(fragments=2, delay=1, alpha=0.5) if mode == "streaming" else dict(mode=mode)
    settings = dict(inner_steps=2, min_peers=2, bucket_bytes=4096, **how)
    two = start(address, 2, lambda i, comm: DiLoCo(comm, modules[i], **settings))
    for step in range(8):
        for i in range(2):
            train(modules[i], optimizers[i], i, step)
        infos = support.parallel([one.step for one in two])
        if infos[0].synced:
            assert two[0].digest() == two[1].digest()
    support.parallel([one.finish for one in two])
    assert two[0].digest() == two[1].digest() and infos[0].committed
    for one, other in zip(*(module.parameters() for module in modules)):
        assert torch.equal(one, other) and one.dtype in (dtype, torch.float32)
    assert all(torch.equal(module.frozen, frozen) for module in modules)
    assert not torch.equal(modules[0][1].running_mean, modules[1][1].running_mean)  # different on each peer
    for one in two:
        one.close()


def test_buffers_for_newcomers(address):
    modules = [model(i) for i in range(2)]
    modules[0][1].running_mean += 3
    two = [
        DiLoCo(pccl.Communicator(address), module, inner_steps=1, share_buffers=True, verify_every=1)
        for module in modules
    ]
    two[0].join()
    two[0].step()
    def go_on():
        while not two[0].step().admitted:
            pass

    support.parallel([two[1].join, go_on])
    assert torch.equal(modules[1][1].running_mean, modules[0][1].running_mean)
    modules[1][1].running_mean += 1
    moved = support.parallel([one.step for one in two])
    assert [info.moved_bytes for info in moved] == [0, 0] and two[0].digest() == two[1].digest()
    for one in two:
        one.close()


OUTER = {
    "nesterov": lambda module: Nesterov(0.5, 0.8),
    "sgd": lambda module: torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.8, nesterov=True),
    "list": lambda module: [torch.optim.SGD(module.parameters(), lr=0.5, momentum=0.8, nesterov=True)],
}


@pytest.mark.parametrize("outer", OUTER)
def test_hooks(address, outer):
    """Two peers that only step their optimizers."""
    modules = [model(i) for i in range(2)]

    def work(i):
        module = modules[i]
        inner = torch.optim.AdamW(module.parameters(), lr=0.01)
        made = ptorch.DiLoCo(
            pccl.Communicator(address), [module], inner, OUTER[outer](module), sync_every=2, should_quantize=True,
            min_peers=2,
        )
        assert made.diloco.outer == Nesterov(0.5, 0.8)
        with made:
            assert made.last.joined
            for step in range(6):
                made.add_samples(16)
                train(module, inner, i, step)
                assert made.last.synced == (step % 2 == 1)
            digest = made.diloco.digest()
            assert made.diloco.round == 3 and made.diloco.samples == 192
            state = made.state_dict()
        train(module, inner, i, 9)  # the hook is gone
        train(module, inner, i, 10)
        again = ptorch.DiLoCo(pccl.Communicator(address), module, inner, OUTER[outer](module), sync_every=2)
        again.load_state_dict(state)
        assert again.diloco.digest() == digest
        return digest

    one, other = support.parallel([lambda: work(0), lambda: work(1)])
    assert one == other
    for one, other in zip(*(module.parameters() for module in modules)):
        assert torch.equal(one, other)  # as loaded again


@pytest.mark.parametrize("fragments", ["modules", 2])
def test_streaming_hooks(address, fragments):
    """Fragments of one model, each with its optimizer, while inner AdamW continues to train."""
    modules = [model(i) for i in range(2)]

    def work(i):
        module = modules[i]
        inner = torch.optim.AdamW(module.parameters(), lr=0.01)
        outers = [torch.optim.SGD(module.parameters(), lr=0.5, momentum=momentum) for momentum in (0.0, 0.5)]
        parts, more = ([module[:2], module[2]], {}) if fragments == "modules" else ([module], {"fragments": fragments})
        made = ptorch.DiLoCo(
            pccl.Communicator(address), parts, inner, outers, sync_every=4, should_quantize=True, min_peers=2,
            fragment_sync_delay=1, fragment_update_alpha=0.5, rounds=3, **more
        )
        costs, digests = [], []
        with made:
            for step in range(1, 13):
                train(module, inner, i, step)
                costs += [(step, cost.fragment, cost.age) for cost in made.last.fragments]
                digests.append(made.diloco.digest())
            assert made.last.finished
        return costs, digests

    (costs, ones), (others_costs, others) = support.parallel([lambda: work(0), lambda: work(1)])
    assert costs == others_costs and ones == others
    assert costs == [(3, 1, 1), (5, 0, 1), (7, 1, 1), (9, 0, 1), (11, 1, 1), (12, 0, 0), (12, 1, 0)]
    for one, other in zip(*(module.parameters() for module in modules)):
        assert torch.equal(one, other)


def test_local_sgd(address):
    modules = [model() for _ in range(2)]

    def work(i):
        inner = torch.optim.SGD(modules[i].parameters(), lr=0.1)
        with ptorch.LocalSGD(pccl.Communicator(address), modules[i], inner, sync_every=2, min_peers=2) as local:
            for step in range(4):
                inner.zero_grad()
                for parameter in modules[i].parameters():
                    parameter.grad = torch.full_like(parameter, i + 1.0)
                inner.step()
            return local.last, local.diloco.digest(), [p.detach().clone() for p in modules[i].parameters()]

    (info, one, values), (_, other, _) = support.parallel([lambda: work(0), lambda: work(1)])
    assert info.synced and info.committed and one == other
    for now, before in zip(values, model().parameters()):
        assert torch.allclose(now, before - 4 * 0.1 * 1.5, rtol=0, atol=1e-5)


def test_an_error_inside_leaves_the_run(address):
    module = model()
    inner = torch.optim.SGD(module.parameters(), lr=0.1)
    made = ptorch.LocalSGD(pccl.Communicator(address), module, inner, sync_every=2)
    with pytest.raises(ZeroDivisionError):
        with made:
            with pytest.raises(pccl.InvalidUsage, match="twice"):
                made.__enter__()
            1 / 0
    assert made.diloco.comm.closed
    inner.step()


def test_refused(address):
    module, comm = model(), pccl.Communicator(address)
    inner = torch.optim.SGD(module.parameters(), lr=0.1)

    def make(fragments=module, outer=Nesterov(), **more):
        return ptorch.DiLoCo(comm, fragments, inner, outer, 2, **more)

    def sgd(**settings):
        return torch.optim.SGD(module.parameters(), lr=0.5, **settings)

    for given, words in (
        (dict(fragment_sync_delay=2), "delay: 2; expected at least 0 and less than inner_steps=2"),
        (dict(fragment_update_alpha=2), "alpha: 2"),
        (dict(fragments=[module[0], module]), "is in more than one"),
        (dict(fragments=[]), "model_fragments: no fragments"),
        (dict(outer=[Nesterov(), Nesterov()]), "outer: 2 optimizers for 1 fragments"),
        (dict(outer=0.7), "outer: 0.7"),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            make(**given)
    for outer, words in (
        (torch.optim.Adam(module.parameters()), "Adam; expected"),
        (sgd(momentum=0.9, nesterov=True, weight_decay=0.1), "weight_decay is not supported"),
        (sgd(maximize=True), "maximize is not supported"),
        (torch.optim.SGD([{"params": [module[0].weight]}, {"params": [module[2].weight], "lr": 2.0}], lr=1.0),
         "different settings"),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            make(outer=outer)
    assert make(outer=sgd()).diloco.outer == Nesterov(0.5, 0.0)
    assert make(outer=sgd(momentum=0.9)).diloco.outer == SGD(0.5, 0.9)
    with pytest.raises(pccl.DTypeError, match="but other parameters are torch tensors"):
        DiLoCo(comm, {"a": torch.zeros(3), "b": [1.0]}, inner_steps=1)
    with pytest.raises(pccl.LayoutError, match="layout"):
        DiLoCo(comm, {"a": torch.zeros(3, 3).to_sparse()}, inner_steps=1)


def test_numpy_writes_what_torch_loads(address):
    np = pytest.importorskip("numpy")
    module = model()
    one = DiLoCo(pccl.Communicator(address), module, inner_steps=1)
    arrays = {name: np.zeros(tuple(p.shape), np.float32) for name, p in module.named_parameters()}
    other = DiLoCo(pccl.Communicator(address), arrays, inner_steps=1)
    other.load_state_dict(one.state_dict())
    assert other.digest() == one.digest()
    assert all(np.array_equal(arrays[name], p.detach().numpy()) for name, p in module.named_parameters())
    with torch.no_grad():
        module[0].weight.zero_()
    one.load_state_dict(other.state_dict())
    assert torch.equal(module[0].weight, torch.from_numpy(arrays["0.weight"]))


def test_torch_and_numpy_round_to_the_same_halves():
    from pccl.diloco._arrays import NumpyArrays, TorchArrays

    import numpy as np

    drawn = np.random.default_rng(0).normal(size=200_000).astype(np.float32)
    drawn[:4] = [0.0, -0.0, 2.0**-140, 1 + 2.0**-8]
    ours, theirs = NumpyArrays(), TorchArrays()
    bits, halves = ours.halves(len(drawn)), theirs.halves(len(drawn))
    ours.to_halves(bits, drawn)
    theirs.to_halves(halves, torch.from_numpy(drawn))
    assert np.array_equal(bits, halves.view(torch.uint16).numpy())
    one, other = np.empty_like(drawn), torch.empty(len(drawn))
    ours.from_halves(one, bits)
    theirs.from_halves(other, halves)
    assert np.array_equal(one.view(np.uint32), other.numpy().view(np.uint32))


def test_a_compiled_model_is_the_same_model(address):

    class Compiled(torch.nn.Module):  # the module of torch.compile has the model under this name
        def __init__(self, model):
            super().__init__()
            self._orig_mod = model

    def model():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(30, 30), torch.nn.Linear(30, 3))

    fragments = [["_orig_mod.0"], ["1"]]
    made = [Compiled(model()), model()]
    two = start(
        address, 2, lambda i, comm: DiLoCo(comm, made[i], inner_steps=2, min_peers=2, fragments=fragments)
    )
    infos = [support.parallel([one.step for one in two])[0] for _ in range(4)]
    assert infos[-1].participants == 2 and two[0].digest() == two[1].digest()
    test_diloco.end(two)


def test_adamw_of_torch_and_numpy_is_the_same(address):
    """To the bit; torch's object provides the numbers."""
    import numpy as np

    drawn = test_diloco.params
    values = [drawn(), {name: torch.from_numpy(value) for name, value in drawn().items()}]
    given = torch.optim.AdamW([torch.zeros(1)], lr=0.01, betas=(0.9, 0.99), eps=1e-6, weight_decay=0.1)
    rules = [test_diloco.ADAMW, given]
    settings = {"inner_steps": 1, "min_peers": 2}
    two = start(address, 2, lambda i, comm: DiLoCo(comm, values[i], outer=rules[i], **settings))
    for step in range(5):
        for i in range(2):
            test_diloco.train({name: np.asarray(value) for name, value in values[i].items()}, i, step)
        assert all(info.committed for info in support.parallel([one.step for one in two]))
        assert two[0].digest() == two[1].digest()
    test_diloco.end(two)


def test_wrong_outer_optimizers():
    for made, words in (
        (lambda: AdamW(betas=(0.9, 1.0)), "betas"),
        (lambda: AdamW(eps=0), "eps"),
        (lambda: torch.optim.Adam([torch.zeros(1)]), "this Adam is not supported"),
        (lambda: torch.optim.SGD([torch.zeros(1)], lr=1, dampening=0.1, momentum=0.9), "this SGD is not supported"),
        (lambda: torch.optim.AdamW([torch.zeros(1)], amsgrad=True), "this AdamW is not supported"),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            DiLoCo(pccl.Communicator("127.0.0.1:1"), test_diloco.params(), inner_steps=1, outer=made())
    with pytest.raises(pccl.InvalidArgument, match="does not support torch's float64"):
        doubles = {"x": torch.zeros(3, dtype=torch.float64)}
        DiLoCo(pccl.Communicator("127.0.0.1:1"), doubles, inner_steps=1, outer=AdamW())
    with pytest.raises(pccl.InvalidArgument, match="requires a linear optimizer"):
        DiLoCo(pccl.Communicator("127.0.0.1:1"), test_diloco.params(), inner_steps=1, outer=AdamW(), mode="eager")
    given = torch.optim.SGD([torch.zeros(1)], lr=0.7, momentum=0.9, nesterov=True)
    one = DiLoCo(pccl.Communicator("127.0.0.1:1"), test_diloco.params(), inner_steps=1, outer=given)
    assert one._fragments[0].outer == Nesterov(0.7, 0.9)
