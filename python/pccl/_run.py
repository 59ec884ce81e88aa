"""Lists of operations of all kinds, for Communicator.run."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _collectives, _core, _native
from ._codec import QuantizationOptions
from ._collectives import Options
from ._enums import ReduceOp, number
from ._errors import InternalError, InvalidArgument
from ._reduce import OperationInfo, ReduceOperandDescriptor, Work, reduction
from ._threads import Errands


class ListedOperation:
    """An operation of a list. Its attributes are the arguments; they may be changed while it is not
    under way.

    info   what became of it in the last list, as for the method; None: it has not succeeded
    """

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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        """members: of the list, for those who count on any; rank: of this peer."""
        raise NotImplementedError

    def _take(self, info: Optional[OperationInfo], work: Optional[Work] = None) -> None:
        """What became of it. None: it has not succeeded yet."""
        self.info = info

    def _counted_on(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Tuple[str, ...], int]:
        if self.members is None:
            return members, rank
        return _collectives.given_members(where, self.members, members[rank])


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, own = self._counted_on(where, members, rank)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.broadcast(options, self.t, self.root, own)


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, own = self._counted_on(where, members, rank)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.all_gather(options, self.send, self.recv, own)


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, own = self._counted_on(where, members, rank)
        factor = _collectives.factor_of(where, self.op, self.factor)
        options = self._options(where, ids, self.quantization, self.counts, factor)
        return options, _collectives.reduce_scatter(options, self.send, self.recv, self.op, own)


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, own = self._counted_on(where, members, rank)
        factor = _collectives.factor_of(where, self.op, self.factor)
        options = self._options(where, ids, self.quantization, factor=factor)
        return options, _collectives.reduce(options, self.send, self.recv, self.root, self.op, own)


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, own = self._counted_on(where, members, rank)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.gather(options, self.send, self.recv, self.root, own)


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, own = self._counted_on(where, members, rank)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.scatter(options, self.send, self.recv, self.root, own)


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

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        ids, _ = self._counted_on(where, members, rank)
        options = self._options(where, ids, self.quantization)
        return options, _collectives.all_to_all(options, self.send, self.recv)


class Barrier(ListedOperation):
    """Communicator.barrier, in a list."""

    def __init__(
        self, *, tag: int = 0, members: Optional[Sequence[str]] = None, alone_ok: bool = False, label: str = ""
    ) -> None:
        super().__init__(tag, members, alone_ok, label)

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        options = self._options(where, self.members)
        return options, _collectives.barrier(options)


class AllGatherV(ListedOperation):
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
        super().__init__(tag, members, alone_ok, label)
        self.data = data
        self.max_bytes = max_bytes
        self.blobs: List[Tuple[str, memoryview]] = []

    def _make(self, where: str, members: Tuple[str, ...], rank: int) -> Tuple[Options, Work]:
        options = self._options(where, self.members)
        return options, _collectives.all_gather_v(options, self.data, self.max_bytes)

    def _take(self, info: Optional[OperationInfo], work: Optional[Work] = None) -> None:
        super()._take(info)
        self.blobs = work.blobs.take() if work is not None and work.blobs is not None else []


# The number of the collective, and where its arguments go.
_FIELDS: Dict[str, Tuple[int, Tuple[str, ...]]] = {
    "pcclAllReduce": (0, ("sendbuf", "recvbuf", "count", "datatype", "op")),
    "pcclBroadcast": (1, ("recvbuf", "count", "datatype", "root")),
    "pcclAllGather": (2, ("sendbuf", "recvbuf", "count", "datatype")),
    "pcclReduceScatter": (3, ("sendbuf", "recvbuf", "count", "datatype", "op")),
    "pcclBarrier": (4, ()),
    "pcclAllGatherV": (5, ("sendbuf", "count")),
    "pcclReduce": (6, ("sendbuf", "recvbuf", "count", "datatype", "op", "root")),
    "pcclGather": (7, ("sendbuf", "recvbuf", "count", "datatype", "root")),
    "pcclScatter": (8, ("sendbuf", "recvbuf", "count", "datatype", "root")),
    "pcclAllToAll": (9, ("sendbuf", "recvbuf", "count", "datatype")),
    "pcclAllReduceCoalesced": (10, ("sendbuf", "count")),
}


def _operations(what: str, given: Any) -> List[ListedOperation]:
    try:
        listed = list(given)
    except TypeError:
        raise InvalidArgument(f"run: {what}: expected operations, not {given!r}") from None
    for one in listed:
        if not isinstance(one, ListedOperation):
            raise InvalidArgument(f"run: {what}: expected operations, not {one!r}")
    return listed


class Run:
    """A list on its way, with all the memory that the library reads and writes."""

    def __init__(
        self,
        operations: Sequence[ListedOperation],
        members: Tuple[str, ...],
        rank: int,
        max_in_flight: int,
        rebuild: Optional[Callable[[Tuple[str, ...]], Sequence[ListedOperation]]],
    ) -> None:
        self.errands = Errands()
        self._operations = _operations("operations", operations)
        self._rebuild = rebuild
        count = len(self._operations)
        self._made: List[Optional[Tuple[Options, Work]]] = [None] * count
        self._entries = (_native.OperationC * count)()
        self._infos = (_native.OperationInfoC * count)()
        self._participants = [(_native.PeerIdC * len(members))() for _ in range(count)]  # nobody comes meanwhile
        for index in range(count):
            self._make(index, members, rank)
        self._options = _native.RunOptionsC(
            ctypes.sizeof(_native.RunOptionsC), number("run: max_in_flight", max_in_flight, 1, 1 << 32)
        )
        if rebuild is not None:
            self._options.rebuild = _native.RebuildCallback(self._called)
        for operation in self._operations:
            operation._take(None)

    def _make(self, index: int, members: Tuple[str, ...], rank: int) -> None:
        options, work = self._operations[index]._make(f"run: entry {index}", members, rank)
        collective, names = _FIELDS[work.function]
        info, ids = self._infos[index], self._participants[index]
        info.size, info.participants, info.participants_max = ctypes.sizeof(info), ctypes.addressof(ids), len(ids)
        self._entries[index] = _native.OperationC(
            ctypes.sizeof(_native.OperationC),
            collective,
            options=options.address,
            info=ctypes.addressof(info),
            blobs=None if work.blobs is None else ctypes.addressof(work.blobs.c),
            **dict(zip(names, work.arguments)),
        )
        self._made[index] = options, work

    def call(self, comm: Any) -> int:
        code: int = _native.lib.pcclRunOperations(self._entries, len(self._entries), ctypes.byref(self._options), comm)
        return code

    # ---- other members

    def _called(self, rebuild: Any, _: Any) -> bool:
        return self.errands.ask(lambda: self._make_anew(rebuild.contents))

    def _make_anew(self, given: _native.RebuildC) -> None:
        assert self._rebuild is not None
        members = tuple(given.members[i].digits.decode() for i in range(given.member_count))
        self.end()
        fresh = {one.tag: one for one in _operations("rebuild", self._rebuild(members))}
        for index in given.entries[: given.entry_count]:
            made = self._made[index]
            assert made is not None
            kind, tag = type(self._operations[index]), made[0].tag
            replacement = fresh.get(tag)
            if replacement is None or type(replacement) is not kind:
                raise InvalidArgument(f"run: entry {index}: rebuild returned no {kind.__name__} with the tag {tag}")
            replacement._take(None)
            self._operations[index] = replacement
            self._make(index, members, given.rank)

    # ---- what became of it

    def end(self) -> None:
        """Tells the operations that have succeeded so far."""
        for index, (operation, made) in enumerate(zip(self._operations, self._made)):
            info = self._infos[index]
            if operation.info is not None or info.world == 0 or made is None:
                continue
            staged = made[1].staged
            if staged is not None:
                try:
                    staged.finish()
                except Exception as error:
                    words = f"run: entry {index}: the result could not be copied to the device: {error}"
                    raise InternalError(words) from error
            participants = tuple(one.digits.decode() for one in self._participants[index][: info.world])
            numbers = info.world, info.tx_bytes, info.rx_bytes, info.tag, info.sequence, info.rank
            operation._take(OperationInfo(*numbers, participants), made[1])

    def infos(self) -> List[OperationInfo]:
        return [operation.info for operation in self._operations if operation.info is not None]
