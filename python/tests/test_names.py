"""The interface of PCCL 1.0's Python package for existing programs: each name, and each way of passing its arguments.
"""

import inspect
import typing

import pccl
import pytest
from pccl import _pccl

# A parameter before the stroke is given by position only; the others by name, too.


class Communicator:
    def __init__(self, address, peer_group=0, p2p_connection_pool_size=0): ...
    def get_attribute(self, attribute, /): ...
    def connect(self, n_attempts=5): ...
    def update_topology(self): ...
    def are_peers_pending(self): ...
    def optimize_topology(self): ...
    def sync_shared_state(self, shared_state, /, strategy=None): ...
    def all_reduce(self, send, recv, *, op, tag=0, operand_descriptor=None, quantization_options=None): ...
    def all_reduce_async(self, send, recv, *, op, tag=0, operand_descriptor=None, quantization_options=None): ...
    def all_reduce_multiple_with_retry(self, descriptors, /, *, max_in_flight=4): ...


class MasterNode:
    def __init__(self, listen_address): ...
    def run(self): ...
    def interrupt(self): ...


class AsyncReduceHandle:
    def wait(self): ...


class ReduceInfo:
    def __init__(self, local_world_size, tx_bytes, rx_bytes): ...


class SharedStateSyncInfo:
    def __init__(self, tx_bytes, rx_bytes): ...


class SharedState:
    def __init__(self, tensor_infos, /): ...
    def push_revision(self): ...


class TensorInfo:
    def __init__(self, name, data_ptr, *, numel, dtype, device_type, allow_content_inequality): ...
    def from_torch(tensor, name, *, allow_content_inequality=False): ...
    def from_numpy(tensor, name, *, allow_content_inequality=False): ...


class ReduceOperandDescriptor:
    def __init__(self, datatype, distribution_hint=None): ...
    def to_c(self): ...


class QuantizationOptions:
    def __init__(self, quantized_datatype=None, algorithm=None): ...
    def to_c(self): ...


class ReduceDescriptor:
    def __init__(self, count, op, tag, operand_descriptor, quantization_options): ...
    def to_c(self): ...


class ReduceOpDescriptor:
    def __init__(self, sendbuf_ptr, recvbuf_ptr, reduce_descriptor): ...
    def from_torch(send, recv, reduce_descriptor, /): ...
    def from_numpy(send, recv, reduce_descriptor, /): ...
    def to_c(self): ...
    def to_c_inpl(self, target, /): ...


class DataType:
    def to_torch_dtype(self): ...
    def from_torch_dtype(dtype, /): ...
    def to_numpy_dtype(self): ...
    def from_numpy_dtype(dtype, /): ...


class DeviceType:
    def from_torch_device_type(device_type, /): ...


class PCCLError:
    def check(result, func_name): ...


ENUMS = {
    "Result": "SUCCESS NOT_INITIALIZED INTERNAL_ERROR INVALID_ARGUMENT INVALID_USAGE TOO_FEW_PEERS "
    "MASTER_CONNECTION_FAILED RANK_CONNECTION_FAILED RANK_CONNECTION_LOST NO_SHARED_STATE_AVAILABLE PENDING_ASYNC_OPS "
    "UPDATE_TOPOLOGY_FAILED TOPOLOGY_OPTIMIZATION_FAILED",
    "ReduceOp": "SUM AVG PROD MAX MIN",
    "Attribute": "GLOBAL_WORLD_SIZE LOCAL_WORLD_SIZE NUM_DISTINCT_PEER_GROUPS LARGEST_PEER_GROUP_WORLD_SIZE",
    "SharedStateSyncStrategy": "ENFORCE_POPULAR RECEIVE_ONLY SEND_ONLY",
    "DataType": "UINT8 INT8 UINT16 UINT32 INT32 UINT64 INT64 FLOAT16 BFLOAT16 FLOAT DOUBLE",
    "DeviceType": "CPU CUDA",
    "DistributionHint": "NONE NORMAL UNIFORM",
    "QuantizationAlgorithm": "NONE MIN_MAX ZERO_POINT_SCALE",
}
PROMISED = [Communicator, MasterNode, AsyncReduceHandle, ReduceInfo, SharedStateSyncInfo, SharedState, TensorInfo,
            ReduceOperandDescriptor, QuantizationOptions, ReduceDescriptor, ReduceOpDescriptor, DataType, DeviceType,
            PCCLError]
CALLS = [(kind.__name__, name) for kind in PROMISED for name, value in vars(kind).items() if inspect.isfunction(value)]


def parameters(function):
    found = inspect.signature(function).parameters.values()
    return [parameter for parameter in found if parameter.name != "self"]


