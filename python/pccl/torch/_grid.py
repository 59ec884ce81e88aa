"""The grid of peers times shards, for peers that consist of several processes with one shard each.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Callable, Optional

import torch

from .._communicator import Communicator
from .._enums import Attribute
from ._monitored import monitored_barrier

_CONFIRM_S = 60.0


def grid_is_full(comm: Communicator, expected_groups: int) -> bool:
    """Whether every shard of every peer is present. expected_groups: the number of shards of a
    peer, each of which is a peer group.

    The processes of a newcomer are admitted one by one. A process that has been admitted must not
    enter a collective of its own process group (FSDP's forward is one) while a sibling still waits
    in connect(), which returns only when all admitted processes call update_topology(): neither
    would ever continue. So ask this after connect() and after update_topology(), at the beginning
    of each step, and update again while it is false. All processes then get the same answer,
    because these calls are joint for all of them. After a reduction the answers of different groups
    may differ.

    It only compares sizes: that all groups are equally large. Two half-admitted peers with
    different halves would pass for a whole one. That cannot happen if each peer's processes are
    admitted in the order of their shards, which connect_grid() ensures. If a process dies, its
    siblings learn of it from their own next collective.
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
    """Updates the topology until the grid is full. To be called after connect() and after
    update_topology().

    check: called before each update, for processes that can ask their siblings. It must raise if
    one of them is dead, because then the grid of this peer never fills again;
    torch.distributed.barrier does so. Do not pass it before the grid has been full once, because
    siblings may still be in connect().
    """
    while not grid_is_full(comm, expected_groups):
        if check is not None:
            check()
        time.sleep(pause_s)
        comm.update_topology()


def connect_grid(
    comm: Communicator, *, process_group: Any = None, n_attempts: int = 5, confirm_s: float = _CONFIRM_S
) -> None:
    """Calls connect() for all processes of a process group, in the order of their ranks, and
    returns when the grid is full. The rank must be the number of the shard, and hence the peer
    group. The process group must accept tensors in CPU memory (gloo, pccl).

    Raises RuntimeError if a sibling is dead or has not arrived after confirm_s seconds. Use a
    launcher that ends all of a peer's processes when one fails, as torchrun does.
    """
    size = torch.distributed.get_world_size(process_group)
    connect_in_turn(comm, process_group, n_attempts, confirm_s, lambda: fill_grid(comm, size))


def connect_in_turn(
    comm: Communicator, process_group: Any, n_attempts: int, confirm_s: float, fill: Callable[[], None]
) -> None:
    """connect_grid(). fill: called by each process that is in, until all are."""
    distributed = torch.distributed
    rank, size = distributed.get_rank(process_group), distributed.get_world_size(process_group)
    group = process_group or distributed.group.WORLD
    turn, passed_on = torch.zeros(1), None
    if rank > 0:
        distributed.recv(turn, distributed.get_global_rank(group, rank - 1), group)
    comm.connect(n_attempts)
    if rank + 1 < size:
        passed_on = distributed.isend(turn, distributed.get_global_rank(group, rank + 1), group)
    fill()
    if passed_on is not None:
        passed_on.wait()
    barrier = monitored_barrier if distributed.get_backend(group) == "pccl" else distributed.monitored_barrier
    barrier(group, timeout=timedelta(seconds=confirm_s))
