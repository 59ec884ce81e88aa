"""The privacy cost of noisy steps: Renyi differential privacy of the sampled Gaussian mechanism."""

from __future__ import annotations

import math
from typing import Any, List, Sequence

from .._errors import InvalidArgument
from .._settings import finite, integer

# Orders of the divergences. Each yields a bound, and the smallest bound is used.
ORDERS = (*range(2, 65), *range(72, 129, 8), *range(160, 513, 32), 768, 1024)


def _log_sum(logs: Sequence[float]) -> float:
    most = max(logs)
    if most == math.inf:
        return most
    return most + math.log(sum(math.exp(one - most) for one in logs))


def divergence(order: int, noise: float, rate: float) -> float:
    """Returns the Renyi divergence of this order for one step (Mironov, Talwar and Zhang,
    https://arxiv.org/abs/1908.10530, section 3.3)."""
    if noise * noise == 0:  # also true if noise is so small that its square underflows
        return math.inf
    if rate == 1:
        return order / (2 * noise * noise)
    terms = [
        math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        + k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2 * noise * noise)
        for k in range(order + 1)
    ]
    return max(0.0, _log_sum(terms) / (order - 1))


class Accountant:
    """Accumulates the privacy cost of steps. In each step, every example takes part with probability `rate`,
    independently of the others. The step reveals a sum, to which one example contributes at most `clip` in length, with
    a normal random number of standard deviation noise * clip added to each element.

    The bound compares two data sets, one of which has one additional example: except with probability delta, the
    probabilities of any observation differ by a factor of at most e^epsilon.
    """

    def __init__(self, noise: float, rate: float) -> None:
        self.noise = finite(zero=True, most=math.inf)("noise", noise)
        self.rate = finite()("rate", rate)
        self._step = [divergence(order, self.noise, self.rate) for order in ORDERS]
        self.spent: List[float] = [0.0] * len(ORDERS)

    def add(self, steps: int = 1) -> None:
        """Adds the cost of this number of steps."""
        integer(0)("steps", steps)
        if steps > 0:
            self.spent = [spent + steps * one for spent, one in zip(self.spent, self._step)]

    def load(self, spent: Any) -> None:
        """Raises the cost to at least `spent`, an earlier value, possibly for different noise."""
        values = [float(value) for value in spent]
        if len(values) != len(ORDERS) or not all(value >= 0 for value in values):
            raise InvalidArgument(f"spent: expected {len(ORDERS)} numbers of at least 0")
        self.spent = [max(own, value) for own, value in zip(self.spent, values)]

    def epsilon(self, delta: float) -> float:
        """Returns epsilon for all steps so far (https://arxiv.org/abs/2004.00010, proposition 12, for each order)."""
        check_delta(delta)
        if not any(self.spent):
            return 0.0
        bounds: List[float] = [
            spent + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            for order, spent in zip(ORDERS, self.spent)
        ]
        return max(0.0, min(bounds))


def check_delta(delta: float) -> float:
    if isinstance(delta, bool) or not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise InvalidArgument(f"delta: {delta!r}; expected more than 0 and less than 1")
    return float(delta)
