"""DeMo: each peer has a local momentum, and sends its largest components."""

from __future__ import annotations

import math
from typing import Any, Callable, Union

import numpy as np

from .._described import takes
from .._errors import InvalidArgument
from .._settings import finite, integer, setting
from . import _cosine
from ._hooks import Named
from ._method import Method
from ._settings import Settings

_CHUNK_MAX = 256  # limit because an index is one byte
_LEVELS = 127


def _chunk(name: str, value: Any) -> Any:
    chunk = integer(2)(name, value)
    if chunk > _CHUNK_MAX or chunk & (chunk - 1):
        raise InvalidArgument(f"{name}: {chunk}; expected a power of two up to {_CHUNK_MAX}")
    return chunk


class DeMoSettings(Settings):
    chunk: int = setting(default=64, check=_chunk)
    kept: int = setting(default=4, check=integer(1))
    decay: float = setting(default=0.999, check=finite(zero=True))
    lr: Union[float, Callable[[int], float]] = setting(
        default=1e-3,
        check=lambda name, lr: lr if callable(lr) else finite(most=math.inf)(name, lr),
        same=lambda lr: getattr(lr, "__qualname__", type(lr).__qualname__) if callable(lr) else lr,
    )

    def _check(self) -> None:
        if self.kept > self.chunk:
            raise InvalidArgument(f"kept: {self.kept}; expected at most chunk, {self.chunk}")


class DeMo(Method):
    """Adds each round's change to a local momentum, removes the largest components of the momentum's discrete cosine
    transform and sends them. All peers then step by the sign of the mean of these components (DeMo). The other
    components remain in the momentum.

    In the paper the change is the gradient. To get the same, use inner_steps=1 and SGD with rate 1, which leaves the
    step to this method.

    chunk: number of elements that are transformed together, a power of two up to 256. The parameters are concatenated
        in the order of their names.
    kept: number of components sent from each chunk, at 2 bytes each, plus 4 bytes for the chunk.
    decay: factor of the momentum from one round to the next.
    lr: distance that each parameter moves in a step; or a function of the round that is the same on all peers.

    After each round the parameters have the same bits on all peers. The momentum is local: newcomers start with zeros,
    as does a peer whose parameters were replaced. state_dict() includes it. In addition to the parameters, uses host
    memory of eight times their size in f32. For the other settings see Method.
    """

    @takes(DeMoSettings)
    def __init__(self, given: DeMoSettings) -> None:
        self.chunk, self.kept, self.decay, self.lr = given.chunk, given.kept, given.decay, given.lr
        super().__init__(given.comm, given.params, given)

    def _blocks(self, params: Named) -> Any:
        count = sum(array.size for array in params.values())
        return np.zeros((-(-count // self.chunk), self.chunk), np.float32)

    def own_state(self, params: Named) -> Named:
        return {"momentum": self._blocks(params)}

    def room(self, params: Named) -> Named:
        return {"coefficients": self._blocks(params)}

    def encode(self, change: Named) -> bytes:
        momentum = self.own["momentum"]
        momentum *= np.float32(self.decay)
        for place, array in _places(momentum, change):
            place += array
        coefficients = _cosine.transform(momentum)
        chosen = np.argpartition(-np.abs(coefficients), self.kept - 1, axis=1)[:, : self.kept]
        chosen.sort(axis=1)
        values = np.take_along_axis(coefficients, chosen, 1)
        scales = np.abs(values).max(1, keepdims=True)
        levels = np.rint(values / np.where(scales > 0, scales, 1) * _LEVELS)
        packed = b"".join(one.tobytes() for one in (scales.astype("<f4"), chosen.astype("u1"), levels.astype("i1")))
        momentum -= _cosine.invert(self.decode(packed)["coefficients"])
        return packed

    def decode(self, told: bytes) -> Named:
        made = np.zeros_like(self.own["momentum"])
        count = len(made)
        if len(told) != count * (4 + 2 * self.kept):
            raise InvalidArgument(f"{len(told)} bytes; expected {count * (4 + 2 * self.kept)}")
        scales = np.frombuffer(told, "<f4", count)[:, None]
        chosen = np.frombuffer(told, np.uint8, count * self.kept, 4 * count).reshape(count, -1).astype(np.intp)
        if not (scales >= 0).all() or not np.isfinite(scales).all():
            raise InvalidArgument("a scale is negative or not finite")
        levels = np.frombuffer(told, np.int8, offset=(4 + self.kept) * count).reshape(count, -1)
        if (chosen >= self.chunk).any() or (np.diff(chosen, axis=1) <= 0).any():
            raise InvalidArgument("the indices of a chunk do not increase, or exceed it")
        np.put_along_axis(made, chosen, levels * scales / np.float32(_LEVELS), 1)
        return {"coefficients": made}

    def apply(self, theta: Named, mean: Named) -> None:
        rate = self.lr(self.round) if callable(self.lr) else self.lr
        for place, array in _places(_cosine.invert(mean["coefficients"]), theta):
            array -= np.sign(place) * np.float32(rate)


def _places(blocks: Any, arrays: Named) -> Any:
    """Yields the place of each array in the blocks, and the array."""
    flat, begin = blocks.reshape(-1), 0
    for _, array in sorted(arrays.items()):
        yield flat[begin : begin + array.size].reshape(array.shape), array
        begin += array.size
