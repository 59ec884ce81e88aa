"""Groups of some of a communicator's peers."""

from __future__ import annotations

import ctypes
import math
from typing import Any, List, Optional, Sequence

from . import _collectives, _core, _native
from ._communicator import Communicator
from ._enums import Result, number
from ._errors import InvalidArgument


class Group(Communicator):
    """What Communicator.group() has founded: a communicator whose operations are among its members
    only, with tags of its own. members() never change, and rank is this peer's place among them.
    What concerns the whole run (connect, update_topology, sync_shared_state ...) is InvalidUsage.

    The group ends for all members when one of them closes it, leaves or dies: its operations then
    raise PeerLostError and say why. Those who are left may found another one.
    """

    def __init__(self, core: _core.Core, whole: Optional[Communicator] = None) -> None:
        self._core = core
        self._launching = None
        self._whole = whole  # a group ends with its communicator, so that must stay

    @property
    def address(self) -> str:  # type: ignore[override]
        return self._whole.address if self._whole is not None else ""

    def close(self) -> None:
        """Ends the group for all members; operations in progress fail. May be called any number of times."""
        super().close()


def _milliseconds(timeout: Optional[float]) -> int:
    if timeout is None:
        return 0
    if not timeout > 0:
        raise InvalidArgument(f"group: timeout is {timeout!r}, and must be more than 0 s")
    return min(math.ceil(timeout * 1000), (1 << 32) - 1)


def found(comm: Communicator, ids: Sequence[str], timeout: Optional[float], label: str) -> Group:
    list_c = _collectives.peer_ids("group", ids)
    options = _native.GroupOptionsC(
        size=ctypes.sizeof(_native.GroupOptionsC),
        label=_core.label("group", label),
        timeout_ms=_milliseconds(timeout),
    )
    founded: List[Group] = []  # if nobody waits for it any more, it is closed when this is dropped

    def create(handle: Any) -> int:
        made = ctypes.c_void_p()
        count = number("group: ids", len(list_c), 0, 1 << 32)
        code: int = _native.lib.pcclCreateGroup(
            handle, list_c, count, ctypes.byref(options), ctypes.byref(made)
        )
        if code == Result.SUCCESS:
            founded.append(Group(_core.Core(made)))
        return code

    comm._await(comm._bound("pcclCreateGroup", create, (list_c, options)), comm._give_up)
    founded[0]._whole = comm
    return founded[0]
