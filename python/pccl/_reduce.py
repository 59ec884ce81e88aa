"""Descriptions of reductions, and results of operations."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Optional, Tuple, Union

from . import _buffers, _native, _staged
from ._codec import QuantizationOptions, codec_to_c
from ._enums import DataType, DistributionHint, Op, QuantizationAlgorithm, ReduceOp, data_type, member, number
from ._errors import DTypeError, InvalidArgument, LayoutError


@dataclass(frozen=True)
class ReduceInfo:
    """Result of a reduction: the number of peers that took part, and the payload bytes that this peer sent and
    received."""

    local_world_size: int
    tx_bytes: int
    rx_bytes: int

    @property
    def world_size(self) -> int:
        """Alias of local_world_size."""
        return self.local_world_size


@dataclass(frozen=True)
class OperationInfo(ReduceInfo):
    """Result of an operation; local_world_size is the number of participants.

    tag           tag of the operation
    sequence      number of the operation within its tag, the same on all peers
    rank          rank of this peer among the participants
    participants  ids of the participants, in order of their ranks
    codec         codec of the elements; the selected one if the codec is automatic
    why           reason for the selection of an automatic codec
    """

    tag: int = 0
    sequence: int = 0
    rank: int = 0
    participants: Tuple[str, ...] = ()
    codec: QuantizationAlgorithm = QuantizationAlgorithm.NONE
    why: str = ""


_CODECS = {int(kind): kind for kind in QuantizationAlgorithm}


def info_of(tag: int, info: _native.OperationInfoC, ids: Any) -> OperationInfo:
    """Converts the library's info. After a failure, fields that the library did not write are zero."""
    participants = tuple([one.digits.decode() for one in ids[: info.world]])
    numbers = info.world, info.tx_bytes, info.rx_bytes, tag, info.sequence, info.rank
    return OperationInfo(*numbers, participants, _CODECS[info.codec], info.why.decode())


@dataclass
class ReduceOperandDescriptor:
    datatype: DataType
    distribution_hint: DistributionHint = DistributionHint.NONE

    def to_c(self) -> _native.ReduceOperandDescriptorC:
        hint = member("distribution_hint", DistributionHint, self.distribution_hint)
        if hint not in DistributionHint._value2member_map_:
            raise InvalidArgument(f"distribution_hint: unknown hint {hint}")
        return _native.ReduceOperandDescriptorC(data_type("datatype", self.datatype), hint)


@dataclass
class ReduceDescriptor:
    """Description of a reduction. All fields must be equal on all peers of the group."""

    count: int
    op: Op  # a ReduceOp, or its name, such as "sum"
    tag: int
    operand_descriptor: ReduceOperandDescriptor
    quantization_options: Optional[QuantizationOptions] = None

    def to_c(self) -> _native.ReduceDescriptorC:
        quantization = self.quantization_options
        if quantization is None:
            datatype = self.operand_descriptor.datatype
            quantization = QuantizationOptions(datatype, "none")
        tag = number("tag", self.tag, 0, 1 << 64)
        count = number("count", self.count, 0, 1 << 63)
        codec = codec_to_c("ReduceDescriptor", quantization)
        return _native.ReduceDescriptorC(
            count, member("op", ReduceOp, self.op), tag, self.operand_descriptor.to_c(), codec
        )


def check_descriptor(send: _buffers.Buffer, descriptor: ReduceDescriptor, where: str) -> None:
    datatype = data_type(f"{where}: datatype", descriptor.operand_descriptor.datatype)
    if descriptor.count != send.count:
        raise LayoutError(f"{where}: the descriptor has {descriptor.count} elements, but the buffers have {send.count}")
    if datatype.itemsize != send.dtype.itemsize:
        raise DTypeError(f"{where}: the descriptor has {datatype.name}, the buffers have {send.dtype.name}")


class ReduceOpDescriptor:
    """A reduction with its memory, for all_reduce_multiple_with_retry."""

    def __init__(self, sendbuf_ptr: int, recvbuf_ptr: int, reduce_descriptor: ReduceDescriptor) -> None:
        self.sendbuf_ptr = sendbuf_ptr
        self.recvbuf_ptr = recvbuf_ptr
        self.reduce_descriptor = reduce_descriptor
        self._memory: Optional[Tuple[_buffers.Buffer, _buffers.Buffer]] = None

    @classmethod
    def from_buffers(
        cls, send: _buffers.Memory, recv: _buffers.Memory, reduce_descriptor: ReduceDescriptor
    ) -> ReduceOpDescriptor:
        """Creates a descriptor from any buffers that all_reduce accepts, and keeps them alive."""
        made = cls(0, 0, reduce_descriptor)
        made._take(send, recv)
        return made

    def _take(self, send: Any, recv: Any) -> None:
        where = "ReduceOpDescriptor"
        source, target = _buffers.of(send, f"{where}: send"), _buffers.of(recv, f"{where}: recv")
        _buffers.need_writable(target, recv, f"{where}: recv")
        _buffers.match(source, target, where)
        _staged.on_device(source)
        check_descriptor(source, self.reduce_descriptor, where)
        self._memory = source, target
        self.sendbuf_ptr, self.recvbuf_ptr = source.address, target.address

    @classmethod
    def from_torch(
        cls, send: _buffers.Memory, recv: _buffers.Memory, reduce_descriptor: ReduceDescriptor
    ) -> ReduceOpDescriptor:
        return cls.from_buffers(send, recv, reduce_descriptor)

    @classmethod
    def from_numpy(
        cls, send: _buffers.Memory, recv: _buffers.Memory, reduce_descriptor: ReduceDescriptor
    ) -> ReduceOpDescriptor:
        return cls.from_buffers(send, recv, reduce_descriptor)

    def to_c(self) -> _native.ReduceOpDescriptorC:
        if self._memory is not None and _staged.on_device(self._memory[0]):
            raise LayoutError(f"ReduceOpDescriptor: {_buffers.describe(self._memory[0].owner)} is not in CPU memory")
        return self._pinned()[0]

    def to_c_inpl(self, target: _native.ReduceOpDescriptorC) -> None:
        """Like to_c(), but writes into an existing structure."""
        made = self.to_c()
        ctypes.memmove(ctypes.byref(target), ctypes.byref(made), ctypes.sizeof(made))

    def _pinned(self) -> Tuple[_native.ReduceOpDescriptorC, Any]:
        """Returns the current C descriptor and the owners of its memory. Looks up the address of objects that may move
        again."""
        if self._memory is not None:
            self._take(*[one.owner if one.may_move else one for one in self._memory])
        made = _native.ReduceOpDescriptorC(
            _buffers.address("sendbuf_ptr", self.sendbuf_ptr),
            _buffers.address("recvbuf_ptr", self.recvbuf_ptr),
            self.reduce_descriptor.to_c(),
        )
        return made, self._memory
