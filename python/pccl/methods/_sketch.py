"""Sketches: random linear maps from many numbers to few, and back. The expectation of the restored numbers over a
round's random numbers is the input."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Protocol

import numpy as np

from . import _random

_BLOCK_MAX = 4096  # a power of 4, so that the square root of a block's length is exact


class Sketch(Protocol):
    """A linear map from changes to shorter sketches."""

    width: int

    def draw(self, round: int) -> None: ...

    def sketch(self, values: Any) -> Any: ...

    def restore(self, sketched: Any) -> Any: ...


class CountSketch:
    """Adds each element, with a random sign, to one of about size / ratio sums. size: number of elements. dtype: their
    numpy type. stream: distinguishes several arrays of a round."""

    def __init__(self, size: int, ratio: float, dtype: str, seed: int, stream: int = 0) -> None:
        self.size, self.width = size, min(size, math.ceil(size / ratio))
        self._dtype, self._seed, self._stream = dtype, seed, stream
        self.draw(0)

    def draw(self, round: int) -> None:
        """Draws the map for this round."""
        stream = self._stream
        self._sums = _random.indices(self._seed, _random.BUCKETS, round, stream, self.size, max(1, self.width))
        self._signs = _random.signs(self._seed, _random.SIGNS, round, stream, self.size, self._dtype)

    def sketch(self, values: Any) -> Any:
        """Returns the sketch, of `width` numbers."""
        return np.bincount(self._sums, self._signs * values, self.width).astype(self._dtype)

    def restore(self, sketched: Any) -> Any:
        """Returns `size` numbers, by the transposed map. Equal inputs give equal bits."""
        return sketched[self._sums] * self._signs


class Hadamard:
    """Rotates blocks of elements that have random signs, and keeps a part of the result (a blocked subsampled Hadamard
    transform). Has less variance than CountSketch if few elements are large, but takes longer."""

    def __init__(self, size: int, ratio: float, dtype: str, seed: int, stream: int = 0) -> None:
        self.size = size
        self._block = 4
        while self._block < min(size, _BLOCK_MAX):
            self._block *= 4
        self._blocks = math.ceil(size / self._block)
        self._kept = max(1, math.ceil(self._block / ratio))
        self.width = self._blocks * self._kept
        self._scale = math.sqrt(self._block / self._kept)
        self._dtype, self._seed, self._stream = dtype, seed, stream
        self.draw(0)

    def draw(self, round: int) -> None:
        """Draws the map for this round."""
        whole = self._blocks * self._block
        drawn = _random.signs(self._seed, _random.SIGNS, round, self._stream, whole, self._dtype)
        self._signs = drawn.reshape(self._blocks, self._block)
        keys = _random.raw(self._seed, _random.ROWS, round, self._stream, whole).reshape(self._signs.shape)
        self._rows = np.sort(np.argpartition(keys, self._kept - 1, axis=1)[:, : self._kept], axis=1)

    def sketch(self, values: Any) -> Any:
        """Returns the sketch, of `width` numbers."""
        whole = np.zeros(self._signs.shape, self._dtype)
        whole.reshape(-1)[: self.size] = values
        whole *= self._signs
        kept = np.take_along_axis(_rotated(whole), self._rows, axis=1)
        kept *= self._scale
        return kept.reshape(-1)

    def restore(self, sketched: Any) -> Any:
        """Returns `size` numbers, by the transposed map. Equal inputs give equal bits."""
        whole = np.zeros(self._signs.shape, self._dtype)
        np.put_along_axis(whole, self._rows, sketched.reshape(self._rows.shape) * self._dtype_of(self._scale), axis=1)
        whole = _rotated(whole)
        whole *= self._signs
        return whole.reshape(-1)[: self.size]

    def _dtype_of(self, value: float) -> Any:
        return np.dtype(self._dtype).type(value)


def _rotated(blocks: Any) -> Any:
    """Computes the orthonormal Hadamard transform of each row in place, using only sums and differences in a fixed
    order."""
    count, size = blocks.shape
    step = 1
    while step < size:
        pairs = blocks.reshape(count, size // (2 * step), 2, step)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        both = first + second
        np.subtract(first, second, out=second)
        first[...] = both
        step *= 2
    blocks *= 1 / math.sqrt(size)
    return blocks


KINDS: Dict[str, Callable[[int, float, str, int, int], Sketch]] = {"count": CountSketch, "hadamard": Hadamard}
