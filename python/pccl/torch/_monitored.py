"""A barrier that knows who has not come. torch's own, dist.monitored_barrier(), serves gloo only.

Rank 0 hears from each of the others, and tells each who was missing: also those, for when they come. So every rank
takes part in as many transfers as any other, and nothing of one barrier is left for the next one.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, List, Optional

import torch
import torch.distributed as dist

from ._work import CollectiveError, Work, names_of

if TYPE_CHECKING:
    from ._backend import ProcessGroup

_TAG = "monitored_barrier"


def _has_come(work: Work, end: float) -> bool:
    try:
        return work.wait(timedelta(seconds=max(end - time.monotonic(), 1e-3)))
    except CollectiveError:
        if work.is_completed():
            raise
        return False


def _receive(group: ProcessGroup, count: int, rank: int) -> Work:
    return group.recv([torch.zeros(count, dtype=torch.uint8)], rank, _TAG)


def _hear_all(group: ProcessGroup, limit: timedelta) -> List[int]:
    """At rank 0: who is missing."""
    end = time.monotonic() + limit.total_seconds()
    others = range(1, group.size())
    calls = {rank: _receive(group, 1, rank) for rank in others}
    missing = [rank for rank, call in calls.items() if not _has_come(call, end)]
    verdict = torch.tensor([rank in missing for rank in range(group.size())], dtype=torch.uint8)
    answers = {rank: group.send([verdict], rank, _TAG) for rank in others}
    for rank in others:
        if rank not in missing:
            answers[rank].wait()
    return missing


def _be_heard(group: ProcessGroup, limit: timedelta) -> List[int]:
    """At any other rank: who is missing."""
    call = group.send([torch.zeros(1, dtype=torch.uint8)], 0, _TAG)
    verdict = _receive(group, group.size(), 0)
    if not _has_come(call, time.monotonic() + limit.total_seconds()):
        return [0]
    told = verdict.result()[0]
    return [rank for rank in range(group.size()) if told[rank]]


def monitored_barrier(group: Any = None, timeout: Optional[timedelta] = None) -> None:
    """Waits for all ranks of a process group of this backend, by default the default group. CollectiveError, with all
    who have not come within the timeout (by default the group's), on every rank that has, and on those that come
    later."""
    (group or dist.group.WORLD).monitored_barrier(timeout)


def carry_out(group: ProcessGroup, limit: timedelta) -> None:
    missing = (_hear_all if group.rank() == 0 else _be_heard)(group, limit)
    if missing:
        ranks = [group._ranks[rank] for rank in missing]
        raise CollectiveError(
            f"pccl: monitored_barrier of group {group.group_name!r}, rank {group._world.rank}: "
            f"{names_of(ranks)} not there within {limit.total_seconds():g} s",
            ranks,
        )
