"""Modules and optimizers as shared state, among peers in threads of one process."""

import copy
import decimal
import fractions

import pytest

import pccl

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402

torch.set_num_threads(1)


def model(seed, width=5):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 2))


def train(module, optimizer, steps, seed=0, scheduler=None):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        module(torch.randn(8, 4, generator=generator)).square().mean().backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
}


def hyperparameters(optimizer):
    return [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_materialized_optimizers_go_on_as_if_nothing_had_been(kind):
    fresh, made = model(0), model(0)
    one, other = OPTIMIZERS[kind](fresh.parameters()), OPTIMIZERS[kind](made.parameters())
    made[0].weight.grad = torch.ones_like(made[0].weight)
    with torch.no_grad():
        made[0].weight[0, 0] = fresh[0].weight[0, 0] = -0.0
    before = ptorch.shared_state(made).digest()
    ptorch.materialize(other)
    assert ptorch.shared_state(made).digest() == before
    assert torch.equal(made[0].weight.grad, torch.ones(5, 4)) and made[0].bias.grad is None
    assert kind == "sgd" or all(other.state[p] for p in made.parameters())
    assert hyperparameters(other) == hyperparameters(one)
    train(fresh, one, 5)
    train(made, other, 5)
    assert ptorch.shared_state(fresh, one).digest() == ptorch.shared_state(made, other).digest()


def test_materialize_leaves_alone_what_there_is():
    module = model(0)
    optimizer = torch.optim.Adam(module.parameters())
    train(module, optimizer, 3)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
    before = ptorch.TrainingState(module, None, {}, lambda name: False).digest()
    moments = copy.deepcopy(optimizer.state[module[0].weight])
    ptorch.materialize(optimizer)
    assert ptorch.shared_state(module).digest() == before
    assert all(torch.equal(moments[key], value) for key, value in optimizer.state[module[0].weight].items())
    assert float(optimizer.state[optimizer.param_groups[1]["params"][0]]["step"]) == 0
    assert float(optimizer.state[module[0].weight]["step"]) == 3


def test_names():
    module = model(0)
    names = [info.name for info in ptorch.shared_state(module, torch.optim.Adam(module.parameters())).tensor_infos]
    assert names[:4] == ["module.0.weight", "module.0.bias", "module.1.weight", "module.1.bias"]
    assert names[6:9] == ["module.1.running_mean", "module.1.running_var", "module.1.num_batches_tracked"]
    assert names[9:12] == [f"optimizer.0.weight.{key}" for key in ("exp_avg", "exp_avg_sq", "step")]
    assert names[-1].startswith("optimizer.numbers#") and len(names) == 9 + 6 * 3 + 1


def test_wrapped_modules_have_the_names_of_plain_ones():
    module = model(0)
    plain = [info.name for info in ptorch.shared_state(module).tensor_infos]
    wrapped = torch.nn.DataParallel(torch.compile(module, backend="eager"))
    assert [info.name for info in ptorch.shared_state(wrapped).tensor_infos] == plain


def test_newcomer_gets_everything_and_then_nothing_moves(group):
    """Parameters, buffers, moments, learning rates and the scheduler: and afterwards both compute the same."""

    def steps(comm, i):
        module = model(i)
        optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
        if i == 0:
            train(module, optimizer, 7, scheduler=scheduler)
        extra = {"scheduler": scheduler, "tokens": torch.tensor(1000 * (1 - i))}
        state = ptorch.shared_state(module, optimizer, extra)
        state.revision = 5 if i == 0 else 0
        first = comm.sync_shared_state(state)
        assert (first.rx_bytes > 0) == (i == 1)
        assert int(extra["tokens"]) == 1000
        for _ in range(3):
            train(module, optimizer, 1, seed=3, scheduler=scheduler)
            state.push_revision()
            again = comm.sync_shared_state(state)
            assert (again.tx_bytes, again.rx_bytes) == (0, 0)
        return state.digest(), optimizer.param_groups[0]["lr"], scheduler.last_epoch, state.revision

    one, other = group(2).all(steps)
    assert one == other and one[2:] == (10, 8) and one[1] < 0.01


def test_numbers_in_optimizer_state_and_groups(group):
    class Counting(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.5, "betas": (0.9, 0.99), "fused": None, "maximize": False})

        @torch.no_grad()
        def step(self):
            for one in self.param_groups:
                for p in one["params"]:
                    if p.grad is not None:
                        state = self.state[p]
                        state["step"] = state.get("step", 0) + 1
                        state["scale"] = 0.25
                        state["warm"] = True
                        state["nothing"] = None

    def sync(comm, i):
        module = torch.nn.Linear(2, 2)
        optimizer = Counting(module.parameters())
        state = ptorch.shared_state(module, optimizer)
        assert optimizer.state[module.bias]["step"] == 0
        if i == 0:
            optimizer.param_groups[0].update(lr=0.125, betas=(0.5, 0.75), maximize=True)
            optimizer.state[module.bias].update(step=41, scale=float("inf"), warm=False)
            state.revision = 3
        comm.sync_shared_state(state)
        own = optimizer.state[module.bias]
        assert type(own["step"]) is int and type(own["warm"]) is bool and own["nothing"] is None
        assert optimizer.param_groups[0]["maximize"] is (i == 0)  # flags are local to each peer
        group_now = optimizer.param_groups[0]
        return group_now["lr"], group_now["betas"], own["step"], own["scale"], own["warm"]

    assert group(2).all(sync) == [(0.125, (0.5, 0.75), 41, float("inf"), False)] * 2


