"""Chooses a peer's samples without communication."""

from __future__ import annotations

import hashlib
import operator
import os
import sys
from array import array
from typing import List, Optional, Union

from .._errors import InvalidArgument


class Sampler:
    """Draws sample numbers: sample i of a round is a pseudo-random function of (seed, round, peer, i).

    So peers can join and leave without any assignment of samples, and a peer that passes its name or number as `peer`
    draws the same samples again when the round is repeated. Without `peer` the process draws a name. Samples are drawn
    with replacement. A stream that must be read only once needs a cursor instead: DiLoCo.samples is the same on all
    peers.
    """

    def __init__(self, seed: int, peer: Optional[Union[int, str]] = None) -> None:
        self.seed = operator.index(seed)
        self.peer = os.urandom(8).hex() if peer is None else peer

    def indices(self, round: int, count: int, size: int) -> List[int]:
        """Returns `count` numbers from 0 to size - 1; a larger count begins with the same ones. round: may be any other
        number, for example of the inner step."""
        if count < 0 or size < 1:
            raise InvalidArgument(f"Sampler: {count} samples of {size}")
        key = repr((self.seed, operator.index(round), str(self.peer))).encode()
        drawn = array("Q", hashlib.shake_128(key).digest(8 * count))
        if sys.byteorder == "big":
            drawn.byteswap()
        return [number % size for number in drawn]
