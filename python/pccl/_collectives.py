"""What all operations with options are made of."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _buffers, _core, _native
from ._codec import QuantizationOptions
from ._enums import ReduceOp, member, number
from ._errors import InvalidArgument, LayoutError
from ._reduce import Arrivals, Blobs, Staged, StagedTogether, Work, on_device

OnArrival = Callable[[str, memoryview], Any]

_ID_SIZE = 33  # with its terminator


def peer_ids(where: str, given: Sequence[str]) -> Any:
    """A list of ids as the library takes it."""
    ids = [_core.text(where, one) for one in given]
    for one in ids:
        if len(one) != _ID_SIZE - 1:
            raise InvalidArgument(f"{where}: {one.decode()!r} is no id of a peer")
    return (_native.PeerIdC * len(ids))(*[_native.PeerIdC(one) for one in ids])


class Options:
    """What operations may be given beside their buffers. Keeps the memory of the C struct."""

    def __init__(
        self,
        where: str,
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions] = None,
        counts: Optional[Sequence[int]] = None,
        label: Optional[bytes] = None,
        factor: float = 1.0,
    ) -> None:
        """label: None, if it is set where the operation is launched."""
        self.where = where
        self.tag = number(f"{where}: tag", tag, 0, 1 << 64)
        self.members = members
        self._ids = peer_ids(f"{where}: members", members or ())
        self._c = _native.CollectiveOptionsC(
            size=ctypes.sizeof(_native.CollectiveOptionsC),
            tag=self.tag,
            label=label,
            members=None if members is None else ctypes.addressof(self._ids),
            member_count=len(self._ids),
            alone_ok=bool(alone_ok),
            factor=factor,
        )
        if members is not None and not len(self._ids):
            raise InvalidArgument(f"{where}: members: the list is empty")
        if quantization is not None:
            self._c.quantization = quantization.to_c()
        self.counts: Optional[List[int]] = None
        if counts is not None:
            self.counts = [number(f"{where}: counts", one, 0, 1 << 63) for one in counts]
            if members is not None and len(self.counts) != len(members):
                raise LayoutError(f"{where}: {len(self.counts)} counts for {len(members)} members")
            self._counts = (ctypes.c_size_t * len(self.counts))(*self.counts)
            self._c.counts, self._c.counts_length = ctypes.addressof(self._counts), len(self.counts)

    def limit(self, max_bytes: int) -> None:
        self._c.max_bytes = number(f"{self.where}: max_bytes", max_bytes, 1, 1 << 64)

    def show(self, arrivals: Arrivals) -> None:
        self._c.on_arrival = ctypes.cast(arrivals.c, ctypes.c_void_p)

    @property
    def address(self) -> int:
        """Of the C struct."""
        return ctypes.addressof(self._c)

    @property
    def quantized(self) -> bool:
        return bool(self._c.quantization.algorithm)

    def work(
        self,
        function: str,
        arguments: Tuple[Any, ...],
        pins: Any = None,
        staged: Optional[Union[Staged, StagedTogether]] = None,
        blobs: Optional[Blobs] = None,
        arrivals: Optional[Arrivals] = None,
    ) -> Work:
        launch = getattr(_native.lib, function + "Async")
        result = () if blobs is None else (ctypes.byref(blobs.c),)
        given: Callable[[Any, Any], int] = lambda comm, handle: launch(
            *arguments, ctypes.byref(self._c), comm, *result, handle
        )
        world = None if self.members is None else len(self.members)
        return Work(function, self.tag, given, (self, pins), staged, world, arguments, blobs, arrivals)


def given_members(where: str, members: Sequence[str], own: str) -> Tuple[Tuple[str, ...], int]:
    """What a caller counts on, and this peer's rank among them. own: its id."""
    given = tuple(members)
    if own not in given:
        raise InvalidArgument(f"{where}: members: this peer, {own}, is not among them")
    return given, given.index(own)


def factor_of(where: str, op: Any, factor: Optional[float]) -> float:
    """The factor that such a reduction is given, or such reductions."""
    each = op if isinstance(op, (list, tuple)) else (op,)
    is_wanted = any(member("op", ReduceOp, one) == ReduceOp.PREMUL_SUM for one in each)
    if is_wanted != (factor is not None):
        words = "a premultiplied sum needs one" if is_wanted else "only a premultiplied sum has one"
        raise InvalidArgument(f"{where}: factor: {words}")
    try:
        return 1.0 if factor is None else float(factor)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{where}: factor: expected a number, not {factor!r}") from None


def all_reduce(options: Options, reduction: Work) -> Work:
    """What is described without options, with them."""
    return options.work("pcclAllReduceWithOptions", reduction.arguments, reduction.pins, reduction.staged)


