"""Training with sketched changes."""

from __future__ import annotations

import math
from typing import Any, Optional, Union

import numpy as np

from .._described import takes
from .._errors import InvalidArgument
from .._settings import choice, finite, setting
from ..diloco import _outer
from ..diloco._arrays import NumpyArrays, Scratch
from ..diloco._member import StepInfo
from ..diloco._outer import SGD, Nesterov
from ..diloco._reduction import Reduction, codec_of
from . import _random
from ._hooks import as_numpy
from ._method import Method
from ._settings import Coded, Settings, Stepped
from ._sketch import KINDS


def _ratio(name: str, value: Any) -> float:
    if finite(most=math.inf)(name, value) < 1:
        raise InvalidArgument(f"{name}: {value!r}; expected at least 1")
    return float(value)


class SketchedSettings(Stepped, Coded, Settings):
    ratio: float = setting(default=8.0, check=_ratio)
    kind: str = setting(default="count", check=choice(tuple(KINDS)))
    outer: Union[Nesterov, SGD] = SGD(1.0)
    clip: Optional[float] = setting(
        default=None, check=lambda name, clip: math.inf if clip is None else finite(most=math.inf)(name, clip)
    )
    noise: float = setting(default=0.0, check=finite(zero=True, most=math.inf))
    noise_seed: Optional[int] = setting(default=None, same=False)

    def _check(self) -> None:
        if _outer.has_schedule(self.outer):
            raise InvalidArgument("outer: sketches require a constant rate, not a schedule")
        if self.noise > 0 and self.clip == math.inf:
            raise InvalidArgument("noise: requires clip, as noise is a multiple of clip")


class Sketched(Method):
    """Trains on each peer independently for inner_steps steps. Then all peers sum up sketches of their changes, which
    contain 1 / ratio as many numbers. Each peer restores a change of full size from the sum, and makes the outer step
    with it. The expectation of that step equals the step without sketches, but its variance is larger. With a larger
    ratio, use fewer steps per round.

    ratio: factor by which fewer numbers are sent.
    kind: "count" for a CountSketch, or "hadamard" for a Hadamard.
    clip: limit on the Euclidean length of a peer's change. noise: each peer adds a normal random number with standard
        deviation noise * clip to each element of its clipped change, before the sketch. A sketch alone hides nothing:
        with the seed an observer can compute the effect of the training data from it. This class does not compute the
        privacy of a run with noise.
    noise_seed: makes the noise reproducible, for tests. With the seed an observer can remove the noise.
    outer, codec: as in DiLoCo; outer is a Nesterov or an SGD.

    After each round the parameters have the same bits on all peers. Peers that fail are left out: the mean is over
    exactly the remaining peers. A change that is not finite is left out. For the other settings see Method.
    """

    @takes(SketchedSettings)
    def __init__(self, given: SketchedSettings) -> None:
        self.ratio, self.noise, self.outer = given.ratio, given.noise, given.outer
        self.clip = math.inf if given.clip is None else given.clip
        self._has_momentum = given.outer.momentum > 0
        super().__init__(given.comm, given.params, given)
        packing = codec_of(given.codec, False, self._layout.dtypes)
        self._scratch = Scratch(self._layout)
        self._generator = np.random.default_rng(given.noise_seed)
        self._room = self._layout.zeros()
        self._change = as_numpy(self._room)
        make = KINDS[given.kind]
        self._maps = [
            make(len(flat), self.ratio, flat.dtype.name, self.seed, index) for index, flat in enumerate(self._change)
        ]
        own, mean = ([np.zeros(one.width, flat.dtype) for one, flat in zip(self._maps, self._change)] for _ in range(2))
        self._reduction = Reduction(0, own, mean, NumpyArrays(), packing, given.bucket_bytes, given.max_in_flight)

    def _exchange(self) -> StepInfo:
        self._layout.measure(self._shared.theta, self._room)
        skipped = not self._clip()
        reduction = self._reduction
        for flat, one, sketched in zip(self._change, self._maps, reduction.delta):
            one.draw(self.round)
            self._add_noise(flat)
            sketched[...] = one.sketch(flat)
        info = self._average(reduction, skipped)
        if info.committed:
            self._step()
        self._layout.write(self._shared.theta)
        return info

    def _clip(self) -> bool:
        """Clips the change. If it is not finite, sets it to zero and returns false."""
        length = math.sqrt(sum(float(np.square(flat, dtype=np.float64).sum()) for flat in self._change))
        if not math.isfinite(length):
            for flat in self._change:
                flat[...] = 0
            return False
        if length > self.clip:
            for flat in self._change:
                flat *= self.clip / length
        return True

    def _add_noise(self, flat: Any) -> None:
        if self.noise > 0:
            drawn = self._generator.standard_normal(len(flat)).astype(flat.dtype)
            flat += drawn * flat.dtype.type(self.noise * self.clip)

    def _step(self) -> None:
        for flat, one, sketched in zip(self._change, self._maps, self._reduction.mean):
            flat[...] = one.restore(sketched)
        momenta = self._shared.momentum or [None] * len(self._room)
        for theta, momentum, change in zip(self._shared.theta, momenta, self._room):
            if momentum is None:
                change *= self.outer.rate
                theta -= change
            else:
                _outer.apply(self.outer, theta, momentum, change, self._scratch)
