"""Converts the options and buffers of operations for the C interface."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _buffers, _native
from ._buffers import Buffer
from ._codec import QuantizationOptions, codec_to_c
from ._core import text
from ._enums import ReduceOp, member, number
from ._errors import InvalidArgument, LayoutError
from ._operation import Arrivals, Blobs, Finishing, Work
from ._staged import Staged, on_device

OnArrival = Callable[[str, memoryview], Any]

_ID_SIZE = 33  # includes the terminator
_PREMUL_SUM = int(ReduceOp.PREMUL_SUM)
_OPTIONS_BYTES = ctypes.sizeof(_native.CollectiveOptionsC)


def peer_ids(where: str, given: Sequence[str]) -> Any:
    """Converts peer ids to a C array."""
    ids = [text(where, one) for one in given]
    for one in ids:
        if len(one) != _ID_SIZE - 1:
            raise InvalidArgument(
                f"{where}: {one.decode()!r} is not a peer id: expected {_ID_SIZE - 1} hexadecimal "
                "digits"
            )
    return _native.ids_type(len(ids))(*[_native.PeerIdC(one) for one in ids])


def given_members(where: str, members: Sequence[str], own: str) -> Tuple[Tuple[str, ...], int]:
    """Returns the caller's member list, and the rank of the peer `own` in it."""
    given = tuple(members)
    if own not in given:
        raise InvalidArgument(f"{where}: members: this peer, {own}, is missing from the list")
    return given, given.index(own)


def factor_of(where: str, op: Any, factor: Optional[float]) -> float:
    """Returns the factor of a reduction or a list of reductions. Raises InvalidArgument if a premultiplied sum has no
    factor, or if there is a factor without a premultiplied sum."""
    each = op if isinstance(op, (list, tuple)) else (op,)
    is_wanted = _PREMUL_SUM in [member("op", ReduceOp, one) for one in each]
    if is_wanted != (factor is not None):
        words = "a premultiplied sum requires one" if is_wanted else "only a premultiplied sum takes one"
        raise InvalidArgument(f"{where}: factor: {words}")
    try:
        return 1.0 if factor is None else float(factor)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{where}: factor: expected a number, not {factor!r}") from None


class Options:
    """Arguments of an operation except its buffers. Keeps the memory of the C struct alive.

    members, rank   members that the operation requires, and this peer's rank among them, if given
    """

    counts: Optional[List[int]] = None

    def __init__(
        self,
        where: str,
        tag: int = 0,
        members: Optional[Sequence[str]] = None,
        rank: int = 0,
        *,
        alone_ok: bool = False,
        label: bytes = b"",
        factor: float = 1.0,
        quantization: Optional[QuantizationOptions] = None,
    ) -> None:
        self.where = where
        self.tag = number(f"{where}: tag", tag, 0, 1 << 64)
        self.rank = rank
        self._members = members
        self.c = _native.CollectiveOptionsC(_OPTIONS_BYTES, self.tag, label, alone_ok=bool(alone_ok), factor=factor)
        if members is not None:
            if not members:
                raise InvalidArgument(f"{where}: members: the list is empty")
            self._ids = peer_ids(f"{where}: members", members)
            self.c.members, self.c.member_count = ctypes.addressof(self._ids), len(self._ids)
        if quantization is not None:
            self.c.quantization = codec_to_c(where, quantization)

    def count(self, counts: Sequence[int]) -> None:
        """Sets the number of elements for each member."""
        self.counts = [number(f"{self.where}: counts", one, 0, 1 << 63) for one in counts]
        if len(self.counts) != len(self.members):
            raise LayoutError(f"{self.where}: {len(self.counts)} counts for {len(self.members)} members")
        self._counts = (ctypes.c_size_t * len(self.counts))(*self.counts)
        self.c.counts, self.c.counts_length = ctypes.addressof(self._counts), len(self.counts)

    @property
    def members(self) -> Sequence[str]:
        assert self._members is not None
        return self._members

    @property
    def quantized(self) -> bool:
        return bool(self.c.quantization.algorithm)

    def rank_of(self, root: Union[int, str, None], what: str = "root") -> int:
        if not isinstance(root, str):
            return number(f"{self.where}: {what}", root, 0, len(self.members))
        if root not in self.members:
            raise InvalidArgument(f"{self.where}: {what}: {root!r} is not a member")
        return self.members.index(root)

    def work(
        self, function: str, arguments: Tuple[Any, ...], pins: Any = None, staged: Optional[Finishing] = None
    ) -> Work:
        world = None if self._members is None else len(self._members)
        return Work(function, self.tag, ctypes.addressof(self.c), arguments, (self, pins), staged, world)

    def work_of_blobs(
        self, function: str, arguments: Tuple[Any, ...], pins: Any, max_bytes: int, on_arrival: Optional[OnArrival]
    ) -> Work:
        self.c.max_bytes = number(f"{self.where}: max_bytes", max_bytes, 1, 1 << 64)
        work = self.work(function, arguments, pins)
        work.blobs = Blobs()
        if on_arrival is not None:
            if not callable(on_arrival):
                raise InvalidArgument(f"{self.where}: on_arrival: expected a function, not {on_arrival!r}")
            work.arrivals = Arrivals(on_arrival, work.blobs)
            self.c.on_arrival = ctypes.cast(work.arrivals.c, ctypes.c_void_p)
        return work


