"""The discrete cosine transform, by Lee's recursion. It uses only sums, differences and quotients of whole arrays, each
of which rounds once, so all machines compute the same bits."""

from __future__ import annotations

import functools
import math
from typing import Any, Tuple

import numpy as np


def transform(blocks: Any) -> Any:
    """Returns the orthonormal DCT-II of each row. The rows are float32, and their length is a power of two."""
    return (_forward(np.ascontiguousarray(blocks.T)) * _scales(blocks.shape[1])).T


def invert(coefficients: Any) -> Any:
    """Inverts transform()."""
    return _backward(coefficients.T * _scales(coefficients.shape[1])).T


def _forward(columns: Any) -> Any:
    size, half = len(columns), len(columns) // 2
    if size == 1:
        return columns
    front, back = columns[:half], columns[:half - 1:-1]
    even, odd = _forward(front + back), _forward((front - back) / _divisors(size))
    made = np.empty_like(columns)
    made[0::2], made[1::2] = even, odd
    made[1:-1:2] += odd[1:]
    return made


def _backward(columns: Any) -> Any:
    size, half = len(columns), len(columns) // 2
    if size == 1:
        return columns
    odd = columns[1::2].copy()
    odd[1:] += columns[1:-1:2]
    even, odd = _backward(columns[0::2]), _backward(odd) / _divisors(size)
    made = np.empty_like(columns)
    made[:half], made[:half - 1:-1] = even + odd, even - odd
    return made


@functools.lru_cache(None)
def _divisors(size: int) -> Any:
    half = _cosines(size)[: size // 2]
    return np.array([2 * cosine for cosine in half], np.float32)[:, None]


@functools.lru_cache(None)
def _scales(size: int) -> Any:
    return np.array([math.sqrt(1 / size)] + [math.sqrt(2 / size)] * (size - 1), np.float32)[:, None]


@functools.lru_cache(None)
def _cosines(size: int) -> Tuple[float, ...]:
    """Returns cos((i + 1/2) pi / size), computed from square roots because the cosines of math libraries differ."""
    if size == 1:
        return (0.0,)
    first = [math.sqrt((1 + cosine) / 2) for cosine in _cosines(size // 2)]
    return (*first, *(-cosine for cosine in reversed(first)))
