"""Parameters as flat arrays, which are numpy arrays or torch tensors, like the parameters.

Arithmetic uses only views, copies, and `+= -= *= /=` on whole arrays. Each of these rounds exactly once, in the same
way on every platform, so peers with different libraries and processors get the same bits. Code in this module must not
fuse a multiplication with an addition.
"""

from __future__ import annotations

import hashlib
import math
import sys
from array import array
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._buffers import TORCH_DEVICES, describe
from .._errors import DTypeError, InvalidArgument, LayoutError
from .._lazy import Lazy, numpy, torch
from ._copier import Copies, DeviceCopier, HostCopier

_staging: Any = Lazy("pccl.torch._staging")
_tensors: Any = Lazy("pccl.torch._tensors")

# Number of elements that arithmetic handles at a time, so that they stay in the cache.
PIECE = 1 << 16

# Type of the outer copy for each type of parameter.
_OUTER = {"float16": "float32", "bfloat16": "float32", "float32": "float32", "float64": "float64"}

Flats = List[Any]  # one flat array for each type that occurs in the outer copy


class NumpyArrays:
    def copier(self, arrays: Sequence[Any]) -> HostCopier:
        """Returns the object that copies these arrays to the host and back."""
        return HostCopier()

    def zeros(self, count: int, dtype: str, staged: bool = False) -> Any:
        """Returns an array of zeros. staged: a device copies to or from it."""
        return numpy.zeros(count, dtype)

    def check(self, name: str, array: Any) -> None:
        if not isinstance(array, numpy.ndarray):
            raise DTypeError(
                f"params: {name} is a {type(array).__name__}, but other parameters are numpy arrays: all "
                "parameters must be of the same kind"
            )
        if not array.flags.writeable:
            raise LayoutError(f"params: {name}: {describe(array)} is read-only")

    def local(self, array: Any) -> Any:
        """Returns this process's shard of the array; an unsharded array is returned unchanged."""
        return array

    def where(self, array: Any) -> str:
        """Returns the name of the shard; "" if the array is not sharded."""
        return ""

    def dtype(self, array: Any) -> str:
        return str(array.dtype.name)

    def read(self, flat: Any, array: Any) -> None:
        flat[...] = array.reshape(-1)

    def write(self, array: Any, flat: Any) -> None:
        array[...] = flat.reshape(array.shape)

    def halves(self, count: int) -> Any:
        """Returns an array of integers for the bits of bfloat16, a type that numpy lacks."""
        return numpy.zeros(count, "uint16")

    def to_halves(self, halves: Any, flat: Any) -> None:
        """Rounds float32 to the nearest bfloat16, ties to even. The elements must be finite."""
        for begin in range(0, len(flat), PIECE):
            bits = flat[begin : begin + PIECE].view("uint32")
            halves[begin : begin + PIECE] = (bits + (((bits >> 16) & 1) + 0x7FFF)) >> 16

    def from_halves(self, flat: Any, halves: Any) -> None:
        bits = flat.view("uint32")
        bits[...] = halves
        bits <<= 16

    def as_kept(self, flat: Any, dtype: Any) -> Any:
        """Returns the values rounded to this type and converted back."""
        return flat.astype(dtype).astype(flat.dtype)

    def bring(self, flat: Any, values: array[float]) -> None:
        flat[...] = values

    def mix_on_device(self, array: Any, flat: Any, alpha: float) -> bool:
        return False

    def is_finite(self, flat: Any) -> bool:
        return math.isfinite(float(flat.sum(dtype="float64")))


