"""Passes log lines of the C library to logging.getLogger("pccl").

The library calls back from a dedicated thread, so the callback may wait for the interpreter's lock. The callback puts
the line into a queue, and a thread of this package passes it to logging. So a stuck handler does not delay the end,
where the library waits for its thread.
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
_LINES_MAX = 10000  # bounds memory while handlers are stuck: further lines are only counted

_Line = Tuple[int, str, str]


class _Relay:
    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[Optional[_Line]] = queue.SimpleQueue()
        self.thread: Optional[threading.Thread] = None
        self._lost = 0

    def put(self, line: _Line) -> None:
        """Adds a line. Called by one thread at a time."""
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
    except Exception:  # a bug in a handler must not stop the relay
        pass


class _Unconfigured(logging.Handler):
    """Handler for programs that have not configured logging: writes to standard error, as Python does, but with the
    logger's name."""

    def emit(self, record: logging.LogRecord) -> None:
        if logging.lastResort is not None and not self._others(logging.getLogger(record.name)):
            named = copy.copy(record)
            named.msg, named.args = f"{record.name}: {record.levelname}: {record.getMessage()}", ()
            logging.lastResort.emit(named)

    def _others(self, at: Optional[logging.Logger]) -> bool:
        """Returns true if another handler receives lines of this logger."""
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
    except RuntimeError:  # at the very end or without resources no thread can be started; the next line retries
        pass


_callback = _native.LogCallback(_take)  # keeps the callback alive as long as the library may call it
_NO_CALLBACK = _native.LogCallback()


def set_log_level(level: int | str) -> None:
    """Suppresses lines below this level of `logging` in the library. Overrides PCCL_LOG_LEVEL, whose default is WARN.
    """
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
    """Lets the library write to standard error again before the interpreter ends, and passes on the lines in the queue.
    """
    _native.lib.pcclSetLogCallback(_NO_CALLBACK, None)
    thread = _relay.thread
    if thread is not None and thread.is_alive():
        _relay.report_lost()
        _relay.lines.put(None)
        thread.join(timeout=1)


def _after_fork_in_child() -> None:
    # The child has no relay thread, and locks may be held by threads that do not exist here.
    global _relay
    _relay = _Relay()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
