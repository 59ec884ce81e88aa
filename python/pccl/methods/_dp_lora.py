"""Low-rank adapters trained with differential privacy."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from .. import _buffers
from .._described import takes
from .._errors import InvalidArgument
from .._settings import finite, function, integer, position, setting
from ..diloco import _arrays
from ..diloco._arrays import Layout, NumpyArrays
from ..diloco._member import StepInfo
from ..diloco._reduction import Reduction, codec_of
from . import _random
from ._accountant import Accountant, check_delta
from ._hooks import as_numpy
from ._method import Method
from ._settings import Coded, Settings

# (rows, columns): vectors for each example, or for each place in each example. The gradient is their outer product,
# summed over the places.
Factors = Tuple[Any, Any]


class DPLoRASettings(Coded, Settings):
    gradients: Callable[[Any], Mapping[str, Factors]] = position(kw_only=False)
    examples: int = setting(check=integer(1), same=False)
    batch: int = setting(check=integer(1), same=False)
    rank: int = setting(default=4, check=integer(1), same=False)
    scale: float = setting(default=1.0, check=finite(most=math.inf))
    targets: Optional[Sequence[str]] = setting(default=None, same=False)
    clip: float = setting(default=1.0, check=finite(most=math.inf))
    noise: float = setting(default=1.0, check=finite(zero=True, most=math.inf))
    delta: float = setting(default=1e-6, check=lambda _, delta: check_delta(delta), same=False)
    lr: float = setting(default=0.1, check=finite(most=math.inf))
    inner_steps: int = 4
    noise_seed: Optional[int] = setting(default=None, same=False)

    def _check(self) -> None:
        if self.batch > self.examples:
            raise InvalidArgument(f"batch: {self.batch}; expected at most examples, {self.examples}")
        if self.delta * self.examples >= 1:
            raise InvalidArgument(
                f"delta: {self.delta!r}; expected less than 1 / {self.examples}, or an example may be disclosed"
            )
        function("gradients", self.gradients)


class DPLoRA(Method):
    """Learns low-rank adapters with differential privacy (DP-LoRA): each target matrix W of the parameters becomes W +
    scale * A B, of which only A and B are learned and sent. In each step a peer draws some of its examples, clips the
    gradient of each, adds noise to the sum, and makes a step of SGD with it. After inner_steps steps all peers average
    their adapters. The information that any observer gains about one example is therefore bounded. `epsilon` is the
    bound for all steps of this peer; each peer has its own examples and bound.

    params: all parameters, with equal contents on all peers. The original targets are kept, and W + scale * A B is
        written to the targets after each step; the other parameters do not change. A run that continues from a
        state_dict() must begin with the original parameters, not with the written ones.
    gradients: gradients(chosen) takes an array of example numbers. For each target it returns the factors of the
        gradient of each example's loss (not divided by the number of examples): arrays of shape (examples, rows) and
        (examples, columns), whose outer products are the gradients, or (examples, places, rows) and (examples, places,
        columns). For x @ W these are x and the gradient of the output; for torch's Linear, the gradient of the output
        and x.
    examples: number of this peer's examples. batch: average number of examples in a step, which are drawn at random.
        Both may differ between peers.
    rank: columns of A and rows of B. targets: names of the targets; None: all two-dimensional parameters.
    clip: limit on the Euclidean length of an example's gradient, over all adapters.
    noise: standard deviation of the noise added to each element of the sum, in multiples of clip; 0: no noise, and no
        privacy.
    delta: probability that the bound does not hold; less than 1 / examples.
    lr: the step is lr / batch times the noisy sum.
    noise_seed: makes noise and drawing reproducible, for tests. With the seed an observer can remove the noise.
    codec: as in DiLoCo.

    After each round the adapters have the same bits on all peers. Peers that fail are left out of the mean. A and B are
    averaged separately. Their product is not the mean of the products, and the difference grows with the length of a
    round. A gradient that is not finite is left out. For the other settings see Method.
    """

    @takes(DPLoRASettings)
    def __init__(self, given: DPLoRASettings) -> None:
        self.gradients, self.examples, self.batch = given.gradients, given.examples, given.batch
        self.scale, self.clip, self.lr, self.noise = given.scale, given.clip, given.lr, given.noise
        self.delta, self._noise_seed = given.delta, given.noise_seed
        self._accountant = Accountant(given.noise, given.batch / given.examples)
        named = _arrays.named_parameters(given.params)
        self._targets = _targets(named, given.targets, given.rank)
        self._merged = Layout(named, [self._targets])
        self._frozen, self._room = self._merged.zeros(), self._merged.zeros()
        self._merged.read(self._frozen)
        self._digest = _digest(named)
        self._adapters = self._initial_adapters(given.rank, given.seed)
        super().__init__(given.comm, self._adapters, given)
        packing = codec_of(given.codec, False, self._layout.dtypes)
        own, mean = self._layout.zeros(), self._layout.zeros()
        self._reduction = Reduction(0, own, mean, NumpyArrays(), packing, given.bucket_bytes, given.max_in_flight)

    def _also_compared(self) -> Mapping[str, Any]:
        return {"frozen parameters": self._digest}

    def _initial_adapters(self, rank: int, seed: int) -> Dict[str, Any]:
        """Returns the initial adapters: random signs in A and zeros in B, so that the model is unchanged."""
        adapters = {}
        for index, slot in enumerate(self._merged.whole.slots):
            rows, columns = slot.shape
            dtype = self._merged.dtypes[slot.flat]
            drawn = _random.signs(seed, _random.ADAPTERS, 0, index, rows * rank, dtype)
            adapters[f"{slot.name}.a"] = drawn.reshape(rows, rank) * drawn.dtype.type(1 / math.sqrt(rows))
            adapters[f"{slot.name}.b"] = np.zeros((rank, columns), dtype)
        return adapters

    # ---- privacy

    @property
    def epsilon(self) -> float:
        """Privacy cost of this peer's steps so far, for `delta`; infinite without noise."""
        return self._accountant.epsilon(self.delta)

    @property
    def adapters(self) -> Dict[str, Any]:
        """A and B of each target, with the names NAME.a and NAME.b."""
        return self._adapters

    # ---- steps

    def step(self) -> StepInfo:
        """Makes one step with examples of this peer. The last step of a round involves the other peers. If `gradients`
        raises, nothing has changed."""
        if self._is_in_run():
            self._check_not_finished()
            self._descend()
        return super().step()

    def _descend(self) -> None:
        generator = self._generator()
        count = generator.binomial(self.examples, self._accountant.rate)
        chosen = generator.choice(self.examples, count, False, shuffle=False)
        total = self._clipped_sum(chosen) if len(chosen) else {name: 0.0 for name in self._adapters}
        self._accountant.add()
        for name, adapter in self._adapters.items():
            noisy = total[name] + generator.normal(0, self.noise * self.clip, adapter.shape)
            adapter -= (self.lr / self.batch * noisy).astype(adapter.dtype)
        self._merge()

    def _generator(self) -> np.random.Generator:
        """Returns a random generator whose numbers differ from all other peers' numbers."""
        if self._noise_seed is None:
            return np.random.default_rng()
        return np.random.default_rng([self._noise_seed, self.round, self._shared.position])

    def _clipped_sum(self, chosen: Any) -> Dict[str, Any]:
        """Returns the sums of the clipped gradients of A and B, without computing the gradient of any single example.
        Uses doubles, so that rounding cannot make a gradient appear shorter."""
        told = self.gradients(chosen)
        pairs: Dict[str, Factors] = {}
        for target in self._targets:
            rows, columns = self._factors(told, target, len(chosen))
            a, b = (self._adapters[f"{target}.{which}"].astype(np.float64) for which in "ab")
            pairs[f"{target}.a"] = rows, columns @ b.T * self.scale
            pairs[f"{target}.b"] = rows @ a * self.scale, columns
        with np.errstate(invalid="ignore", over="ignore"):
            squares = sum(_squared_lengths(*pair) for pair in pairs.values())
        finite = np.isfinite(squares)
        lengths = np.sqrt(np.where(finite, np.maximum(squares, 1e-300), 1))
        factors = np.where(finite, np.minimum(1, self.clip / lengths), 0)[:, None, None]
        total = {}
        for name, (rows, columns) in pairs.items():
            rows, columns = (np.where(finite[:, None, None], one, 0) for one in (rows, columns))
            total[name] = np.tensordot(rows * factors, columns, ((0, 1), (0, 1)))
        return total

    def _factors(self, told: Mapping[str, Factors], target: str, count: int) -> Factors:
        if not isinstance(told, Mapping) or target not in told:
            raise InvalidArgument(f"gradients: missing {target}")
        shape = [len(self._adapters[f"{target}.a"]), self._adapters[f"{target}.b"].shape[1]]
        factors = [_as_numpy(factor) for factor in told[target]]
        factors = [factor[:, None] if factor.ndim == 2 else factor for factor in factors]
        wanted = [(count, factors[0].shape[1] if factors[0].ndim == 3 else 1, extent) for extent in shape]
        if [factor.shape for factor in factors] != wanted:
            found = " and ".join(str(factor.shape) for factor in factors)
            raise InvalidArgument(f"gradients: {target}: {found}, expected {wanted[0]} and {wanted[1]}")
        return factors[0], factors[1]

    def _exchange(self) -> StepInfo:
        reduction = self._reduction
        self._layout.read(reduction.delta)
        info = self._average(reduction, not reduction.is_finite())
        if info.committed:
            _arrays.copy(self._shared.theta, reduction.mean)
        self._write()
        return info

    # ---- the parameters

    def _write(self) -> None:
        super()._write()
        self._merge()

    def _merge(self) -> None:
        _arrays.copy(self._room, self._frozen)
        flats = as_numpy(self._room)
        for slot in self._merged.whole.slots:
            product = self._adapters[f"{slot.name}.a"] @ self._adapters[f"{slot.name}.b"]
            flats[slot.flat][slot.start : slot.stop] += (product * product.dtype.type(self.scale)).reshape(-1)
        self._merged.write(self._room)

    # ---- checkpoints

    def state_dict(self) -> Dict[str, Any]:
        """Returns the state, with the privacy cost of this peer's steps so far."""
        return {**super().state_dict(), "spent": np.array(self._accountant.spent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state. The privacy cost becomes the greater of this peer's and the state's."""
        rest = dict(state)
        spent = rest.pop("spent", None)
        if spent is None:
            raise InvalidArgument("load_state_dict: the state does not fit this peer: only one of them has spent")
        before = self._accountant.spent
        self._accountant.load(spent)
        try:
            super().load_state_dict(rest)
        except BaseException:
            self._accountant.spent = before
            raise


def _targets(named: Mapping[str, Any], given: Optional[Sequence[str]], rank: int) -> List[str]:
    if given is None:
        given = [name for name, array in named.items() if len(array.shape) == 2]
    if isinstance(given, str) or not given:
        raise InvalidArgument("targets: expected names of parameters of two dimensions")
    for name in given:
        shape = tuple(named[name].shape) if name in named else None
        if shape is None or len(shape) != 2:
            what = "is not a parameter" if shape is None else f"has {len(shape)} dimensions"
            raise InvalidArgument(f"targets: {name!r} {what}; expected a parameter with 2 dimensions")
        if rank > min(shape):
            raise InvalidArgument(f"rank: {rank}; expected at most {min(shape)}, for {name}, which is {shape}")
    return sorted(given)


def _squared_lengths(rows: Any, columns: Any) -> Any:
    """Returns the squared length of each example's sum of outer products, computed from inner products, plus a bound on
    the rounding error, which can exceed the result if places nearly cancel."""
    products = (rows @ rows.transpose(0, 2, 1)) * (columns @ columns.transpose(0, 2, 1))
    apart = np.sqrt(np.diagonal(products, axis1=1, axis2=2)).sum(1) ** 2
    terms = rows.shape[2] + columns.shape[2] + rows.shape[1] ** 2
    return products.sum((1, 2)) + terms * np.finfo(np.float64).eps * apart


def _digest(named: Mapping[str, Any]) -> str:
    dense = {
        name: array.detach().contiguous() if _arrays.is_tensor(array) else np.ascontiguousarray(array)
        for name, array in named.items()
    }
    return _buffers.digest(sorted(dense.items()))


def _as_numpy(thing: Any) -> Any:
    if _arrays.is_tensor(thing):
        thing = thing.detach().double().cpu().numpy()
    return np.asarray(thing, np.float64)
