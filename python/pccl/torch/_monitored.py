"""A barrier that reports missing ranks, because torch's dist.monitored_barrier() only supports gloo.

Rank 0 receives a message from each other rank, and sends each of them the list of missing ranks. Missing ranks are sent
the list too, and read it when they arrive. Each rank then reports whether it had given up before, because rank 0 itself
may be late. Every rank thus takes part in the same number of transfers, and no barrier leaves a transfer behind for the
next one.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, List, Optional

import torch
import torch.distributed as dist

from ._futures import Work
from ._launching import Launching
from ._work import CollectiveError, names_of

_TAG = "monitored_barrier"


def _has_come(work: Work, end: float) -> bool:
    try:
        return work.wait(timedelta(seconds=max(end - time.monotonic(), 1e-3)))
    except CollectiveError:
        if work.is_completed():
            raise
        return False


def _receive(group: Launching, count: int, rank: int) -> Work:
    return group.recv([torch.zeros(count, dtype=torch.uint8)], rank, _TAG)


def _collect_arrivals(group: Launching, limit: timedelta) -> List[int]:
    """Returns the missing ranks. Called on rank 0."""
    end = time.monotonic() + limit.total_seconds()
    others = range(1, group.size())
    calls = {rank: _receive(group, 1, rank) for rank in others}
    missing = [rank for rank, call in calls.items() if not _has_come(call, end)]
    verdict = torch.tensor([rank in missing for rank in range(group.size())], dtype=torch.uint8)
    answers = {rank: group.send([verdict], rank, _TAG) for rank in others}
    ends = {rank: _receive(group, 1, rank) for rank in others}
    given_up = []
    for rank in others:
        if rank not in missing:
            answers[rank].wait()
            given_up.append(bool(ends[rank].result()[0][0]))
    return [0] if any(given_up) else missing


def _report_arrival(group: Launching, limit: timedelta) -> List[int]:
    """Returns the missing ranks. Called on all other ranks."""
    call = group.send([torch.zeros(1, dtype=torch.uint8)], 0, _TAG)
    verdict = _receive(group, group.size(), 0)
    has_come = _has_come(call, time.monotonic() + limit.total_seconds())
    told = verdict.result()[0] if has_come else []
    end = group.send([torch.tensor([not has_come], dtype=torch.uint8)], 0, _TAG)
    if not has_come:
        return [0]
    missing = [rank for rank in range(group.size()) if told[rank]]
    if group.rank() not in missing:
        end.wait()  # rank 0 waits for this send, and this rank may leave next
    return missing


def monitored_barrier(
    group: Any = None, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False
) -> None:
    """Waits for all ranks of a process group of this backend, by default the default group. If ranks have not called it
    within the timeout, by default the group's, raises CollectiveError with these ranks, both on the ranks that have
    called it and on those that call it later. wait_all_ranks: begin the message with all missing ranks instead of the
    first one."""
    (group or dist.group.WORLD).monitored_barrier(timeout, wait_all_ranks)


def carry_out(group: Launching, limit: timedelta, wait_all_ranks: bool) -> None:
    """Performs the barrier. Raises errors with the words of gloo's messages, because programs match on them. Without
    wait_all_ranks, the message begins with one rank."""
    is_root, limit_ms = group.rank() == 0, int(limit.total_seconds() * 1000)
    missing = _collect_arrivals(group, limit) if is_root else _report_arrival(group, limit)
    if not missing:
        return
    ranks = [group._ranks[rank] for rank in missing]
    first = ranks if wait_all_ranks else ranks[:1]
    words = f"{names_of(first).capitalize()} failed to pass monitoredBarrier in {limit_ms} ms"
    if len(first) < len(ranks):
        words += f", and so did {names_of(ranks[1:])}"
    own = group._world.rank
    if limit_ms == 0 and is_root:
        words = f"Rank {own} timed out in monitoredBarrier after 0 ms: {words}"
    elif group.rank() in missing:
        words = f"Rank {own} arrived after the others had timed out: {words}"
    elif not is_root:
        root = names_of(group._ranks[:1])
        words = (
            f"Rank {own} successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
            f"{root}: {words}"
        )
    raise CollectiveError(f"pccl: monitored_barrier of group {group.group_name!r}, rank {own}: {words}", ranks)
