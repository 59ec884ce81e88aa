"""PowerSGD: changes are sent as low-rank matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._described import takes
from .._settings import integer, setting
from ..diloco import _outer
from ..diloco._outer import SGD, Nesterov
from . import _random
from ._hooks import Named
from ._method import Method
from ._settings import Settings, Stepped

_ROUNDING = 1e-6  # relative rounding error of f32


class PowerSGDSettings(Stepped, Settings):
    rank: int = setting(default=4, check=integer(1))


class PowerSGD(Method):
    """Trains on each peer independently for inner_steps steps. Then all peers average their changes as low-rank
    matrices: for each matrix they sum up two thin matrices, obtained by one step of a power iteration that starts from
    the last round's result (PowerSGD). The rest of the change stays with the peer as its feedback, and is added to its
    next change.

    rank: rank of the matrices. A matrix with m rows and n columns costs rank * (m + n) numbers. If this is not less
        than m * n, it is sent whole, as are vectors. Tensors with more dimensions are treated as matrices with shape[0]
        rows.
    outer: as in DiLoCo: a Nesterov or an SGD, whose rate may be a schedule.

    After each round the parameters have the same bits on all peers. A round has two exchanges; if a peer fails between
    them, both are repeated. Feedback is local: newcomers start without it, as does a peer whose parameters were
    replaced. state_dict() includes it. In addition to the parameters, uses host memory of five times their size, or
    seven times with momentum. For the other settings see Method.
    """

    parts = 2

    @takes(PowerSGDSettings)
    def __init__(self, given: PowerSGDSettings) -> None:
        self.rank, self.outer = given.rank, given.outer
        self._basis: Named = {}
        super().__init__(given.comm, given.params, given)

    def _thin(self, params: Named) -> Named:
        """Returns the parameters that are sent as low-rank matrices, reshaped to matrices."""
        matrices = {name: _matrix(array) for name, array in params.items() if array.ndim >= 2 and array.size > 0}
        return {name: one for name, one in matrices.items() if self.rank * sum(one.shape) < one.size}

    def own_state(self, params: Named) -> Named:
        return {name: np.zeros_like(matrix) for name, matrix in self._thin(params).items()}

    def shared_state(self, params: Named) -> Named:
        begin = {f"right.{name}": self._drawn(matrix.shape[1], matrix.dtype, 0) for name, matrix in
                 self._thin(params).items()}
        momenta = params if self.outer.momentum > 0 else {}
        return {**begin, **{f"momentum.{name}": np.zeros_like(array) for name, array in momenta.items()}}

    def room(self, params: Named) -> Named:
        thin = self._thin(params)
        side = 0 if self.part == 0 else 1
        made = {name: np.zeros((matrix.shape[side], self.rank), matrix.dtype) for name, matrix in thin.items()}
        return made if self.part == 1 else {**params, **made}

    def encode(self, change: Named) -> Named:
        own = self.own
        if self.part == 0:
            for name, matrix in own.items():
                matrix += _matrix(change[name])
            return {**change, **{name: matrix @ self.shared[f"right.{name}"] for name, matrix in own.items()}}
        right = {name: matrix.T @ self._basis[name] for name, matrix in own.items()}
        for name, matrix in own.items():
            matrix -= self._basis[name] @ right[name].T
        return right

    def apply(self, theta: Named, mean: Named) -> None:
        if self.part == 0:
            self._basis = {name: orthonormal(mean[name]) for name in self.own}
            for name in set(theta) - set(self.own):
                self._step(name, theta[name], mean[name])
            return
        for name, right in mean.items():
            left = self._basis[name]
            change = np.zeros((len(left), len(right)), right.dtype)
            for column in range(self.rank):  # not a matrix product, because machines round it differently
                change += left[:, column, None] * right[:, column]
            self._step(name, theta[name], change.reshape(theta[name].shape))
            lost = ~right.any(0)  # columns of zeros would stay zeros
            right[:, lost] = self._drawn(len(right), right.dtype, self.round + 1)[:, lost]
            self.shared[f"right.{name}"][...] = right

    def _step(self, name: str, theta: Any, mean: Any) -> None:
        rule = _outer.at(self.outer, (self.round + 1) * self.inner_steps, self.inner_steps)
        assert isinstance(rule, (Nesterov, SGD))
        if rule.momentum > 0:
            momentum = self.shared[f"momentum.{name}"]
            momentum *= rule.momentum
            momentum += mean
            if isinstance(rule, Nesterov):
                mean += momentum * rule.momentum
            else:
                mean[...] = momentum
        mean *= rule.rate
        theta -= mean

    def _drawn(self, rows: int, dtype: Any, round: int) -> Any:
        return _random.signs(self.seed, _random.BASIS, round, 0, rows * self.rank, dtype).reshape(rows, -1)


def _matrix(array: Any) -> Any:
    return array.reshape(len(array), -1)


def orthonormal(columns: Any) -> Any:
    """Returns an orthonormal basis of the columns' span, with the same bits on all machines. A column that depends on
    the previous ones becomes zeros."""
    rows = np.ascontiguousarray(columns.T, np.float64)
    for index, row in enumerate(rows):
        before = math.sqrt(_product(row, row))
        for _ in range(2):  # the second pass removes the rounding errors of the first
            for other in rows[:index]:
                row -= _product(row, other) * other
        length = math.sqrt(_product(row, row))
        row *= 1 / length if length > _ROUNDING * before else 0.0
    return np.ascontiguousarray(rows.T, columns.dtype)


def _product(one: Any, other: Any) -> float:
    """Returns the inner product, summed pairwise in the same order on all machines."""
    terms = one * other
    while len(terms) > 1:
        half = len(terms) // 2
        rest = terms[2 * half :]
        terms = terms[:half] + terms[half : 2 * half]
        terms[: len(rest)] += rest
    return float(terms[0])
