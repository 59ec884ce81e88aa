"""Shared state among peers in threads of one process."""

import pytest

import pccl
from pccl import SharedState, SharedStateSyncStrategy, TensorInfo

np = pytest.importorskip("numpy")

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


def test_newcomer_receives_and_then_nothing_moves(group):
    def steps(comm, i):
        tensors = {name: np.full((3, 1000), 5 if i == 0 else 0, name) for name in DTYPES}
        if i == 1:
            del tensors["int16"]
            tensors = {name: np.zeros((3, 1000), name) for name in DTYPES}
        state = SharedState([TensorInfo.from_numpy(tensor, name) for name, tensor in tensors.items()])
        state.revision = 7 if i == 0 else 0
        size = sum(tensor.nbytes for tensor in tensors.values())
        info = comm.sync_shared_state(state)
        assert (info.tx_bytes, info.rx_bytes) == ((size, 0) if i == 0 else (0, size))
        for _ in range(3):
            for tensor in tensors.values():
                tensor += 1
            state.push_revision()
            info = comm.sync_shared_state(state)
            assert (info.tx_bytes, info.rx_bytes) == (0, 0)
        return state.revision, [float(tensor[2, 999]) for tensor in tensors.values()]

    assert group(2).all(steps) == [(10, [8.0] * len(DTYPES))] * 2


def test_majority(group):
    def sync(comm, i):
        tensor = np.full(10, 1.0 if i == 0 else 2.0)
        comm.sync_shared_state(SharedState([TensorInfo.from_numpy(tensor, "x")]))
        return tensor[0]

    assert group(3).all(sync) == [2.0] * 3


def test_strategies(group):
    def sync(comm, i):
        tensor = np.full(10, float(i))
        strategy = SharedStateSyncStrategy.SEND_ONLY if i == 1 else SharedStateSyncStrategy.RECEIVE_ONLY
        comm.sync_shared_state(SharedState([TensorInfo.from_numpy(tensor, "x")]), strategy=strategy)
        return tensor[0]

    assert group(2).all(sync) == [1.0, 1.0]


def test_other_names_are_put_out(group):
    """Scenario 38: a peer with other tensors is removed from the run; the others continue."""
    three = group(3)

    def sync(comm, i):
        state = SharedState([TensorInfo.from_numpy(np.ones(3), "x" if i < 2 else "y")])
        try:
            comm.sync_shared_state(state)
        except pccl.PCCLError as error:
            return error
        return state.revision

    *stay, error = three.all(sync)
    assert stay == [0, 0] and error.result is pccl.Result.INVALID_USAGE and error.ext is pccl.Result.EXPELLED
    assert isinstance(error, pccl.ExpelledError) and isinstance(error, ConnectionError) and "y" in error.words
    assert "number 0 (counted from 0)" in error.words
    assert "it has 'y', f64 of 3 where others have 'x', f64 of 3" in error.words


def test_keeps_the_tensors(group):
    def sync(comm, i):
        state = SharedState([TensorInfo.from_numpy(np.full(100000, 3.0), "x")])  # without another reference
        return comm.sync_shared_state(state).rx_bytes

    assert group(2).all(sync) == [0, 0]


def test_refused():
    tensor = np.zeros((4, 4))
    with pytest.raises(AssertionError):
        SharedState([])
    with pytest.raises(ValueError, match="have the same name 'x'"):
        SharedState([TensorInfo.from_numpy(tensor, "x"), TensorInfo.from_numpy(tensor, "x")])
    with pytest.raises(ValueError, match="null"):
        TensorInfo("x", 0, numel=3, dtype=pccl.DataType.FLOAT)
    with pytest.raises(ValueError, match="name"):
        TensorInfo.from_numpy(tensor, "")
    with pytest.raises(ValueError, match="null character"):
        TensorInfo.from_numpy(tensor, "a\0b")
    with pytest.raises(AssertionError, match="TensorInfo: x: .*not contiguous"):
        TensorInfo.from_numpy(tensor[:, :2], "x")
    with pytest.raises(TypeError, match="TensorInfo: x"):
        TensorInfo.from_numpy(np.zeros(3, complex), "x")
    tensor.flags.writeable = False
    with pytest.raises(AssertionError, match="read-only"):
        TensorInfo.from_numpy(tensor, "x")
    state = SharedState([TensorInfo.from_numpy(np.zeros(3), "x")])
    with pytest.raises(ValueError):
        state.revision = -1
    assert state.revision == 0 and [info.name for info in state.tensor_infos] == ["x"]
    given = TensorInfo("x", 4096, numel=3, dtype=pccl.DataType.FLOAT, device_type=pccl.DeviceType.CPU,
                       allow_content_inequality=True)
    assert (given.data_ptr, given.numel, given.allow_content_inequality) == (4096, 3, True)


@pytest.mark.parametrize("wrong", [
    {"data_ptr": -1}, {"data_ptr": 1 << 70}, {"data_ptr": None}, {"data_ptr": 1.5}, {"name": b"x"}, {"name": None},
    {"numel": (1 << 64) + 3}, {"numel": -1}, {"numel": 3.0}, {"dtype": 99}, {"dtype": None},
])
def test_infos_of_wrong_numbers(wrong):
    """C would use a truncated value."""
    given = {"name": "x", "data_ptr": 4096, "numel": 3, "dtype": pccl.DataType.FLOAT, **wrong}
    with pytest.raises(pccl.InvalidArgument):
        TensorInfo(given.pop("name"), given.pop("data_ptr"), **given)


def test_states_of_other_things():
    for thing in (np.zeros(3), None, "x"):
        with pytest.raises(pccl.InvalidArgument, match="TensorInfo"):
            SharedState([thing])
