"""Support for the memory of CUDA devices."""

from __future__ import annotations

import ctypes

from . import _native


def is_available() -> bool:
    """Returns true if there is a CUDA device, so that tensors of a shared state can be on it. Initializes the CUDA
    driver; forked children can then no longer use CUDA."""
    info = _native.BuildInfoC()
    _native.lib.pcclGetBuildInfo(ctypes.byref(info))
    return bool(info.has_cuda_support)
