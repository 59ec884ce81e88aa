"""Takes the text of a communicator's flight recorder from the library."""

from __future__ import annotations

import ctypes

from . import _core
from ._enums import Result


def text(core: _core.Core) -> str:
    """Any thread, also while others wait in calls. The text may grow between two looks."""
    needed = ctypes.c_size_t()
    core.call("pcclDumpFlightRecorder", None, 0, ctypes.byref(needed))
    while True:
        room = needed.value + needed.value // 8 + 4096
        made = ctypes.create_string_buffer(room)
        error = core.attempt("pcclDumpFlightRecorder", made, room, ctypes.byref(needed))
        if error is None:
            return made.value.decode("utf-8", "replace")
        if error.result != Result.INVALID_ARGUMENT or needed.value <= room:
            raise error
