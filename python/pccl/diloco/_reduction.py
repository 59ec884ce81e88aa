"""The mean of the peers' deltas."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Callable, List, Optional, Union

from .._codec import QuantizationOptions
from .._communicator import Communicator
from .._enums import DataType, QuantizationAlgorithm, ReduceOp
from .._errors import InvalidArgument, TooFewPeersError
from .._reduce import (
    ReduceDescriptor,
    ReduceInfo,
    ReduceOpDescriptor,
    ReduceOperandDescriptor,
)
from . import _arrays
from ._arrays import Flats, Layout

# Tags from here on are DiLoCo's; a program's own reductions must use others.
FIRST_TAG = 1 << 40
_FIRST_BUCKET_TAG = FIRST_TAG + 16

CODECS = {
    None: None,
    "u8-minmax": QuantizationOptions(DataType.UINT8, QuantizationAlgorithm.MIN_MAX),
    "u8-zps": QuantizationOptions(DataType.UINT8, QuantizationAlgorithm.ZERO_POINT_SCALE),
}


@dataclass
class Reduced:
    """The result of a reduction, the same on all peers. The mean itself is in Reduction.mean."""

    participants: int
    weight: float  # of all peers; 0: no peer contributed, so there is no mean
    samples: int  # of all peers
    tx_bytes: int = 0
    rx_bytes: int = 0

    def count(self, info: ReduceInfo) -> None:
        self.tx_bytes += info.tx_bytes
        self.rx_bytes += info.rx_bytes


def small(values: Union[array[float], array[int]], op: ReduceOp, tag: int) -> ReduceOpDescriptor:
    """A reduction of a few numbers, in place and without a codec."""
    operand = ReduceOperandDescriptor(DataType.FLOAT64 if values.typecode == "d" else DataType.INT64)
    return ReduceOpDescriptor.from_buffers(values, values, ReduceDescriptor(len(values), op, tag, operand))


class Reduction:
    """A peer's delta and the mean, in buckets: contiguous parts of the flat arrays, each of which
    is reduced separately.

    The mean is over exactly those peers that are present at the end. Members can only leave during
    a reduction. So if their number at the end equals the number of those that summed the weights,
    every bucket has the shares of exactly these peers. Otherwise the remaining peers repeat the
    reduction.
    """

    def __init__(self, layout: Layout, codec: Optional[str], bucket_bytes: int, max_in_flight: int) -> None:
        if codec not in CODECS:
            raise InvalidArgument(f"codec: {codec!r}; there are {', '.join(map(repr, CODECS))}")
        if bucket_bytes < 8:
            raise InvalidArgument(f"bucket_bytes is {bucket_bytes}")
        if max_in_flight < 1:
            raise InvalidArgument(f"max_in_flight is {max_in_flight}")
        self.delta: Flats = layout.zeros()
        self.mean: Flats = layout.zeros()
        self._weight = 0.0
        self._samples = 0
        self._arrays = layout.arrays
        self._max_in_flight = max_in_flight
        self._buckets = self._cut(layout, CODECS[codec], bucket_bytes)

    def _cut(
        self, layout: Layout, codec: Optional[QuantizationOptions], bucket_bytes: int
    ) -> List[ReduceOpDescriptor]:
        buckets: List[ReduceOpDescriptor] = []
        for delta, mean, dtype in zip(self.delta, self.mean, layout.dtypes):
            operand = ReduceOperandDescriptor(DataType[dtype.upper()])
            step = max(1, bucket_bytes // operand.datatype.itemsize)
            for start in range(0, len(delta), step):
                send, recv = delta[start : start + step], mean[start : start + step]
                tag = _FIRST_BUCKET_TAG + len(buckets)
                about = ReduceDescriptor(len(send), ReduceOp.SUM, tag, operand, codec)
                buckets.append(ReduceOpDescriptor.from_buffers(send, recv, about))
        return buckets

    def is_finite(self) -> bool:
        return all(self._arrays.is_finite(flat) for flat in self.delta)

    def mean_is_finite(self) -> bool:
        return all(self._arrays.is_finite(flat) for flat in self.mean)

    def give(self, weight: float, samples: int) -> None:
        """Sets the weight of the delta in the next reduction; with weight 0 it contributes nothing.
        """
        if weight == 0:
            _arrays.fill(self.delta, 0.0)
        elif weight != 1:
            _arrays.scale(self.delta, weight)
        self._weight, self._samples = weight, samples

    @property
    def weight(self) -> float:
        return self._weight

    def run(self, comm: Communicator, counted: Callable[[], object]) -> Reduced:
        """Reduces, jointly with the group. Afterward the mean is divided by the weight, and delta
        is unchanged. Calls counted() when all peers have begun."""
        while True:
            about = array("d", [1.0, self._weight, float(self._samples)])
            try:
                info = comm.all_reduce_multiple_with_retry([small(about, ReduceOp.SUM, FIRST_TAG)])
                reduced = Reduced(int(about[0]), about[1], int(about[2]))
                reduced.count(info)
                counted()
                if reduced.weight == 0 or not self._buckets:
                    return reduced
                info = comm.all_reduce_multiple_with_retry(self._buckets, max_in_flight=self._max_in_flight)
            except TooFewPeersError:
                return self._alone()
            reduced.count(info)
            if info.local_world_size == reduced.participants:
                self._divide(reduced.weight)
                return reduced

    def _alone(self) -> Reduced:
        """The mean of a peer that is alone: its own delta."""
        if self._weight > 0:
            _arrays.copy(self.mean, self.delta)
            self._divide(self._weight)
        return Reduced(1, self._weight, self._samples)

    def _divide(self, weight: float) -> None:
        if weight != 1:
            for flat in self.mean:
                flat /= weight
