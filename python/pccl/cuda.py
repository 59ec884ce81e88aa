"""Support of the C library for memory of CUDA devices."""

from __future__ import annotations

import ctypes

from . import _native


def is_available() -> bool:
    """Returns true if there is a CUDA device, so that tensors of a shared state can be on it. Initializes the CUDA
    driver, after which CUDA does not work in forked children."""
    info = _native.BuildInfoC()
    _native.lib.pcclGetBuildInfo(ctypes.byref(info))
    return bool(info.has_cuda_support)
