"""Random numbers that all peers draw alike: a function of the seed, of what they are for, and of
the round, without any state (Philox, which counts)."""

from __future__ import annotations

import sys
from typing import Any, List

import numpy as np

# What numbers are for: each use has a sequence of its own.
DIRECTION, INDICES, PARTNERS, BUCKETS, SIGNS, ROWS, ADAPTERS, BASIS = range(8)


def raw(seed: int, use: int, round: int, stream: int, count: int) -> Any:
    """64-bit numbers. stream: one of many within the round."""
    counter = np.array([0, stream, round, 0], np.uint64)
    key = np.array([seed, use], np.uint64)
    return np.random.Philox(counter=counter, key=key).random_raw(count)


def signs(seed: int, use: int, round: int, stream: int, count: int, dtype: Any) -> Any:
    """Each 1 or -1: from one bit, so that no rounding and no library of mathematics is involved."""
    numbers = raw(seed, use, round, stream, (count + 63) // 64)
    if sys.byteorder == "big":
        numbers = numbers.byteswap()
    bits = np.unpackbits(numbers.view(np.uint8), count=count, bitorder="little")
    values: Any = bits.astype(dtype)
    values *= 2
    values -= 1
    return values


def indices(seed: int, use: int, round: int, stream: int, count: int, size: int) -> Any:
    """Numbers from 0 to size - 1, with replacement."""
    return (raw(seed, use, round, stream, count) % np.uint64(size)).astype(np.int64)


def order(seed: int, use: int, round: int, size: int) -> List[int]:
    """A permutation."""
    return [int(one) for one in np.argsort(raw(seed, use, round, 0, size), kind="stable")]
