"""PCCL: collective communication over TCP between peers that may join, leave and fail at any time.

A master (MasterNode, `pccl_master`) decides which peers are members. Each peer creates a Communicator, connects to
the master, and reduces with the other peers. Synchronizing shared state makes it bitwise identical on all peers. If
an operation fails, it fails on all peers, and they can retry it.
"""

from typing import List as _List

from . import _end, _native, cuda, progress
from ._codec import CodecError, QuantizationOptions, measure_codec
from ._communicator import Communicator, Group
from ._enums import (
    Attribute,
    CodecRounding,
    CodecScale,
    DataType,
    DeviceType,
    DistributionHint,
    QuantizationAlgorithm,
    ReduceOp,
    SharedStateSyncStrategy,
)
from ._errors import (
    AbortedError,
    ConnectionError_,
    DTypeError,
    DrainedError,
    ExpelledError,
    InternalError,
    InvalidArgument,
    InvalidUsage,
    LayoutError,
    MasterLostError,
    MembersChangedError,
    NotConnected,
    NotInitialized,
    OutOfMemory,
    PCCLError,
    PeerLostError,
    PendingAsyncOpsError,
    RefusedError,
    StateMismatch,
    TimeoutError_,
    TooFewPeersError,
    TopologyError,
    Unsupported,
    VersionMismatchError,
)
from ._handles import AsyncBlobHandle, AsyncBlobsHandle, AsyncReduceHandle
from ._logging import set_log_level
from ._loop import Loop, Step, loop
from ._master import MasterNode
from ._operations import (
    AllGather,
    AllGatherV,
    AllReduce,
    AllToAll,
    AllToAllV,
    Barrier,
    Broadcast,
    Coalesced,
    ExclusiveScan,
    Gather,
    GatherV,
    InclusiveScan,
    Reduce,
    ReduceScatter,
    Scatter,
    ScatterV,
)
from ._parameters import Parameter, parameters
from ._reduce import OperationInfo, ReduceDescriptor, ReduceInfo, ReduceOpDescriptor, ReduceOperandDescriptor
from ._results import Result
from ._state import SharedState, SharedStateSyncInfo, TensorInfo

__version__: str = _native.version()

# Aliases without the trailing underscore. They are not in __all__, because `import *` would then hide the built-ins.
ConnectionError = ConnectionError_
TimeoutError = TimeoutError_

__all__ = [
    "AbortedError",
    "AllGather",
    "AllGatherV",
    "AllReduce",
    "AllToAll",
    "AllToAllV",
    "AsyncBlobHandle",
    "AsyncBlobsHandle",
    "AsyncReduceHandle",
    "Attribute",
    "Barrier",
    "Broadcast",
    "Coalesced",
    "CodecError",
    "CodecRounding",
    "CodecScale",
    "Communicator",
    "Gather",
    "GatherV",
    "Group",
    "ConnectionError_",
    "DTypeError",
    "DrainedError",
    "DataType",
    "DeviceType",
    "DistributionHint",
    "ExclusiveScan",
    "ExpelledError",
    "InclusiveScan",
    "InternalError",
    "InvalidArgument",
    "InvalidUsage",
    "LayoutError",
    "Loop",
    "MasterLostError",
    "MasterNode",
    "MembersChangedError",
    "NotConnected",
    "NotInitialized",
    "OperationInfo",
    "OutOfMemory",
    "PCCLError",
    "Parameter",
    "PeerLostError",
    "PendingAsyncOpsError",
    "QuantizationAlgorithm",
    "QuantizationOptions",
    "Reduce",
    "ReduceDescriptor",
    "ReduceInfo",
    "ReduceOp",
    "ReduceOpDescriptor",
    "ReduceOperandDescriptor",
    "ReduceScatter",
    "RefusedError",
    "Result",
    "Scatter",
    "ScatterV",
    "SharedState",
    "SharedStateSyncInfo",
    "SharedStateSyncStrategy",
    "StateMismatch",
    "Step",
    "TensorInfo",
    "TimeoutError_",
    "TooFewPeersError",
    "TopologyError",
    "Unsupported",
    "VersionMismatchError",
    "__version__",
    "cuda",
    "loop",
    "measure_codec",
    "parameters",
    "progress",
    "set_log_level",
]

from . import _pccl  # noqa: E402,F401 - it re-exports names of this module


def __dir__() -> _List[str]:
    return sorted([*__all__, "ConnectionError", "TimeoutError", *(name for name in globals() if name[:2] == "__")])


_end.begin()
