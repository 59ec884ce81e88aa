"""Computes the mean of the peers' deltas for a fragment."""

from __future__ import annotations

import dataclasses
from array import array
from collections import deque
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, Iterator, List, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from .._codec import NO_FEEDBACK, QuantizationOptions
from .._communicator import Communicator
from .._enums import DataType, QuantizationAlgorithm, ReduceOp
from .._errors import InvalidArgument, PeerLostError, TooFewPeersError
from .._handles import AsyncReduceHandle
from .._reduce import OperationInfo, ReduceDescriptor, ReduceInfo, ReduceOpDescriptor, ReduceOperandDescriptor
from . import _arrays
from ._arrays import Arrays, Flats, Layout

# First of the tags that are reserved for DiLoCo; the program must not use them. Each fragment has a range of tags, the
# first of which is for the weights.
FIRST_TAG = 1 << 40
_TAGS_OF_A_FRAGMENT = 1 << 24
_STATE_TAGS = 1 << 23  # offset of the tags for the fragment's state within its range

BUCKET_BYTES = 16 << 20

CODECS = {
    "u8-minmax": QuantizationOptions(DataType.UINT8, QuantizationAlgorithm.MIN_MAX),
    "u8-zps": QuantizationOptions(DataType.UINT8, QuantizationAlgorithm.ZERO_POINT_SCALE),
    **{name: QuantizationOptions(name) for name in ("e4m3", "e5m2", "int4", "e3m0", "e2m1")},
}
CODECS["auto"] = QuantizationOptions("auto", budget_percent=20)
# HALF, which is not one of the library's codecs, rounds deltas to bfloat16 and reduces those. EXACT means no codec.
HALF, EXACT = "bf16", "exact"
_OF_DOUBLES = (QuantizationAlgorithm.MIN_MAX, QuantizationAlgorithm.ZERO_POINT_SCALE, QuantizationAlgorithm.NONE)
Codec = Union[None, str, QuantizationOptions]
Packing = Union[None, QuantizationOptions, Literal["bf16"]]


def packing_of(given: Codec, feedback: bool, dtypes: Sequence[str], is_half: bool) -> Packing:
    """Returns the packing of a delta. is_half: the parameters have 16-bit types, so bfloat16 is the default."""
    if given == HALF or (given is None and is_half and not feedback):
        if feedback:
            raise InvalidArgument(NO_FEEDBACK)
        if "float64" in dtypes:
            raise InvalidArgument("codec: 'bf16' does not pack float64")
        return "bf16"
    return codec_of(None if given == EXACT else given, feedback, dtypes)


def codec_of(given: Codec, feedback: bool, dtypes: Sequence[str]) -> Optional[QuantizationOptions]:
    """Returns the codec's options, or None for no codec. feedback: enables error feedback even if the options do not.
    dtypes: types of the outer copy."""
    options = CODECS.get(given) if isinstance(given, str) else given
    if given is not None and not isinstance(options, QuantizationOptions):
        raise InvalidArgument(
            f"codec: {given!r}; expected None, {', '.join(map(repr, CODECS))}; for deltas also 'bf16' or 'exact'"
        )
    if options is None:
        if feedback:
            raise InvalidArgument(NO_FEEDBACK)
        return None
    options = dataclasses.replace(options, feedback=feedback or options.feedback)
    options.to_c()  # rejects invalid combinations
    if "float64" in dtypes and options.algorithm not in _OF_DOUBLES:
        raise InvalidArgument(f"codec: {codec_words(options)} does not pack float64")
    return options


