"""Parts of every call of a communicator: bound to its memory, launched, waited for, given up."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Type, TypeVar

from . import _native, _threads
from ._core import Core
from ._errors import InvalidArgument, PCCLError
from ._handles import _Handle
from ._operation import Operation, Work

_T = TypeVar("_T")
_H = TypeVar("_H", bound="_Handle[Any]")


class _Calls:
    """The base of Communicator."""

    _core: Core
    _launching: Any  # where somebody keeps whatever is launched, by tag; None: nowhere

    def _launched(self, work: Work, kind: Type[_H]) -> _H:
        handle = kind(Operation(self._core, work, False))
        if self._launching is not None:
            self._launching[work.tag] = handle
        handle._operation.launch()
        return handle

    def _carried_out(self, work: Work, kind: Type[_Handle[_T]]) -> _T:
        """The handle is there before the launch: if that is interrupted, it takes care of what was
        launched."""
        handle = kind(Operation(self._core, work, True))
        try:
            handle._operation.carry_out()
        except PCCLError:
            raise
        except BaseException:
            self._give_up()
            raise
        return handle._value()

    def _give_up(self) -> None:
        self._core.attempt("pcclAbortOperations")

    def _bound(self, function: str, call: Callable[[Any], int], keep: object) -> Callable[[], Optional[PCCLError]]:
        """A call that another thread can finish when nobody waits for it any more, with all that it
        needs, except the communicator itself: dropping that is what ends such a call."""
        core = self._core

        def bound(_keep: object = keep) -> Optional[PCCLError]:
            return core.attempt_with(function, call)

        return bound

    def _joint(self, function: str, *arguments: Any) -> None:
        native = getattr(_native.lib, function)
        self._await(self._bound(function, lambda comm: native(comm, *arguments), arguments))

    @staticmethod
    def _await(call: Callable[[], Optional[PCCLError]], interrupted: Optional[Callable[[], None]] = None) -> None:
        error = _threads.blocking(call, interrupted)
        if error is not None:
            raise error


def milliseconds(timeout: Optional[float]) -> int:
    if timeout is None:
        return 0
    if not timeout > 0:
        raise InvalidArgument(f"group: timeout is {timeout!r}, and must be more than 0 s")
    return min(math.ceil(timeout * 1000), (1 << 32) - 1)
