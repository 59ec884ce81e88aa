"""Reads and replaces error-feedback residuals."""

from __future__ import annotations

import array
import ctypes
from typing import Any

from . import _buffers
from ._core import Core
from ._enums import DataType, DeviceType, number
from ._errors import InvalidArgument


def get(core: Core, tag: int) -> "array.array[float]":
    """Returns the residuals of a tag; an empty array if it has none."""
    count = ctypes.c_size_t()
    tag = number("tag", tag, 0, 1 << 64)
    core.call("pcclGetFeedback", tag, None, ctypes.byref(count))
    kept = array.array("f", bytes(4 * count.value))
    core.call("pcclGetFeedback", tag, kept.buffer_info()[0], ctypes.byref(count))
    return kept


def put(core: Core, tag: int, kept: Any) -> None:
    """Replaces the residuals of a tag; removes them if `kept` is empty or None."""
    tag = number("tag", tag, 0, 1 << 64)
    if kept is None or len(kept) == 0:
        core.call("pcclSetFeedback", tag, None, 0)
        return
    buffer = _buffers.of(kept, "set_feedback: kept")
    if buffer.device is not DeviceType.CPU or buffer.dtype is not DataType.FLOAT:
        raise InvalidArgument("set_feedback: kept: expected float32 in CPU memory")
    core.call("pcclSetFeedback", tag, buffer.address, buffer.count)
