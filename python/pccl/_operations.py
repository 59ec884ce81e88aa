"""The operations: their arguments, and the conversion of the arguments for the library. Used by methods of Communicator
and by Communicator.run()."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, ClassVar, Iterable, List, Optional, Sequence, Tuple, Union

from . import _buffers, _collectives, _core, _native
from ._buffers import Memory
from ._codec import QuantizationOptions
from ._collectives import OnArrival, Options
from ._described import argument, described
from ._enums import Op, ReduceOp, member
from ._errors import InvalidArgument, LayoutError
from ._operation import Work
from ._reduce import OperationInfo, ReduceDescriptor, ReduceOperandDescriptor, check_descriptor
from ._staged import Staged, StagedTogether, placed

# (name for errors, given members) -> members, this peer's rank
CountedOn = Callable[[str, Optional[Sequence[str]]], Tuple[Tuple[str, ...], int]]


@described
class ListedOperation:
    """An operation that can be an entry of a list for Communicator.run(). Its attributes are the arguments, which may
    be changed while the operation is not in progress.

    info   the OperationInfo from the last run(); None if the operation has not succeeded
    """

    # Methods of Communicator also create their operations from the classes derived from this one.

    tag: int = 0
    label: str = ""

    _ORDER: ClassVar[Tuple[str, ...]] = (
        "root", "op", "counts", "tag", "members", "alone_ok", "operand_descriptor", "quantization_options",
        "quantization", "max_bytes", "on_arrival", "label", "factor",
    )
    _NUMBER: ClassVar[int] = -1  # number in pcclCollective_t
    _PLACES: ClassVar[str] = ""  # fields of pcclOperation_t that hold the arguments of the C function

    def _begin(self) -> None:
        self.info: Optional[OperationInfo] = None

    def _make(self, where: str, counted_on: CountedOn) -> Work:
        """Checks the arguments and returns the operation to launch. where: the name used in errors."""
        return self._fill(Options(where, self.tag, label=_core.label(where, self.label)))

    def _fill(self, options: Options) -> Work:
        raise NotImplementedError

    def _take(self, info: Optional[OperationInfo], work: Optional[Work] = None) -> None:
        """Sets the result. None: the operation has not succeeded yet."""
        self.info = info


@described
class _OfMembers(ListedOperation):
    """A listed operation that can require members."""

    members: Optional[Sequence[str]] = None
    alone_ok: bool = False

    _IS_COUNTED: ClassVar[bool] = False  # true if members default to the current members

    def _factor(self, where: str) -> float:
        return 1.0

    def _make(self, where: str, counted_on: CountedOn) -> Work:
        factor, members, rank = self._factor(where), self.members, 0
        if self._IS_COUNTED:
            members, rank = counted_on(where, members)
        return self._fill(
            Options(
                where, self.tag, members, rank, alone_ok=self.alone_ok, label=_core.label(where, self.label),
                factor=factor, quantization=getattr(self, "quantization", None)
            )
        )


@described
class _OfElements(_OfMembers):
    """An operation that moves elements, which a codec may pack."""

    quantization: Optional[QuantizationOptions] = None

    _IS_COUNTED = True


@described
class _Reducing(_OfElements):
    """An operation that reduces by `op`."""

    factor: Optional[float] = None

    def _factor(self, where: str) -> float:
        return _collectives.factor_of(where, vars(self)["op"], self.factor)


@described
class AllReduce(ListedOperation):
    """An all_reduce for Communicator.run(), with the arguments of Communicator.all_reduce."""

    send: Memory = argument(kw_only=False)
    recv: Optional[Memory] = argument(kw_only=False, default=None)
    op: Op = ReduceOp.SUM
    operand_descriptor: Optional[ReduceOperandDescriptor] = None
    quantization_options: Optional[QuantizationOptions] = None
    quantization: Optional[QuantizationOptions] = None
    factor: Optional[float] = None

    _NUMBER, _PLACES = 0, "sendbuf recvbuf count datatype op"

    def _codec(self, where: str) -> Optional[QuantizationOptions]:
        if self.quantization is None or self.quantization_options is None:
            return self.quantization_options if self.quantization is None else self.quantization
        raise InvalidArgument(
            f"{where}: quantization and quantization_options are two names of the same argument: pass only one"
        )

    def _make(self, where: str, counted_on: CountedOn) -> Work:
        factor = _collectives.factor_of(where, self.op, self.factor)
        label = _core.label(where, self.label)
        return self._fill(Options(where, self.tag, label=label, factor=factor, quantization=self._codec(where)))

    def _fill(self, options: Options) -> Work:
        where, send = options.where, self.send
        recv = send if self.recv is None else self.recv
        source = _buffers.of(send, f"{where}: send")
        target = source if recv is send else _buffers.of(recv, f"{where}: recv")
        _buffers.need_writable(target, recv, f"{where}: {'send' if self.recv is None else 'recv'}")
        _buffers.match(source, target, where)
        dtype, operand = source.dtype, self.operand_descriptor
        if operand is not None:
            descriptor = ReduceDescriptor(source.count, self.op, self.tag, operand, self._codec(where))
            check_descriptor(source, descriptor, where)
            dtype = operand.to_c().datatype
        address, place, staged = placed(source.count, source, 0, target, 0)
        arguments = address, place, source.count, dtype, member("op", ReduceOp, self.op)
        return options.work("pcclAllReduce", arguments, (source, target), staged)


@described
class Coalesced(_Reducing):
    """A coalesced reduction for Communicator.run(), with the arguments of Communicator.coalesced."""

    tensors: Sequence[Memory] = argument(kw_only=False)
    recv: Optional[Sequence[Memory]] = argument(kw_only=False, default=None)
    op: Union[Op, Sequence[Op]]

    _NUMBER, _PLACES, _IS_COUNTED = 13, "sendbuf count", False

    def _fill(self, options: Options) -> Work:
        where, sources = options.where, list(self.tensors)
        targets = sources if self.recv is None else list(self.recv)
        if len(sources) != len(targets):
            raise LayoutError(f"{where}: send has {len(sources)} tensors and recv {len(targets)}")
        stages: List[Staged] = []
        triples = zip(sources, targets, _collectives.reductions(where, self.op, len(sources)))
        made = [_collectives.coalesced(f"{where}: tensor {i}", *one, stages) for i, one in enumerate(triples)]
        tensors = (_native.CoalescedTensorC * len(made))(*[tensor for tensor, _ in made])
        pins = tensors, [buffers for _, buffers in made]
        staged = StagedTogether(stages) if stages else None
        return options.work("pcclAllReduceCoalesced", (ctypes.addressof(tensors), len(made)), pins, staged)


@described
class Broadcast(_OfElements):
    """A broadcast for Communicator.run(), with the arguments of Communicator.broadcast."""

    t: Memory = argument(kw_only=False)
    root: Union[int, str]

    _NUMBER, _PLACES = 1, "recvbuf count datatype root"

    def _fill(self, options: Options) -> Work:
        """Only reads the root's buffer, unless a codec is given, which replaces the contents with the unpacked
        values."""
        root = options.rank_of(self.root)
        is_root = root == options.rank
        is_written = not is_root or options.quantized
        take = _collectives.written_to if is_written else _collectives.read_from
        buffer = take(options.where, self.t, "the buffer")
        source, target = buffer if is_root else None, buffer if is_written else None
        address, place, staged = placed(buffer.count, source, 0, target, 0)
        arguments = address or place, buffer.count, buffer.dtype, root
        return options.work("pcclBroadcast", arguments, buffer, staged)


@described
class AllGather(_OfElements):
    """An all_gather for Communicator.run(), with the arguments of Communicator.all_gather."""

    send: Memory = argument(kw_only=False)
    recv: Memory = argument(kw_only=False)

    _NUMBER, _PLACES = 2, "sendbuf recvbuf count datatype"

    def _fill(self, options: Options) -> Work:
        source, target = _collectives.pair(options.where, self.send, self.recv)
        _collectives.need_parts(options, ("recv", target), ("send", source))
        address, place, staged = placed(target.count, source, options.rank * source.count, target, 0)
        return options.work("pcclAllGather", (address, place, source.count, source.dtype), (source, target), staged)


@described
class ReduceScatter(_Reducing):
    """A reduce_scatter for Communicator.run(), with the arguments of Communicator.reduce_scatter."""

    send: Memory = argument(kw_only=False)
    recv: Memory = argument(kw_only=False)
    op: Op
    counts: Optional[Sequence[int]] = None

    _NUMBER, _PLACES = 3, "sendbuf recvbuf count datatype op"

    def _fill(self, options: Options) -> Work:
        if self.counts is not None:
            options.count(self.counts)
        source, target = _collectives.pair(options.where, self.send, self.recv)
        counts = options.counts
        if counts is None:
            _collectives.need_parts(options, ("send", source), ("recv", target))
        else:
            _collectives.need_shares(options, counts, source, target)
        own = options.rank * target.count if counts is None else sum(counts[: options.rank])
        address, place, staged = placed(source.count, source, 0, target, own)
        count = target.count if counts is None else source.count
        arguments = address, place, count, source.dtype, member("op", ReduceOp, self.op)
        return options.work("pcclReduceScatter", arguments, (source, target), staged)


@described
class Reduce(_Reducing):
    """A reduce for Communicator.run(), with the arguments of Communicator.reduce."""

    send: Memory = argument(kw_only=False)
    recv: Optional[Memory] = argument(kw_only=False, default=None)
    root: Union[int, str]
    op: Op

    _NUMBER, _PLACES = 6, "sendbuf recvbuf count datatype op root"

    def _fill(self, options: Options) -> Work:
        where, root = options.where, options.rank_of(self.root)
        target: Optional[_buffers.Buffer] = None
        if root == options.rank:
            source, target = _collectives.pair(where, self.send, self.recv)
            _collectives.need_equal(where, source, target)
        else:
            source = _collectives.read_from(where, self.send, "send")
        address, place, staged = placed(source.count, source, 0, target, 0)
        arguments = address, place, source.count, source.dtype, member("op", ReduceOp, self.op), root
        return options.work("pcclReduce", arguments, (source, target), staged)


@described
class ExclusiveScan(_Reducing):
    """An exclusive_scan for Communicator.run(), with the arguments of Communicator.exclusive_scan."""

    send: Any = argument(kw_only=False)
    recv: Any = argument(kw_only=False)
    op: Union[ReduceOp, str]

    _NUMBER, _PLACES = 16, "sendbuf recvbuf count datatype op"
    _FUNCTION = "pcclExclusiveScan"

    def _fill(self, options: Options) -> Work:
        source, target = _collectives.pair(options.where, self.send, self.recv)
        _collectives.need_equal(options.where, source, target)
        address, place, staged = placed(source.count, source, 0, target, 0)
        arguments = address, place, source.count, source.dtype, member("op", ReduceOp, self.op)
        return options.work(self._FUNCTION, arguments, (source, target), staged)


@described
class InclusiveScan(ExclusiveScan):
    """An inclusive_scan for Communicator.run(), with the arguments of Communicator.inclusive_scan."""

    _NUMBER, _FUNCTION = 17, "pcclInclusiveScan"


@described
class Gather(_OfElements):
    """A gather for Communicator.run(), with the arguments of Communicator.gather."""

    send: Memory = argument(kw_only=False)
    recv: Optional[Memory] = argument(kw_only=False, default=None)
    root: Union[int, str]

    _NUMBER, _PLACES = 7, "sendbuf recvbuf count datatype root"

    def _fill(self, options: Options) -> Work:
        where, root = options.where, options.rank_of(self.root)
        target: Optional[_buffers.Buffer] = None
        if root == options.rank:
            source, target = _collectives.pair(where, self.send, self.recv)
            _collectives.need_parts(options, ("recv", target), ("send", source))
        else:
            source = _collectives.read_from(where, self.send, "send")
        own = options.rank * source.count if target else 0
        address, place, staged = placed((target or source).count, source, own, target, 0)
        arguments = address, place, source.count, source.dtype, root
        return options.work("pcclGather", arguments, (source, target), staged)


@described
class Scatter(_OfElements):
    """A scatter for Communicator.run(), with the arguments of Communicator.scatter."""

    send: Optional[Memory] = argument(kw_only=False)
    recv: Memory = argument(kw_only=False)
    root: Union[int, str]

    _NUMBER, _PLACES = 8, "sendbuf recvbuf count datatype root"

    def _fill(self, options: Options) -> Work:
        where, root = options.where, options.rank_of(self.root)
        source: Optional[_buffers.Buffer] = None
        if root == options.rank:
            source, target = _collectives.pair(where, self.send, self.recv)
            _collectives.need_parts(options, ("send", source), ("recv", target))
        else:
            target = _collectives.written_to(where, self.recv, "recv")
        own = options.rank * target.count if source else 0
        address, place, staged = placed((source or target).count, source, 0, target, own)
        arguments = address, place, target.count, target.dtype, root
        return options.work("pcclScatter", arguments, (source, target), staged)


@described
class AllToAll(_OfElements):
    """An all_to_all for Communicator.run(), with the arguments of Communicator.all_to_all."""

    send: Memory = argument(kw_only=False)
    recv: Memory = argument(kw_only=False)

    _NUMBER, _PLACES = 9, "sendbuf recvbuf count datatype"

    def _fill(self, options: Options) -> Work:
        source, target = _collectives.pair(options.where, self.send, self.recv)
        count, world = source.count, len(options.members)
        _collectives.need_equal(options.where, source, target)
        if count % world:
            raise LayoutError(
                f"{options.where}: {count} elements cannot be divided into equal parts for {world} members"
            )
        address, place, staged = placed(2 * count, source, 0, target, count)
        return options.work("pcclAllToAll", (address, place, count // world, source.dtype), (source, target), staged)


@described
class Barrier(_OfMembers):
    """A barrier for Communicator.run(), with the arguments of Communicator.barrier."""

    _NUMBER = 4

    def _fill(self, options: Options) -> Work:
        return options.work("pcclBarrier", ())


# ---- pairs


@described
class _Transfer(ListedOperation):
    """A transfer between two peers. Cannot be an entry of a list."""

    t: Memory = argument(kw_only=False)

    _SENDS: ClassVar[bool]

    def _make(self, where: str, counted_on: CountedOn) -> Work:
        ids, peer = counted_on(where, None)[0], vars(self)["peer"]
        if isinstance(peer, str) and peer not in ids:
            _collectives.peer_ids(f"{where}: peer", (peer,))
            ids = (*ids, peer)  # the peer has left, and the library reports the error
        return self._fill(Options(where, self.tag, ids, label=_core.label(where, self.label)))

    def _fill(self, options: Options) -> Work:
        peer, sends = vars(self)["peer"], self._SENDS
        if len(options.members) < 2:
            rank = 0  # any rank, because the library reports that this peer is alone
        elif peer is None and not sends:
            rank = _native.ANY_PEER
        else:
            rank = options.rank_of(peer, "peer")
        buffer = (_collectives.read_from if sends else _collectives.written_to)(options.where, self.t, "t")
        address, place, staged = placed(buffer.count, buffer if sends else None, 0, None if sends else buffer, 0)
        arguments = address or place, buffer.count, buffer.dtype, rank
        work = options.work("pcclSend" if sends else "pcclRecv", arguments, buffer, staged)
        work.world = 2
        return work


@described
class Send(_Transfer):
    peer: Union[int, str] = argument(kw_only=False)

    _SENDS = True


@described
class Recv(_Transfer):
    """A receive. With peer=None, from any member."""

    peer: Union[int, str, None] = argument(kw_only=False, default=None)

    _SENDS = False


# ---- blobs


@described
class BlobOperation(_OfMembers):
    """An operation that returns blobs."""

    max_bytes: int = 256 << 20

    def _work(self, options: Options, function: str, arguments: Tuple[Any, ...], pins: Any) -> Work:
        """Returns the operation to launch. Only operations of methods have on_arrival; listed operations do not."""
        return options.work_of_blobs(function, arguments, pins, self.max_bytes, getattr(self, "on_arrival", None))

    def _begin(self) -> None:
        self._take(None)

    def _take(self, info: Optional[OperationInfo], work: Optional[Work] = None) -> None:
        super()._take(info)
        self.blobs: List[Tuple[str, memoryview]] = []
        if work is not None and work.blobs is not None:
            self.blobs = work.blobs.take()


@described
class AllGatherV(BlobOperation):
    """An all_gather_v for Communicator.run(), with the arguments of Communicator.all_gather_v except on_arrival.

    blobs   the result of the last run(), as the method returns it; empty unless the operation has succeeded
    """

    data: Memory = argument(kw_only=False)

    _NUMBER, _PLACES = 5, "sendbuf count"

    def _fill(self, options: Options) -> Work:
        pins, address, length = _collectives.bytes_of(f"{options.where}: data", self.data)
        return self._work(options, "pcclAllGatherV", (address, length), pins)


@described
class GatherV(BlobOperation):
    """A gather_v for Communicator.run(), with the arguments of Communicator.gather_v except on_arrival.

    blobs   the result of the last run(), as the method returns it; empty unless the operation has succeeded
    """

    data: Memory = argument(kw_only=False)
    root: Union[int, str]

    _NUMBER, _PLACES, _IS_COUNTED = 10, "sendbuf count root", True

    def _fill(self, options: Options) -> Work:
        pins, address, length = _collectives.bytes_of(f"{options.where}: data", self.data)
        return self._work(options, "pcclGatherV", (address, length, options.rank_of(self.root)), pins)


@described
class ScatterV(BlobOperation):
    """A scatter_v for Communicator.run(), with the arguments of Communicator.scatter_v except on_arrival.

    part   the result of the last run(), as the method returns it; None unless the operation has succeeded
    """

    parts: Optional[Iterable[Memory]] = argument(kw_only=False, default=None)
    root: Union[int, str]

    _NUMBER, _PLACES, _IS_COUNTED = 11, "sendbuf count root", True

    def _fill(self, options: Options) -> Work:
        """Ignores the parts unless this peer is the root."""
        root = options.rank_of(self.root)
        pins, listed = _collectives.part_list(options, self.parts) if root == options.rank else (None, ())
        arguments = ctypes.addressof(listed) if listed else None, len(listed), root
        return self._work(options, "pcclScatterV", arguments, pins)

    @property
    def part(self) -> Optional[memoryview]:
        return self.blobs[0][1] if self.blobs else None


@described
class AllToAllV(BlobOperation):
    """An all_to_all_v for Communicator.run(), with the arguments of Communicator.all_to_all_v except on_arrival.

    blobs   the result of the last run(), as the method returns it; empty unless the operation has succeeded
    """

    parts: Iterable[Memory] = argument(kw_only=False)

    _NUMBER, _PLACES, _IS_COUNTED = 12, "sendbuf count", True

    def _fill(self, options: Options) -> Work:
        pins, listed = _collectives.part_list(options, self.parts)
        return self._work(options, "pcclAllToAllV", (ctypes.addressof(listed), len(listed)), pins)


@described
class _Seen:
    """Adds the argument on_arrival, which listed operations do not have."""

    on_arrival: Optional[OnArrival] = None

    _ORDER: ClassVar[Tuple[str, ...]] = ("on_arrival",)


@described
class SeenAllGatherV(AllGatherV, _Seen):
    pass


@described
class SeenGatherV(GatherV, _Seen):
    pass


@described
class SeenScatterV(ScatterV, _Seen):
    pass


@described
class SeenAllToAllV(AllToAllV, _Seen):
    pass
