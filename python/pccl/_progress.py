"""Progress of a call in which threads wait."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Callable, Optional

from . import _native

_CALLS = {
    1: "update topology",
    2: "query pending peers",
    3: "operation",
    4: "connect",
    5: "synchronize shared state",
    6: "optimize topology",
}


@dataclass(frozen=True)
class Progress:
    """Progress of a call."""

    call: str  # name of the call
    elapsed_s: float
    done: int  # number of bytes of shared state fetched so far
    total: int  # number of bytes of shared state to fetch; 0: none, or not known yet
    rate: float  # bytes per second so far; 0: unknown
    remaining_s: Optional[float]  # time left at this rate; None: unknown
    waits: str  # a line for each known wait for another peer; "" if there are none

    def __str__(self) -> str:
        parts = [f"{self.call}, {self.elapsed_s:.0f} s"]
        if self.total:
            parts.append(f"{self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB")
        if self.rate:
            parts.append(f"{self.rate / 1e6:.1f} MB/s")
        if self.remaining_s is not None:
            parts.append(f"{self.remaining_s:.0f} s left")
        if self.waits:
            parts.append(self.waits.splitlines()[0])
        return ", ".join(parts)


def progress_of(core: Any, waits: Callable[[], str]) -> Optional[Progress]:
    told = _native.ProgressC(size=ctypes.sizeof(_native.ProgressC))
    core.call("pcclGetProgress", ctypes.byref(told))
    if told.call == 0:
        return None
    remaining = told.remaining_ms / 1e3 if told.rate else None
    call = _CALLS.get(told.call, "a call")
    return Progress(call, told.elapsed_ms / 1e3, told.done, told.total, float(told.rate), remaining, waits())
