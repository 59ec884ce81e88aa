"""Descriptions of the caller's memory: address, number of elements and data type. Nothing is copied.

Accepts numpy arrays, torch tensors, mlx arrays, and objects with the buffer protocol, __array_interface__ or
__dlpack__. Never imports numpy, torch or mlx: an object can only be an array or a tensor if the program has already
imported the library.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_ssize_t, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p, py_object
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Protocol, Sequence, Tuple, Union

from ._enums import DataType, DeviceType, by_name, known_names, number, of_ml_dtypes
from ._errors import DTypeError, InvalidArgument, LayoutError


class Buffer:
    """A piece of memory. `owner` keeps it alive and in place. If the object may move, `storage` does so."""

    __slots__ = ("address", "count", "dtype", "device", "owner", "obstacle", "family", "storage", "is_staged")

    def __init__(
        self,
        address: int,
        count: int,
        dtype: DataType,
        owner: Any,
        *,
        obstacle: str = "",
        device: DeviceType = DeviceType.CPU,
        family: str = "buffer",
        storage: Any = None,
        is_staged: bool = False,
    ) -> None:
        self.address = address
        self.count = count
        self.dtype = dtype
        self.device = device
        self.owner = owner
        self.obstacle = obstacle  # reason why results cannot be written to this memory; "" if they can
        self.family = family  # "torch", "mlx" or "buffer"
        self.storage = storage
        self.is_staged = is_staged  # true if the library can use the memory only through a copy on the host

    @property
    def may_move(self) -> bool:
        """True if the program can give the object other memory (`tensor.data = ...`, `array += 1` in mlx)."""
        return self.family != "buffer"

    @property
    def is_on_device(self) -> bool:
        return self.is_staged or self.device is not DeviceType.CPU

    @property
    def writable(self) -> bool:
        return not self.obstacle


_READ_ONLY = "read-only"
TORCH_DEVICES = "cuda", "xpu", "mps"  # types of devices whose tensors pass through host memory


class _HasArrayInterface(Protocol):
    @property
    def __array_interface__(self) -> Any: ...


class _HasDLPack(Protocol):
    def __dlpack__(self) -> Any: ...


if TYPE_CHECKING:
    from typing_extensions import Buffer as _HasBuffer

    Memory = Union[_HasBuffer, _HasArrayInterface, _HasDLPack]  # types that of() accepts, for annotations
else:
    Memory = Any


def address(what: str, value: Any) -> int:
    return number(what, value, 0, 1 << 64)


def describe(thing: Any) -> str:
    """Returns a short description of a buffer, for messages."""
    parts = [type(thing).__name__]
    for name in ("shape", "dtype", "format", "device"):
        value = getattr(thing, name, None)
        if value is not None and not callable(value) and str(value) != "cpu":
            parts.append(f"{name} {tuple(value) if name == 'shape' else value}")
    return " ".join(parts)


def of(thing: Any, argument: str) -> Buffer:
    """Returns the memory of the object passed as `argument`. Raises LayoutError or DTypeError if it is unsuitable."""
    if isinstance(thing, Buffer):
        return thing
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, getattr(torch, "Tensor", ())):
        return _of_torch(torch, thing, argument)
    mlx = sys.modules.get("mlx.core")
    if mlx is not None and isinstance(thing, getattr(mlx, "array", ())):
        return _of_mlx(mlx, thing, argument)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(thing, getattr(numpy, "ndarray", ())):
        return _of_numpy(thing, argument)
    # The array interface of a numpy scalar describes a copy. As a buffer, the scalar is read-only.
    is_number = numpy is not None and isinstance(thing, getattr(numpy, "generic", ()))
    if hasattr(thing, "__array_interface__") and not is_number:
        return _of_array_interface(thing, argument)
    try:
        view = memoryview(thing)
    except TypeError:
        pass
    except (BufferError, ValueError) as error:
        raise LayoutError(f"{argument}: {type(thing).__name__}: {error}") from None
    else:
        return _of_memoryview(view, thing, argument)
    if hasattr(thing, "__dlpack__"):
        return _of_dlpack(thing, argument)
    raise DTypeError(
        f"{argument}: {type(thing).__name__} is not a buffer: expected a numpy array, a torch tensor, an mlx array, "
        "or an object with the buffer protocol, __array_interface__ or __dlpack__"
    )


def of_another_copy(given: Any) -> Buffer:
    """Converts a Buffer that was created by another copy of this package."""
    dtype, device = DataType(int(given.dtype)), DeviceType(int(given.device))
    return Buffer(
        given.address, given.count, dtype, given.owner, device=device, family=given.family, storage=given,
        is_staged=getattr(given, "is_staged", False)
    )


def digest(named: Iterable[Tuple[str, Any]]) -> str:
    """Returns a digest of names, types and contents, in hexadecimal."""
    hashed = hashlib.sha256()
    for name, thing in named:
        buffer = of(thing, name)
        if buffer.is_on_device:
            buffer = of(thing.cpu(), name)
        hashed.update(f"{name}\0{buffer.dtype.name}\0{buffer.count}\0".encode())
        if buffer.count > 0:
            size = buffer.count * buffer.dtype.itemsize
            hashed.update((ctypes.c_char * size).from_address(buffer.address))
    return hashed.hexdigest()


def need_writable(buffer: Buffer, thing: Any, argument: str) -> None:
    if buffer.obstacle:
        raise LayoutError(
            f"{argument}: {describe(thing)} is {buffer.obstacle}: expected a writable buffer for the "
            "result"
        )


def _bad_dtype(thing: Any, argument: str, why: str) -> DTypeError:
    return DTypeError(f"{argument}: {describe(thing)}: {why}: expected {known_names()}")


def _bad_layout(thing: Any, argument: str, why: str) -> LayoutError:
    return LayoutError(f"{argument}: {describe(thing)}: {why}")


def _not_contiguous(thing: Any, argument: str, strides: Any) -> LayoutError:
    return _bad_layout(thing, argument, f"not contiguous (strides {strides}); pass a contiguous copy")


# ---- torch


def _of_torch(torch: Any, tensor: Any, argument: str) -> Buffer:
    if hasattr(tensor, "to_local"):
        raise _bad_layout(tensor, argument, "a DTensor has no memory; pass the result of its to_local()")
    if tensor.layout is not torch.strided:
        raise _bad_layout(tensor, argument, f"layout {tensor.layout}, expected a dense (strided) tensor")
    kind = tensor.device.type
    if kind != "cpu" and kind not in TORCH_DEVICES:
        raise _bad_layout(tensor, argument, f"expected a tensor on one of cpu, {', '.join(TORCH_DEVICES)}")
    dtype = by_name(str(tensor.dtype).replace("torch.", "", 1))
    if dtype is None:
        raise _bad_dtype(tensor, argument, "not a data type of PCCL")
    if not tensor.is_contiguous():
        raise _not_contiguous(tensor, argument, tuple(tensor.stride()))
    if tensor.is_neg():
        raise _bad_layout(tensor, argument, "a lazily negated view: call resolve_neg() first")
    device = DeviceType.CUDA if kind == "cuda" else DeviceType.CPU
    storage = _torch_storage(tensor, argument)
    return Buffer(
        int(tensor.data_ptr()), int(tensor.numel()), dtype, tensor, device=device, family="torch", storage=storage,
        is_staged=kind not in ("cpu", "cuda")
    )


def _torch_storage(tensor: Any, argument: str) -> Any:
    """Returns the tensor's storage, or None if it has none, like fake tensors and wrappers around other tensors. Raises
    LayoutError if the tensor has elements but no memory."""
    count = int(tensor.numel())
    try:
        storage = getattr(tensor, "untyped_storage", tensor.storage)()
        end = (int(tensor.storage_offset()) + count) * int(tensor.element_size())
        there = storage.device == tensor.device and storage.nbytes() >= end and bool(tensor.data_ptr())
    except (RuntimeError, NotImplementedError):
        storage, there = None, False
    if count > 0 and not there:
        raise _bad_layout(tensor, argument, "a tensor without memory")
    return storage


# ---- mlx


def _of_mlx(mlx: Any, array: Any, argument: str) -> Buffer:
    """Evaluates the array. Its memory is readable by the processor on all of mlx's devices."""
    dtype = by_name(str(array.dtype).rpartition(".")[2])
    if dtype is None:
        raise _bad_dtype(array, argument, "not a data type of PCCL")
    try:
        held = array.reshape(array.shape)  # an array of the same memory, which `array[0] = 1` does not move
        mlx.eval(held)
        view = memoryview(held)
    except (BufferError, RuntimeError, ValueError) as error:
        raise _bad_layout(array, argument, f"cannot be evaluated here: {error}") from None
    if not view.c_contiguous:
        raise _not_contiguous(array, argument, view.strides)
    return Buffer(_address_of(view), int(array.size), dtype, array, family="mlx", storage=view)


