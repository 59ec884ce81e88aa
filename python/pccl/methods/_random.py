"""Random numbers that are the same on all peers: a stateless function of the seed, the purpose and the round (Philox, a
counter-based generator)."""

from __future__ import annotations

import sys
from typing import Any, List

import numpy as np

# Purposes of the numbers, each with a separate sequence.
DIRECTION, INDICES, PARTNERS, BUCKETS, SIGNS, ROWS, ADAPTERS, BASIS = range(8)


def raw(seed: int, use: int, round: int, stream: int, count: int) -> Any:
    """Returns 64-bit numbers. stream: selects one of many sequences within the round."""
    counter = np.array([0, stream, round, 0], np.uint64)
    key = np.array([seed, use], np.uint64)
    return np.random.Philox(counter=counter, key=key).random_raw(count)


def signs(seed: int, use: int, round: int, stream: int, count: int, dtype: Any) -> Any:
    """Returns random numbers, each 1 or -1 and made from one bit, without rounding or a math library."""
    numbers = raw(seed, use, round, stream, (count + 63) // 64)
    if sys.byteorder == "big":
        numbers = numbers.byteswap()
    bits = np.unpackbits(numbers.view(np.uint8), count=count, bitorder="little")
    values: Any = bits.astype(dtype)
    values *= 2
    values -= 1
    return values


def indices(seed: int, use: int, round: int, stream: int, count: int, size: int) -> Any:
    """Returns random numbers from 0 to size - 1, with replacement."""
    return (raw(seed, use, round, stream, count) % np.uint64(size)).astype(np.int64)


def order(seed: int, use: int, round: int, size: int) -> List[int]:
    """Returns a random permutation."""
    return [int(one) for one in np.argsort(raw(seed, use, round, 0, size), kind="stable")]
