"""A peer's own progress beyond the outer copy in "eager" mode."""

from __future__ import annotations

from . import _arrays, _outer
from ._arrays import Flats, Layout, Scratch
from ._outer import Outer


class Own:
    """The parameters from which a peer begins its round in "eager" mode. They are ahead of the outer copy by this
    peer's contribution to the mean in flight.

    Let s be this peer's share of the mean. The outer optimizer first gets s * delta[t], and then mean[t-1] - s *
    delta[t-1] when the mean arrives. Since the optimizer is linear, the result equals the outer copy, stepped with the
    mean alone, plus one further step with a momentum of only this peer's shares."""

    def __init__(self, layout: Layout) -> None:
        self.start, self._momentum = layout.zeros(), layout.zeros()

    def begin(self, theta: Flats, share: Flats, outer: Outer, scratch: Scratch) -> None:
        _arrays.copy(self.start, theta)
        for start, momentum, part in zip(self.start, self._momentum, share):
            _outer.apply(outer, start, momentum, part, scratch)

    def forget(self, theta: Flats) -> None:
        _arrays.copy(self.start, theta)
        _arrays.fill(self._momentum, 0.0)
