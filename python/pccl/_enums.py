"""Constants of the C interface, with the names of PCCL 1.0's Python package."""

from __future__ import annotations

import operator
from typing import Any, Literal, Type, TypeVar, Union

from ._errors import DTypeError, InvalidArgument
from ._lazy import Lazy, numpy, torch
from ._results import Result as Result
from ._results import _Code
from ._results import result_name as result_name

_ml_dtypes: Any = Lazy("ml_dtypes")


class ReduceOp(_Code):
    SUM = 0
    AVG = 1
    PROD = 2
    MAX = 3
    MIN = 4
    AND = 5
    OR = 6
    XOR = 7
    PREMUL_SUM = 8


OpName = Literal[
    "sum", "avg", "prod", "max", "min", "and", "or", "xor", "premul_sum",
    "SUM", "AVG", "PROD", "MAX", "MIN", "AND", "OR", "XOR", "PREMUL_SUM",
]  # fmt: skip
Op = Union[ReduceOp, OpName]


class Attribute(_Code):
    GLOBAL_WORLD_SIZE = 1
    LOCAL_WORLD_SIZE = 2
    PEER_GROUP_WORLD_SIZE = 2
    NUM_DISTINCT_PEER_GROUPS = 3
    LARGEST_PEER_GROUP_WORLD_SIZE = 4
    GLOBAL_WORLD_SIZE_NOW = 5
    PEER_GROUP_WORLD_SIZE_NOW = 6


class SharedStateSyncStrategy(_Code):
    ENFORCE_POPULAR = 0
    RECEIVE_ONLY = 1
    SEND_ONLY = 2


class DeviceType(_Code):
    CPU = 0
    CUDA = 1

    @classmethod
    def from_torch_device_type(cls, device_type: str) -> DeviceType:
        """Converts the device.type of a torch tensor. Raises ValueError for any other kind of memory."""
        try:
            return cls[device_type.upper()]
        except (AttributeError, KeyError):
            raise InvalidArgument(f"unsupported device type {device_type!r}: expected cpu or cuda") from None


class DistributionHint(_Code):
    NONE = 0
    NORMAL = 1
    UNIFORM = 2


class QuantizationAlgorithm(_Code):
    NONE = 0
    MIN_MAX = 1
    ZERO_POINT_SCALE = 2
    E4M3 = 3
    E5M2 = 4
    INT4 = 5
    E3M0 = 6
    E2M1 = 7
    AUTO = 8


class CodecScale(_Code):
    FLOAT = 0
    BFLOAT16 = 1
    POWER_OF_TWO = 2


class CodecRounding(_Code):
    NEAREST = 0
    STOCHASTIC = 1


class DataType(_Code):
    UINT8 = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    UINT32 = 4
    INT32 = 5
    UINT64 = 6
    INT64 = 7
    FLOAT16 = 8
    BFLOAT16 = 9
    FLOAT = 10
    DOUBLE = 11
    BOOL = 12
    FLOAT8_E4M3FN = 13
    FLOAT8_E5M2 = 14
    FLOAT32 = 10
    FLOAT64 = 11

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""
        return _ITEMSIZES[self]

    def to_torch_dtype(self) -> Any:
        """Returns the torch.dtype. Raises ValueError if the installed torch has none."""
        name = _NAMES[self]
        found = getattr(torch, name, None)
        if found is None:
            raise ValueError(f"torch {torch.__version__} has no data type for {self}")
        return found

    @classmethod
    def from_torch_dtype(cls, dtype: Any) -> DataType:
        """Converts a torch.dtype. Raises ValueError for an unsupported type."""
        kind = BY_NAME.get(str(dtype).replace("torch.", "", 1))
        if kind is None:
            raise ValueError(f"PCCL has no data type for {dtype}: expected {known_names()}")
        return kind

    def to_numpy_dtype(self) -> Any:
        """Returns the numpy.dtype. bfloat16 and the 8-bit floats require ml_dtypes; raises ValueError if it is missing.
        """
        if self not in _OF_ML_DTYPES:
            return numpy.dtype(_NAMES[self])
        try:
            return numpy.dtype(getattr(_ml_dtypes, _NAMES[self]))
        except ImportError:
            raise ValueError(f"numpy has no {_NAMES[self]}; install ml_dtypes") from None

    @classmethod
    def from_numpy_dtype(cls, dtype: Any) -> DataType:
        """Converts a numpy.dtype. Raises DTypeError (a ValueError and a TypeError) for an unsupported type."""
        dtype = numpy.dtype(dtype)
        kind = BY_NAME.get(dtype.name) if dtype.isnative else None
        if kind is None:
            order = "" if dtype.isnative else " in a byte order that differs from this machine's"
            raise DTypeError(f"PCCL has no data type for {dtype.name}{order}: expected {known_names()}")
        return kind


_NAMES = {
    DataType.UINT8: "uint8",
    DataType.INT8: "int8",
    DataType.INT16: "int16",
    DataType.UINT16: "uint16",
    DataType.UINT32: "uint32",
    DataType.INT32: "int32",
    DataType.UINT64: "uint64",
    DataType.INT64: "int64",
    DataType.FLOAT16: "float16",
    DataType.BFLOAT16: "bfloat16",
    DataType.FLOAT: "float32",
    DataType.DOUBLE: "float64",
    DataType.BOOL: "bool",
    DataType.FLOAT8_E4M3FN: "float8_e4m3fn",
    DataType.FLOAT8_E5M2: "float8_e5m2",
}
_OF_ML_DTYPES = DataType.BFLOAT16, DataType.FLOAT8_E4M3FN, DataType.FLOAT8_E5M2
BY_NAME = {name: kind for kind, name in _NAMES.items()}
_ITEMSIZES = {
    kind: 2 if name.endswith("16") else 4 if name.endswith("32") else 8 if name.endswith("64") else 1
    for kind, name in _NAMES.items()
}


def known_names() -> str:
    return ", ".join(_NAMES.values())


def by_name(name: str) -> DataType | None:
    """Returns the type that numpy or torch calls by this name, or None."""
    return BY_NAME.get(name)


def of_ml_dtypes(text: str) -> DataType | None:
    """Returns the ml_dtypes type whose name occurs in the text, or None."""
    return next((kind for kind in _OF_ML_DTYPES if _NAMES[kind] in text), None)


_E = TypeVar("_E", bound=_Code)


def member(what: str, kind: Type[_E], value: Any) -> int:
    """Returns the value of an enumeration member, given as a number or by name."""
    if not isinstance(value, str):
        return number(what, value)
    found: Any = kind._member_map_.get(value.upper())
    if found is None:
        names = ", ".join(kind.__members__)
        raise InvalidArgument(f"{what}: {value!r} is not in {kind.__name__}: expected {names}")
    return int(found)


def number(what: str, value: Any, least: int = -(1 << 31), end: int = 1 << 31) -> int:
    """Converts an integer for a field of the C interface. Raises InvalidArgument if it is out of range."""
    try:
        given = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{what}: expected an integer, not {value!r}") from None
    if not least <= given < end:
        raise InvalidArgument(f"{what} {given} is out of range: expected {least} to {end - 1}")
    return given


def data_type(what: str, value: Any) -> DataType:
    try:
        return DataType[value.upper()] if isinstance(value, str) else DataType(operator.index(value))
    except (KeyError, TypeError, ValueError):
        raise DTypeError(f"{what}: {value!r} is not a data type: expected {known_names()}") from None
