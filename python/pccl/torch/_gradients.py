"""Gradients in a few flat buffers, and their reduction among peers."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import torch

from .._codec import QuantizationOptions
from .._communicator import Communicator
from .._enums import Attribute, DataType, ReduceOp
from .._errors import InvalidArgument
from .._reduce import (
    ReduceDescriptor,
    ReduceInfo,
    ReduceOpDescriptor,
    ReduceOperandDescriptor,
)
from . import _tensors

BUCKET_BYTES = 25 << 20


class Slot:
    """The place of a parameter's gradient in a bucket: a view with the parameter's shape and order
    in memory."""

    __slots__ = ("parameter", "view")

    def __init__(self, parameter: torch.Tensor, memory: torch.Tensor) -> None:
        own = _tensors.local(parameter)
        self.parameter = parameter
        in_order = _tensors.is_dense(own)
        self.view = memory.as_strided(own.shape, own.stride()) if in_order else memory.view(own.shape)


class Bucket:
    """A flat buffer with the gradients of parameters of one data type, which are reduced together.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], tag: int, device: torch.device) -> None:
        counts = [_tensors.local(parameter).numel() for parameter in parameters]
        dtype = parameters[0].dtype
        self.tag = tag
        self.flat = torch.zeros(sum(counts), dtype=dtype, device=device)
        self.slots = [Slot(p, piece) for p, piece in zip(parameters, self.flat.split(counts))]
        on_host = device.type == "cpu"
        # The memory that is reduced; device memory is staged in page-locked memory.
        self.wire = self.flat if on_host else torch.empty(self.flat.shape, dtype=dtype, pin_memory=True)

    def descriptor(self, op: ReduceOp, quantization: Optional[QuantizationOptions]) -> ReduceOpDescriptor:
        operand = ReduceOperandDescriptor(DataType.from_torch_dtype(self.flat.dtype))
        reduction = ReduceDescriptor(self.flat.numel(), op, self.tag, operand, quantization)
        return ReduceOpDescriptor.from_torch(self.wire, self.wire, reduction)


def make_buckets(
    parameters: Iterable[torch.Tensor], bucket_bytes: int, tag: int, device: Optional[torch.device] = None
) -> List[Bucket]:
    """Buckets in the order of the parameters. A new one begins where the data type (or the device,
    if none is given) changes, or where the next gradient would make it larger than bucket_bytes.
    Parameters without local elements are left out."""
    if bucket_bytes < 1:
        raise InvalidArgument(f"bucket_bytes is {bucket_bytes}")
    gathered: Dict[Tuple[torch.dtype, torch.device], List[List[torch.Tensor]]] = {}
    sizes: Dict[Tuple[torch.dtype, torch.device], int] = {}
    order: List[Tuple[Tuple[torch.dtype, torch.device], int]] = []
    for parameter in parameters:
        own = _tensors.local(parameter)
        size = own.numel() * own.element_size()
        if size == 0:
            continue
        kind = own.dtype, device or own.device
        lists = gathered.setdefault(kind, [])
        if not lists or sizes[kind] + size > bucket_bytes:
            order.append((kind, len(lists)))
            lists.append([])
            sizes[kind] = 0
        lists[-1].append(parameter)
        sizes[kind] += size
    return [
        Bucket(gathered[kind][index], tag + number, kind[1]) for number, (kind, index) in enumerate(order)
    ]


def trainable(parameters: Union[torch.nn.Module, Iterable[torch.Tensor]]) -> List[torch.Tensor]:
    if isinstance(parameters, torch.nn.Module):
        parameters = _tensors.bare(parameters).parameters()
    return [parameter for parameter in parameters if parameter.requires_grad]


class GradientBuckets:
    """The gradients of a module (or of parameters, in the same order on all peers) in flat buffers.

    After zero_grad() the gradients are views of the buffers, so backward() writes into them and
    nothing is copied. If the gradients were made elsewhere (optimizer.zero_grad() drops the views),
    reduce() copies them once.

    A parameter without a gradient counts as one with a gradient of zero in reduce(), and has the
    average afterward. So all peers have gradients for the same parameters, whichever of them each
    peer used.

    tag: of the first bucket; further buckets use the next tags. Of DTensors, the local shards are
    reduced.
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
        return tuple(bucket.flat for bucket in self._buckets)

    def zero_grad(self) -> None:
        """To be called in place of the optimizer's."""
        for bucket in self._buckets:
            bucket.flat.zero_()
        self._attach()

    def reduce(
        self,
        comm: Communicator,
        op: ReduceOp = ReduceOp.AVG,
        *,
        quantization: Optional[QuantizationOptions] = None,
        max_in_flight: int = 4,
    ) -> ReduceInfo:
        """Reduces the gradients among the peers of the group, in place, with the same bits on all
        of them. Joint.

        If a bucket fails because a peer was lost, it is repeated with the remaining peers.
        local_world_size is the number of peers at the end; a bucket that was complete before a peer
        was lost is an average that includes that peer. After an error, TooFewPeersError (this peer
        is alone) included, the gradients are partly reduced: drop the step.
        """
        self._gather()
        if not self._buckets:
            return ReduceInfo(comm.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE), 0, 0)
        for bucket in self._buckets:
            if bucket.wire is not bucket.flat:
                bucket.wire.copy_(bucket.flat)
        info = comm.all_reduce_multiple_with_retry(
            [bucket.descriptor(op, quantization) for bucket in self._buckets], max_in_flight=max_in_flight
        )
        for bucket in self._buckets:
            if bucket.wire is not bucket.flat:
                bucket.flat.copy_(bucket.wire)
        self._attach()
        return info

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
    """The view as an object that may be the parameter's gradient."""
    parameter: Any = slot.parameter
    if not _tensors.is_dtensor(parameter):
        return slot.view
    from torch.distributed.tensor import DTensor

    made: Any = DTensor.from_local(
        slot.view,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
    return made
