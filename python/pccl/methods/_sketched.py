"""Sketched updates."""

from __future__ import annotations

import math
from typing import Any, Optional, Union

import numpy as np

from .._communicator import Communicator
from .._errors import InvalidArgument
from ..diloco import _membership, _outer
from ..diloco._arrays import NumpyArrays, Scratch
from ..diloco._member import StepInfo, check_choice
from ..diloco._outer import SGD, Nesterov
from ..diloco._reduction import BUCKET_BYTES, Codec, Reduction, codec_of, codec_words
from . import _random
from ._hooks import as_numpy
from ._method import Method, check_fraction
from ._sketch import KINDS


class Sketched(Method):
    """After inner_steps steps of their own, all peers sum up sketches of what they have changed,
    which have a ratio-th of the numbers; each makes a change of full size of the sum again, and the
    outer step with that. The expectation of that step is the step without sketches, its variance is
    larger: let what is trained in a round shrink with the ratio.

    ratio: how many times fewer numbers are sent.
    kind: "count", a CountSketch, or "hadamard", a Hadamard.
    clip: the most that a peer's change may be long (Euclidean). noise: to each element of the
        clipped change, before it is sketched, a normal random number of noise * clip standard
        deviation is added, which is this peer's own. A sketch alone hides nothing: whoever knows
        the seed can work out what was trained with from it. How private the noise makes a run is
        for a calculation that this class does not make.
    noise_seed: makes the noise repeatable, for tests; whoever knows it can take the noise out.
    outer, codec: as in DiLoCo; outer is a Nesterov or an SGD.

    Parameters are the same bits on all peers after each round. Peers that die are left out: the
    mean is that of exactly those that remain. A change that is not finite counts for nothing. For
    the other settings see Method.
    """

    def __init__(
        self,
        comm: Communicator,
        params: Any,
        *,
        ratio: float = 8.0,
        kind: str = "count",
        inner_steps: int = 1,
        outer: Union[Nesterov, SGD] = SGD(1.0),
        clip: Optional[float] = None,
        noise: float = 0.0,
        noise_seed: Optional[int] = None,
        codec: Codec = None,
        bucket_bytes: int = BUCKET_BYTES,
        max_in_flight: int = 4,
        seed: int = 0,
        min_peers: int = 1,
        admit_every: int = 10,
        verify_every: int = 50,
        rounds: Optional[int] = None,
    ) -> None:
        self.ratio = check_fraction("ratio", ratio, most=math.inf)
        if self.ratio < 1:
            raise InvalidArgument(f"ratio: {ratio!r}; expected at least 1")
        check_choice("kind", kind, tuple(KINDS))
        if not isinstance(outer, (Nesterov, SGD)):
            raise InvalidArgument(f"outer: {outer!r} is not a pccl.diloco.Nesterov or an SGD")
        if _outer.has_schedule(outer):
            raise InvalidArgument("outer: sketches need one rate, and not a schedule")
        self.clip = math.inf if clip is None else check_fraction("clip", clip, most=math.inf)
        self.noise = check_fraction("noise", noise, zero=True, most=math.inf)
        if self.noise > 0 and clip is None:
            raise InvalidArgument("noise: it is in multiples of clip, which is not given")
        self.outer = outer
        packing = codec_of(codec, False, ())
        settings = {
            "ratio": self.ratio,
            "kind": kind,
            "outer": _membership.listing("outer", [_outer.words(outer)]),
            "clip": self.clip,
            "noise": self.noise,
            "codec": _membership.listing("codec", [codec_words(packing)]),
            "bucket_bytes": bucket_bytes,
        }
        self._has_momentum = outer.momentum > 0
        super().__init__(
            comm, params, settings, inner_steps=inner_steps, seed=seed, min_peers=min_peers, admit_every=admit_every,
            verify_every=verify_every, rounds=rounds,
        )
        codec_of(codec, False, self._layout.dtypes)
        self._scratch = Scratch(self._layout)
        self._dice = np.random.default_rng(noise_seed)
        self._room = self._layout.zeros()
        self._change = as_numpy(self._room)
        self._maps = [
            KINDS[kind](len(flat), self.ratio, flat.dtype.name, seed, index) for index, flat in enumerate(self._change)
        ]
        own, mean = ([np.zeros(one.width, flat.dtype) for one, flat in zip(self._maps, self._change)] for _ in range(2))
        self._reduction = Reduction(0, own, mean, NumpyArrays(), packing, bucket_bytes, max_in_flight)

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
        """Whether the change is finite."""
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
            flat += self._dice.standard_normal(len(flat)).astype(flat.dtype) * flat.dtype.type(self.noise * self.clip)

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
