"""mlx arrays: as buffers of every operation, the averages of trees, and shared state."""

import pytest
import support

support.need("mlx")

import mlx.core as mx  # noqa: E402
import mlx.nn as nn  # noqa: E402
import mlx.optimizers as optim  # noqa: E402
from mlx.utils import tree_flatten  # noqa: E402

import pccl  # noqa: E402
import pccl.mlx  # noqa: E402
from pccl import DataType, _buffers  # noqa: E402

DTYPES = {
    "bool_": DataType.BOOL, "uint8": DataType.UINT8, "uint16": DataType.UINT16, "uint32": DataType.UINT32,
    "uint64": DataType.UINT64, "int8": DataType.INT8, "int16": DataType.INT16, "int32": DataType.INT32,
    "int64": DataType.INT64, "float16": DataType.FLOAT16, "bfloat16": DataType.BFLOAT16,
    "float32": DataType.FLOAT32, "float64": DataType.FLOAT64,
}  # fmt: skip


def place(array):
    return _buffers.of(array, "array").address


@pytest.fixture(autouse=True)
def cpu():
    """Selects the device that has float64."""
    mx.set_default_device(mx.cpu)


@pytest.mark.parametrize("name", DTYPES)
def test_types(name):
    array = mx.zeros((2, 3), dtype=getattr(mx, name))
    buffer = _buffers.of(array, "array")
    assert (buffer.dtype, buffer.count, buffer.device) == (DTYPES[name], 6, pccl.DeviceType.CPU)
    assert buffer.dtype.itemsize == array.dtype.size


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int32"])
def test_reduces_in_place_without_a_copy(group, name):
    def reduce(comm, i):
        array = mx.array([1, 2, 3], dtype=getattr(mx, name)) * (i + 1)
        before = place(array)
        comm.all_reduce(array, op="sum")
        assert place(array) == before
        return array.tolist()

    assert group(2).all(reduce) == [[3, 6, 9]] * 2


def test_every_operation(group):
    two = group(2)

    def operate(comm, i):
        mine = mx.arange(2, dtype=mx.float32) + 10 * i  # not evaluated
        reduced = mx.zeros_like(mine)
        comm.all_reduce(mine, reduced, op="avg")
        root = mx.array(mine)
        comm.broadcast(root, root=1)
        whole, part = mx.zeros((2, 2)), mx.zeros((1,))
        comm.all_gather(mine, whole)
        comm.reduce_scatter(mine, part, op="sum")
        swapped = mx.zeros_like(mine)
        comm.all_to_all(mine, swapped)
        sent = mx.zeros_like(mine)
        if comm.rank == 0:
            comm.send(mine, 1)
        else:
            comm.recv(sent, 0)
        ranks = [peer for peer, _ in comm.all_gather_v(mine)]
        assert mine.tolist() == [10 * i, 10 * i + 1] and len(ranks) == 2
        return comm.rank, [one.tolist() for one in (whole, reduced, root, part, swapped, sent)]

    ranked = [results for _, results in sorted(two.all(operate))]
    low, high = ranked[0][0]
    assert sorted([low, high]) == [[0, 1], [10, 11]]
    for rank, (whole, reduced, root, part, swapped, sent) in enumerate(ranked):
        assert (whole, reduced, root) == ([low, high], [5, 6], high)
        assert (part, swapped) == ([10 + 2 * rank], [low[rank], high[rank]])
        assert sent == (low if rank else [0, 0])


def test_array_that_moves_during_an_operation(group):
    def reduce(comm, i):
        array = mx.ones((1000,))
        started = comm.all_reduce_async(array)
        was = place(array)
        array += 5  # gives the array other memory
        mx.eval(array)
        assert place(array) != was
        started.result()
        return array[0].item()

    assert group(2).all(reduce) == [6, 6]


def test_descriptors_and_infos_follow_an_array_that_moves(group):
    def reduce(comm, i):
        array = mx.ones((4,))
        descriptor = pccl.ReduceDescriptor(4, "sum", 0, pccl.ReduceOperandDescriptor(DataType.FLOAT32))
        listed = pccl.ReduceOpDescriptor.from_buffers(array, array, descriptor)
        state = pccl.SharedState([pccl.TensorInfo.from_buffer(array, "array")])
        array[0] = 5
        comm.sync_shared_state(state)
        comm.all_reduce_multiple_with_retry([listed])
        return array.tolist()

    assert group(2).all(reduce) == [[10, 2, 2, 2]] * 2


