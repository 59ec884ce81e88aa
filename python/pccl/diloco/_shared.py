"""The shared state of a run: the outer copy, its moments, the counters, and the program's extra arrays."""

from __future__ import annotations

import hashlib
from array import array
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .. import _buffers
from .._errors import InvalidArgument
from .._lazy import torch
from .._state import SharedState, TensorInfo
from . import _arrays
from ._arrays import Flats, Layout

_ROUND, _SAMPLES, _POSITION, _LAUNCHED = 0, 1, 2, 3


def _copy_of(thing: Any) -> Any:
    return thing.detach().clone() if hasattr(thing, "detach") else thing.copy()


def write_to(target: Any, source: Any) -> None:
    if hasattr(target, "detach"):
        target.detach().copy_(torch.as_tensor(source))
    else:
        target[...] = source


def check_shape(name: str, given: Any, thing: Any) -> None:
    if tuple(getattr(given, "shape", ())) != tuple(thing.shape):
        raise InvalidArgument(
            f"load_state_dict: {name} is {_buffers.describe(given)}, expected the shape {tuple(thing.shape)}"
        )


NOT_LAUNCHED = -1


class Shared:
    """The shared tensors of a run.

    extra: arrays of the program that are equal on all peers at each boundary. buffers: arrays that differ between
        peers; newcomers get one peer's arrays. momentum, second: whether there is a first and a second moment of the
        mean. is_common: whether theta is the same on all peers; if not, it is treated like the buffers.
    """

    def __init__(
        self,
        layout: Layout,
        extra: Optional[Mapping[str, Any]] = None,
        buffers: Optional[Mapping[str, Any]] = None,
        *,
        momentum: bool = True,
        second: bool = False,
        is_common: bool = True,
    ) -> None:
        self.theta: Flats = layout.zeros(staged=True)
        self.momentum: Flats = layout.zeros() if momentum else []
        self.second: Flats = layout.zeros() if second else []
        self._is_common = is_common
        self.layout_mark = layout.mark()
        self._counters = array("q", [0, 0, 0, *[NOT_LAUNCHED] * len(layout.parts)])
        self._extra = dict(extra or {})
        self._buffers = dict(buffers or {})
        for name, thing in self._extra.items():
            if not (_arrays.is_tensor(thing) or _arrays.is_numpy(thing)):
                kind = type(thing).__name__
                raise InvalidArgument(f"extra: {name} is a {kind}; expected a numpy array or a torch tensor")
        self._dtypes = layout.dtypes
        self._state = SharedState(self.tensors())
        layout.read(self.theta)

    # ---- its tensors

    def _named(self) -> Dict[str, Any]:
        named: Dict[str, Any] = {}
        for kind, flats in (("theta", self.theta), ("momentum", self.momentum), ("second", self.second)):
            named.update({f"{kind}.{dtype}": flat for dtype, flat in zip(self._dtypes, flats)})
        named.update({f"extra.{name}": thing for name, thing in sorted(self._extra.items())})
        return {name: thing for name, thing in named.items() if _buffers.of(thing, name).count > 0}

    def tensors(self) -> List[TensorInfo]:
        found = [TensorInfo.from_buffer(self._counters, "diloco.counters")]
        for name, thing in self._named().items():
            is_own = not self._is_common and name.startswith("theta.")
            found.append(TensorInfo.from_buffer(thing, f"diloco.{name}", allow_content_inequality=is_own))
        return found + [
            TensorInfo.from_buffer(thing, f"diloco.buffer.{name}", allow_content_inequality=True)
            for name, thing in sorted(self._buffers.items())
        ]

    def state(self, revision: int) -> SharedState:
        self._state.revision = revision
        return self._state

    @property
    def counters(self) -> List[int]:
        """The whole state outside the fragments, if there are neither `extra` arrays nor buffers."""
        return list(self._counters)

    @counters.setter
    def counters(self, values: Sequence[int]) -> None:
        self._counters[:] = array("q", values)

    def mark(self) -> int:
        """Returns a number that is equal for peers with equal names, types and sizes."""
        hashed = hashlib.sha256(str(self.layout_mark).encode())
        for info in self.tensors():
            hashed.update(f"{info.name}\0{info.dtype.name}\0{info.numel}\0".encode())
        return int.from_bytes(hashed.digest()[:7], "big")

    def lines(self) -> List[str]:
        """Returns the names, types and sizes as text."""
        return [f"{info.name}: {info.numel} of {info.dtype.name.lower()}" for info in self.tensors()]

    # ---- counters

    @property
    def round(self) -> int:
        return self._counters[_ROUND]

    @round.setter
    def round(self, value: int) -> None:
        self._counters[_ROUND] = value

    @property
    def samples(self) -> int:
        return self._counters[_SAMPLES]

    @samples.setter
    def samples(self, value: int) -> None:
        self._counters[_SAMPLES] = value

    @property
    def position(self) -> int:
        """Number of inner steps since the last boundary."""
        return self._counters[_POSITION]

    @position.setter
    def position(self, value: int) -> None:
        self._counters[_POSITION] = value

    def launched(self, fragment: int) -> int:
        """Returns the inner step of the fragment's delta in flight, or NOT_LAUNCHED."""
        return self._counters[_LAUNCHED + fragment]

    def set_launched(self, fragment: int, step: int) -> None:
        self._counters[_LAUNCHED + fragment] = step

    def forget_step(self) -> None:
        """Returns to the last boundary, with no reduction in flight."""
        self.position = 0
        for fragment in range(len(self._counters) - _LAUNCHED):
            self.set_launched(fragment, NOT_LAUNCHED)

    # ---- content

    def digest(self) -> str:
        """Returns a hexadecimal digest of names and contents."""
        return _buffers.digest([("counters", self._counters), *self._named().items()])

    def state_dict(self) -> Dict[str, Any]:
        state: Dict[str, Any] = {name: _copy_of(thing) for name, thing in self._named().items()}
        state.update(round=self.round, samples=self.samples, layout=self.layout_mark)
        return state

    def check(self, state: Mapping[str, Any]) -> None:
        """Raises InvalidArgument if the state does not match."""
        named = self._named()
        differing = sorted({*named, "round", "samples", "layout"} ^ set(state))
        if differing:
            raise InvalidArgument(
                "load_state_dict: the state does not fit this peer: only one of them has "
                f"{', '.join(differing)}"
            )
        if int(state["layout"]) != self.layout_mark:
            raise InvalidArgument(
                "load_state_dict: the state has parameters with other names, shapes or types, or in other fragments: "
                "their number and the pattern must match the run that saved it"
            )
        counts = [int(state["round"]), int(state["samples"])]
        if min(counts) < 0:
            raise InvalidArgument(f"load_state_dict: round and samples: {counts[0]}, {counts[1]}; expected at least 0")
        for name, thing in named.items():
            check_shape(name, state[name], thing)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads the state of a boundary. Call it after check()."""
        for name, thing in self._named().items():
            write_to(thing, state[name])
        self.round, self.samples = int(state["round"]), int(state["samples"])
        self.forget_step()

    def keep(self, theta: Flats, momentum: Flats) -> Kept:
        """Returns a copy of the content, with which restore() undoes an incomplete transfer. theta, momentum: memory
        for the large arrays."""
        _arrays.copy(theta, self.theta)
        _arrays.copy(momentum, self.momentum)
        extra = {name: _copy_of(thing) for name, thing in (*self._extra.items(), *self._buffers.items())}
        return Kept(theta, momentum, [_copy_of(flat) for flat in self.second], array("q", self._counters), extra)

    def restore(self, kept: Kept) -> None:
        _arrays.copy(self.theta, kept.theta)
        _arrays.copy(self.momentum, kept.momentum)
        _arrays.copy(self.second, kept.second)
        self._counters[:] = kept.counters
        for name, thing in (*self._extra.items(), *self._buffers.items()):
            write_to(thing, kept.extra[name])


class Kept:
    """Content that may have to be restored."""

    def __init__(
        self, theta: Flats, momentum: Flats, second: Flats, counters: array[int], extra: Dict[str, Any]
    ) -> None:
        self.theta, self.momentum, self.second, self.counters, self.extra = theta, momentum, second, counters, extra
