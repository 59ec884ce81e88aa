"""Rounds in which peers send the largest part of a change, and keep the rest for later rounds."""

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
    """A peer's change to its parameters: the part that it sends, and the part that it keeps. Calls `warn` for invalid
    bytes from other peers."""

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
        """Returns the operation that exchanges the changes. All peers launch it."""
        return AllGatherV(
            self.packed if is_told else b"", tag=DATA_TAG, alone_ok=True,
            max_bytes=max(_BLOBS_MIN, _PEERS_MAX * self.bytes),
        )

    def pack(self) -> bool:
        """Packs the part to be sent, and leaves the rest in the work arrays. Returns false if the change is not finite.
        """
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
        """Splits the packed bytes by flat array."""
        parts, begin = [], 0
        for codec in self.codecs:
            parts.append(packed[begin : begin + codec.bytes])
            begin += codec.bytes
        return parts

    def apply(self, found: Gathered, was_told: bool) -> bool:
        """Makes the step of a round, in the order of `found`, which is the same on all peers. Each operation rounds
        once. Returns false if the parameters did not change."""
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
        """Returns the received changes and their lengths. Ignores bytes that cannot come from pack(); all peers ignore
        the same ones."""
        told = []
        for peer, said in found:
            packed = np.frombuffer(said, np.uint8)
            if len(packed) == 0:
                continue
            try:
                squares = [codec.square(part) for codec, part in zip(self.codecs, self._parts(packed))]
                if len(packed) != self.bytes:
                    raise InvalidArgument(f"{len(packed)} bytes; expected {self.bytes}")
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
    """Trains on each peer independently for inner_steps steps. Then each peer sends the largest part of its change, and
    all make the outer step with the mean of these parts (SparseLoCo). A peer keeps the rest of its change as its
    feedback, and adds it to its next change.

    kept: number of changes sent out of each 4,096, at 14 bits each: the index, and one of two magnitudes with a sign.
        64 takes 1/136 of the bytes of f32.
    decay: factor of the feedback from one round to the next; with 0 the unsent part is dropped.
    lr: rate of the outer step, which has no momentum because feedback replaces it.
    clip: scales down a peer's part that is longer than the median part, by Euclidean length, to the median length.

    After each round the parameters have the same bits on all peers. Peers that fail are left out, with their unsent
    parts: the mean is over exactly the parts that arrived. A change that is not finite is left out, and does not affect
    the feedback. Feedback is local: newcomers begin without it, as does a peer whose state was replaced. A state_dict()
    includes it, so each peer must load its own. In addition to the parameters, uses host memory of four times their
    size in f32. For the other settings see Method.
    """

    @takes(SparseLoCoSettings)
    def __init__(self, given: SparseLoCoSettings) -> None:
        super().__init__(given.comm, given.params, given)
        self._changes = Changes(self._layout, self._shared.theta, given, self._warn_of)

    @property
    def packed_bytes(self) -> int:
        """Number of bytes that this peer sends in a round."""
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
