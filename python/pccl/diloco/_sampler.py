"""Selects each peer's samples without communication."""

from __future__ import annotations

import hashlib
import operator
import os
import sys
from array import array
from typing import List, Optional, Union

from .._errors import InvalidArgument


class Sampler:
    """Draws sample numbers. Sample i of a round is a pseudo-random function of (seed, round, peer, i).

    Peers can therefore join and leave without reassigning samples. A peer that passes its name or number as `peer`
    draws the same samples again if the round is repeated; by default each process draws a random name. Samples are
    drawn with replacement. For a stream that must be read only once, use a cursor such as DiLoCo.samples, which is the
    same on all peers.
    """

    def __init__(self, seed: int, peer: Optional[Union[int, str]] = None) -> None:
        self.seed = operator.index(seed)
        self.peer = os.urandom(8).hex() if peer is None else peer

    def indices(self, round: int, count: int, size: int) -> List[int]:
        """Returns `count` numbers from 0 to size - 1. A larger count returns the same numbers followed by more. round:
        any number, for example the inner step."""
        if count < 0 or size < 1:
            raise InvalidArgument(f"Sampler: cannot draw {count} samples from {size}")
        key = repr((self.seed, operator.index(round), str(self.peer))).encode()
        drawn = array("Q", hashlib.shake_128(key).digest(8 * count))
        if sys.byteorder == "big":
            drawn.byteswap()
        return [number % size for number in drawn]
