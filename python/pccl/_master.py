"""A master in this process."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import List, Mapping, Optional, Set

from . import _core, _native, _threads
from ._enums import Result
from ._errors import InvalidUsage, failure

# Time limit, needed only if the master's threads get no processor time; an interrupted master otherwise ends by itself
_GRACE_S = 10.0


class _Server:
    """The part of a MasterNode that outlives it."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self._handle: Optional[ctypes.c_void_p] = handle
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.job: Optional[_threads.Job[None]] = None
        self.interrupted = False
        self.defect: Optional[Exception] = None  # the error in the library that ended the master

    def run(self) -> None:
        with self._lock:
            code = _native.lib.pcclRunMaster(self._handle)
            if code != Result.SUCCESS:
                raise failure("pcclRunMaster", code, _native.last_failure())
            running.add(self)
            # Starts the thread now, because none can be started at interpreter exit.
            self.job = _threads.start(self._await_end_of_master)

    def _await_end_of_master(self) -> None:
        code = _native.lib.pcclMasterAwaitTermination(self._handle)
        if code != Result.SUCCESS:
            self.defect = failure("pcclMasterAwaitTermination", code, _native.last_failure())
        self.destroy()
        running.discard(self)

    def destroy(self) -> None:
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                _native.lib.pcclDestroyMaster(handle)

    def interrupt(self) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            self.interrupted = True
            if self._handle is not None:
                _native.lib.pcclInterruptMaster(self._handle)

    def reload(self) -> None:
        if self._pid != os.getpid():
            return
        with self._lock:
            if self._handle is not None:
                _native.lib.pcclReloadMaster(self._handle)

    def port(self) -> int:
        with self._lock:
            if self._handle is None:
                raise InvalidUsage("MasterNode: the master has ended", result=Result.INVALID_USAGE)
            port = ctypes.c_uint16()
            code = _native.lib.pcclMasterGetPort(self._handle, ctypes.byref(port))
            if code != Result.SUCCESS:
                raise failure("pcclMasterGetPort", code, _native.last_failure())
            return port.value

    @property
    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()


running: Set[_Server] = set()


def _await_interrupted() -> None:
    """Waits for interrupted masters, because one may still occupy the port that a new master needs."""
    for server in list(running):
        if server.interrupted and server.is_of_this_process and server.job is not None:
            server.job.wait(_GRACE_S)


class MasterNode:
    """Decides the membership of a run and the outcome of its operations.

    listen_address: "host:port", or several separated by commas; with port 0 the system selects a port. options: values
    of any master parameters (`man 7 pccl`). A master keeps running after its MasterNode is dropped, and keeps the
    interpreter from exiting, until interrupt() or Ctrl-C.
    """

    def __init__(self, listen_address: str, *, options: Optional[Mapping[str, _core.Option]] = None) -> None:
        handle = ctypes.c_void_p()
        with _core.Options(options or {}) as values:
            code = _native.lib.pcclCreateMasterWithOptions(
                _core.text("listen_address", listen_address), values.handle, ctypes.byref(handle)
            )
            if code != Result.SUCCESS:
                raise failure("pcclCreateMaster", code, _native.last_failure())
        self.listen_address = listen_address
        self._server = _Server(handle)
        self._port = 0

    def run(self) -> None:
        """Binds the addresses and serves them on one of the library's threads. Does not wait."""
        if self._server.job is not None:
            raise InvalidUsage("MasterNode: run() was already called", result=Result.INVALID_USAGE)
        _await_interrupted()
        self._server.run()
        self._port = self._server.port()

    @property
    def port(self) -> int:
        """Port of the first address."""
        return self._port or self._server.port()

    def interrupt(self) -> None:
        """Makes the master end: it notifies its peers and closes all connections. Does not wait. May be called
        repeatedly."""
        if self._server.job is None:
            raise InvalidUsage("MasterNode: interrupt() before run()", result=Result.INVALID_USAGE)
        self._server.interrupt()

    def reload(self) -> None:
        """Reloads the certificates, for later connections. Unusable certificates are reported in the log. Does not
        wait."""
        if self._server.job is None:
            raise InvalidUsage("MasterNode: reload() before run()", result=Result.INVALID_USAGE)
        self._server.reload()

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until the master has ended. Returns false if it is still running after `timeout` seconds. Raises
        InternalError if a bug ended it."""
        job = self._server.job
        if job is None:
            raise InvalidUsage("MasterNode: wait() before run()", result=Result.INVALID_USAGE)
        if not self._server.is_of_this_process:
            raise InvalidUsage(
                "MasterNode: this master belongs to the parent process and cannot be awaited after a fork",
                result=Result.INVALID_USAGE,
            )
        ended = job.wait(timeout)
        if ended and self._server.defect is not None:
            raise self._server.defect
        return ended

    def close(self) -> None:
        """Interrupts the master and waits until it has ended. May be called repeatedly."""
        if self._server.job is None:
            self._server.destroy()
        elif self._server.is_of_this_process:
            self._server.interrupt()
            self._server.job.wait()

    def __enter__(self) -> MasterNode:
        self.run()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        server = getattr(self, "_server", None)
        if server is not None and server.job is None:
            server.destroy()  # it never ran, so there is nothing to wait for


def at_exit() -> None:
    """Waits for the masters that are still running. Ctrl-C interrupts them, and so does a Ctrl-C that has just ended
    the program.
    """
    servers: List[_Server] = [server for server in list(running) if server.is_of_this_process]
    try:
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            raise KeyboardInterrupt
        for server in servers:
            if server.job is not None:
                server.job.wait()
    except KeyboardInterrupt:
        for server in servers:
            server.interrupt()
        for server in servers:
            if server.job is not None:
                server.job.wait(_GRACE_S)
