"""What the C library can do with memory of CUDA devices."""

from __future__ import annotations

import ctypes

from . import _native


def is_available() -> bool:
    """Is there a CUDA device? Tensors of a shared state can then be on it. Asks the CUDA driver, after which CUDA does
    not work in children that are forked."""
    info = _native.BuildInfoC()
    _native.lib.pcclGetBuildInfo(ctypes.byref(info))
    return bool(info.has_cuda_support)