def _reductions(where: str, op: Any, count: int) -> List[int]:
    """Of each tensor of a list."""
    if not isinstance(op, (list, tuple)):
        return [member("op", ReduceOp, op)] * count
    each = [member("op", ReduceOp, one) for one in op]
    if len(each) != count:
        raise InvalidArgument(f"{where}: op: {len(each)} reductions for {count} tensors")
    return each


def _tensor(
    where: str, send: Any, recv: Any, op: int, stages: List[Staged]
) -> Tuple[_native.CoalescedTensorC, Tuple[_buffers.Buffer, _buffers.Buffer]]:
    source = _buffers.of(send, where)
    target = source if recv is send else _buffers.of(recv, where)
    _buffers.need_writable(target, recv, where)
    _buffers.match(source, target, where)
    addresses = source.address, target.address
    if on_device(source):
        stages.append(Staged(source.count, source.owner, 0, target.owner, 0))
        addresses = stages[-1].address(0), stages[-1].address(0)
    return _native.CoalescedTensorC(*addresses, source.count, source.dtype, op), (source, target)


def coalesced(options: Options, send: Sequence[Any], recv: Optional[Sequence[Any]], op: Any) -> Work:
    """An all-reduce of several tensors; recv: None, if they are the results, too."""
    where, sources = options.where, list(send)
    targets = sources if recv is None else list(recv)
    if len(sources) != len(targets):
        raise LayoutError(f"{where}: send has {len(sources)} tensors and recv {len(targets)}")
    stages: List[Staged] = []
    triples = zip(sources, targets, _reductions(where, op, len(sources)))
    made = [_tensor(f"{where}: tensor {i}", *triple, stages) for i, triple in enumerate(triples)]
    tensors = (_native.CoalescedTensorC * len(made))(*[tensor for tensor, _ in made])
    staged = StagedTogether(stages) if stages else None
    pins = tensors, [buffers for _, buffers in made]
    return options.work("pcclAllReduceCoalesced", (ctypes.addressof(tensors), len(made)), pins, staged)


def _need_elements(where: str, buffer: _buffers.Buffer) -> None:
    if buffer.count == 0:
        raise InvalidArgument(f"{where}: the buffers have no elements")


def _rank_of(options: Options, root: Union[int, str, None], what: str = "root") -> int:
    where, members = options.where, options.members
    assert members is not None
    if not isinstance(root, str):
        return number(f"{where}: {what}", root, 0, len(members))
    if root not in members:
        raise InvalidArgument(f"{where}: {what}: {root!r} is none of the members")
    return members.index(root)


def broadcast(options: Options, thing: Any, root: Union[int, str], own_rank: int) -> Work:
    """The root's buffer is only read, unless it becomes what the others unpack."""
    where, rank = options.where, _rank_of(options, root)
    buffer = _buffers.of(thing, f"{where}: the buffer")
    is_root = rank == own_rank
    is_written = not is_root or options.quantized
    if is_written:
        _buffers.need_writable(buffer, thing, f"{where}: the buffer")
    _need_elements(where, buffer)
    staged, address = None, buffer.address
    if on_device(buffer):
        source, target = buffer.owner if is_root else None, buffer.owner if is_written else None
        staged = Staged(buffer.count, source, 0, target, 0)
        address = staged.address(0)
    return options.work("pcclBroadcast", (address, buffer.count, buffer.dtype, rank), buffer, staged)


def _pair(where: str, send: Any, recv: Any) -> Tuple[_buffers.Buffer, _buffers.Buffer]:
    source, target = _buffers.of(send, f"{where}: send"), _buffers.of(recv, f"{where}: recv")
    _buffers.need_writable(target, recv, f"{where}: recv")
    _buffers.match_kinds(source, target, where)
    _need_elements(where, source)
    return source, target


def _need_parts(where: str, whole: Tuple[str, int], part: Tuple[str, int], world: int) -> None:
    if whole[1] != world * part[1]:
        raise LayoutError(
            f"{where}: {whole[0]} has {whole[1]} elements; for {world} members and {part[1]} elements in {part[0]} "
            f"it must have {world * part[1]}"
        )


def all_gather(options: Options, send: Any, recv: Any, own_rank: int) -> Work:
    source, target = _pair(options.where, send, recv)
    assert options.members is not None
    _need_parts(options.where, ("recv", target.count), ("send", source.count), len(options.members))
    staged, addresses = None, (source.address, target.address)
    if on_device(source):
        own = own_rank * source.count
        staged = Staged(target.count, source.owner, own, target.owner, 0)
        addresses = staged.address(own), staged.address(0)
    return options.work("pcclAllGather", (*addresses, source.count, source.dtype), (source, target), staged)


