"""What the C library can do with memory of CUDA devices."""

from __future__ import annotations

import ctypes

from . import _native


def is_available() -> bool:
    """Can tensors of a shared state be on a CUDA device? (Where its driver is installed.)"""
    info = _native.BuildInfoC()
    _native.lib.pcclGetBuildInfo(ctypes.byref(info))
    return bool(info.has_cuda_support)
