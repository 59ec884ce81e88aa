"""Shows the progress of long calls: connecting, transfers of shared state, optimizations, waits for other peers.

    with pccl.progress.shown(comm):
        comm.connect()
        comm.sync_shared_state(state)

On a terminal this is a bar with the rate, the time left and the awaited peers; elsewhere, a line every ten seconds.
`Tqdm()` draws with tqdm instead. A hook is any function that takes a `Progress`, or None when the call has ended.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from typing import Any, Callable, Iterator, Optional, TextIO

from ._communicator import Communicator
from ._errors import PCCLError
from ._lazy import Lazy
from ._progress import Progress

_tqdm: Any = Lazy("tqdm.auto")

__all__ = ["Hook", "Progress", "Shown", "Tqdm", "shown"]

_LINE_EVERY_S = 10.0


Hook = Callable[[Optional[Progress]], None]


class Shown:
    """A hook that draws a bar on a terminal, and elsewhere writes a line at intervals."""

    def __init__(self, stream: Optional[TextIO] = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._line_due = 0.0

    def __call__(self, progress: Optional[Progress]) -> None:
        if self._terminal:
            self._draw(progress)
        elif progress is None:
            self._line_due = 0.0
        elif time.monotonic() >= self._line_due:
            self._line_due = time.monotonic() + _LINE_EVERY_S
            self._write(f"pccl: {progress}\n")

    def _draw(self, progress: Optional[Progress]) -> None:
        if progress is None:
            self._write("\r\033[K")
            return
        columns = shutil.get_terminal_size().columns - 1
        words = str(progress)
        if progress.total:
            width = max(8, min(30, columns - len(words) - 3))
            full = round(width * progress.done / progress.total)
            words = f"[{'#' * full}{'.' * (width - full)}] {words}"
        self._write(f"\r\033[K{words[:columns]}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Tqdm:
    """A hook that draws a tqdm bar for each call. given: further arguments for tqdm."""

    def __init__(self, **given: Any) -> None:
        self._make: Callable[..., Any] = _tqdm.tqdm
        self._given = given
        self._bar: Any = None
        self._call = ""

    def __call__(self, progress: Optional[Progress]) -> None:
        if self._bar is not None and (progress is None or progress.call != self._call):
            self._bar.close()
            self._bar = None
        if progress is None:
            return
        if self._bar is None:
            self._call = progress.call
            self._bar = self._make(desc=progress.call, unit="B", unit_scale=True, **self._given)
        self._bar.total = progress.total or None
        self._bar.update(max(0, progress.done - self._bar.n))
        self._bar.set_postfix_str(progress.waits.splitlines()[0] if progress.waits else "")


@contextlib.contextmanager
def shown(
    comm: Communicator, hook: Optional[Hook] = None, *, after_s: float = 2.0, every_s: float = 0.5
) -> Iterator[None]:
    """Inside this context, a thread reports each call on comm that takes longer than after_s to the hook, by default a
    `Shown`."""
    tell: Hook = Shown() if hook is None else hook
    over = threading.Event()

    def watch() -> None:
        told = False
        try:
            while not over.wait(every_s):
                progress = comm.progress()
                late = progress is not None and progress.elapsed_s >= after_s
                if late or told:
                    tell(progress if late else None)
                told = late
        except PCCLError:  # the communicator was closed
            pass
        if told:
            tell(None)

    thread = threading.Thread(target=watch, name="pccl-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