def _need_shares(where: str, whole: int, counted: int, share: int, own: int) -> None:
    if whole != counted:
        raise LayoutError(f"{where}: send has {whole} elements, but the counts make {counted}")
    if share != own:
        raise LayoutError(f"{where}: recv has {share} elements, but this peer's count is {own}")


def reduce_scatter(options: Options, send: Any, recv: Any, op: Union[ReduceOp, str], own_rank: int) -> Work:
    source, target = _pair(options.where, send, recv)
    assert options.members is not None
    own, count = own_rank * target.count, target.count
    if options.counts is None:
        _need_parts(options.where, ("send", source.count), ("recv", target.count), len(options.members))
    else:
        own, count = sum(options.counts[:own_rank]), sum(options.counts)
        _need_shares(options.where, source.count, count, target.count, options.counts[own_rank])
    staged, addresses = None, (source.address, target.address)
    if on_device(source):
        staged = Staged(source.count, source.owner, 0, target.owner, own)
        addresses = staged.address(0), staged.address(own)
    arguments = (*addresses, count, source.dtype, member("op", ReduceOp, op))
    return options.work("pcclReduceScatter", arguments, (source, target), staged)


def _one(where: str, thing: Any, what: str, written: bool) -> _buffers.Buffer:
    """The only buffer of a peer beside the root."""
    buffer = _buffers.of(thing, f"{where}: {what}")
    if written:
        _buffers.need_writable(buffer, thing, f"{where}: {what}")
    _need_elements(where, buffer)
    return buffer


def _need_equal(where: str, source: _buffers.Buffer, target: _buffers.Buffer) -> None:
    if source.count != target.count:
        raise LayoutError(f"{where}: send has {source.count} elements and recv {target.count}")


def reduce(
    options: Options, send: Any, recv: Any, root: Union[int, str], op: Union[ReduceOp, str], own_rank: int
) -> Work:
    """recv is the root's alone."""
    where, rank = options.where, _rank_of(options, root)
    target: Optional[_buffers.Buffer] = None
    if rank == own_rank:
        source, target = _pair(where, send, recv)
        _need_equal(where, source, target)
    else:
        source = _one(where, send, "send", False)
    staged = None
    addresses: Tuple[Optional[int], Optional[int]] = source.address, target.address if target else None
    if on_device(source):
        staged = Staged(source.count, source.owner, 0, target and target.owner, 0)
        addresses = staged.address(0), staged.address(0) if target else None
    arguments = (*addresses, source.count, source.dtype, member("op", ReduceOp, op), rank)
    return options.work("pcclReduce", arguments, (source, target), staged)


def gather(options: Options, send: Any, recv: Any, root: Union[int, str], own_rank: int) -> Work:
    """recv is the root's alone."""
    where, rank = options.where, _rank_of(options, root)
    assert options.members is not None
    target: Optional[_buffers.Buffer] = None
    if rank == own_rank:
        source, target = _pair(where, send, recv)
        _need_parts(where, ("recv", target.count), ("send", source.count), len(options.members))
    else:
        source = _one(where, send, "send", False)
    staged = None
    addresses: Tuple[Optional[int], Optional[int]] = source.address, target.address if target else None
    if on_device(source):
        own = own_rank * source.count if target else 0
        staged = Staged(target.count if target else source.count, source.owner, own, target and target.owner, 0)
        addresses = staged.address(own), staged.address(0) if target else None
    return options.work("pcclGather", (*addresses, source.count, source.dtype, rank), (source, target), staged)


def scatter(options: Options, send: Any, recv: Any, root: Union[int, str], own_rank: int) -> Work:
    """send is the root's alone."""
    where, rank = options.where, _rank_of(options, root)
    assert options.members is not None
    source: Optional[_buffers.Buffer] = None
    if rank == own_rank:
        source, target = _pair(where, send, recv)
        _need_parts(where, ("send", source.count), ("recv", target.count), len(options.members))
    else:
        target = _one(where, recv, "recv", True)
    staged = None
    addresses: Tuple[Optional[int], Optional[int]] = source.address if source else None, target.address
    if on_device(target):
        own = own_rank * target.count if source else 0
        staged = Staged(source.count if source else target.count, source and source.owner, 0, target.owner, own)
        addresses = staged.address(0) if source else None, staged.address(own)
    return options.work("pcclScatter", (*addresses, target.count, target.dtype, rank), (source, target), staged)


