"""Passes log lines of the C library to logging.getLogger("pccl").

The library calls back on a dedicated thread, so the callback may wait for the interpreter's lock. It only puts the line
into a queue, from which a thread of this package passes it to logging. The library waits for its thread at exit, so a
blocking log handler must not block that thread.
"""

from __future__ import annotations

import copy
import logging
import os
import queue
import threading
from typing import Any, Optional, Tuple

from . import _native

logger = logging.getLogger("pccl")

_TRACE, _DEBUG, _INFO, _WARN, _ERROR, _NONE = range(6)
_LEVELS = {_TRACE: 5, _DEBUG: logging.DEBUG, _INFO: logging.INFO, _WARN: logging.WARNING, _ERROR: logging.ERROR}
_LINES_MAX = 10000  # limits memory use while handlers are blocked: further lines are only counted

_Line = Tuple[int, str, str]


class _Relay:
    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[Optional[_Line]] = queue.SimpleQueue()
        self.thread: Optional[threading.Thread] = None
        self._lost = 0

    def put(self, line: _Line) -> None:
        """Adds a line. Not safe for concurrent calls."""
        if self.lines.qsize() < _LINES_MAX:
            self.report_lost()
            self.lines.put(line)
        else:
            self._lost += 1
        if self.thread is None:
            thread = threading.Thread(target=self._work, name="pccl-log", daemon=True)
            thread.start()
            self.thread = thread

    def report_lost(self) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            self.lines.put((logging.ERROR, "log", f"{lost} log lines dropped here: the handlers are too slow"))

    def _work(self) -> None:
        while True:
            line = self.lines.get()
            if line is None:
                return
            emit(*line)


def emit(level: int, subsystem: str, message: str) -> None:
    try:
        logging.getLogger("pccl." + subsystem if subsystem else "pccl").log(level, "%s", message)
    except Exception:  # a faulty handler must not stop the relay
        pass


class _Unconfigured(logging.Handler):
    """Handler for programs that have not configured logging. Like Python's default it writes to standard error, but
    with the logger's name."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not self._others(logging.getLogger(record.name)):
            named = copy.copy(record)
            named.msg, named.args = f"{record.name}: {record.levelname}: {record.getMessage()}", ()
            logging.lastResort.emit(named)

    def _others(self, at: Optional[logging.Logger]) -> bool:
        """Returns true if another handler receives this logger's lines."""
        while at is not None:
            if any(handler is not self for handler in at.handlers):
                return True
            at = at.parent if at.propagate else None
        return False


_relay = _Relay()


def _take(level: int, subsystem: Optional[bytes], message: Optional[bytes], _user: Any) -> None:
    words = (message or b"").decode("utf-8", "replace")
    try:
        _relay.put((_LEVELS.get(level, logging.ERROR), (subsystem or b"").decode("utf-8", "replace"), words))
    except RuntimeError:  # no thread can be started: at interpreter exit, or for lack of resources
        pass


_callback = _native.LogCallback(_take)  # keeps the callback alive while the library may call it
_NO_CALLBACK = _native.LogCallback()


def set_log_level(level: int | str) -> None:
    """Makes the library suppress log lines below this `logging` level. Overrides PCCL_LOG_LEVEL, whose default is
    WARN."""
    if isinstance(level, str):
        number = logging.getLevelName(level.upper())
        if not isinstance(number, int):
            raise ValueError(f"unknown log level {level!r}")
        level = number
    wanted = next((theirs for theirs, ours in _LEVELS.items() if ours >= level), _NONE)
    _native.lib.pcclSetLogLevel(wanted)


def start() -> None:
    logger.addHandler(_Unconfigured(logging.WARNING))
    _native.lib.pcclSetLogCallback(_callback, None)


def stop() -> None:
    """Makes the library write to standard error again before the interpreter exits, and passes on the queued lines."""
    _native.lib.pcclSetLogCallback(_NO_CALLBACK, None)
    thread = _relay.thread
    if thread is not None and thread.is_alive():
        _relay.report_lost()
        _relay.lines.put(None)
        thread.join(timeout=1)


def _after_fork_in_child() -> None:
    # The child has no relay thread, and its locks may be held by threads that exist only in the parent.
    global _relay
    _relay = _Relay()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