def test_an_aborted_operation_leaves_the_array(group):
    two = group(2)
    array = mx.ones((1000,))
    started = two.members[0].all_reduce_async(array)
    two.members[0].abort()
    for call in (started.result, lambda: two.members[1].all_reduce(mx.ones((1000,)))):  # it is aborted for both
        with pytest.raises(pccl.AbortedError):
            call()
    assert array.tolist() == [1] * 1000
    two.all(lambda comm, i: comm.all_reduce(mx.ones((1000,)) if i else array))
    assert array.tolist() == [2] * 1000


def test_unsuitable_arrays(group):
    comm = group(2).members[0]
    for error, words, array in (
        (pccl.DTypeError, r"send: array shape \(2,\) dtype .*complex64: not a data type", mx.zeros((2,), mx.complex64)),
        (pccl.LayoutError, r"not contiguous \(strides \(4, 8\)\)", mx.zeros((2, 2)).T),
        (pccl.LayoutError, r"not contiguous \(strides \(0,\)\)", mx.broadcast_to(mx.array(1.0), (3,))),
        (pccl.InvalidArgument, "no elements", mx.zeros((0,))),
    ):
        with pytest.raises(error, match=words):
            comm.all_reduce(array)


def test_arrays_that_cannot_be_evaluated(address):
    with pccl.Communicator(address) as comm:
        for words, use in (
            ("send: array .*", lambda array: comm.all_reduce(array)),
            ("average_gradients: the arrays", lambda array: pccl.mlx.average_gradients({"a": array}, comm)),
        ):
            with pytest.raises(pccl.LayoutError, match=f"{words} cannot be evaluated here: .*compile"):
                mx.compile(lambda array: (use(array), array)[1])(mx.ones((2,)))



@pytest.mark.parametrize("size", [0, 16, 1 << 20])
def test_averages_of_trees(group, size):
    def average(comm, i):
        transposed = (mx.arange(6, dtype=mx.float32).reshape(2, 3) * (1 + 2 * i)).T
        tree = {"layers": [{"weight": transposed}, {"bias": mx.ones((5,), mx.bfloat16) * i}], "empty": mx.zeros((0, 3))}
        before = transposed.tolist()
        tree["layers"][1]["twice"] = tree["layers"][1]["bias"]  # the same memory
        averages = pccl.mlx.average_gradients(tree, comm, size)
        assert transposed.tolist() == before and averages["empty"].shape == (0, 3)
        assert averages["layers"][1]["bias"].dtype == mx.bfloat16
        parts = averages["layers"]
        return parts[0]["weight"].tolist(), parts[1]["bias"].tolist(), parts[1]["twice"].tolist()

    want = [[0, 6], [2, 8], [4, 10]], [0.5] * 5, [0.5] * 5
    assert group(2).all(average) == [want] * 2


def test_number_of_operations_for_a_tree(group):
    def average(comm, i):
        comm.barrier()
        tree = {str(n): mx.ones((100,)) for n in range(10)}
        before = len(comm.flight_recorder()["operations"])
        pccl.mlx.average_gradients(tree, comm, 2000)
        return len(comm.flight_recorder()["operations"]) - before

    assert group(2).all(average) == [2, 2]


def test_averages_of_one_array_and_alone(address):
    with pccl.Communicator(address) as comm:
        comm.connect(1)
        given = mx.array([1.0, 2.0])
        assert pccl.mlx.average_gradients(given, comm, alone_ok=True).tolist() == [1, 2]
        with pytest.raises(pccl.TooFewPeersError):
            pccl.mlx.average_gradients(given, comm)
        assert pccl.mlx.average_gradients({}, comm) == {}
        with pytest.raises(pccl.DTypeError, match="layers.0: expected an mlx array, not float"):
            pccl.mlx.average_gradients({"layers": [1.0]}, comm)
    with pytest.raises(pccl.InvalidArgument, match="comm: expected a Communicator, not None"):
        pccl.mlx.average_gradients(given, None)


def made(i):
    mx.random.seed(i)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm(3), nn.Linear(3, 1))
    return model, optim.Adam(1e-2)


