"""Converts numbers in Python containers (learning rates, counters of schedulers) to a tensor and back."""

from __future__ import annotations

import numbers
import sys
import zlib
from typing import Any, Callable, List, Tuple

import torch

from .._errors import InvalidArgument

_EXACT = 1 << 53  # integers up to this value are exact in a float64

Found = List[Tuple[str, float]]


def _of_numpy(value: Any) -> bool:
    numpy = sys.modules.get("numpy")  # if numpy was not imported, the value is not from numpy
    return numpy is not None and isinstance(value, getattr(numpy, "generic", ()))


def is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number) or _of_numpy(value)


def collect(path: str, value: Any, found: Found, *, flags: bool = True) -> None:
    """Appends the numbers in a tree of dicts, lists and tuples, in the same order on all peers. flags: include
    booleans."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            collect(f"{path}.{key}", value[key], found, flags=flags)
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            collect(f"{path}.{index}", part, found, flags=flags)
    elif _of_numpy(value):
        if _of_numpy(value.item()):
            raise InvalidArgument(f"{path} is a {type(value).__name__}, which cannot be shared; make it a float")
        collect(path, value.item(), found, flags=flags)
    elif isinstance(value, (int, float)):
        if isinstance(value, bool) and not flags:
            return
        if isinstance(value, int) and abs(value) > _EXACT:
            raise InvalidArgument(f"{path} is {value}: integers beyond 2**53 cannot be shared; make it a tensor")
        found.append((path, float(value)))
    elif is_number(value):
        raise InvalidArgument(f"{path} is a {type(value).__name__}, which cannot be shared; make it a float")


def replace(value: Any, take: Callable[[], float], *, flags: bool = True) -> Any:
    """Returns the tree with its numbers replaced by results of take(), in the order of collect(). Changes dicts and
    lists in place."""
    if isinstance(value, dict):
        for key in sorted(value, key=str):
            value[key] = replace(value[key], take, flags=flags)
    elif isinstance(value, list):
        value[:] = [replace(part, take, flags=flags) for part in value]
    elif isinstance(value, tuple):
        parts = [replace(part, take, flags=flags) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    elif _of_numpy(value):
        return type(value)(replace(value.item(), take, flags=flags))
    elif isinstance(value, bool):
        return bool(take()) if flags else value
    elif isinstance(value, int):
        number = take()
        return int(number) if number.is_integer() else number
    elif isinstance(value, float):
        return take()
    return value


def as_tensor(name: str, found: Found) -> Tuple[str, torch.Tensor]:
    """Returns the name and the tensor of these numbers. The name depends on their paths, so that peers with different
    ones are detected."""
    where = zlib.crc32("\n".join(path for path, _ in found).encode())
    return f"{name}.numbers#{where:08x}", torch.tensor([number for _, number in found], dtype=torch.float64)
