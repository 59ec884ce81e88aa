"""Calls the hooks of a method, checks their results, and undoes their changes if the round fails."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Type, TypeVar, Union

import numpy as np

from .. import _buffers
from .._communicator import Communicator
from .._errors import InvalidArgument
from .._operations import AllGatherV
from ..diloco import _arrays
from ..diloco._arrays import Flats, Layout, NumpyArrays
from ..diloco._member import StepInfo
from ..diloco._reduction import BUCKET_BYTES, FIRST_TAG, Reduction

Named = Dict[str, Any]  # numpy arrays by name
_B = TypeVar("_B", bound="Block")

_IN_FLIGHT = 4
_PEERS_MAX = 256
_BLOBS_MIN = 256 << 20
GATHER_TAG = FIRST_TAG + 48  # first of the tags for the parts of a round


def views(layout: Layout, flats: Flats) -> Named:
    """Returns each parameter in the flat arrays, by name and in its shape."""
    return {slot.name: flats[slot.flat][slot.start : slot.stop].reshape(slot.shape) for slot in layout.whole.slots}


def as_numpy(flats: Flats) -> Flats:
    """Returns numpy arrays in the memory of the flat arrays."""
    return [flat.numpy() if _arrays.is_tensor(flat) else flat for flat in flats]


def read_only(arrays: Mapping[str, Any]) -> Named:
    made = {name: array.view() for name, array in arrays.items()}
    for array in made.values():
        array.flags.writeable = False
    return made


def _is_finite(arrays: Sequence[Any]) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return all(NumpyArrays().is_finite(array) for array in arrays if array.dtype.kind == "f")


class Block:
    """Named arrays that are views of a few flat arrays. where: name used in errors."""

    def __init__(self, where: str, flats: Flats, arrays: Named) -> None:
        self._where, self.flats, self.arrays = where, flats, arrays

    @classmethod
    def like(cls: Type[_B], like: Any, where: str) -> _B:
        """Creates zeros with the names, shapes and types of these arrays."""
        if not isinstance(like, Mapping):
            raise InvalidArgument(f"{where} returned a {type(like).__name__}; expected a dict of numpy arrays")
        for name, array in like.items():
            if not isinstance(name, str) or not isinstance(array, np.ndarray) or array.dtype.kind not in "fiu":
                raise InvalidArgument(
                    f"{where}: {name!r} is {_buffers.describe(array)}; expected a numpy array of numbers, with a name"
                )
        flats: List[Any] = []
        arrays: Named = {}
        for dtype in sorted({array.dtype.name for array in like.values()}):
            chosen = {name: array for name, array in sorted(like.items()) if array.dtype.name == dtype}
            flats.append(np.zeros(sum(array.size for array in chosen.values()), dtype))
            begin = 0
            for name, array in chosen.items():
                arrays[name] = flats[-1][begin : begin + array.size].reshape(array.shape)
                begin += array.size
        return cls(where, flats, arrays)

    def set(self, given: Any) -> None:
        """Copies arrays with the same names and shapes. If it raises, nothing has changed."""
        self.check(given)
        for name, array in self.arrays.items():
            if given[name] is not array:
                array[...] = given[name]

    def check(self, given: Any) -> None:
        if not isinstance(given, Mapping) or set(given) != set(self.arrays):
            names = sorted(given) if isinstance(given, Mapping) else type(given).__name__
            raise InvalidArgument(f"{self._where}: found {names}; expected arrays with the names {sorted(self.arrays)}")
        for name, array in self.arrays.items():
            one = given[name]
            fits = isinstance(one, np.ndarray) and np.can_cast(one.dtype, array.dtype, "same_kind")
            if not fits or one.shape != array.shape:
                raise InvalidArgument(
                    f"{self._where}: {name} is {_buffers.describe(one)}; "
                    f"expected a numpy array of {array.dtype.name} {array.shape}"
                )

    def clear(self) -> None:
        for flat in self.flats:
            flat[...] = 0


class State(Block):
    """Arrays that hooks may change, with a copy from which they can be restored. given: the dict that hooks see, in
    which they may replace arrays."""

    def __init__(self, where: str, flats: Flats, arrays: Named) -> None:
        super().__init__(where, flats, arrays)
        self.given = dict(arrays)
        self._kept = [flat.copy() for flat in flats]

    @classmethod
    def of(cls, arrays: Any, where: str) -> State:
        made = cls.like(arrays, where)
        made.set(arrays)
        return made

    def freeze(self, frozen: bool) -> None:
        for array in self.arrays.values():
            array.flags.writeable = not frozen

    def adopt(self) -> None:
        """Copies the arrays with which a hook has replaced entries of the dict to their places."""
        self.set(self._take_given())

    def _take_given(self) -> Named:
        """Returns the contents of `given`, and resets it to `arrays`."""
        replaced = dict(self.given)
        self.given.clear()
        self.given.update(self.arrays)
        return replaced

    def keep(self) -> None:
        for kept, flat in zip(self._kept, self.flats):
            kept[...] = flat

    def restore(self) -> None:
        self._take_given()
        for kept, flat in zip(self._kept, self.flats):
            flat[...] = kept


class Outcome(NamedTuple):
    """Result of an exchange."""

    participants: int
    counts: bool  # true if there is a valid contribution and the mean is finite; the same on all peers
    tx_bytes: int
    rx_bytes: int
    skipped: bool  # true if this peer's contribution was left out


class Hooked(Protocol):
    """The members of a method that the exchanges of a round use."""

    part: int

    @property
    def comm(self) -> Communicator: ...
    def own_state(self, params: Named) -> Named: ...
    def shared_state(self, params: Named) -> Named: ...
    def room(self, params: Named) -> Named: ...
    def encode(self, change: Named) -> Any: ...
    def apply(self, theta: Named, mean: Named) -> object: ...
    def decode(self, told: bytes) -> Named: ...
    def _wait(self, call: Callable[[], Any]) -> Any: ...
    def _warn_of(self, peer: str, why: object) -> None: ...
    def _average(self, reduction: Reduction, skipped: bool) -> StepInfo: ...


class Summing:
    """An exchange by all-reduce: contributions are arrays."""

    what = "sums"

    def __init__(self, method: Hooked, kind: str, part: int, like: Named) -> None:
        self._method = method
        self._own = Block.like(like, f"{kind}.encode()")
        self._mean = Block.like(like, f"{kind}.room()")
        self._reduction = Reduction(
            part, self._own.flats, self._mean.flats, NumpyArrays(), None, BUCKET_BYTES, _IN_FLIGHT
        )

    @property
    def mean(self) -> Named:
        return self._mean.arrays

    def take(self, made: Any) -> bool:
        """Stores the result of encode(). Returns false if it is not finite."""
        self._own.set(made)
        return _is_finite(self._own.flats)

    def exchange(self, skipped: bool) -> Outcome:
        info = self._method._average(self._reduction, skipped)
        return Outcome(info.participants, info.committed, info.tx_bytes, info.rx_bytes, skipped)


class Gathering:
    """An exchange in which all peers get each other's bytes."""

    what = "bytes"

    def __init__(self, method: Hooked, kind: str, part: int, like: Named) -> None:
        self._method, self._kind = method, kind
        self._sums = Block.like(like, f"{kind}.decode()")
        self._tag = GATHER_TAG + part
        self._max_bytes = max(_BLOBS_MIN, _PEERS_MAX * sum(flat.nbytes for flat in self._sums.flats))
        self._packed = b""

    @property
    def mean(self) -> Named:
        return self._sums.arrays

    def take(self, made: Any) -> bool:
        """Stores the result of encode(). Returns false if it is empty."""
        if isinstance(made, np.ndarray):
            made = made.tobytes()
        if not isinstance(made, (bytes, bytearray, memoryview)):
            raise InvalidArgument(
                f"{self._kind}.encode(): found {_buffers.describe(made)}; expected bytes or a numpy array, for decode()"
            )
        self._packed = bytes(made)
        return len(self._packed) > 0

    def exchange(self, skipped: bool) -> Outcome:
        method = self._method
        operation = AllGatherV(
            b"" if skipped else self._packed, tag=self._tag, alone_ok=True, max_bytes=self._max_bytes
        )
        (info,) = method._wait(lambda: method.comm.run([operation]))
        self._sums.clear()
        count = 0
        for peer, said in operation.blobs:
            try:
                counts = len(said) > 0 and self._add(bytes(said))
            except MemoryError:
                raise  # not caused by the bytes: other peers use them, so this peer must leave
            except Exception as error:  # pylint: disable=broad-exception-caught
                if peer == method.comm.id:
                    raise InvalidArgument(f"{self._kind}.decode() of this peer's own bytes: {error}") from error
                method._warn_of(peer, error)
                continue
            count += counts
            skipped = skipped or (peer == method.comm.id and not counts)
        for flat in self._sums.flats:
            flat /= max(1, count)
        counts = count > 0 and _is_finite(self._sums.flats)
        return Outcome(len(operation.blobs), counts, info.tx_bytes, info.rx_bytes, skipped)

    def _add(self, told: bytes) -> bool:
        """Adds a contribution to the sums. Returns false if it is not finite. If it raises, nothing has changed."""
        decoded = self._method.decode(told)
        self._sums.check(decoded)
        if not _is_finite(list(decoded.values())):
            return False
        with np.errstate(over="ignore"):
            for name, array in self._sums.arrays.items():
                array += decoded[name]
        return True


