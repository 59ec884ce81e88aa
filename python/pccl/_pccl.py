"""Provides the names of PCCL 1.0's module pccl._pccl."""

from ._codec import QuantizationOptions
from ._communicator import Communicator
from ._enums import (
    Attribute, DataType, DeviceType, DistributionHint, QuantizationAlgorithm,
    ReduceOp, SharedStateSyncStrategy,
)
from ._errors import PCCLError
from ._handles import AsyncReduceHandle
from ._master import MasterNode
from ._reduce import ReduceDescriptor, ReduceInfo, ReduceOpDescriptor, ReduceOperandDescriptor
from ._results import Result
from ._state import SharedState, SharedStateSyncInfo, TensorInfo

__all__ = [
    "AsyncReduceHandle",
    "Attribute",
    "Communicator",
    "DataType",
    "DeviceType",
    "DistributionHint",
    "MasterNode",
    "PCCLError",
    "QuantizationAlgorithm",
    "QuantizationOptions",
    "ReduceDescriptor",
    "ReduceInfo",
    "ReduceOp",
    "ReduceOpDescriptor",
    "ReduceOperandDescriptor",
    "Result",
    "SharedState",
    "SharedStateSyncInfo",
    "SharedStateSyncStrategy",
    "TensorInfo",
]
