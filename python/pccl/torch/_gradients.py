"""Gradients in a few flat buffers, and their reduction among peers."""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch

from .._codec import QuantizationOptions
from .._communicator import Communicator
from .._enums import Attribute, DataType, ReduceOp
from .._errors import InvalidArgument
from .._lazy import Lazy
from .._reduce import (
    ReduceDescriptor,
    ReduceInfo,
    ReduceOpDescriptor,
    ReduceOperandDescriptor,
)
from . import _staging, _tensors

_dtensor: Any = Lazy("torch.distributed.tensor")

BUCKET_BYTES = 25 << 20


class Slot:
    """The location of a parameter's gradient in a bucket: a view with the parameter's shape and memory order."""

    __slots__ = ("parameter", "view")

    def __init__(self, parameter: torch.Tensor, memory: torch.Tensor) -> None:
        own = _tensors.local(parameter)
        self.parameter = parameter
        in_order = _tensors.is_dense(own)
        self.view = memory.as_strided(own.shape, own.stride()) if in_order else memory.view(own.shape)


class Bucket:
    """A flat buffer with the gradients of parameters of the same data type, which are reduced together."""

    def __init__(self, parameters: Sequence[torch.Tensor], tag: int) -> None:
        own = [_tensors.local(parameter) for parameter in parameters]
        self.tag = tag
        self.slots: List[Slot] = []
        # Flat memory of the gradients, one for each run of parameters on the same device
        self.memories: List[torch.Tensor] = []
        self.twins: List[_staging.Twin] = []  # page-locked copies of the memory on devices
        # The memory that the library reduces.
        size, on_device = sum(one.numel() for one in own), any(map(_staging.is_on_device, own))
        self.wire = (_staging.host_memory if on_device else torch.empty)(size, dtype=own[0].dtype).zero_()
        begin = 0
        for _, run in itertools.groupby(zip(parameters, own), lambda pair: pair[1].device):
            part = list(run)
            counts = [one.numel() for _, one in part]
            memory = self._memory(self.wire[begin : begin + sum(counts)], part[0][1])
            self.slots += [Slot(p, piece) for (p, _), piece in zip(part, memory.split(counts))]
            begin += sum(counts)

    def _memory(self, wire: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        memory = wire
        if _staging.is_on_device(like):
            memory = _staging.device_memory(wire.numel(), like).zero_()
            self.twins.append(_staging.Twin(memory, wire))
        self.memories.append(memory)
        return memory

    def descriptor(self, op: ReduceOp, quantization: Optional[QuantizationOptions]) -> ReduceOpDescriptor:
        operand = ReduceOperandDescriptor(DataType.from_torch_dtype(self.wire.dtype))
        reduction = ReduceDescriptor(self.wire.numel(), op, self.tag, operand, quantization)
        return ReduceOpDescriptor.from_torch(self.wire, self.wire, reduction)

    def written(self) -> None:
        """Records that the current streams have written gradients to some of the slots."""
        for twin in self.twins:
            twin.written()

    def load(self) -> None:
        """Starts copying the gradients to `wire`."""
        for twin in self.twins:
            twin.load()

    def wait(self) -> None:
        """Waits for the copies of load()."""
        for twin in self.twins:
            twin.wait()

    def unload(self) -> None:
        """Starts copying `wire` to the slots."""
        for twin in self.twins:
            twin.unload()

    def join(self) -> None:
        """Makes the current streams wait for the copies of unload()."""
        for twin in self.twins:
            twin.join()


def make_buckets(
    parameters: Iterable[torch.Tensor], bucket_bytes: int, tag: int, *, across_devices: bool = False
) -> List[Bucket]:
    """Returns buckets in the order of the parameters. A new bucket begins where the data type changes (or the device,
    unless across_devices), or where the next gradient would make it larger than bucket_bytes. Omits parameters without
    local elements."""
    if bucket_bytes < 1:
        raise InvalidArgument(f"bucket_bytes: {bucket_bytes}; expected at least 1")
    gathered: Dict[Any, List[List[torch.Tensor]]] = {}
    sizes: Dict[Any, int] = {}
    order: List[Tuple[Any, int]] = []
    for parameter in parameters:
        own = _tensors.local(parameter)
        size = own.numel() * own.element_size()
        if size == 0:
            continue
        kind = own.dtype, None if across_devices else own.device
        lists = gathered.setdefault(kind, [])
        if not lists or sizes[kind] + size > bucket_bytes:
            order.append((kind, len(lists)))
            lists.append([])
            sizes[kind] = 0
        lists[-1].append(parameter)
        sizes[kind] += size
    return [Bucket(gathered[kind][index], tag + number) for number, (kind, index) in enumerate(order)]


def trainable(parameters: Union[torch.nn.Module, Iterable[torch.Tensor]]) -> List[torch.Tensor]:
    if isinstance(parameters, torch.nn.Module):
        parameters = _tensors.bare(parameters).parameters()
    return [parameter for parameter in parameters if parameter.requires_grad]


class GradientBuckets:
    """The gradients of a module, or of parameters in the same order on all peers, in flat buffers.

    After zero_grad() the gradients are views of the buffers, so backward() writes to them without copying. If gradients
    were created elsewhere (optimizer.zero_grad() drops the views), reduce() copies them once.

    reduce() treats a missing gradient as zero, and sets it to the average. All peers therefore have gradients for the
    same parameters, even if each has used different ones.

    tag: tag of the first bucket; further buckets use the following tags. For DTensors, the local shards are reduced.
    """

    def __init__(
        self,
        parameters: Union[torch.nn.Module, Iterable[torch.Tensor]],
        *,
        bucket_bytes: int = BUCKET_BYTES,
        tag: int = 0,
    ) -> None:
        self._buckets = make_buckets(trainable(parameters), bucket_bytes, tag)
        self._gradients = [[_as_gradient(slot) for slot in bucket.slots] for bucket in self._buckets]

    @property
    def buffers(self) -> Sequence[torch.Tensor]:
        """The flat buffers, in the order of their tags."""
        return tuple(memory for bucket in self._buckets for memory in bucket.memories)

    def zero_grad(self) -> None:
        """Clears the gradients. Call it instead of the optimizer's method."""
        for bucket in self._buckets:
            for memory in bucket.memories:
                memory.zero_()
        self._attach()

    def reduce(
        self,
        comm: Communicator,
        op: ReduceOp = ReduceOp.AVG,
        *,
        quantization: Optional[QuantizationOptions] = None,
        max_in_flight: int = 4,
    ) -> ReduceInfo:
        """Reduces the gradients among the peers of the group, which must all call it: in place, with the same bits on
        all of them.

        If a bucket fails because a peer was lost, it is repeated with the remaining peers. local_world_size is the
        number of peers at the end; a bucket that completed before a peer was lost includes that peer. After an error,
        including TooFewPeersError (this peer is alone), some gradients may be reduced and others not: drop the step.
        """
        if not self._buckets:
            return ReduceInfo(comm.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE), 0, 0)
        self._load()
        info = comm.all_reduce_multiple_with_retry(
            [bucket.descriptor(op, quantization) for bucket in self._buckets], max_in_flight=max_in_flight
        )
        self._unload()
        return info

    def _load(self) -> None:
        """Copies the gradients to the memory that the library reduces."""
        self._gather()
        for bucket in self._buckets:
            bucket.written()
            bucket.load()
        for bucket in self._buckets:
            bucket.wait()

    def _unload(self) -> None:
        for bucket in self._buckets:
            bucket.unload()
            bucket.join()
        self._attach()

    def _gather(self) -> None:
        with torch.no_grad():
            for bucket in self._buckets:
                for slot in bucket.slots:
                    gradient = slot.parameter.grad
                    if gradient is None:
                        slot.view.zero_()
                        continue
                    own = _tensors.local(gradient)
                    if own.layout is not torch.strided:
                        slot.view.copy_(own.to_dense())
                    elif own.data_ptr() != slot.view.data_ptr() or own.stride() != slot.view.stride():
                        slot.view.copy_(own)

    def _attach(self) -> None:
        for bucket, gradients in zip(self._buckets, self._gradients):
            for slot, gradient in zip(bucket.slots, gradients):
                slot.parameter.grad = gradient


def _as_gradient(slot: Slot) -> torch.Tensor:
    """Returns the view as an object that can be the parameter's gradient."""
    parameter: Any = slot.parameter
    if not _tensors.is_dtensor(parameter):
        return slot.view
    made: Any = _dtensor.DTensor.from_local(
        slot.view,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
    return made
