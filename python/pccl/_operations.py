"""Operations with their arguments: what the methods of Communicator launch, and what lists are of."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _collectives, _core
from ._codec import QuantizationOptions
from ._collectives import OnArrival, Options
from ._enums import ReduceOp
from ._reduce import OperationInfo, ReduceOperandDescriptor, Work, reduction

# (where, members as given) -> whom the operation counts on, and this peer's rank among them
CountedOn = Callable[[str, Optional[Sequence[str]]], Tuple[Tuple[str, ...], int]]


class ListedOperation:
    """An operation of a list. Its attributes are the arguments; they may be changed while it is not
    under way.

    info   what became of it in the last list, as for the method; None: it has not succeeded
    """

    # The methods of Communicator make what they launch of one, too.

    def __init__(self, tag: int, members: Optional[Sequence[str]], alone_ok: bool, label: str) -> None:
        self.tag = tag
        self.members = members
        self.alone_ok = alone_ok
        self.label = label
        self.info: Optional[OperationInfo] = None

    def _options(
        self,
        where: str,
        members: Optional[Sequence[str]],
        quantization: Optional[QuantizationOptions] = None,
        counts: Optional[Sequence[int]] = None,
        factor: float = 1.0,
    ) -> Options:
        label = _core.label(where, self.label) or None
        return Options(where, self.tag, members, self.alone_ok, quantization, counts, label, factor)

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        raise NotImplementedError

    def _take(self, info: Optional[OperationInfo], work: Optional[Work] = None) -> None:
        """What became of it. None: it has not succeeded yet."""
        self.info = info


class AllReduce(ListedOperation):
    """Communicator.all_reduce, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any,
        *,
        op: Union[ReduceOp, str],
        tag: int = 0,
        operand_descriptor: Optional[ReduceOperandDescriptor] = None,
        quantization_options: Optional[QuantizationOptions] = None,
        label: str = "",
        factor: Optional[float] = None,
    ) -> None:
        super().__init__(tag, None, False, label)
        self.send = send
        self.recv = recv
        self.op = op
        self.operand_descriptor = operand_descriptor
        self.quantization_options = quantization_options
        self.factor = factor

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        operand, quantization = self.operand_descriptor, self.quantization_options
        factor = _collectives.factor_of(where, self.op, self.factor)
        work = reduction(where, self.send, self.recv, self.op, self.tag, operand, quantization)
        return self._options(where, None, quantization, factor=factor), work


