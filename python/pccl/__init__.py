"""PCCL: collective communication over TCP between peers that may come, go and die at any time.

A master (MasterNode, `pccl_master`) decides who takes part. Each peer makes a Communicator,
connects, and reduces with the others; shared state makes all of them hold the same bits. An
operation that fails does so for all peers alike, and can be retried.
"""

from __future__ import annotations

import atexit
import threading
import time

from . import _core, _logging, _master, _native, _threads, cuda, progress
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
    Gather,
    GatherV,
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
    "DataType",
    "DeviceType",
    "DistributionHint",
    "ExpelledError",
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

from . import _pccl  # noqa: E402,F401 - it has names of these

_CLOSE_S = 5.0  # leaving a run does not depend on others


def _close_communicators() -> None:
    """Lets the janitor do it, which exists if a communicator does: no new thread can be started
    now."""
    cores = [core for core in list(_core.open_cores) if core.is_of_this_process]
    if not cores:
        return
    done = threading.Event()
    for core in cores:
        _threads.janitor.put(core.close)
    _threads.janitor.put(done.set)
    end = time.monotonic() + _CLOSE_S
    while not done.wait(_threads.SLICE_S) and time.monotonic() < end:
        pass


def _at_exit() -> None:
    try:
        _close_communicators()
        for call in _threads.at_exit:
            call()
        _master.at_exit()
    except KeyboardInterrupt:
        pass
    finally:
        _logging.stop()


PCCLError.check(_native.lib.pcclInit(), "pcclInit")
_logging.start()
atexit.register(_at_exit)