# ---- numpy and its interface


def _of_numpy(array: Any, argument: str) -> Buffer:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise _bad_layout(array, argument, "a masked array, whose mask would be lost; pass its .data or filled()")
    dtype = by_name(array.dtype.name) if array.dtype.isnative else None
    if dtype is None:
        why = "not a data type of PCCL" if array.dtype.isnative else "a byte order that differs from this machine's"
        raise _bad_dtype(array, argument, why)
    if not array.flags.c_contiguous:
        raise _not_contiguous(array, argument, array.strides)
    obstacle = "" if array.flags.writeable else _READ_ONLY
    return Buffer(int(array.ctypes.data), int(array.size), dtype, array, obstacle=obstacle)


_KINDS = {"i": "int", "u": "uint", "f": "float", "b": "bool"}
_OTHER_ORDER = ">" if sys.byteorder == "little" else "<"


def _of_kind(kind: Optional[str], bits: int) -> Optional[DataType]:
    """Returns the data type for an array-interface kind and a size in bits. The names of types that exist only in 8
    bits do not contain a size."""
    found = by_name(f"{kind}{bits}")
    return by_name(kind) if found is None and kind is not None and bits == 8 else found


def _product(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= int(extent)
    return count


def _is_contiguous(shape: Sequence[int], strides: Optional[Sequence[int]], itemsize: int) -> bool:
    """Returns true if the elements are in row-major order without gaps. Strides use the same unit as itemsize. The
    stride of a dimension of size 1 is ignored."""
    if strides is None:
        return True
    expected = itemsize
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def _of_array_interface(thing: Any, argument: str) -> Buffer:
    interface = thing.__array_interface__
    typestr, shape = interface["typestr"], tuple(interface["shape"])
    itemsize = int(typestr[2:])
    dtype = _of_kind(_KINDS.get(typestr[1]), 8 * itemsize)
    if dtype is None:
        named = of_ml_dtypes(str(getattr(thing, "dtype", "")))  # the array interface has no letter for this type
        dtype = named if named is not None and named.itemsize == itemsize else None
    if dtype is None or typestr[0] == _OTHER_ORDER:
        raise _bad_dtype(thing, argument, f"not a data type of PCCL (typestr {typestr})")
    strides = interface.get("strides")
    if _product(shape) > 0 and not _is_contiguous(shape, strides, itemsize):
        raise _not_contiguous(thing, argument, strides)
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise _bad_layout(thing, argument, "its __array_interface__ has no address")
    # Keeps both, because the interface may be a new object on each access and own the memory.
    obstacle = _READ_ONLY if data[1] else ""
    return Buffer(int(data[0]), _product(shape), dtype, (thing, interface), obstacle=obstacle)


# ---- the buffer protocol


class _PyBuffer(ctypes.Structure):
    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    ]


