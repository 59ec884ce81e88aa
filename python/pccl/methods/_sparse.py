"""The library's sparse codec, which sends only the floats of largest magnitude (docs/CODECS.md)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .. import _native
from .._errors import failure

CHUNK = 4096  # number of elements of which `kept` are sent


class Sparse:
    """Packs arrays of `count` f32. All machines compute the same packed bytes, and the same sums of them."""

    def __init__(self, count: int, kept: int) -> None:
        self.count, self.kept = count, kept
        found = ctypes.c_size_t()
        _checked("pcclGetSparseBytes", count, kept, ctypes.byref(found))
        self.bytes = found.value

    def pack(self, values: Any, packed: Any) -> None:
        """Packs the values, which must be finite, and subtracts the packed part from them."""
        _checked("pcclPackSparse", _address(values), self.count, self.kept, _address(packed), packed.nbytes)

    def square(self, packed: Any) -> float:
        """Returns the squared length of the packed values. Raises InvalidArgument if the bytes cannot come from pack().
        """
        found = ctypes.c_double()
        _checked("pcclCheckSparse", _address(packed), packed.nbytes, self.count, self.kept, ctypes.byref(found))
        return found.value

    def add(self, packed: Any, factor: float, sums: Any) -> None:
        """Adds factor times the packed values to the sums."""
        _checked("pcclAddSparse", _address(packed), packed.nbytes, self.count, self.kept, factor, _address(sums))


def _address(flat: Any) -> int:
    assert flat.flags.c_contiguous and flat.dtype in (np.float32, np.uint8)
    return int(flat.ctypes.data)


def _checked(name: str, *arguments: Any) -> None:
    code = getattr(_native.lib, name)(*arguments)
    if code:
        raise failure(name, code, _native.last_failure())
