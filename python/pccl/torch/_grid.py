"""Peers that are themselves several processes, with a shard each: the grid of peers times shards."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Callable, Optional

import torch

from .._communicator import Communicator
from .._enums import Attribute

_CONFIRM_S = 60.0


def grid_is_full(comm: Communicator, expected_groups: int) -> bool:
    """Is every shard of every peer there? expected_groups: shards of a peer, each of which is a peer group.

    The processes of a newcomer are admitted one by one, and one that has been admitted must not enter a collective of
    its own process group (FSDP's forward is one) while a sibling still waits in connect(), which only returns when all
    who are admitted call update_topology(): neither would ever go on. So ask this after connect() and after
    update_topology(), at the beginning of each step, and update again while it is false. All processes get the same
    answer then, because these are joint with all; after a reduction the answers of different groups may differ.

    It compares numbers: that all groups are as large as each other. Two half admitted peers with different halves would
    pass for a whole one; that cannot be where each peer's processes are admitted in the order of their shards, which
    connect_grid() sees to. Where one has died, its siblings learn it from their own next collective.
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
    """Updates the topology while the grid is not full. To be called after connect() and after update_topology().

    check: called before each update, by processes that have siblings to ask: it is to raise when one of them is dead,
    for then the grid of this peer never fills again. torch.distributed.barrier does so. Not before the grid has been
    full once: siblings may still be in connect().
    """
    while not grid_is_full(comm, expected_groups):
        if check is not None:
            check()
        time.sleep(pause_s)
        comm.update_topology()


def connect_grid(
    comm: Communicator, *, process_group: Any = None, n_attempts: int = 5, confirm_s: float = _CONFIRM_S
) -> None:
    """connect() for all processes of a process group, in the order of their ranks; returns when the grid is full. The
    rank is to be the number of the shard, and with that the peer group. The process group must take tensors in CPU
    memory (gloo).

    RuntimeError when a sibling is dead or, after confirm_s seconds, not there. Use a launcher that ends all of
    a peer's processes when one fails, as torchrun does.
    """
    distributed = torch.distributed
    rank, size = distributed.get_rank(process_group), distributed.get_world_size(process_group)
    group = process_group or distributed.group.WORLD
    turn, passed_on = torch.zeros(1), None
    if rank > 0:
        distributed.recv(turn, distributed.get_global_rank(group, rank - 1), group)
    comm.connect(n_attempts)
    if rank + 1 < size:
        passed_on = distributed.isend(turn, distributed.get_global_rank(group, rank + 1), group)
    fill_grid(comm, size)
    if passed_on is not None:
        passed_on.wait()
    distributed.monitored_barrier(group, timeout=timedelta(seconds=confirm_s))
