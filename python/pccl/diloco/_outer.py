"""The outer optimizers, which apply the mean of the peers' deltas."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from typing import Any, Callable, List, Sequence, Tuple, Union

from .._errors import InvalidArgument
from . import _arrays
from ._arrays import Scratch


# Learning rate, or a function that returns it for the inner step at which the delta was measured.
Rate = Union[float, Callable[[int], float]]


class _Rule:
    """Base of the rules below."""

    lr: Rate

    @property
    def rate(self) -> float:
        """Learning rate of this step."""
        assert not callable(self.lr)  # at() has been called
        return self.lr


@dataclass(frozen=True)
class Nesterov(_Rule):
    """Stochastic gradient descent with Nesterov momentum, without dampening:

        m = momentum * m + mean        theta = theta - lr * (mean + momentum * m)

    as in torch.optim.SGD(nesterov=True). With lr=1 and momentum=0, theta becomes the mean of the peers' parameters.

    lr: a number, or a schedule: a function of the run's inner step at which the delta was measured. All peers pass the
    same step, and the function must return the same number on all of them.
    """

    lr: Rate = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check(self)

    def apply(self, theta: Any, momentum: Any, mean: Any, scratch: Scratch) -> None:
        """Makes one step in place. Each operation rounds separately, so that all processors get the same bits."""
        for theta_part, momentum_part, mean_part, spare in scratch.pieces(theta, momentum, mean):
            momentum_part *= self.momentum
            momentum_part += mean_part
            spare[...] = momentum_part
            spare *= self.momentum
            spare += mean_part
            spare *= self.rate
            theta_part -= spare


@dataclass(frozen=True)
class SGD(_Rule):
    """Stochastic gradient descent with heavy-ball momentum, without dampening, as in torch.optim.SGD:

        m = momentum * m + mean        theta = theta - lr * m

    lr: as for Nesterov.
    """

    lr: Rate = 0.7
    momentum: float = 0.0

    def __post_init__(self) -> None:
        _check(self)

    def apply(self, theta: Any, momentum: Any, mean: Any, scratch: Scratch) -> None:
        for theta_part, momentum_part, mean_part, spare in scratch.pieces(theta, momentum, mean):
            momentum_part *= self.momentum
            momentum_part += mean_part
            spare[...] = momentum_part
            spare *= self.rate
            theta_part -= spare


@dataclass(frozen=True)
class AdamW(_Rule):
    """AdamW on the mean, equal to torch.optim.AdamW except for rounding:

        m = beta1 * m + (1 - beta1) * mean        v = beta2 * v + (1 - beta2) * mean^2
        theta = theta * (1 - lr * weight_decay) - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    lr: as for Nesterov. The mean is the average change of the peers' parameters, which already includes the inner
    learning rate. t: number of the fragment's slot in the run. AdamW shares one more array than Nesterov.
    """

    lr: Rate = 1e-3
    betas: Tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    slot: int = 1  # t in the formula

    def __post_init__(self) -> None:
        _check_rate(self)
        given = self.betas if isinstance(self.betas, (tuple, list)) else ()
        betas = tuple(map(_float, given))
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise InvalidArgument(f"AdamW: betas is {self.betas!r}, expected two numbers from 0 to less than 1")
        object.__setattr__(self, "betas", betas)
        _set(self, "eps", 0 < _float(self.eps) < math.inf, "a finite number above 0")
        _set(self, "weight_decay", 0 <= _float(self.weight_decay) < math.inf, "a finite number from 0")

    def apply(self, theta: Any, momentum: Any, second: Any, mean: Any, scratch: Scratch) -> None:
        """Makes one step in place. Powers are computed by multiplication, which all machines round identically."""
        (first, other), rate = self.betas, self.rate
        kept = 1.0 - rate * self.weight_decay
        step = rate / (1.0 - _power(first, self.slot))
        unbias = 1.0 / math.sqrt(1.0 - _power(other, self.slot))
        for theta_part, momentum_part, second_part, mean_part, spare in scratch.pieces(theta, momentum, second, mean):
            spare[...] = mean_part
            spare *= 1.0 - first
            momentum_part *= first
            momentum_part += spare
            spare[...] = mean_part
            spare *= mean_part
            spare *= 1.0 - other
            second_part *= other
            second_part += spare
            _arrays.square_root(spare, second_part)
            spare *= unbias
            spare += self.eps
            _arrays.divide(spare, momentum_part, spare)
            spare *= step
            theta_part *= kept
            theta_part -= spare


def _power(base: float, exponent: int) -> float:
    made = 1.0
    while exponent:
        if exponent & 1:
            made *= base
        base *= base
        exponent >>= 1
    return made


# An optimizer; or a function of a fragment's flat arrays (theta, momentum, mean), of numpy or torch, that changes the
# first two.
Outer = Union[Nesterov, SGD, AdamW, Callable[[Any, Any, Any], object]]
_RULES = (Nesterov, SGD, AdamW)


def _float(given: Any) -> float:
    """Converts to a float, so that all peers describe equal settings in the same words. Returns NaN if `given` is not a
    number."""
    try:
        return math.nan if isinstance(given, str) else float(given)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _set(rule: Union[Nesterov, SGD, AdamW], name: str, is_valid: bool, expected: str) -> None:
    """Converts this setting to a float. Raises InvalidArgument if it is invalid."""
    given = getattr(rule, name)
    if not is_valid:
        raise InvalidArgument(f"{type(rule).__name__}: {name} is {given!r}, expected {expected}")
    object.__setattr__(rule, name, float(given))


def _check_rate(rule: Union[Nesterov, SGD, AdamW]) -> None:
    if not callable(rule.lr):
        _set(rule, "lr", 0 < _float(rule.lr) < math.inf, "a finite number above 0, or a function of the inner step")


def _check(rule: Union[Nesterov, SGD]) -> None:
    _check_rate(rule)
    _set(rule, "momentum", 0 <= _float(rule.momentum) < 1, "0 <= momentum < 1")


def has_schedule(rule: Outer) -> bool:
    return isinstance(rule, _RULES) and callable(rule.lr)


def at(rule: Outer, step: int, period: int) -> Outer:
    """Returns the rule for a delta that was measured at this inner step. period: inner steps between two slots of the
    fragment."""
    if isinstance(rule, AdamW):
        rule = replace(rule, slot=max(1, -(-step // period)))
    if not isinstance(rule, _RULES) or not callable(rule.lr):
        return rule
    rate = rule.lr(step)
    if not isinstance(rate, (int, float)) or not (math.isfinite(rate) and rate > 0):
        raise InvalidArgument(f"{type(rule).__name__}: lr({step}) is {rate!r}, expected a number above 0")
    return replace(rule, lr=float(rate))


def per_fragment(given: Union[Outer, Sequence[Outer]], count: int) -> List[Outer]:
    outers = [_of_torch(one) for one in (given if isinstance(given, Sequence) else [given] * count)]
    for outer in outers:
        if not callable(outer) and not isinstance(outer, _RULES):
            raise InvalidArgument(f"outer: {outer!r} is not a pccl.diloco.Nesterov, an SGD, an AdamW or a function")
    if len(outers) != count:
        raise InvalidArgument(f"outer: {len(outers)} optimizers for {count} fragments")
    return outers


def _of_torch(given: Any) -> Any:
    """Converts a torch optimizer to the equivalent rule. Returns anything else unchanged."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(given, torch.optim.Optimizer):
        return given
    if len(given.param_groups) != 1 or given.state:
        raise InvalidArgument("outer: expected an optimizer of torch with one group, which has made no step")
    numbers = given.param_groups[0]
    rate, is_max = float(numbers["lr"]), numbers.get("maximize", False)
    if type(given) is torch.optim.AdamW and not numbers["amsgrad"] and not is_max:
        return AdamW(rate, tuple(numbers["betas"]), numbers["eps"], numbers["weight_decay"])
    if type(given) is torch.optim.SGD and not numbers["dampening"] and not numbers["weight_decay"] and not is_max:
        return (Nesterov if numbers["nesterov"] else SGD)(rate, float(numbers["momentum"]))
    raise InvalidArgument(
        f"outer: this {type(given).__name__} is not supported: expected SGD without dampening, weight_decay and "
        "maximize, or AdamW without amsgrad and maximize; otherwise pass a function of (theta, momentum, mean)"
    )


def words(outer: Outer) -> str:
    """Returns a description that must be the same on all peers. A function is described by its name."""
    if isinstance(outer, AdamW):
        return f"AdamW(lr={_name(outer.lr)}, {outer.betas}, eps={outer.eps!r}, weight_decay={outer.weight_decay!r})"
    if isinstance(outer, (Nesterov, SGD)):
        return f"{type(outer).__name__}(lr={_name(outer.lr)}, momentum={outer.momentum!r})"
    return _name(outer)


def _name(outer: Any) -> str:
    if isinstance(outer, (int, float)):
        return repr(outer)
    return str(getattr(outer, "__qualname__", type(outer).__qualname__))


def apply(outer: Outer, theta: Any, momentum: Any, mean: Any, scratch: Scratch, second: Any = None) -> None:
    if isinstance(outer, AdamW):
        outer.apply(theta, momentum, second, mean, scratch)
    elif isinstance(outer, (Nesterov, SGD)):
        outer.apply(theta, momentum, mean, scratch)
    elif len(theta) > 0:
        outer(theta, momentum, mean)
