"""torch's tensors wherever memory is given. In one file, as each process that imports torch needs seconds for it."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import DEADLINE
from test_buffers import Alone
from test_lifetime import LARGE, an_array, describe_sum, until
from test_methods import COMMON, METHODS, SIZE, bits, end, length, params, start, steps

import pccl
from pccl import DataType, ReduceOp

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

import pccl.torch as ptorch  # noqa: E402


@pytest.fixture
def alone(group):
    return Alone(group(1).members[0])


def unusable():
    class Local(torch.Tensor):
        """Imitates a DTensor."""

        def to_local(self):
            return self

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), given=None):
            return function(*[one.inner if isinstance(one, cls) else one for one in arguments], **(given or {}))

    emptied = torch.zeros(4)
    emptied.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.zeros(4)
    return {
        "negated": torch._neg_view(torch.ones(4)),
        "dense": torch.zeros(4).to_sparse(),
        "to_local": torch.zeros(4).as_subclass(Local),
        "meta": torch.zeros(4, device="meta"),
        "not contiguous": torch.zeros(4, 4).t(),
        "tensor without memory": [Wrapper(torch.zeros(4)), fake, emptied, torch._efficientzerotensor(4)],
    }


@pytest.mark.parametrize("words", ["negated", "dense", "to_local", "meta", "not contiguous", "tensor without memory"])
def test_tensors_that_will_not_do(alone, words):
    found = unusable()[words]
    for tensor in found if isinstance(found, list) else [found]:
        alone.refused(pccl.LayoutError, words, tensor)


def test_torch_and_others_do_not_mix(alone):
    for send, recv in ((torch.zeros(4), np.zeros(4, np.float32)), (np.zeros(4, np.float32), torch.zeros(4))):
        alone.refused(pccl.DTypeError, "one of send and recv is a torch tensor", send, recv)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits(group, name):
    dtype = getattr(torch, name, None) or pytest.skip(f"this torch has no {name}")
    assert DataType.from_torch_dtype(dtype).to_torch_dtype() == dtype and DataType.from_torch_dtype(dtype).itemsize == 1

    def reduce(comm, i):
        mine = torch.tensor([1.5, 2.0 + i]).to(dtype)
        comm.all_reduce(mine, op="avg")
        return mine.float().tolist()

    assert group(2).all(reduce) == [[1.5, 2.5]] * 2


def test_collectives(group):
    two = group(2)

    def run(comm, i):
        told = torch.full((3, 5), i + 1, dtype=torch.bfloat16)
        comm.broadcast(told, root=1)
        assert (told == 2).all()
        all_of_them = torch.zeros((2, 4))
        comm.all_gather(torch.full((4,), float(i)), all_of_them)
        assert all_of_them[:, 0].tolist() == [0.0, 1.0]
        share = torch.zeros(4)
        comm.reduce_scatter(all_of_them, share, op="sum")
        assert (share == 2.0 * i).all()

    two.all(run)


def test_sends(group):
    two = group(2)

    def work(comm, i):
        tensor = torch.full((5,), float(i), dtype=torch.bfloat16)
        (comm.recv if i else comm.send)(tensor, 1 - i)
        return tensor.tolist()

    assert two.all(work) == [[0.0] * 5] * 2


def test_blobs(group):
    two = group(2)
    got = two.all(lambda comm, i: comm.all_gather_v(torch.full((7,), i + 1.0)))
    assert [torch.frombuffer(data, dtype=torch.float32).tolist() for _, data in got[1]] == [[1.0] * 7, [2.0] * 7]


MOVES = {
    "data": lambda tensor: setattr(tensor, "data", torch.full((LARGE,), 7.0)),
    "set": lambda tensor: tensor.set_(torch.full((LARGE,), 7.0)),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_tensor_is_given_other_memory_meanwhile(group, move):
    two = group(2)
    memory, alive = an_array(1)
    tensor = torch.from_numpy(memory)
    handle = two.members[0].all_reduce_async(tensor, tensor, op=ReduceOp.SUM)
    del memory
    MOVES[move](tensor)
    gc.collect()
    assert alive() is not None
    other = torch.ones(LARGE)
    two.members[1].all_reduce(other, other, op=ReduceOp.SUM)
    assert handle.wait()[0] and alive() is None
    assert float(tensor[0]) == 7


def test_a_descriptor_of_a_tensor_that_was_given_other_memory(group):
    tensors = [torch.ones(LARGE), torch.ones(LARGE)]
    made = [describe_sum(tensor) for tensor in tensors]
    tensors[0].data = torch.full((LARGE,), 5.0)
    group(2).all(lambda comm, i: comm.all_reduce_multiple_with_retry([made[i]]))
    assert [float(tensor[0]) for tensor in tensors] == [6.0, 6.0]
    tensors[0].data = torch.ones(3)
    with pytest.raises(pccl.LayoutError):
        made[0].to_c()


def test_a_state_that_is_synchronized_is_given_again(group):
    """The second call is refused, and takes nothing from the first one."""
    two = group(2, options={"where_ms": 20})
    modules = [torch.nn.Linear(30, 30) for _ in range(2)]
    optimizers = [torch.optim.Adam(module.parameters(), lr=0.5 - 0.25 * i) for i, module in enumerate(modules)]
    memory, alive = an_array(1)
    modules[0].bias.data = torch.from_numpy(memory)[:30]
    del memory
    states = [ptorch.shared_state(*pair) for pair in zip(modules, optimizers)]
    states[1].revision = 5
    first = two.members[0]
    call = ThreadPoolExecutor(1).submit(first.sync_shared_state, states[0])  # the group's end ends it
    until(first.describe_waits)
    numbers = weakref.ref(states[0].tensor_infos[-1]._tensor)
    modules[0].bias.data = modules[0].bias.data.clone()
    with pytest.raises(pccl.InvalidUsage, match="another thread's pcclSynchronizeSharedState"):
        first.sync_shared_state(states[0])
    gc.collect()
    assert numbers() is not None and alive() is not None
    two.members[1].sync_shared_state(states[1])
    call.result(DEADLINE)
    assert optimizers[0].param_groups[0]["lr"] == 0.25 and states[0].revision == 5
    assert torch.equal(modules[0].weight, modules[1].weight)


@pytest.mark.parametrize("name", METHODS)
def test_methods_do_the_same_as_with_arrays_of_numpy(address, name):
    values = [params(0) for _ in range(2)]
    tensors = [{key: torch.from_numpy(part) for key, part in one.items()} for one in values]  # the same memory
    made = start(address, 2, lambda i, comm: METHODS[name](comm, tensors[i] if i else values[0], min_peers=2))
    if name == "one-byte":
        made[1].loss = lambda probe: length(values[1]) / SIZE
    steps(name, made, values, 4)
    assert name not in COMMON or bits(values[0]) == bits(values[1])
    end(made)
