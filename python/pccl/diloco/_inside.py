"""The processes of one trainer: one process, or several that each have a shard of the model (FSDP2) and make the same
steps. If there are several, each is a peer, and its rank is the number of its peer group, so that each group averages
equal shards.

A failure reaches one group before the others, so the groups' views may differ. The processes of a trainer then agree on
an outcome. All survivors of a group have the same view, so all trainers agree on the same one.
"""

from __future__ import annotations

import uuid
from typing import Any, Callable, List

from .._communicator import Communicator
from .._errors import InvalidArgument
from .._lazy import Lazy, torch

_grid: Any = Lazy("pccl.torch._grid")

_CONFIRM_S = 60.0


class Inside:
    def __init__(self, group: Any = None) -> None:
        """group: a torch.distributed group that supports tensors in CPU memory. None: this process is the whole
        trainer."""
        self.group = group
        self.rank, self.size = 0, 1
        if group is not None:
            self.rank, self.size = torch.distributed.get_rank(group), torch.distributed.get_world_size(group)

    def name(self) -> str:
        """Returns a unique name of this trainer, the same on all its processes."""
        name = [uuid.uuid4().hex]
        if self.size > 1:
            first = torch.distributed.get_global_rank(self.group, 0)
            torch.distributed.broadcast_object_list(name, first, group=self.group, device=torch.device("cpu"))
        return name[0]

    def highest(self, *numbers: int) -> List[int]:
        """Returns the maximum over all processes of each number. Raises if a process has failed."""
        return self._reduced("MAX", *numbers)

    def total(self, *numbers: int) -> List[int]:
        """Returns the sum over all processes of each number. Raises if a process has failed."""
        return self._reduced("SUM", *numbers)

    def agree(self, number: int) -> bool:
        """Returns true if all processes pass the same number."""
        highest, lowest = self.highest(number, -number)
        return highest == -lowest

    def _reduced(self, op: str, *numbers: int) -> List[int]:
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.int64)
        torch.distributed.all_reduce(values, getattr(torch.distributed.ReduceOp, op), group=self.group)
        return [int(value) for value in values.tolist()]

    def connect(self, comm: Communicator, n_attempts: int, fill: Callable[[], None]) -> None:
        """Connects the processes one after the other. Each connected process calls `fill` until all are connected."""
        if self.size == 1:
            comm.connect(n_attempts)
            return
        if int(comm._given_group) != self.rank:
            raise InvalidArgument(
                f"the communicator is of peer group {comm._given_group}; this process is number {self.rank} of "
                f"{self.size}, and needs Communicator(address, {self.rank})"
            )
        _grid.connect_in_turn(comm, self.group, n_attempts, _CONFIRM_S, fill)


def of_all_processes() -> Any:
    """Returns torch.distributed's group of all processes, or None if it is not in use."""
    distributed = torch.distributed
    in_use = distributed.is_available() and distributed.is_initialized()
    return distributed.group.WORLD if in_use else None