# ---- buffers


def need_elements(where: str, buffer: Buffer) -> None:
    if buffer.count == 0:
        raise InvalidArgument(f"{where}: the buffers have no elements")


def read_from(where: str, thing: Any, what: str) -> Buffer:
    buffer = _buffers.of(thing, f"{where}: {what}")
    need_elements(where, buffer)
    return buffer


def written_to(where: str, thing: Any, what: str) -> Buffer:
    buffer = _buffers.of(thing, f"{where}: {what}")
    _buffers.need_writable(buffer, thing, f"{where}: {what}")
    need_elements(where, buffer)
    return buffer


def pair(where: str, send: Any, recv: Any) -> Tuple[Buffer, Buffer]:
    source, target = _buffers.of(send, f"{where}: send"), _buffers.of(recv, f"{where}: recv")
    _buffers.need_writable(target, recv, f"{where}: recv")
    _buffers.match_kinds(source, target, where)
    need_elements(where, source)
    return source, target


def need_parts(options: Options, whole: Tuple[str, Buffer], part: Tuple[str, Buffer]) -> None:
    """Checks that the whole buffer has the size of one part per member."""
    world, count = len(options.members), part[1].count
    if whole[1].count != world * count:
        raise LayoutError(
            f"{options.where}: {whole[0]} has {whole[1].count} elements: expected {world * count}, as "
            f"{part[0]} has {count} and there are {world} members"
        )


def need_shares(options: Options, counts: List[int], whole: Buffer, share: Buffer) -> None:
    if whole.count != sum(counts):
        raise LayoutError(f"{options.where}: send has {whole.count} elements, but the counts add up to {sum(counts)}")
    own = counts[options.rank]
    if share.count != own:
        raise LayoutError(f"{options.where}: recv has {share.count} elements, but this peer's count is {own}")


def need_equal(where: str, source: Buffer, target: Buffer) -> None:
    if source.count != target.count:
        raise LayoutError(f"{where}: send and recv have different numbers of elements: {source.count}, {target.count}")


def reductions(where: str, op: Any, count: int) -> List[int]:
    """Returns the reduction of each tensor, given one for all or a list."""
    if not isinstance(op, (list, tuple)):
        return [member("op", ReduceOp, op)] * count
    each = [member("op", ReduceOp, one) for one in op]
    if len(each) != count:
        raise InvalidArgument(f"{where}: op: {len(each)} reductions for {count} tensors: expected one for each")
    return each


def coalesced(
    where: str, send: Any, recv: Any, op: int, stages: List[Staged]
) -> Tuple[_native.CoalescedTensorC, Tuple[Buffer, Buffer]]:
    """Returns the C descriptor of a tensor, and its buffers. If the tensor is on a device, appends a staged copy to
    `stages`."""
    source = _buffers.of(send, where)
    target = source if recv is send else _buffers.of(recv, where)
    _buffers.need_writable(target, recv, where)
    _buffers.match(source, target, where)
    addresses = source.address, target.address
    if on_device(source):
        stages.append(Staged(source.count, source.owner, 0, target.owner, 0))
        addresses = stages[-1].address(0), stages[-1].address(0)
    return _native.CoalescedTensorC(*addresses, source.count, source.dtype, op), (source, target)


def bytes_of(where: str, data: Any) -> Tuple[Any, int, int]:
    """Returns the owner of the memory, the address, and the length in bytes."""
    buffer = _buffers.of(data, where)
    length = buffer.count * buffer.dtype.itemsize
    if not on_device(buffer):
        return buffer, buffer.address, length
    staged = Staged(buffer.count, buffer.owner, 0, None, 0)
    return staged, staged.address(0), length


def part_list(options: Options, parts: Any) -> Tuple[Any, Any]:
    """Returns the owners of the memory, and the C array of parts."""
    where, members = options.where, options.members
    try:
        given = list(parts)
    except TypeError:
        raise InvalidArgument(f"{where}: parts: expected a part for each member, not {parts!r}") from None
    if len(given) != len(members):
        raise LayoutError(f"{where}: {len(given)} parts for {len(members)} members")
    taken = [bytes_of(f"{where}: parts[{i}]", one) for i, one in enumerate(given)]
    listed = (_native.PartC * len(taken))(*[_native.PartC(address, length) for _, address, length in taken])
    return (taken, listed), listed
