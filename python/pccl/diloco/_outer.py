"""The outer optimizer, which applies the mean of the peers' deltas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._errors import InvalidArgument
from ._arrays import Scratch


@dataclass(frozen=True)
class Nesterov:
    """Stochastic gradient descent with Nesterov's momentum, without dampening:

        m = momentum * m + mean        theta = theta - lr * (mean + momentum * m)

    which is what torch.optim.SGD(nesterov=True) computes. With lr 1 and momentum 0 theta becomes
    the mean of the peers' parameters.
    """

    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise InvalidArgument(f"Nesterov: lr is {self.lr}")
        if not 0 <= self.momentum < 1:
            raise InvalidArgument(f"Nesterov: momentum is {self.momentum}, expected 0 <= momentum < 1")

    def apply(self, theta: Any, momentum: Any, mean: Any, scratch: Scratch) -> None:
        """Makes one step in place. Every operation is rounded separately, so that all processors
        get the same bits."""
        for theta_part, momentum_part, mean_part, spare in scratch.pieces(theta, momentum, mean):
            momentum_part *= self.momentum
            momentum_part += mean_part
            spare[...] = momentum_part
            spare *= self.momentum
            spare += mean_part
            spare *= self.lr
            theta_part -= spare