class TorchArrays:
    def __init__(self) -> None:
        self._has_devices = False

    def copier(self, arrays: Sequence[Any]) -> HostCopier:
        devices = list(dict.fromkeys(array.device for array in arrays if is_on_device(array)))
        if not devices:
            return HostCopier()
        self._has_devices = True
        return DeviceCopier(devices)

    def zeros(self, count: int, dtype: str, staged: bool = False) -> Any:
        kind = getattr(torch, dtype)
        if staged and self._has_devices:
            return _staging.host_memory(count, kind).zero_()
        return torch.zeros(count, dtype=kind)

    def check(self, name: str, array: Any) -> None:
        if not isinstance(array, torch.Tensor):
            raise DTypeError(
                f"params: {name} is a {type(array).__name__}, but other parameters are torch tensors: all "
                "parameters must be of the same kind"
            )
        if is_sharded(array) and any(placement.is_partial() for placement in array.placements):
            raise LayoutError(f"params: {name} is a DTensor of incomplete sums: {array.placements}")
        if array.layout is not torch.strided:
            raise LayoutError(f"params: {name} has the layout {array.layout}, expected a dense (strided) tensor")

    def local(self, array: Any) -> Any:
        if not is_sharded(array):
            return array
        return _tensors.local(array)

    def where(self, array: Any) -> str:
        if not is_sharded(array):
            return ""
        return str(_tensors.shard_name(array))

    def dtype(self, array: Any) -> str:
        return str(array.dtype).replace("torch.", "", 1)

    def read(self, flat: Any, array: Any) -> None:
        self._copy(flat, array.detach().reshape(-1))

    def write(self, array: Any, flat: Any) -> None:
        self._copy(array.detach(), flat.view(array.shape))

    def bring(self, flat: Any, values: array[float]) -> None:
        flat.copy_(torch.frombuffer(values, dtype=torch.float32))

    def _copy(self, target: Any, source: Any) -> None:
        if not self._has_devices:
            target.copy_(source)
        else:
            _staging.copy(target, source)

    def mix_on_device(self, array: Any, flat: Any, alpha: float) -> bool:
        """Computes the mix on the array's device. Returns false if the array is in host memory."""
        if not is_on_device(array):
            return False
        _staging.mix(array.detach(), flat.view(array.shape), alpha)
        return True

    def halves(self, count: int) -> Any:
        return torch.zeros(count, dtype=torch.bfloat16)

    def to_halves(self, halves: Any, flat: Any) -> None:
        halves.copy_(flat)

    def from_halves(self, flat: Any, halves: Any) -> None:
        flat.copy_(halves)

    def as_kept(self, flat: Any, dtype: Any) -> Any:
        return flat.to(dtype).to(flat.dtype)

    def is_finite(self, flat: Any) -> bool:
        return math.isfinite(float(flat.sum(dtype=torch.float64)))


Arrays = Union[NumpyArrays, TorchArrays]


# Objects of a library can only exist if the program has imported it. The import may be incomplete.


def is_tensor(thing: Any) -> bool:
    return isinstance(thing, getattr(sys.modules.get("torch"), "Tensor", ()))


def is_on_device(tensor: Any) -> bool:
    return tensor.device.type in TORCH_DEVICES


def is_numpy(thing: Any) -> bool:
    return isinstance(thing, getattr(sys.modules.get("numpy"), "ndarray", ()))


def is_module(thing: Any) -> bool:
    return isinstance(thing, getattr(getattr(sys.modules.get("torch"), "nn", None), "Module", ()))


def is_sharded(thing: Any) -> bool:
    """Returns true for a DTensor."""
    return is_tensor(thing) and hasattr(thing, "to_local")


def are_sharded(params: Mapping[str, Any]) -> bool:
    """Returns true if other processes have shards of these parameters."""
    return any(is_sharded(array) and array.device_mesh.size() > 1 for array in params.values())


def _arrays_of(thing: Any) -> Arrays:
    if is_tensor(thing):
        return TorchArrays()
    if is_numpy(thing):
        return NumpyArrays()
    raise DTypeError(f"params: {type(thing).__name__} is neither a numpy array nor a torch tensor")


def bare_name(name: str) -> str:
    """Removes torch.compile's prefixes from a parameter's name, because a compiled module is the same model."""
    return name.replace("_orig_mod.", "")


def named_parameters(params: Any) -> Mapping[str, Any]:
    """Returns the trained parameters by name. A mapping is not copied, so the user may replace its entries."""
    if is_module(params):
        params = {bare_name(name): value for name, value in params.named_parameters() if value.requires_grad}
    if not isinstance(params, Mapping):
        raise InvalidArgument(
            f"params: {type(params).__name__} is neither a mapping from names to arrays nor a torch.nn.Module"
        )
    if not params:
        raise InvalidArgument("params: no parameters to train")
    for name in params:
        if not isinstance(name, str):
            raise InvalidArgument(f"params: the name {name!r} is not a string")
    return params


def persistent_buffers(params: Any) -> Dict[str, Any]:
    """Returns the buffers that are part of the module's state_dict."""
    if not is_module(params):
        raise InvalidArgument("share_buffers: requires a torch.nn.Module")
    kept = set(params.state_dict(keep_vars=True))
    return {bare_name(name): value for name, value in params.named_buffers() if name in kept}


class Piece(NamedTuple):
    """A parameter or a range of its elements. If the parameter is sharded, only this process's shard."""

    name: str
    begin: int = 0
    end: Optional[int] = None  # None: the whole parameter

    @property
    def label(self) -> str:
        return self.name if self.end is None else f"{self.name}[{self.begin}:{self.end}]"


def local_count(array: Any) -> int:
    """Returns the number of the array's elements that are in this process."""
    return math.prod(getattr(TorchArrays().local(array) if is_sharded(array) else array, "shape", ()))


