"""A communicator of the C library that any thread may use, drop or close, in any order."""

from __future__ import annotations

import ctypes
import logging
import operator
import os
import queue
import threading
import time
import weakref
from typing import Any, Callable, Dict, Mapping, Optional, Protocol, Set, Union

from . import _native
from ._enums import Result
from ._errors import InvalidArgument, PCCLError, failure, not_connected, raise_if

_log = logging.getLogger("pccl")

Option = Union[str, int, bool]

# Time for which close() waits for calls to return. A call that returns later frees the communicator itself.
_LEAVING_S = 2.0


def text(what: str, value: Any) -> bytes:
    """Encodes a string for the library. Raises InvalidArgument if it cannot be passed."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{what}: expected text, not {value!r}")
    if "\0" in value:
        raise InvalidArgument(f"{what}: {value!r} contains a null character")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what}: {value!r}: {error}") from None


def label(where: str, given: str) -> bytes:
    """Encodes a label for the library and lets the library validate it."""
    if given == "":
        return b""
    written = text(f"{where}: label", given)
    if _native.labeled(written, lambda: 0):
        raise InvalidArgument(f"{where}: {given!r}: {_native.last_failure().reason}")
    return written


def _option_text(name: str, value: Any) -> bytes:
    if isinstance(value, (str, float)):  # the library itself rejects fractional numbers
        return text(f"option {name}", str(value))
    try:
        return str(operator.index(value)).encode()
    except TypeError:
        raise InvalidArgument(f"option {name}: expected text or a number, not {value!r}") from None


class Dependent(Protocol):
    """An object that must be notified when the communicator is freed."""

    def communicator_ended(self) -> None: ...

    def wait(self) -> bool: ...

    def after_fork(self) -> None: ...


class Options:
    """A set of options of the C library, valid inside a with statement."""

    def __init__(self, values: Mapping[str, Option]) -> None:
        self._values = values
        self.handle = ctypes.c_void_p()

    def __enter__(self) -> Options:
        self._check(_native.lib.pcclCreateOptions(ctypes.byref(self.handle)), "pcclCreateOptions")
        try:
            for name, value in self._values.items():
                code = _native.lib.pcclSetOption(self.handle, text("option", name), _option_text(name, value))
                self._check(code, "pcclSetOption")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _native.lib.pcclDestroyOptions(self.handle)

    @staticmethod
    def _check(code: int, function: str) -> None:
        if code != Result.SUCCESS:
            raise failure(function, code, _native.last_failure())


class Visit:
    """Marks a pending or current use of the handle. If the using thread is interrupted, the mark is removed when this
    object is dropped."""

    __slots__ = ("handle", "mark", "__weakref__")

    handle: Any
    mark: weakref.ref[Visit]


class Core:
    """A communicator's handle, with a record of the calls that use it, so that no call uses it after it is freed.

    On the main thread, a signal handler may raise between any two lines. Entering and leaving therefore use only a set
    and no lock that could stay locked forever. (The with statement of a Condition runs Python code, so its lock could.)
    The closing thread sets "closing" and then checks for users; a user enters and then checks "closing". At least one
    of them sees the other.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._pid = os.getpid()
        self._visits: Set[weakref.ref[Visit]] = set()
        self._left: queue.SimpleQueue[None] = queue.SimpleQueue()  # wakes the closing thread
        self._closing = False
        self._closer = threading.Lock()  # acquired once, by the thread that closes the handle
        self._closed = threading.Event()
        self._late = False  # true if the last user must free the handle when it leaves
        self._freed = threading.Lock()  # acquired once, by the thread that frees the handle
        self._dependents: Set[Dependent] = set()
        open_cores.add(self)

    # ---- use

    def enter(self) -> Optional[Visit]:
        """Returns the handle for use, or None if it is closing. Call leave() after each success."""
        visit = Visit()  # without a constructor, which would cost more than the rest of this method
        visit.handle = self._handle
        visit.mark = weakref.ref(visit)
        if self._pid != os.getpid():
            return visit  # the library rejects the call with a reason
        self._visits.add(visit.mark)
        if self._closing:
            self.leave(visit)
            return None
        return visit

    def leave(self, visit: Visit) -> None:
        self._visits.discard(visit.mark)
        if self._closing:
            self.left()

    def left(self) -> None:
        """Records that a call has returned while the communicator is closing. The last one frees the handle."""
        if self.is_of_this_process:
            self._left.put(None)
            if self._late and self._inside == 0:
                self._free()

    @property
    def _inside(self) -> int:
        return sum(mark() is not None for mark in self._visits.copy())

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a C function whose first argument is the communicator. Raises PCCLError if it fails."""
        raise_if(self.attempt(function, *arguments))

    def attempt(self, function: str, *arguments: Any) -> Optional[PCCLError]:
        return self.attempt_with(function, lambda handle: getattr(_native.lib, function)(handle, *arguments))

    def attempt_with(self, function: str, call: Callable[[Any], int]) -> Optional[PCCLError]:
        visit = self.enter()
        if visit is None:
            return not_connected(function)
        begin = time.monotonic()
        try:
            code = call(visit.handle)
            if code == Result.SUCCESS:
                return None
            return failure(function, code, _native.last_failure(visit.handle), elapsed=time.monotonic() - begin)
        finally:
            self.leave(visit)

    def after_fork(self) -> None:
        for dependent in self._dependents:
            dependent.after_fork()

    # ---- end

    @property
    def closed(self) -> bool:
        return self._closing

    def depend(self, dependent: Dependent) -> None:
        self._dependents.add(dependent)

    def release(self, dependent: Dependent) -> None:
        self._dependents.discard(dependent)

    @property
    def is_busy(self) -> bool:
        """True if launched operations have not been awaited yet."""
        return bool(self._dependents)

    def give_up(self) -> None:
        """Aborts the launched operations, for all peers of the group, and waits until they have ended."""
        if self.is_busy:
            self.attempt("pcclAbortOperations")
        for dependent in list(self._dependents):
            dependent.wait()

    def close(self) -> None:
        """Leaves the run and frees the communicator; calls in progress return. May be called repeatedly, on any thread.
        """
        if self._pid != os.getpid():
            self._closing = True  # it belongs to the parent process
            return
        if not self._closer.acquire(blocking=False):
            self._closed.wait()
            return
        self._closing = True
        _native.lib.pcclCloseCommunicator(self._handle)
        end = time.monotonic() + _LEAVING_S
        while self._inside and time.monotonic() < end:
            try:
                self._left.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                pass
        self._late = True
        if self._inside == 0:
            self._free()
        self._closed.set()

    def drop(self) -> None:
        """Closes a communicator to which no references are left."""
        left = len(self._dependents)
        if left and self.is_of_this_process:
            _log.warning(
                "a communicator was garbage-collected: %d of its reductions fail because they were not "
                "awaited",
                left,
            )
        self.close()

    def _free(self) -> None:
        if not self._freed.acquire(blocking=False):
            return
        _native.lib.pcclDestroyCommunicator(self._handle)
        open_cores.discard(self)
        for dependent in list(self._dependents):
            dependent.communicator_ended()
        self._dependents.clear()

    @property
    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()


open_cores: Set[Core] = set()


def create(addresses: str, values: Dict[str, Option]) -> Core:
    """Creates an unconnected communicator."""
    handle = ctypes.c_void_p()
    with Options(values) as options:
        code = _native.lib.pcclCreateCommunicatorWithOptions(
            text("address", addresses), options.handle, ctypes.byref(handle)
        )
        if code != Result.SUCCESS:
            raise failure("pcclCreateCommunicator", code, _native.last_failure())
    return Core(handle)