@pytest.mark.parametrize("kind, name", CALLS)
def test_signature(kind, name):
    wanted = parameters(globals()[kind].__dict__[name])
    ours = parameters(getattr(getattr(pccl, kind), name))
    named = {parameter.name: parameter for parameter in ours}
    for place, parameter in enumerate(wanted):
        if parameter.kind is parameter.KEYWORD_ONLY:
            found = named[parameter.name]
        else:
            found = ours[place]
            assert found.kind in (found.POSITIONAL_ONLY, found.POSITIONAL_OR_KEYWORD), found
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            assert found.name == parameter.name and found.kind is not found.POSITIONAL_ONLY
        if parameter.default is not parameter.empty:
            assert found.default is not found.empty, found
        named.pop(found.name)
    assert all(parameter.default is not parameter.empty for parameter in named.values()), named


@pytest.mark.parametrize("kind", ENUMS)
def test_enum(kind):
    members = getattr(pccl, kind).__members__
    assert [name for name in ENUMS[kind].split() if name not in members] == []


def test_dir_shows_the_interface():
    shown = {name for name in dir(pccl) if name[:2] != "__"}
    assert shown - {"ConnectionError", "TimeoutError"} == {name for name in pccl.__all__ if name[:2] != "__"}
    assert pccl.TimeoutError is pccl.TimeoutError_ and pccl.ConnectionError is pccl.ConnectionError_
    for name in ("annotations", "atexit", "threading", "time"):
        assert not hasattr(pccl, name)
    scope = {}
    exec("from pccl import *", scope)
    assert "TimeoutError" not in scope and scope["loop"] is pccl.loop


def test_module():
    names = {kind.__name__ for kind in PROMISED} | set(ENUMS)
    assert set(_pccl.__all__) == names and pccl._pccl is _pccl
    assert all(getattr(_pccl, name) is getattr(pccl, name) for name in names)


def test_error():
    for error in (
        pccl.PCCLError(pccl.Result.TOO_FEW_PEERS, "pcclAllReduceAsync"),
        pccl.PCCLError(result=pccl.Result.TOO_FEW_PEERS, func_name="pcclAllReduceAsync"),
        pccl.PCCLError(5, func_name="pcclAllReduceAsync"),
    ):
        assert str(error) == "pcclAllReduceAsync failed with error: TOO_FEW_PEERS"
        assert error.result is error.ext is pccl.Result.TOO_FEW_PEERS and error.operation == "pcclAllReduceAsync"
    with pytest.raises(pccl.TooFewPeersError, match="pcclConnect failed with error: TOO_FEW_PEERS"):
        pccl.PCCLError.check(result=5, func_name="pcclConnect")


def test_attributes():
    assert pccl.ReduceInfo(3, 0, 0).world_size == 3
    operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
    made = pccl.ReduceOpDescriptor(
        sendbuf_ptr=8, recvbuf_ptr=16, reduce_descriptor=pccl.ReduceDescriptor(2, pccl.ReduceOp.SUM, 7, operand)
    )
    assert (made.sendbuf_ptr, made.recvbuf_ptr) == (8, 16)
    structure = made.to_c()
    structure.sendbuf = structure.descriptor.tag = 0
    made.to_c_inpl(structure)
    assert (structure.sendbuf, structure.recvbuf, structure.descriptor.tag) == (8, 16, 7)
    for name in ("cpu", "cuda"):
        assert pccl.DeviceType.from_torch_device_type(name).name == name.upper()
    with pytest.raises(ValueError, match="unsupported device type 'mps'"):
        pccl.DeviceType.from_torch_device_type("mps")


OPERATIONS = {
    "all_reduce": pccl.AllReduce,
    "coalesced": pccl.Coalesced,
    "broadcast": pccl.Broadcast,
    "reduce_scatter": pccl.ReduceScatter,
    "exclusive_scan": pccl.ExclusiveScan,
    "inclusive_scan": pccl.InclusiveScan,
    "scatter": pccl.Scatter,
    "gather_v": pccl.GatherV,
    "scatter_v": pccl.ScatterV,
    "barrier": pccl.Barrier,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_methods_take_what_their_class_takes(name):
    kind = OPERATIONS[name]
    wanted = dict(inspect.signature(kind).parameters)
    for method in (getattr(pccl.Communicator, name), getattr(pccl.Communicator, f"{name}_async")):
        given = dict(inspect.signature(method).parameters)
        assert list(given)[0] == "self" and given.pop("self") and method.__doc__
        assert (given.pop("on_arrival", None) is not None) == name.endswith("_v")
        assert given == wanted and list(given) == list(wanted)
        assert typing.get_type_hints(method)["label"] is str
        with pytest.raises(TypeError, match=rf"{method.__name__}\(\) got an unexpected keyword argument 'wrong'"):
            method(None, wrong=1)
    assert vars(kind(**{one: 1 for one in wanted})).items() >= {one: 1 for one in wanted}.items()
