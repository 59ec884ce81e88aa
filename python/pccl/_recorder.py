"""Reads the text of a communicator's flight recorder, and the verdicts of its master, from the library."""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List

from . import _core, _native
from ._enums import Result


def text(core: _core.Core) -> str:
    """Returns the flight recorder's text. May be called from any thread. Tries again if the text outgrows the buffer
    between the two calls."""
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


VERDICTS_AT_ONCE = 8


def _words(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def verdicts(core: _core.Core) -> List[Dict[str, Any]]:
    """Returns the verdicts. May be called from any thread, even while others are blocked in calls."""
    found = (_native.VerdictC * VERDICTS_AT_ONCE)()
    count = ctypes.c_size_t()
    core.call("pcclGetVerdicts", found, VERDICTS_AT_ONCE, ctypes.byref(count))
    return [
        {
            "class": _words(verdict.name),
            "number": verdict.number,
            "peer": _words(verdict.peer.digits),
            "other": _words(verdict.other.digits) or None,
            "for_ms": verdict.for_ms,
            "evidence": _words(verdict.evidence),
            "action": _words(verdict.action),
        }
        for verdict in found[: min(count.value, VERDICTS_AT_ONCE)]
    ]
