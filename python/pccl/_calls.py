"""Base of Communicator: binds calls to their memory, and launches, awaits and aborts operations."""

from __future__ import annotations

import ctypes
import math
import time
from typing import Any, Callable, Optional, Sequence, Tuple, Type, TypeVar

from . import _collectives, _native, _threads
from ._core import Core
from ._errors import ConnectionError_, DrainedError, InvalidArgument, PCCLError, VersionMismatchError, raise_if
from ._handles import _Handle
from ._operation import Operation, Work
from ._operations import ListedOperation

_T = TypeVar("_T")
_H = TypeVar("_H", bound="_Handle[Any]")
_RETRY_PAUSE_S = 1.0
_ATTEMPT_S = 2.0  # average duration of an attempt; up to five times as long if another service has the address
_LASTING = VersionMismatchError, DrainedError  # failures that a further attempt cannot resolve


class _Calls:
    """Internal methods of Communicator."""

    _core: Core
    _launching: Any  # dictionary of the launched operations by tag, or None if they are not recorded

    def _launched(self, work: Work, kind: Type[_H]) -> _H:
        handle = kind(Operation(self._core, work, False))
        if self._launching is not None:
            self._launching[work.tag] = handle
        handle._operation.launch()
        return handle

    def _carried_out(self, work: Work, kind: Type[_Handle[_T]]) -> _T:
        """Launches an operation, waits for it and returns its value. Creates the handle before the launch, so that the
        handle owns the operation even if the call is interrupted."""
        handle = kind(Operation(self._core, work, True))
        try:
            handle._operation.carry_out()
        except PCCLError:
            raise
        except BaseException:
            self._give_up()
            raise
        return handle._value()

    def _counted_on(self, where: str, members: Optional[Sequence[str]]) -> Tuple[Tuple[str, ...], int]:
        """Returns the members that an operation requires, and this peer's rank among them."""
        return self._members() if members is None else _collectives.given_members(where, members, self._id())

    def _do(self, where: str, operation: ListedOperation, kind: Type[_Handle[_T]]) -> _T:
        return self._carried_out(operation._make(where, self._counted_on), kind)

    def _begin(self, where: str, operation: ListedOperation, kind: Type[_H]) -> _H:
        return self._launched(operation._make(where, self._counted_on), kind)

    def _give_up(self) -> None:
        self._core.attempt("pcclAbortOperations")

    def _bound(self, function: str, call: Callable[[Any], int], keep: object) -> Callable[[], Optional[PCCLError]]:
        """Returns a function that another thread can finish if its caller stops waiting. It keeps the call's memory
        alive, but not the communicator, because dropping the communicator ends the call."""
        core = self._core

        def bound(_keep: object = keep) -> Optional[PCCLError]:
            return core.attempt_with(function, call)

        return bound

    def _joint(self, function: str, *arguments: Any) -> None:
        native = getattr(_native.lib, function)
        self._await(self._bound(function, lambda comm: native(comm, *arguments), arguments))

    def _connect(self, n_attempts: int) -> None:
        end = time.monotonic() + n_attempts * _ATTEMPT_S
        for attempt in range(1, n_attempts + 1):
            try:
                return self._joint("pcclConnect")
            except ConnectionError_ as error:
                if attempt == n_attempts or time.monotonic() >= end or isinstance(error, _LASTING):
                    raise
            time.sleep(_RETRY_PAUSE_S)
        raise InvalidArgument(f"connect: n_attempts: {n_attempts}; expected at least 1")

    def _id(self) -> str:
        digits = ctypes.create_string_buffer(33)
        self._core.call("pcclGetPeerId", digits, len(digits))
        return digits.value.decode()

    def _members(self) -> Tuple[Tuple[str, ...], int]:
        room = 16
        while True:
            ids, count, rank = _native.ids_type(room)(), ctypes.c_size_t(), ctypes.c_uint32()
            try:
                self._core.call("pcclGetMembers", ids, room, ctypes.byref(count), ctypes.byref(rank))
                return tuple(one.digits.decode() for one in ids[: count.value]), rank.value
            except InvalidArgument:
                if count.value <= room:
                    raise
            room = count.value

    @staticmethod
    def _await(call: Callable[[], Optional[PCCLError]], interrupted: Optional[Callable[[], None]] = None) -> None:
        raise_if(_threads.blocking(call, interrupted))


def milliseconds(timeout: Optional[float]) -> int:
    if timeout is None:
        return 0
    if not timeout > 0:
        raise InvalidArgument(f"group: timeout: {timeout!r}; expected more than 0 s")
    return min(math.ceil(timeout * 1000), (1 << 32) - 1)
