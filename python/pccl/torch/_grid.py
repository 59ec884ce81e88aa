"""A grid of peers and shards: each trainer has several processes, with one shard each."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any, Callable, List, Optional

import torch

from .. import _threads
from .._communicator import Communicator
from .._enums import Attribute
from .._errors import DrainedError, InternalError

_CONFIRM_S = 60.0
_TURN_TAG, _REPORT_TAG, _ANSWER_TAG = 1, 2, 3  # tags of messages among siblings


def grid_is_full(comm: Communicator, expected_groups: int) -> bool:
    """Returns true if every shard of every peer is present. expected_groups: number of shards of a peer, each of which
    is a separate peer group.

    The processes of a newcomer are admitted one by one. connect() returns only when all admitted processes call
    update_topology(). So if an admitted process entered a collective of its process group (FSDP's forward is one) while
    a sibling is still in connect(), neither would ever continue. Therefore call this after connect(), after
    update_topology(), and at the beginning of each step, and update again while it is false. All processes get the same
    answer, because all make these calls together. After a reduction, the answers of different groups may differ.

    This only compares sizes: all groups must be equally large. Two half-admitted peers with different halves would look
    like one complete peer. To exclude that, admit each peer's processes in the order of their shards, as connect_grid()
    does. If a process fails, its siblings detect that in their next collective.
    """
    groups = comm.get_attribute(Attribute.NUM_DISTINCT_PEER_GROUPS)
    largest = comm.get_attribute(Attribute.LARGEST_PEER_GROUP_WORLD_SIZE)
    everybody = comm.get_attribute(Attribute.GLOBAL_WORLD_SIZE)
    return groups == expected_groups and groups * largest == everybody


def fill_grid(
    comm: Communicator,
    expected_groups: int,
    *,
    check: Optional[Callable[[], object]] = None,
    pause_s: float = 0.05,
) -> None:
    """Updates the topology until the grid is full. Call it after connect() and after update_topology().

    check: called before each update, for processes that can reach their siblings. It must raise if one of them has
        failed, because this peer's part of the grid then never fills again; torch.distributed.barrier does so. Do not
        pass it before the grid has been full once, because siblings may still be in connect().
    """
    while not grid_is_full(comm, expected_groups):
        if check is not None:
            check()
        time.sleep(pause_s)
        comm.update_topology()


def connect_grid(
    comm: Communicator, *, process_group: Any = None, n_attempts: int = 5, confirm_s: float = _CONFIRM_S
) -> None:
    """Calls connect() in all processes of a process group, in the order of their ranks, and returns when the grid is
    full. The rank must be the number of the shard, and thus of the peer group. The process group must support tensors
    in CPU memory (gloo, pccl).

    Raises RuntimeError if a sibling fails, or is missing after confirm_s seconds. Use a launcher that ends all of a
    peer's processes when one fails, as torchrun does.
    """
    size = torch.distributed.get_world_size(process_group)
    connect_in_turn(comm, process_group, n_attempts, confirm_s, lambda: fill_grid(comm, size))


def connect_in_turn(
    comm: Communicator, process_group: Any, n_attempts: int, confirm_s: float, fill: Callable[[], None]
) -> None:
    """Implements connect_grid(). Each process in the run calls fill(), which returns when all are in the run. If a
    process is drained before that, raises DrainedError in all processes; the others then request their drain."""
    rank, size = torch.distributed.get_rank(process_group), torch.distributed.get_world_size(process_group)
    siblings = _Siblings(comm, process_group or torch.distributed.group.WORLD, rank, size)
    passed_on = None
    try:
        if rank > 0:
            siblings.receive(rank - 1, _TURN_TAG)
        try:
            comm.connect(n_attempts)
        finally:
            if rank + 1 < size:
                passed_on = siblings.send(rank + 1, _TURN_TAG, False)
        fill()
    except DrainedError:
        siblings.report_drain(confirm_s)
        raise
    if passed_on is not None:
        passed_on.wait()
    if siblings.all_are_in(confirm_s):
        return
    comm.update_topology()
    raise InternalError("a sibling of this process was drained, and this process, which requested its drain, was not")


class _Siblings:
    """Messages among the processes of one peer. Each process reports to rank 0 that it has joined, or that it was
    drained first. Rank 0 answers when all have joined or one was drained."""

    def __init__(self, comm: Communicator, group: Any, rank: int, size: int) -> None:
        self._comm, self._group, self._rank, self._others = comm, group, rank, range(1, size)
        self._answers: List[Any] = []
        self.is_drained = False
        self._lock = threading.Lock()
        self._watch = _threads.start(self._collect if rank == 0 else self._wait_for_answer)

    def send(self, rank: int, tag: int, drained: bool) -> Any:
        to = torch.distributed.get_global_rank(self._group, rank)
        return torch.distributed.isend(torch.tensor([float(drained)]), to, self._group, tag)

    def receive(self, rank: Optional[int], tag: int) -> bool:
        """Receives from this rank, or from any rank if it is None. Returns true if the sender was drained."""
        drained = torch.zeros(1)
        source = None if rank is None else torch.distributed.get_global_rank(self._group, rank)
        torch.distributed.recv(drained, source, self._group, tag)
        return bool(drained.item())

    def _collect(self) -> None:
        for _ in self._others:
            if self.receive(None, _REPORT_TAG):
                self._answer(True)

    def _answer(self, drained: bool) -> None:
        with self._lock:
            if not self._answers:
                self._answers = [self.send(rank, _ANSWER_TAG, drained) for rank in self._others]
                self.is_drained = drained
        if drained:
            self._comm.drain()

    def _wait_for_answer(self) -> None:
        self.is_drained = self.receive(0, _ANSWER_TAG)
        if self.is_drained:
            self._comm.drain()

    def _deliver(self, drained: bool, limit_s: float) -> None:
        if self._rank == 0:
            self._answer(drained)
        for work in self._answers if self._rank == 0 else [self.send(0, _REPORT_TAG, drained)]:
            work.wait(timedelta(seconds=limit_s))

    def report_drain(self, limit_s: float) -> None:
        """Reports the drain. Rank 0 also waits for the reports of the others, because their sends would fail after its
        exit."""
        self._deliver(True, limit_s)
        self._watch.wait(limit_s)

    def all_are_in(self, limit_s: float) -> bool:
        """Waits until all siblings are in the run. Returns false if one was drained. Raises RuntimeError if one has
        failed or does not report in time."""
        if self._rank > 0:
            self._deliver(False, limit_s)
        if not self._watch.wait(limit_s):
            raise RuntimeError(f"rank {self._rank}: not all processes of this peer are in the run after {limit_s} s")
        self._watch.value()
        if self._rank == 0:
            self._deliver(False, limit_s)
        return not self.is_drained
