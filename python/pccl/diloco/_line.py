"""Displays a run's progress in a line of the terminal."""

from __future__ import annotations

import shutil
import sys
from typing import Any, Dict, Optional

from ._member import Member, StepInfo


class Line:
    """Shows a run's progress in the last line of a terminal. Writes nothing if the stream is not a terminal.

        line = Line()
        while not diloco.finished:
            ...
            line.show(diloco, diloco.step())

    For each fragment the line shows the bytes of its last reduction, the time that this peer waited for it, and the age
    in steps at which its result was applied.
    """

    def __init__(self, stream: Optional[Any] = None) -> None:
        """stream: standard error by default."""
        self._stream = sys.stderr if stream is None else stream
        self._fragments: Dict[int, str] = {}
        self._participants = 0
        self._is_open = False

    def show(self, run: Member, info: StepInfo) -> None:
        if not self._stream.isatty():
            return
        for cost in info.fragments:
            self._fragments[cost.fragment] = (
                f"{cost.fragment}: {_bytes(cost.tx_bytes)}, waited {cost.waited_s:.1f} s, {cost.age} old"
                if cost.participants > 0
                else f"{cost.fragment}: given up"
            )
            self._participants = cost.participants or self._participants
        if info.fragments or info.synced:
            self._write(f"round {run.round}, {self._participants} peers")
        if info.finished:
            self.end()

    def _write(self, what: str) -> None:
        text = " | ".join([what, *(self._fragments[index] for index in sorted(self._fragments))])
        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r\x1b[K" + text[:width])
        self._stream.flush()
        self._is_open = True

    def end(self) -> None:
        """Ends the line, so that later output begins a new one."""
        if self._is_open:
            self._stream.write("\n")
            self._stream.flush()
        self._is_open = False


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
