"""A peer's lead over the outer copy in "eager" mode."""

from __future__ import annotations

from . import _arrays, _outer
from ._arrays import Flats, Layout, Scratch
from ._outer import Outer


class Own:
    """The start of a peer's round in "eager" mode: its parameters are ahead of the outer copy by the peer's
    contribution to the mean that is still in flight. With the share s of this peer in the mean, the outer optimizer
    first gets s * delta[t], and then mean[t-1] - s * delta[t-1] when the mean arrives. The optimizer is linear. So this
    equals the outer copy, stepped with the mean alone, and one more step from there with a momentum of the peer's
    shares only."""

    def __init__(self, layout: Layout) -> None:
        self.start, self._momentum = layout.zeros(), layout.zeros()

    def begin(self, theta: Flats, share: Flats, outer: Outer, scratch: Scratch) -> None:
        _arrays.copy(self.start, theta)
        for start, momentum, part in zip(self.start, self._momentum, share):
            _outer.apply(outer, start, momentum, part, scratch)

    def forget(self, theta: Flats) -> None:
        _arrays.copy(self.start, theta)
        _arrays.fill(self._momentum, 0.0)