class Hooks:
    """Runs the hooks of a method and the exchanges of a round, and holds the states of the hooks."""

    def __init__(self, method: Hooked, kind: str, parts: int, gathers: bool, layout: Layout) -> None:
        self._method, self._kind, self._layout = method, kind, layout
        self._room = layout.zeros()
        layout.read(self._room)
        self._change = views(layout, as_numpy(self._room))
        like = read_only(self._change)  # stands for the parameters until the first round
        self.own = State.of(method.own_state(like), f"{kind}.own_state()")
        self.shared = State.of(method.shared_state(like), f"{kind}.shared_state()")
        self._parts = [self._make_part(kind, part, Gathering if gathers else Summing, like) for part in range(parts)]

    def _make_part(
        self, kind: str, part: int, make: Union[Type[Summing], Type[Gathering]], like: Named
    ) -> Union[Summing, Gathering]:
        self._method.part = part
        made = make(self._method, kind, part, self._method.room(like))
        if any(array.dtype not in (np.float32, np.float64) for array in made.mean.values()):
            raise InvalidArgument(f"{kind}.room(): expected arrays of float32 or float64")
        return made

    def lines(self) -> List[str]:
        """Returns a line of text for each array that is exchanged."""
        return [
            f"{exchange.what} of part {part}, {name}: {array.dtype.name} {array.shape}"
            for part, exchange in enumerate(self._parts)
            for name, array in sorted(exchange.mean.items())
        ]

    def show(self, theta: Flats) -> None:
        """Sets the shared parameters that hooks see. theta: flat numpy arrays."""
        self._theta = State(f"{self._kind}.apply(): theta", theta, views(self._layout, theta))
        self._states = (self.own, self.shared, self._theta)

    def begin_own(self) -> None:
        """Initializes `own` again after the parameters were replaced."""
        self.own.set(self._method.own_state(read_only(self._theta.arrays)))

    def run(self, theta: Flats) -> StepInfo:
        """Runs the exchanges of a round. If it raises, or no step is made, all states are restored. theta: the shared
        parameters."""
        for state in self._states:
            state.keep()
        try:
            info = self._repeated(theta)
        except BaseException:
            self._restore()
            raise
        if not info.committed:
            self._restore()
        return info

    def _restore(self) -> None:
        for state in self._states:
            state.restore()

    def _repeated(self, theta: Flats) -> StepInfo:
        """Runs the exchanges, and repeats them until the same peers took part in all of them. Peers can only leave
        during a round, so equal numbers mean equal peers."""
        outcomes: List[Outcome] = []
        while True:
            committed = self._once(theta, outcomes)
            if committed is not None:
                return StepInfo(
                    participants=outcomes[-1].participants, committed=committed, skipped=outcomes[-1].skipped,
                    tx_bytes=sum(one.tx_bytes for one in outcomes), rx_bytes=sum(one.rx_bytes for one in outcomes),
                )
            self._restore()

    def _encode(self) -> Any:
        """Calls the hook. It cannot write to `shared`, because peers with a change that is not finite skip the hook."""
        self.shared.freeze(True)
        try:
            made = self._method.encode(dict(self._change))
            self.shared.adopt()
        finally:
            self.shared.freeze(False)
        self.own.adopt()
        return made

    def _once(self, theta: Flats, outcomes: List[Outcome]) -> Optional[bool]:
        """Runs each exchange once and appends the outcomes. Returns true if the step was made, and None if a peer was
        lost between exchanges."""
        method = self._method
        self._layout.measure(theta, self._room)
        skipped = not _is_finite(list(self._change.values()))
        for part, exchange in enumerate(self._parts):
            method.part = part
            contributes = not skipped
            if contributes:
                skipped = not exchange.take(self._encode())
            outcomes.append(exchange.exchange(skipped))
            skipped = outcomes[-1].skipped
            if skipped and contributes:
                self.own.restore()
            if part > 0 and outcomes[-1].participants != outcomes[-2].participants:
                return None
            if not outcomes[-1].counts:
                return False
            with np.errstate(over="ignore", invalid="ignore"):
                made: object = method.apply(self._theta.given, dict(exchange.mean))
            if made is not None:
                raise InvalidArgument(
                    f"{self._kind}.apply() returned a {type(made).__name__}; expected it to change theta in place "
                    "and return None"
                )
            for state in self._states:
                state.adopt()
        return _is_finite([*self._theta.flats, *self.shared.flats])
