"""The outer optimizer, which applies the mean of the peers' deltas."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Callable, List, Sequence, Union

from .._errors import InvalidArgument
from ._arrays import Scratch


# The rate at which a delta is applied that was measured at this inner step of the run.
Rate = Union[float, Callable[[int], float]]


@dataclass(frozen=True)
class Nesterov:
    """Stochastic gradient descent with Nesterov's momentum, without dampening:

        m = momentum * m + mean        theta = theta - lr * (mean + momentum * m)

    which is what torch.optim.SGD(nesterov=True) computes. With lr 1 and momentum 0 theta becomes
    the mean of the peers' parameters.

    lr: a number, or a schedule: a function of the inner step of the run at which the delta was
        measured, which is the same on all peers. It must give the same number on all of them.
    """

    lr: Rate = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check(self)

    @property
    def rate(self) -> float:
        """Of one step."""
        assert not callable(self.lr)  # at() has been called
        return self.lr

    def apply(self, theta: Any, momentum: Any, mean: Any, scratch: Scratch) -> None:
        """Makes one step in place. Every operation is rounded separately, so that all processors
        get the same bits."""
        for theta_part, momentum_part, mean_part, spare in scratch.pieces(theta, momentum, mean):
            momentum_part *= self.momentum
            momentum_part += mean_part
            spare[...] = momentum_part
            spare *= self.momentum
            spare += mean_part
            spare *= self.rate
            theta_part -= spare


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent with heavy-ball momentum, without dampening, as torch.optim.SGD:

        m = momentum * m + mean        theta = theta - lr * m

    lr: as of Nesterov.
    """

    lr: Rate = 0.7
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    @property
    def rate(self) -> float:
        """Of one step."""
        assert not callable(self.lr)  # at() has been called
        return self.lr

    def apply(self, theta: Any, momentum: Any, mean: Any, scratch: Scratch) -> None:
        for theta_part, momentum_part, mean_part, spare in scratch.pieces(theta, momentum, mean):
            momentum_part *= self.momentum
            momentum_part += mean_part
            spare[...] = momentum_part
            spare *= self.rate
            theta_part -= spare


# Or a function of the flat arrays (theta, momentum, mean) of a fragment, of numpy or torch, that changes the first two.
Outer = Union[Nesterov, SGD, Callable[[Any, Any, Any], object]]


def _check(rule: Union[Nesterov, SGD]) -> None:
    kind = type(rule).__name__
    if not callable(rule.lr) and not (math.isfinite(rule.lr) and rule.lr > 0):
        raise InvalidArgument(f"{kind}: lr is {rule.lr}")
    if not 0 <= rule.momentum < 1:
        raise InvalidArgument(f"{kind}: momentum is {rule.momentum}, expected 0 <= momentum < 1")


def has_schedule(rule: Outer) -> bool:
    return isinstance(rule, (Nesterov, SGD)) and callable(rule.lr)


def at(rule: Outer, step: int) -> Outer:
    """The same with the rate of a delta that was measured at this inner step."""
    if not isinstance(rule, (Nesterov, SGD)) or not callable(rule.lr):
        return rule
    rate = rule.lr(step)
    if not isinstance(rate, (int, float)) or not (math.isfinite(rate) and rate > 0):
        raise InvalidArgument(f"{type(rule).__name__}: lr({step}) is {rate!r}, expected a number above 0")
    return replace(rule, lr=float(rate))


def per_fragment(given: Union[Outer, Sequence[Outer]], count: int) -> List[Outer]:
    outers: List[Outer] = list(given) if isinstance(given, Sequence) else [given] * count
    for outer in outers:
        if not callable(outer) and not isinstance(outer, (Nesterov, SGD)):
            raise InvalidArgument(f"outer: {outer!r} is not a pccl.diloco.Nesterov, an SGD or a function")
    if len(outers) != count:
        raise InvalidArgument(f"outer: there are {len(outers)} for {count} fragments")
    return outers


def words(outer: Outer) -> str:
    """What must be the same on all peers; of a function that is its name."""
    if isinstance(outer, (Nesterov, SGD)):
        return f"{type(outer).__name__}(lr={_name(outer.lr)}, momentum={outer.momentum!r})"
    return _name(outer)


def _name(outer: Any) -> str:
    if isinstance(outer, (int, float)):
        return repr(outer)
    return str(getattr(outer, "__qualname__", type(outer).__qualname__))


def apply(outer: Outer, theta: Any, momentum: Any, mean: Any, scratch: Scratch) -> None:
    if isinstance(outer, (Nesterov, SGD)):
        outer.apply(theta, momentum, mean, scratch)
    elif len(theta) > 0:
        outer(theta, momentum, mean)