def _views(array: Any, begin: int, end: int) -> Iterator[Any]:
    """Yields views that cover a range of the array's elements, in order. There are several if the range cuts rows,
    because the elements may be in a different order in memory."""
    count = math.prod(array.shape)
    if (begin, end) == (0, count):
        yield array
    elif len(array.shape) == 1:
        yield array[begin:end]
    else:
        row = count // array.shape[0]
        first, last = -(-begin // row), end // row  # range of rows that are entirely included
        if first > last:
            yield from _views(array[last], begin - last * row, end - last * row)
            return
        if begin < first * row:
            yield from _views(array[first - 1], begin - (first - 1) * row, row)
        if first < last:
            yield array[first:last]
        if last * row < end:
            yield from _views(array[last], 0, end - last * row)


class Slot(NamedTuple):
    """The place of a piece in the flat arrays. shape: the shape of the whole parameter, or of this process's shard."""

    name: str
    where: str
    shape: Tuple[int, ...]
    dtype: str
    flat: int
    start: int
    stop: int
    piece: Piece


class Part(NamedTuple):
    """A fragment of the parameters. It covers a contiguous range of each flat array."""

    slots: Sequence[Slot]
    ranges: Sequence[Tuple[int, int]]

    def of(self, flats: Flats) -> Flats:
        return [flat[start:stop] for flat, (start, stop) in zip(flats, self.ranges)]


class Layout:
    """The place of each parameter in the flat arrays: fragment by fragment, sorted by name within each."""

    def __init__(
        self, params: Mapping[str, Any], fragments: Sequence[Sequence[Union[str, Piece]]], whence: Any = None
    ) -> None:
        """fragments: for each fragment, a list of whole parameters or pieces. whence: origin of the parameters, for
        example a module."""
        self._params = params
        self._gathers = whence if is_module(whence) and any(map(is_sharded, params.values())) else None
        pieces = [[Piece(one) if isinstance(one, str) else one for one in fragment] for fragment in fragments]
        names = list(dict.fromkeys(piece.name for fragment in pieces for piece in fragment))
        self.arrays = _arrays_of(params[names[0]])
        self.dtypes = sorted({_OUTER[self._kind(name)] for name in names})
        self.counts = [0] * len(self.dtypes)
        self.parts = [self._part(fragment) for fragment in pieces]
        self.whole = Part([slot for part in self.parts for slot in part.slots], [(0, count) for count in self.counts])
        self._kinds = {name: self._array(name).dtype for name in names}
        self.copier = self.arrays.copier([self._array(name) for name in names])

    def _array(self, name: str) -> Any:
        return self.arrays.local(self._params[name])

    def _kind(self, name: str) -> str:
        array = self._params[name]
        self.arrays.check(name, array)
        kind = self.arrays.dtype(array)
        if kind not in _OUTER:
            raise DTypeError(f"params: {name} is of type {kind}; only {', '.join(_OUTER)} can be trained")
        return kind

    def _part(self, pieces: Sequence[Piece]) -> Part:
        starts = list(self.counts)
        slots = [self._place(piece, self._kind(piece.name)) for piece in pieces]
        return Part(slots, list(zip(starts, self.counts)))

    def _place(self, piece: Piece, kind: str) -> Slot:
        name = piece.name
        shape = tuple(int(extent) for extent in self._array(name).shape)
        flat = self.dtypes.index(_OUTER[kind])
        start = self.counts[flat]
        self.counts[flat] = start + (math.prod(shape) if piece.end is None else piece.end) - piece.begin
        return Slot(name, self.arrays.where(self._params[name]), shape, kind, flat, start, self.counts[flat], piece)

    @property
    def is_of_torch_doubles(self) -> bool:
        return isinstance(self.arrays, TorchArrays) and "float64" in self.dtypes

    @property
    def is_half(self) -> bool:
        """True if all parameters have a 16-bit type."""
        return all(slot.dtype in ("float16", "bfloat16") for slot in self.whole.slots)

    def mark(self) -> int:
        """Returns a hash of the names, shapes and fragments. Peers with different hashes cannot train together."""
        named = [(slot.piece.label + slot.where, slot.shape, self.dtypes[slot.flat]) for slot in self.whole.slots]
        text = repr(named) + (repr([part.ranges for part in self.parts]) if len(self.parts) > 1 else "")
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")

    def lines(self) -> List[str]:
        """Returns the names and shapes as sorted lines of text."""
        return sorted({f"{slot.name}{slot.where}: {self.dtypes[slot.flat]} {slot.shape}" for slot in self.whole.slots})

    def zeros(self, staged: bool = False) -> Flats:
        """Returns flat arrays of zeros. staged: for use with load() and show()."""
        return [self.arrays.zeros(count, dtype, staged) for count, dtype in zip(self.counts, self.dtypes)]

    def copy_of(self, flats: Flats) -> Flats:
        made = self.zeros()
        copy(made, flats)
        return made

    def _each(self, flats: Flats, part: Part) -> Iterator[Tuple[Any, Any]]:
        """Yields each array of the fragment, whole or as views, with its place in the flat arrays. Raises LayoutError
        if the shape or type of a parameter has changed."""
        for slot in part.slots:
            array = self._array(slot.name)
            if tuple(array.shape) != slot.shape or self.arrays.dtype(array) != slot.dtype:
                raise LayoutError(f"params: {slot.name} was {slot.dtype} {slot.shape} and is now {describe(array)}")
            start, begin = slot.start, slot.piece.begin
            for view in _views(array, begin, begin + slot.stop - start):
                stop = start + math.prod(view.shape)
                yield view, flats[slot.flat][start:stop]
                start = stop

    def load(self, flats: Flats, part: Part) -> Copies:
        """Copies the fragment's parameters to the flat arrays. Call wait() on the result before using the arrays."""
        with self.copier.copies() as copies:
            for array, place in self._each(flats, part):
                self.arrays.read(place, array)
        return copies

    def show(self, flats: Flats, part: Part, alpha: float, room: Flats, scratch: Scratch) -> Copies:
        """Sets the fragment's parameters to alpha * parameters + (1 - alpha) * flat arrays. The flat arrays must not
        change until wait() on the result has returned. room: flat arrays that may be overwritten."""
        with self.copier.copies() as copies:
            for (array, place), (_, mixed) in zip(self._each(flats, part), self._each(room, part)):
                if alpha == 0:
                    self.arrays.write(array, place)
                elif not self.arrays.mix_on_device(array, place, alpha):
                    self._mix(array, place, alpha, mixed, scratch)
        return copies

    def _mix(self, array: Any, place: Any, alpha: float, mixed: Any, scratch: Scratch) -> None:
        self.arrays.read(mixed, array)
        mixed *= alpha
        for target, source, spare in scratch.pieces(mixed, place):
            spare[...] = source
            spare *= 1 - alpha
            target += spare
        self.arrays.write(array, mixed)

    def read(self, flats: Flats) -> None:
        self.load(flats, self.whole).wait()

    def write(self, flats: Flats) -> None:
        """Copies the flat arrays to the parameters."""
        with self.copier.copies() as copies:
            for array, place in self._each(flats, self.whole):
                self.arrays.write(array, place)
        copies.wait()

    def measure(self, start: Flats, delta: Flats) -> None:
        """Computes delta = start - parameters."""
        self.read(delta)
        self.subtract(start, delta, self.whole)

    def subtract(self, start: Flats, delta: Flats, part: Part) -> None:
        """Computes start minus the parameters, which load() has copied to delta, in place. For 16-bit parameters it
        rounds the start as the parameters were rounded, so that rounding does not appear as training."""
        for slot in part.slots:
            place, origin = (flats[slot.flat][slot.start : slot.stop] for flats in (delta, start))
            if slot.dtype != self.dtypes[slot.flat]:
                origin = self.arrays.as_kept(origin, self._kinds[slot.name])
            place *= -1.0
            place += origin

    def settle(self) -> None:
        """Prepares the parameters for joint work with other peers. Call it on the thread that trains, and copier.join()
        after the work."""
        if self._gathers is not None:
            _tensors.reshard(self._gathers)
        self.copier.begin()


class Scratch:
    """Memory for intermediate results."""

    def __init__(self, layout: Layout) -> None:
        self._spares = {dtype: layout.arrays.zeros(PIECE, dtype) for dtype in layout.dtypes}
        self._dtype_of = layout.arrays.dtype

    def pieces(self, *flats: Any) -> Iterator[Tuple[Any, ...]]:
        """Yields the arrays in pieces, each with scratch memory of the same size."""
        spare = self._spares[self._dtype_of(flats[0])]
        count = len(flats[0])
        for start in range(0, count, PIECE):
            stop = min(start + PIECE, count)
            yield (*(flat[start:stop] for flat in flats), spare[: stop - start])


def square_root(target: Any, source: Any) -> None:
    """Computes square roots of float32, or of numpy's float64, rounded to nearest. torch's float32 root may be off by
    one unit in the last place, so this computes it in float64. The result is exact, because no root is close enough to
    the midpoint of two floats."""
    if is_tensor(source):
        target.copy_(source.double().sqrt_())
    else:
        numpy.sqrt(source, out=target)


def divide(target: Any, dividend: Any, divisor: Any) -> None:
    if is_tensor(dividend):
        target.copy_(dividend / divisor)
    else:
        target[...] = dividend / divisor


def fill(flats: Flats, value: Any) -> None:
    for flat in flats:
        flat[...] = value


def copy(targets: Flats, sources: Flats) -> None:
    for target, source in zip(targets, sources):
        target[...] = source


def scale(flats: Flats, factor: float) -> None:
    for flat in flats:
        flat *= factor
