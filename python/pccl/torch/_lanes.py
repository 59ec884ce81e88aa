"""Numbers and tags of a group's operations.

The program and the callbacks of futures (_futures.py) launch operations concurrently, in orders that differ among
ranks. Each work therefore has a lane, which numbers the operations launched by its callbacks and has tags that no other
lane uses. Callbacks of an operation in a lane use the same lane.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import Any, Callable, Dict, Optional

# Limits on a group's operations in progress, for the program and for each lane. If the limit is reached, a new
# operation waits for the oldest.
TAGS = 256
_LANE_TAGS = 16

# The lane of each thread that runs a callback. An entry is removed with the stack frame that created it, even after an
# interrupt.
lane_entries: Dict[int, "weakref.ref[_Entry]"] = {}


class Numbers:
    """Numbers the operations of a group in the same way on all ranks. The operations use the tags in turn."""

    __slots__ = ("next", "first_tag", "tags")

    def __init__(self, first_tag: int, tags: int) -> None:
        self.next, self.first_tag, self.tags = 0, first_tag, tags

    def tag_of(self, number: int) -> int:
        return self.first_tag + number % self.tags


class _Entry:
    __slots__ = ("lane", "__weakref__")

    lane: int


class Lanes:
    """Numbers the operations of one group, separately for the program and for each lane."""

    def __init__(self) -> None:
        self.program = Numbers(0, TAGS)
        self._of_callbacks: Dict[int, Numbers] = {}

    def here(self) -> Numbers:
        """Returns the numbers for an operation of this thread. If `lane_entries` is empty, these are the program's."""
        lane = lane_here()
        if lane is None:
            return self.program
        numbers = self._of_callbacks.get(lane)
        return numbers or self._of_callbacks.setdefault(lane, Numbers(lane, _LANE_TAGS))


def lane_of(group: str, tag: int) -> int:
    """Returns the lane for callbacks of the operation with this tag. A lane is identified by its first tag."""
    if tag >= TAGS:
        return tag - tag % _LANE_TAGS
    digest = int.from_bytes(hashlib.blake2b(f"{group}/{tag}".encode(), digest_size=8).digest(), "little")
    return (digest | 1 << 63) // _LANE_TAGS * _LANE_TAGS


def lane_here() -> Optional[int]:
    entry = lane_entries.get(threading.get_ident())
    entry_here = None if entry is None else entry()
    return None if entry_here is None else entry_here.lane


def in_lane(lane: Optional[int], call: Callable[[], Any]) -> Any:
    if lane is None:
        return call()
    thread, entry_here = threading.get_ident(), _Entry()
    entry_here.lane = lane
    before = lane_entries.get(thread)
    lane_entries[thread] = weakref.ref(entry_here)
    try:
        return call()
    finally:
        if before is None:
            lane_entries.pop(thread, None)
        else:
            lane_entries[thread] = before