class Coalesced(ListedOperation):
    """Communicator.coalesced, in a list."""

    def __init__(
        self,
        tensors: Sequence[Any],
        recv: Optional[Sequence[Any]] = None,
        *,
        op: Union[ReduceOp, str, Sequence[Union[ReduceOp, str]]],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
        factor: Optional[float] = None,
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.tensors = tensors
        self.recv = recv
        self.op = op
        self.quantization = quantization
        self.factor = factor

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        factor = _collectives.factor_of(where, self.op, self.factor)
        options = self._options(where, self.members, self.quantization, factor=factor)
        return options, _collectives.coalesced(options, self.tensors, self.recv, self.op)


class Broadcast(ListedOperation):
    """Communicator.broadcast, in a list."""

    def __init__(
        self,
        t: Any,
        *,
        root: Union[int, str],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.t = t
        self.root = root
        self.quantization = quantization

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.broadcast(options, self.t, self.root, rank)


class AllGather(ListedOperation):
    """Communicator.all_gather, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any,
        *,
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.send = send
        self.recv = recv
        self.quantization = quantization

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.all_gather(options, self.send, self.recv, rank)


class ReduceScatter(ListedOperation):
    """Communicator.reduce_scatter, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any,
        *,
        op: Union[ReduceOp, str],
        counts: Optional[Sequence[int]] = None,
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
        factor: Optional[float] = None,
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.send = send
        self.recv = recv
        self.op = op
        self.counts = counts
        self.quantization = quantization
        self.factor = factor

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        factor = _collectives.factor_of(where, self.op, self.factor)
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization, self.counts, factor)
        return options, _collectives.reduce_scatter(options, self.send, self.recv, self.op, rank)


class Reduce(ListedOperation):
    """Communicator.reduce, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any = None,
        *,
        root: Union[int, str],
        op: Union[ReduceOp, str],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
        factor: Optional[float] = None,
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.send = send
        self.recv = recv
        self.root = root
        self.op = op
        self.quantization = quantization
        self.factor = factor

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        factor = _collectives.factor_of(where, self.op, self.factor)
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization, factor=factor)
        return options, _collectives.reduce(options, self.send, self.recv, self.root, self.op, rank)


class Gather(ListedOperation):
    """Communicator.gather, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any = None,
        *,
        root: Union[int, str],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.send = send
        self.recv = recv
        self.root = root
        self.quantization = quantization

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.gather(options, self.send, self.recv, self.root, rank)


class Scatter(ListedOperation):
    """Communicator.scatter, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any,
        *,
        root: Union[int, str],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.send = send
        self.recv = recv
        self.root = root
        self.quantization = quantization

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.scatter(options, self.send, self.recv, self.root, rank)


class AllToAll(ListedOperation):
    """Communicator.all_to_all, in a list."""

    def __init__(
        self,
        send: Any,
        recv: Any,
        *,
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        quantization: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.send = send
        self.recv = recv
        self.quantization = quantization

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, _ = counted_on(where, self.members)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.all_to_all(options, self.send, self.recv)


class Barrier(ListedOperation):
    """Communicator.barrier, in a list."""

    def __init__(
        self, *, tag: int = 0, members: Optional[Sequence[str]] = None, alone_ok: bool = False, label: str = ""
    ) -> None:
        super().__init__(tag, members, alone_ok, label)

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        options = self._options(where, self.members)
        return options, _collectives.barrier(options)


class BlobOperation(ListedOperation):
    """An operation that gives blobs."""

    def __init__(
        self, tag: int, members: Optional[Sequence[str]], alone_ok: bool, max_bytes: int, label: str
    ) -> None:
        super().__init__(tag, members, alone_ok, label)
        self.max_bytes = max_bytes
        self.blobs: List[Tuple[str, memoryview]] = []
        self._on_arrival: Optional[OnArrival] = None  # in a list nobody sees parts when they come

    def _take(self, info: Optional[OperationInfo], work: Optional[Work] = None) -> None:
        super()._take(info)
        self.blobs = work.blobs.take() if work is not None and work.blobs is not None else []


class AllGatherV(BlobOperation):
    """Communicator.all_gather_v, in a list.

    blobs   what the method returns; empty until it has succeeded in the last list
    """

    def __init__(
        self,
        data: Any,
        *,
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        max_bytes: int = 256 << 20,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, max_bytes, label)
        self.data = data

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        options = self._options(where, self.members)
        return options, _collectives.all_gather_v(options, self.data, self.max_bytes, self._on_arrival)


class GatherV(BlobOperation):
    """Communicator.gather_v, in a list.

    blobs   what the method returns; empty until it has succeeded in the last list
    """

    def __init__(
        self,
        data: Any,
        *,
        root: Union[int, str],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        max_bytes: int = 256 << 20,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, max_bytes, label)
        self.data = data
        self.root = root

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, _ = counted_on(where, self.members)
        options = self._options(where, ids)
        return options, _collectives.gather_v(options, self.data, self.root, self.max_bytes, self._on_arrival)


class ScatterV(BlobOperation):
    """Communicator.scatter_v, in a list.

    part   what the method returns; None until it has succeeded in the last list
    """

    def __init__(
        self,
        parts: Any = None,
        *,
        root: Union[int, str],
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        max_bytes: int = 256 << 20,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, max_bytes, label)
        self.parts = parts
        self.root = root

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, rank = counted_on(where, self.members)
        options = self._options(where, ids)
        return options, _collectives.scatter_v(options, self.parts, self.root, rank, self.max_bytes, self._on_arrival)

    @property
    def part(self) -> Optional[memoryview]:
        return self.blobs[0][1] if self.blobs else None


class AllToAllV(BlobOperation):
    """Communicator.all_to_all_v, in a list.

    blobs   what the method returns; empty until it has succeeded in the last list
    """

    def __init__(
        self,
        parts: Any,
        *,
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        alone_ok: bool = False,
        max_bytes: int = 256 << 20,
        label: str = "",
    ) -> None:
        super().__init__(tag, members, alone_ok, max_bytes, label)
        self.parts = parts

    def _make(self, where: str, counted_on: CountedOn) -> Tuple[Options, Work]:
        ids, _ = counted_on(where, self.members)
        options = self._options(where, ids)
        return options, _collectives.all_to_all_v(options, self.parts, self.max_bytes, self._on_arrival)