def test_shared_state(group):
    two = group(2)

    def synchronize(comm, i):
        model, optimizer = made(i)
        extra = {"seen": {"samples": mx.array(7 * i)}}
        state = pccl.mlx.shared_state(model, optimizer, extra)
        names = {info.name for info in state.tensor_infos}
        assert {"module.layers.0.weight", "module.layers.1.running_mean", "seen.samples"} <= names
        assert {"optimizer.step", "optimizer.layers.2.bias.v"} <= names
        if i == 0:
            state.push_revision()
            optimizer.update(model, model.trainable_parameters())  # replaces all arrays
        comm.sync_shared_state(state)
        return state.digest(), optimizer.step.item(), model.layers[0].weight.tolist(), extra["seen"]["samples"].item()

    first, second = two.all(synchronize)
    assert first == second and first[1] == 1 and first[3] == 0


def test_shared_state_separates_memory(group):
    two = group(2)

    def synchronize(comm, i):
        base = mx.ones((4, 4)) * i
        extra = {"a": {"whole": base, "part": base[2:], "turned": base.T, "spread": mx.broadcast_to(mx.array(i), (3,))}}
        state = pccl.mlx.shared_state(nn.Linear(1, 1, bias=False), extra=extra)
        if i == 0:
            extra["a"]["whole"] = extra["a"]["whole"] + 2
            state.push_revision()
        comm.sync_shared_state(state)
        assert base.tolist() == [[i] * 4] * 4 or i == 1
        return {name: array[0].tolist() for name, array in extra["a"].items()}

    assert two.all(synchronize) == [{"whole": [2] * 4, "part": [0] * 4, "turned": [0] * 4, "spread": 0}] * 2


def test_shared_state_that_changes_and_misuse():
    model, optimizer = made(0)
    extra = {"more": {"a": mx.array(1)}}
    state = pccl.mlx.shared_state(model, optimizer, extra)
    extra["more"]["b"] = mx.array(2)
    with pytest.raises(pccl.InvalidArgument, match="its tensors differ from the original ones: more.b"):
        state._prepare()
    for words, given in (
        ("count: expected a module, or a dictionary or list of mlx arrays, not int", (model, None, {"count": 3})),
        ("a: expected a module, .* not tuple", (model, None, {"more": {"a": (mx.array(1),)}})),
        ("model: expected an mlx.nn.Module, not Adam", (optimizer, model)),
        ("optimizer: expected an mlx.optimizers.Optimizer, not str", (model, "adam")),
        ("extra: the name 'optimizer' is reserved", (model, None, {"optimizer": {}})),
    ):
        with pytest.raises(pccl.InvalidArgument, match=f"shared_state: .*{words}"):
            pccl.mlx.shared_state(*given)
    mixed = pccl.mlx.shared_state(model, None, {"mixed": {1: mx.array(1), "b": [mx.array(2)]}})
    assert [info.name for info in mixed.tensor_infos][:2] == ["mixed.1", "mixed.b.0"]
    twice = nn.Sequential(model.layers[0], model.layers[0])
    assert len(pccl.mlx.shared_state(twice).tensor_infos) == 2


LOOP = """
import sys, mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim, pccl, pccl.mlx
address, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
mx.set_default_device(mx.cpu)
mx.random.seed(seed)
model, optimizer = nn.Linear(4, 2), optim.Adam(0.01)
state = pccl.mlx.shared_state(model, optimizer)
gradient = nn.value_and_grad(model, lambda model, x: model(x).square().mean())
for step in pccl.loop(address, state, min_peers=2):
    with step:
        x = mx.random.normal((8, 4), key=mx.random.key(100 * step.index + step.rank))
        loss, gradients = gradient(model, x)
        gradients = pccl.mlx.average_gradients(gradients, step.comm, 16)
        optimizer.update(model, gradients)
    print("step", step.index, state.digest(), flush=True)
    if step.index + 1 == steps:
        break
"""


def test_training_with_a_peer_that_is_killed(script, address):
    peers = [script(LOOP, address, seed, 1000000) for seed in range(2)]
    last = script(LOOP, address, 2, 1000000)
    last.line("step")
    last.kill()
    for peer in peers:
        while int(peer.line("step ").split()[1]) < 40:
            pass
        peer.kill()
    told = [dict(line.split()[1:] for line in peer.lines if line.startswith("step")) for peer in peers]
    common = set(told[0]) & set(told[1])
    assert len(common) > 10 and all(told[0][index] == told[1][index] for index in common)