def all_to_all(options: Options, send: Any, recv: Any) -> Work:
    source, target = _pair(options.where, send, recv)
    assert options.members is not None
    world = len(options.members)
    _need_equal(options.where, source, target)
    if source.count % world:
        raise LayoutError(f"{options.where}: {source.count} elements are no equal parts for {world} members")
    staged, addresses = None, (source.address, target.address)
    if on_device(source):
        staged = Staged(2 * source.count, source.owner, 0, target.owner, source.count)
        addresses = staged.address(0), staged.address(source.count)
    return options.work("pcclAllToAll", (*addresses, source.count // world, source.dtype), (source, target), staged)


def transfer(options: Options, thing: Any, peer: Union[int, str, None], sends: bool) -> Work:
    """A send to the peer, or a receive from it; None: from anybody."""
    where = options.where
    assert options.members is not None
    if len(options.members) < 2:
        rank = 0  # whoever is meant: the library says that this peer is alone
    elif peer is None and not sends:
        rank = _native.ANY_PEER
    else:
        rank = _rank_of(options, peer, "peer")
    buffer = _one(where, thing, "t", not sends)
    staged, address = None, buffer.address
    if on_device(buffer):
        staged = Staged(buffer.count, buffer.owner if sends else None, 0, None if sends else buffer.owner, 0)
        address = staged.address(0)
    function = "pcclSend" if sends else "pcclRecv"
    return options.work(function, (address, buffer.count, buffer.dtype, rank), buffer, staged)._replace(world=2)


def _bytes_of(where: str, data: Any) -> Tuple[Any, int, int]:
    """What keeps them, where they are, and how many they are."""
    buffer = _buffers.of(data, where)
    length = buffer.count * buffer.dtype.itemsize
    if not on_device(buffer):
        return buffer, buffer.address, length
    staged = Staged(buffer.count, buffer.owner, 0, None, 0)
    return staged, staged.address(0), length


def _of_blobs(
    options: Options,
    function: str,
    arguments: Tuple[Any, ...],
    pins: Any,
    max_bytes: int,
    on_arrival: Optional[OnArrival],
) -> Work:
    blobs, arrivals = Blobs(), None
    options.limit(max_bytes)
    if on_arrival is not None:
        if not callable(on_arrival):
            raise InvalidArgument(f"{options.where}: on_arrival: expected a function, not {on_arrival!r}")
        arrivals = Arrivals(on_arrival, blobs)
        options.show(arrivals)
    return options.work(function, arguments, pins, None, blobs, arrivals)


def all_gather_v(options: Options, data: Any, max_bytes: int, on_arrival: Optional[OnArrival] = None) -> Work:
    pins, address, length = _bytes_of(f"{options.where}: data", data)
    return _of_blobs(options, "pcclAllGatherV", (address, length), pins, max_bytes, on_arrival)


def gather_v(
    options: Options, data: Any, root: Union[int, str], max_bytes: int, on_arrival: Optional[OnArrival] = None
) -> Work:
    pins, address, length = _bytes_of(f"{options.where}: data", data)
    arguments = address, length, _rank_of(options, root)
    return _of_blobs(options, "pcclGatherV", arguments, pins, max_bytes, on_arrival)


def _part_list(options: Options, parts: Any) -> Tuple[Any, Any]:
    """What keeps them, and the list as the library takes it."""
    where, members = options.where, options.members
    assert members is not None
    try:
        given = list(parts)
    except TypeError:
        raise InvalidArgument(f"{where}: parts: expected a part for each member, not {parts!r}") from None
    if len(given) != len(members):
        raise LayoutError(f"{where}: {len(given)} parts for {len(members)} members")
    taken = [_bytes_of(f"{where}: parts[{i}]", one) for i, one in enumerate(given)]
    listed = (_native.PartC * len(taken))(*[_native.PartC(address, length) for _, address, length in taken])
    return (taken, listed), listed


def scatter_v(
    options: Options,
    parts: Any,
    root: Union[int, str],
    own_rank: int,
    max_bytes: int,
    on_arrival: Optional[OnArrival] = None,
) -> Work:
    """parts are the root's alone."""
    rank = _rank_of(options, root)
    pins, listed = _part_list(options, parts) if rank == own_rank else (None, ())
    arguments = ctypes.addressof(listed) if listed else None, len(listed), rank
    return _of_blobs(options, "pcclScatterV", arguments, pins, max_bytes, on_arrival)


def all_to_all_v(options: Options, parts: Any, max_bytes: int, on_arrival: Optional[OnArrival] = None) -> Work:
    pins, listed = _part_list(options, parts)
    arguments = ctypes.addressof(listed), len(listed)
    return _of_blobs(options, "pcclAllToAllV", arguments, pins, max_bytes, on_arrival)


def barrier(options: Options) -> Work:
    return options.work("pcclBarrier", ())
