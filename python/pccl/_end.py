"""Initialization of the package, and cleanup when the interpreter ends."""

from __future__ import annotations

import atexit
import threading
import time

from . import _core, _logging, _master, _native, _threads
from ._errors import PCCLError

_CLOSE_S = 5.0  # time limit; leaving a run does not depend on other peers


def _close_communicators() -> None:
    """Closes all communicators on the janitor thread, since no thread can be started at this point. The thread exists
    if any communicator does."""
    cores = [core for core in list(_core.open_cores) if core.is_of_this_process]
    if not cores:
        return
    done = threading.Event()
    for core in cores:
        _threads.janitor.put(core.close)
    _threads.janitor.put(done.set)
    end = time.monotonic() + _CLOSE_S
    while not done.wait(_threads.SLICE_S) and time.monotonic() < end:
        pass


def _at_exit() -> None:
    try:
        _close_communicators()
        for call in _threads.at_exit:
            call()
        _master.at_exit()
    except KeyboardInterrupt:
        pass
    finally:
        _logging.stop()


def begin() -> None:
    PCCLError.check(_native.lib.pcclInit(), "pcclInit")
    _logging.start()
    atexit.register(_at_exit)
