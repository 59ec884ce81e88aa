"""Rounds whose changes are sent in part, and the rest later."""

from __future__ import annotations

import math
import statistics
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from .._described import takes
from .._errors import InvalidArgument
from .._operations import AllGatherV
from .._settings import integer, setting
from ..diloco._arrays import Flats, Layout, NumpyArrays
from ..diloco._member import StepInfo
from ._hooks import as_numpy
from ._method import DATA_TAG, Gathered, Method
from ._settings import Settings, Sparsely
from ._sparse import Sparse

_PEERS_MAX = 256
_BLOBS_MIN = 256 << 20


class Changes:
    """What a peer has changed of its parameters: the part that it tells, and what stays with it. Warns of what others
    have told by `warn`."""

    def __init__(self, layout: Layout, theta: Flats, how: Sparsely, warn: Callable[[str, object], None]) -> None:
        self._layout, self._start, self._how, self._warn = layout, theta, how, warn
        self.theta = as_numpy(theta)
        self._room = layout.zeros()
        self.change = as_numpy(self._room)
        self.codecs = [Sparse(len(flat), how.kept) for flat in self.theta]
        self.packed: Any = np.zeros(sum(codec.bytes for codec in self.codecs), np.uint8)
        self.feedback: List[Any] = [np.zeros(len(flat), np.float32) for flat in self.theta]
        self._work: List[Any] = [np.zeros_like(flat) for flat in self.feedback]

    @property
    def bytes(self) -> int:
        return int(self.packed.nbytes)

    def operation(self, is_told: bool) -> AllGatherV:
        """Joint: what tells the others, and hears them."""
        return AllGatherV(
            self.packed if is_told else b"", tag=DATA_TAG, alone_ok=True,
            max_bytes=max(_BLOBS_MIN, _PEERS_MAX * self.bytes),
        )

    def pack(self) -> bool:
        """What is to be told, and in the work arrays what is then left. false: it is not finite."""
        self._layout.measure(self._start, self._room)
        with np.errstate(over="ignore", invalid="ignore"):
            for work, feedback, change in zip(self._work, self.feedback, self.change):
                np.multiply(feedback, np.float32(self._how.decay), out=work)
                np.add(work, change, out=work, casting="same_kind")
        if not all(NumpyArrays().is_finite(work) for work in self._work):
            return False
        for codec, work, packed in zip(self.codecs, self._work, self._parts(self.packed)):
            codec.pack(work, packed)
        return True

    def _parts(self, packed: Any) -> List[Any]:
        """Of each flat array."""
        parts, begin = [], 0
        for codec in self.codecs:
            parts.append(packed[begin : begin + codec.bytes])
            begin += codec.bytes
        return parts

    def apply(self, found: Gathered, was_told: bool) -> bool:
        """Makes the step of a round, in the order in which all have what came. Each operation rounds
        once."""
        if was_told:
            self.feedback, self._work = self._work, self.feedback
        told = self._lengths(found)
        limit = statistics.median(length for _, length in told) if self._how.clip and told else math.inf
        for sums in self._work:
            sums[...] = 0
        for packed, length in told:
            factor = self._how.lr / len(told) * (limit / length if length > limit else 1.0)
            for codec, part, sums in zip(self.codecs, self._parts(packed), self._work):
                codec.add(part, factor, sums)
        if not told or not all(NumpyArrays().is_finite(sums) for sums in self._work):
            return False
        for theta, sums in zip(self.theta, self._work):
            theta -= sums
        return True

    def _lengths(self, found: Gathered) -> List[Tuple[Any, float]]:
        """What came, and how long each change is. What nobody can have packed counts for nothing: all see
        the same bytes."""
        told = []
        for peer, said in found:
            packed = np.frombuffer(said, np.uint8)
            if len(packed) == 0:
                continue
            try:
                squares = [codec.square(part) for codec, part in zip(self.codecs, self._parts(packed))]
                if len(packed) != self.bytes:
                    raise InvalidArgument(f"{len(packed)} bytes instead of {self.bytes}")
            except InvalidArgument as error:
                self._warn(peer, error)
            else:
                told.append((packed, math.sqrt(sum(squares))))
        return told

    def forget(self) -> None:
        for feedback in self.feedback:
            feedback[...] = 0

    def own(self) -> Dict[str, Any]:
        return {f"feedback.{dtype}": flat for dtype, flat in zip(self._layout.dtypes, self.feedback)}


class SparseLoCoSettings(Sparsely, Settings):
    inner_steps: int = setting(check=integer(1))


class SparseLoCo(Method):
    """Each peer trains by itself for inner_steps steps; then each tells the others the largest part of
    what it has changed, and all make the outer step with the mean of these parts (SparseLoCo). What a
    peer did not send stays with it, as its feedback, and is part of what it sends next time.

    kept: of each 4,096 changes so many are sent, 14 bits each: where, and one of two magnitudes with a
        sign. 64 is 1/136 of the bytes of f32.
    decay: of the feedback from one round to the next; 0: what was not sent is dropped.
    lr: of the outer step, which has no momentum: feedback is in its place.
    clip: who has sent more than the median peer, by the Euclidean length, counts as much as that one.

    Parameters are the same bits on all peers after each round. Peers that die are left out, with what
    they had not sent: the mean is that of exactly those whose parts came. A change that is not finite
    counts for nothing, and leaves the feedback as it was. Feedback is each peer's own: newcomers begin
    without, as does who gets another state than it had; a state_dict() has that of its peer, so each
    peer loads its own. Memory of the host, besides the parameters: four times as much, in f32. For the
    other settings see Method.
    """

    @takes(SparseLoCoSettings)
    def __init__(self, given: SparseLoCoSettings) -> None:
        super().__init__(given.comm, given.params, given)
        self._changes = Changes(self._layout, self._shared.theta, given, self._warn_of)

    @property
    def packed_bytes(self) -> int:
        """What this peer tells in a round."""
        return self._changes.bytes

    def _exchange(self) -> StepInfo:
        is_told = self._changes.pack()
        operation = self._changes.operation(is_told)
        (info,) = self._wait(lambda: self.comm.run([operation]))
        self._present = len(operation.blobs)
        committed = self._changes.apply(operation.blobs, is_told)
        self._layout.write(self._shared.theta)
        return StepInfo(
            participants=self._present,
            committed=committed,
            tx_bytes=info.tx_bytes,
            rx_bytes=info.rx_bytes,
            skipped=not is_told,
        )

    def _moved(self) -> None:
        self._changes.forget()

    def _own(self) -> Dict[str, Any]:
        return self._changes.own()