# Indexing returns a new function object. Attribute access would return one that is shared with all other users,
# including other copies of this package, which overwrite each other's argtypes.
_get_buffer = ctypes.pythonapi["PyObject_GetBuffer"]
_get_buffer.argtypes, _get_buffer.restype = [py_object, POINTER(_PyBuffer), c_int], c_int
_release_buffer = ctypes.pythonapi["PyBuffer_Release"]
_release_buffer.argtypes, _release_buffer.restype = [POINTER(_PyBuffer)], None

_FORMATS = {"f": "float", "d": "float", "e": "float", "?": "bool"}
_FORMATS.update({letter: "int" for letter in "bhilqn"})
_FORMATS.update({letter: "uint" for letter in "BHILQN"})


def _address_of(view: memoryview) -> int:
    """Returns the address of the memory. memoryview does not expose it, and ctypes only does for writable memory."""
    raw = _PyBuffer()
    _get_buffer(view, ctypes.byref(raw), 0)
    try:
        return int(raw.buf or 0)
    finally:
        _release_buffer(ctypes.byref(raw))


def _of_memoryview(view: memoryview, thing: Any, argument: str) -> Buffer:
    letters = view.format.lstrip("@=<>!")
    foreign = view.format[:1] in ("<", ">", "!") and view.format[:1].replace("!", ">") == _OTHER_ORDER
    kind = _FORMATS.get(letters)
    dtype = _of_kind(kind, 8 * view.itemsize) if kind and not foreign else None
    if dtype is None:
        raise _bad_dtype(thing, argument, f"not a data type of PCCL (format {view.format!r})")
    if not view.c_contiguous:
        raise _not_contiguous(thing, argument, view.strides)
    # The view pins the memory: a bytearray cannot be resized while it has views.
    obstacle = _READ_ONLY if view.readonly else ""
    return Buffer(_address_of(view), view.nbytes // view.itemsize, dtype, view, obstacle=obstacle)


# ---- DLPack


class _DLDevice(ctypes.Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device", _DLDevice),
        ("ndim", c_int32),
        ("dtype", _DLDataType),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    ]


class _DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("manager_ctx", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("dl_tensor", _DLTensor),
    ]


_capsule_is_valid = ctypes.pythonapi["PyCapsule_IsValid"]
_capsule_is_valid.argtypes, _capsule_is_valid.restype = [py_object, c_char_p], c_int
_capsule_pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
_capsule_pointer.argtypes, _capsule_pointer.restype = [py_object, c_char_p], c_void_p

_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED = 1, 2, 3, 13
_DL_KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool", 10: "float8_e4m3fn", 12: "float8_e5m2"}
_DL_READ_ONLY, _DL_IS_COPIED = 1, 2


def _dlpack_capsule(thing: Any) -> Any:
    """Returns a DLPack capsule without copying. Prefers a versioned capsule, which has a read-only flag."""
    attempts: Tuple[Callable[[], Any], ...] = (
        lambda: thing.__dlpack__(max_version=(1, 0), copy=False),
        lambda: thing.__dlpack__(max_version=(1, 0)),
    )
    for attempt in attempts:
        try:
            return attempt()
        except TypeError:  # the producer does not support this argument
            pass
    return thing.__dlpack__()


def _of_dlpack(thing: Any, argument: str) -> Buffer:
    try:
        capsule = _dlpack_capsule(thing)
    except (BufferError, RuntimeError, ValueError) as error:
        raise _bad_layout(thing, argument, f"its __dlpack__ failed: {error}") from None
    obstacle = ""
    if _capsule_is_valid(capsule, b"dltensor_versioned"):
        pointer = _capsule_pointer(capsule, b"dltensor_versioned")
        managed = ctypes.cast(pointer, POINTER(_DLManagedTensorVersioned)).contents
        if managed.major != 1:
            raise _bad_layout(thing, argument, f"its __dlpack__ has the unsupported version {managed.major}")
        if managed.flags & _DL_IS_COPIED:
            obstacle = "a copy made by its __dlpack__"
        elif managed.flags & _DL_READ_ONLY:
            obstacle = _READ_ONLY
        tensor = managed.dl_tensor
    elif _capsule_is_valid(capsule, b"dltensor"):
        tensor = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), POINTER(_DLTensor)).contents
    else:
        raise _bad_layout(thing, argument, "its __dlpack__ returned no tensor")

    if tensor.device.device_type not in (_DL_CPU, _DL_CUDA, _DL_CUDA_HOST, _DL_CUDA_MANAGED):
        raise _bad_layout(thing, argument, "neither in CPU memory nor on a CUDA device")
    kind = _DL_KINDS.get(tensor.dtype.code)
    dtype = _of_kind(kind, tensor.dtype.bits) if tensor.dtype.lanes == 1 else None
    if dtype is None:
        raise _bad_dtype(thing, argument, "not a data type of PCCL")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else None
    if _product(shape) > 0 and not _is_contiguous(shape, strides, 1):
        raise _not_contiguous(thing, argument, strides)
    on_device = tensor.device.device_type in (_DL_CUDA, _DL_CUDA_MANAGED)
    return Buffer(
        int(tensor.data or 0) + int(tensor.byte_offset),
        _product(shape),
        dtype,
        (thing, capsule),  # if nobody consumes the capsule, freeing it releases the tensor
        obstacle=obstacle,
        device=DeviceType.CUDA if on_device else DeviceType.CPU,
    )


# ---- pairs of buffers


def match_kinds(send: Buffer, recv: Buffer, where: str) -> None:
    """Checks that both have the same data type and device, and that both or neither are torch tensors."""
    if (send.family == "torch") != (recv.family == "torch"):
        raise DTypeError(f"{where}: only one of send and recv is a torch tensor: expected both or neither")
    if send.dtype is not recv.dtype:
        raise DTypeError(
            f"{where}: send and recv have different data types: {send.dtype.name.lower()}, "
            f"{recv.dtype.name.lower()}"
        )
    if send.device is not recv.device or send.is_staged != recv.is_staged:
        raise LayoutError(f"{where}: send and recv are on different devices")


def match(send: Buffer, recv: Buffer, where: str) -> None:
    """Checks that send can be reduced into recv."""
    if send is not recv:
        match_kinds(send, recv, where)
    if send.count != recv.count:
        raise LayoutError(f"{where}: send and recv have different numbers of elements: {send.count}, {recv.count}")
    if send.count == 0:
        raise InvalidArgument(f"{where}: the buffers have no elements")