def test_tensors_may_be_replaced(group):
    """load_state_dict() of an optimizer makes new tensors, and modules assign to their buffers."""

    def sync(comm, i):
        module = model(i)
        optimizer = torch.optim.Adam(module.parameters())
        state = ptorch.shared_state(module, optimizer)
        if i == 0:
            train(module, optimizer, 2)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        module[1].running_mean = torch.full((5,), float(i))
        state.revision = 2 - i
        comm.sync_shared_state(state)
        return state.digest(), float(module[1].running_mean[0]), float(optimizer.state[module[0].weight]["step"])

    one, other = group(2).all(sync)
    assert one == other and one[1:] == (0.0, 2.0)


def test_kinds_of_tensors(group):
    """channels_last, bool, complex and bfloat16 tensors; content that differs on each peer."""

    class Odd(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            torch.manual_seed(value)
            self.conv = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
            self.register_buffer("mask", torch.full((3,), bool(value)))
            self.register_buffer("phase", torch.full((), value + 1j))
            self.register_buffer("short", torch.full((3,), value, dtype=torch.bfloat16))
            self.register_buffer("seen", torch.full((3,), value))
            self.register_buffer("cache", torch.zeros(value), persistent=False)

    def sync(comm, i):
        module = Odd(i + 1)
        state = ptorch.shared_state(module, own=lambda name: name.endswith("seen"))
        assert "module.conv.weight@order:0,2,3,1" in [info.name for info in state.tensor_infos]
        state.revision = 1
        comm.sync_shared_state(state)  # the first: newcomers receive content that is not compared
        module.seen.fill_(i)
        state.push_revision()
        info = comm.sync_shared_state(state)
        assert (info.tx_bytes, info.rx_bytes) == (0, 0) and int(module.seen[0]) == i
        module.seen.fill_(0)
        return state.digest()

    one, other = group(2).all(sync)
    assert one == other


def test_another_order_in_memory_is_told_apart(group):
    def sync(comm, i):
        module = torch.nn.Conv2d(3, 4, 3)
        for parameter in module.parameters():
            torch.nn.init.constant_(parameter, 1.0)
        if i == 2:
            module = module.to(memory_format=torch.channels_last)
        try:
            comm.sync_shared_state(ptorch.shared_state(module))
        except pccl.ExpelledError as error:
            return "number 0 (counted from 0)" in error.words
        return None

    assert group(3).all(sync) == [None, None, True]


def test_refused():
    module = model(0)
    state = ptorch.shared_state(module)
    module[1].register_buffer("more", torch.zeros(1))
    with pytest.raises(pccl.InvalidArgument, match="differ from the original ones.*module.1.more"):
        state._prepare()
    with pytest.raises(pccl.LayoutError, match="not contiguous"):
        ptorch.shared_state(torch.nn.Identity(), extra={"x": torch.zeros(4, 4)[:, ::2]})
    optimizer = torch.optim.SGD(module.parameters(), lr=1)
    optimizer.state[module[0].weight]["history"] = []
    with pytest.raises(pccl.InvalidArgument, match="0.weight.history is a list"):
        ptorch.shared_state(module, optimizer)
    with pytest.raises(pccl.InvalidArgument, match="2\\*\\*53"):
        ptorch.shared_state(module, extra={"count": Box({"n": 2**60})})
    with pytest.raises(pccl.LayoutError, match="no tensors"):
        ptorch.shared_state(torch.nn.Identity())


def test_numbers_of_numpy(group):
    """They are shared as others are, and keep their type."""
    np = pytest.importorskip("numpy")

    def sync(comm, i):
        module = torch.nn.Linear(2, 2)
        lr, momentum = np.float32(0.5 / (i + 1)), np.float64(0.25 * (i + 1))
        optimizer = torch.optim.SGD(module.parameters(), lr=lr, momentum=momentum)
        box = Box({"n": np.int64(7 * (1 - i)), "on": np.bool_(i == 0)})
        state = ptorch.shared_state(module, optimizer, {"box": box})
        state.revision = 2 * (1 - i)
        comm.sync_shared_state(state)
        return (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"], *box.content.values())

    for values in group(2).all(sync):
        assert values == (0.5, 0.25, 7, True)
        assert [type(value) for value in values] == [np.float32, np.float64, np.int64, np.bool_]


def test_numbers_that_cannot_be_shared():
    for number in (fractions.Fraction(1, 3), decimal.Decimal("0.1"), 1j):
        with pytest.raises(pccl.InvalidArgument, match="box.n is a"):
            ptorch.shared_state(torch.nn.Identity(), extra={"box": Box({"n": number})})


class Box:
    def __init__(self, content):
        self.content = content

    def state_dict(self):
        return self.content

    def load_state_dict(self, content):
        self.content = content


def test_trees_of_extra_state(group):
    def sync(comm, i):
        box = Box({"a": [1 + i, (0.5 * i, "text"), {"deep": i == 0}], "t": torch.full((2,), i), "n": None})
        state = ptorch.shared_state(torch.nn.Identity(), extra={"box": box})
        state.revision = 4 * (1 - i)
        comm.sync_shared_state(state)
        return box.content["a"], box.content["t"].tolist()

    assert group(2).all(sync) == [([1, (0.0, "text"), {"deep": True}], [0, 0])] * 2