def packings_of(
    given: Union[Codec, Sequence[Codec]], feedback: bool, layout: Layout, count: int
) -> List[Packing]:
    """Returns the packing of each fragment. feedback applies to the fragments that have a codec."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [packing_of(given, feedback, layout.dtypes, layout.is_half)] * count
    if len(given) != count:
        raise InvalidArgument(f"codec: {len(given)} codecs for {count} fragments")
    return [
        packing_of(one, feedback and one not in (None, EXACT, HALF), layout.dtypes, layout.is_half) for one in given
    ]


def codec_words(options: Packing) -> str:
    """Returns a description that must be the same on all peers."""
    if options is None:
        return "None"
    if options == HALF:
        return repr(HALF)
    assert isinstance(options, QuantizationOptions)
    bare = dataclasses.replace(options, feedback=False)
    return next((repr(name) for name, codec in CODECS.items() if codec == bare), repr(bare))


@dataclass
class Reduced:
    """Result of a reduction, the same on all peers. The mean itself is in Reduction.mean."""

    participants: int
    weight: float  # sum over all peers; 0: there is no mean, because no peer contributed
    samples: int  # sum over all peers
    tx_bytes: int = 0
    rx_bytes: int = 0
    names: int = 0  # sum of the peers' names
    present: Sequence[float] = ()  # sums of the peers' attendance numbers

    def add(self, info: ReduceInfo) -> None:
        self.tx_bytes += info.tx_bytes
        self.rx_bytes += info.rx_bytes


class Call(NamedTuple):
    """An all-reduce, either an entry of a list that is repeated until it succeeds, or launched once."""

    send: Any
    recv: Any
    tag: int
    dtype: DataType
    codec: Optional[QuantizationOptions] = None
    op: ReduceOp = ReduceOp.SUM

    def descriptor(self) -> ReduceOpDescriptor:
        operand = ReduceOperandDescriptor(self.dtype)
        about = ReduceDescriptor(len(self.send), self.op, self.tag, operand, self.codec)
        return ReduceOpDescriptor.from_buffers(self.send, self.recv, about)

    def launch(self, comm: Communicator) -> AsyncReduceHandle:
        return comm.all_reduce_async(
            self.send, self.recv, op=self.op, tag=self.tag, quantization_options=self.codec
        )


def small(values: Union[array[float], array[int]], op: ReduceOp, tag: int) -> Call:
    """Returns an all-reduce of a few numbers, in place and without a codec."""
    return Call(values, values, tag, DataType.FLOAT64 if values.typecode == "d" else DataType.INT64, op=op)


class Reduction:
    """A peer's delta for a fragment, and the mean, in buckets: contiguous ranges of the flat arrays that are reduced
    separately.

    The mean covers exactly the peers that are present at the end. Members can only leave during a reduction, so if
    their number at the end equals the number of peers in the sum of the weights, every bucket contains the shares of
    exactly these peers. Otherwise a peer was lost, and the others repeat the reduction, or abandon it if no peer waits
    for it.
    """

    def __init__(
        self,
        index: int,
        delta: Flats,
        mean: Flats,
        arrays: Arrays,
        codec: Packing,
        bucket_bytes: int,
        max_in_flight: int,
    ) -> None:
        """index: number of the fragment."""
        self.delta, self.mean = delta, mean
        self._weight = 0.0
        self._samples = 0
        self._comm: Any = None
        self._kept: Dict[int, array[float]] = {}  # error-feedback residuals from before the latest reduction, by tag
        self.name = 0  # 32-bit name of the trainer if this reduces one of its shards, otherwise 0
        # Returns this peer's attendance numbers; all peers return lists of the same length. Called in the background.
        self.attendance: Callable[[], List[float]] = list
        self._arrays = arrays
        self._max_in_flight = max_in_flight
        self._first_tag = FIRST_TAG + (index + 1) * _TAGS_OF_A_FRAGMENT
        self._codec = codec if isinstance(codec, QuantizationOptions) else None
        self._bucket_bytes = bucket_bytes
        self._halves: List[Tuple[Any, Any]] = []  # bfloat16 versions of deltas and means, sent in their place
        if codec == HALF:
            self._halves = [(arrays.halves(len(flat)), arrays.halves(len(flat))) for flat in delta]
            delta, mean = [sent for sent, _ in self._halves], [got for _, got in self._halves]
        self._buckets = [
            Call(send, recv, tag, DataType.BFLOAT16 if self._halves else self._kind(send), self._codec)
            for tag, (send, recv) in enumerate(zip(self._cut(delta), self._cut(mean)), self._first_tag + 1)
        ]

    def _kind(self, flat: Any) -> DataType:
        return DataType[self._arrays.dtype(flat).upper()]

    def _cut(self, flats: Flats) -> Iterator[Any]:
        for flat in flats:
            step = max(1, self._bucket_bytes // self._kind(flat).itemsize)
            for start in range(0, len(flat), step):
                yield flat[start : start + step]

    @property
    def state_tag(self) -> int:
        """First of the tags for the fragment's state."""
        return self._first_tag + _STATE_TAGS

    def is_finite(self) -> bool:
        return all(self._arrays.is_finite(flat) for flat in self.delta)

    def mean_is_finite(self) -> bool:
        return all(self._arrays.is_finite(flat) for flat in self.mean)

    def give(self, weight: float, samples: int) -> None:
        """Sets the weight of the delta in the next reduction. With weight 0 it contributes nothing."""
        if weight == 0:
            _arrays.fill(self.delta, 0.0)
        elif weight != 1:
            _arrays.scale(self.delta, weight)
        self.resume(weight, samples)

    def resume(self, weight: float, samples: int) -> None:
        """Sets the weight and the samples of a delta that has already been multiplied by its weight."""
        self._weight, self._samples = weight, samples

    @property
    def weight(self) -> float:
        return self._weight

    @property
    def samples(self) -> int:
        return self._samples

    def run(self, comm: Communicator, repeat: bool) -> Optional[Reduced]:
        """Reduces the deltas of the group, whose peers must all call it. Afterwards the mean has been divided by the
        weight, and delta is unchanged. Returns None on all peers if a peer was lost and repeat is false."""
        for (sent, _), flat in zip(self._halves, self.delta):
            self._arrays.to_halves(sent, flat)
        try:
            reduced = self._repeated(comm) if repeat else self._once(comm)
        except TooFewPeersError:
            self.take_back()
            return self._alone()
        for (_, got), flat in zip(self._halves, self.mean):
            self._arrays.from_halves(flat, got)
        if reduced is None or reduced.weight == 0:
            self.take_back()
        if reduced is not None and reduced.weight > 0:
            self._divide(reduced.weight)
        return reduced

    @property
    def has_feedback(self) -> bool:
        return self._codec is not None and self._codec.feedback

    def keep(self, comm: Communicator) -> None:
        """Copies the residuals before a reduction with error feedback, because it may be abandoned."""
        self._comm, self._kept = comm, {call.tag: comm.get_feedback(call.tag) for call in self._buckets}

    def take_back(self) -> None:
        """Restores this peer's residuals from before the latest reduction, which does not count. Buckets that succeeded
        have moved them into means that will not be used."""
        for tag, kept in self._kept.items():
            self._comm.set_feedback(tag, kept)

    def count(self) -> None:
        """Drops the copies of the residuals, because the reduction counts."""
        self._kept = {}

    def save_feedback(self, comm: Communicator, target: Flats, is_on_its_way: bool) -> None:
        """Saves the residuals. For a reduction in flight, which a resumed run launches again, saves the residuals from
        before it."""
        for call, place in zip(self._buckets, self._cut(target)):
            kept = self._kept[call.tag] if is_on_its_way else comm.get_feedback(call.tag)
            if len(kept) > 0:
                self._arrays.bring(place, kept)

    def load_feedback(self, comm: Communicator, source: Flats) -> None:
        for call, place in zip(self._buckets, self._cut(source)):
            comm.set_feedback(call.tag, place)

    def _about(self) -> Tuple[array[float], Call]:
        names = [float(self.name)] if self.name else []
        about = array("d", [1.0, self._weight, float(self._samples), *names, *self.attendance()])
        return about, small(about, ReduceOp.SUM, self._first_tag)

    def _reduced(self, about: array[float]) -> Reduced:
        rest = 4 if self.name else 3
        names = int(sum(about[3:rest]))
        return Reduced(int(about[0]), about[1], int(about[2]), names=names, present=about[rest:])

    def _repeated(self, comm: Communicator) -> Reduced:
        while True:
            about, call = self._about()
            info = comm.all_reduce_multiple_with_retry([call.descriptor()])
            reduced = self._reduced(about)
            reduced.add(info)
            if reduced.weight == 0 or not self._buckets:
                return reduced
            buckets = [bucket.descriptor() for bucket in self._buckets]
            info = comm.all_reduce_multiple_with_retry(buckets, max_in_flight=self._max_in_flight)
            reduced.add(info)
            if info.local_world_size == reduced.participants:
                return reduced
            self.take_back()

    def _once(self, comm: Communicator) -> Optional[Reduced]:
        """Reduces once. Launches all buckets even if earlier ones have failed, because other peers may wait for them.
        Returns None if a peer was lost."""
        about, call = self._about()
        open_calls: Deque[AsyncReduceHandle] = deque()
        ended: List[Optional[OperationInfo]] = []
        try:
            for one in (call, *self._buckets):
                if len(open_calls) == self._max_in_flight:
                    ended.append(_outcome(open_calls.popleft()))
                open_calls.append(one.launch(comm))
        finally:  # the tags are used again, even if this peer is the only one left
            for handle in open_calls:
                handle.wait()
        ended += [_outcome(handle) for handle in open_calls]
        infos = [info for info in ended if info is not None]
        if len(infos) < len(ended) or len({info.participants for info in infos}) > 1:
            return None
        reduced = self._reduced(about)
        for info in infos:
            reduced.add(info)
        return reduced

    def _alone(self) -> Reduced:
        """Returns the result for a peer that is alone. The mean is its delta."""
        if self._weight > 0:
            _arrays.copy(self.mean, self.delta)
            self._divide(self._weight)
        return Reduced(1, self._weight, self._samples, names=self.name)

    def _divide(self, weight: float) -> None:
        if weight != 1:
            for flat in self.mean:
                flat /= weight


def _outcome(handle: AsyncReduceHandle) -> Optional[OperationInfo]:
    """Returns the result of the operation, or None if it failed because a peer was lost."""
    try:
        return handle.result()
    except PeerLostError:
        return None
