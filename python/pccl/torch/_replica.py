"""What an elastic replica consists of: its own processes, which decide alike, and its place among the replicas.

A replica of several processes (FSDP2, or DistributedDataParallel over a fixed world) is as many peers, each in the
peer group of its rank, so that shards meet their like. Deaths concern one group before the others, so groups may
count differently; then what the replica's processes agree on counts. As all survivors of a group see the same
outcomes, all replicas agree on the same.
"""

from __future__ import annotations

import time
import uuid
import zlib
from array import array
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from .._communicator import Communicator
from .._errors import InvalidArgument, TooFewPeersError
from .._told import told_by_all
from ..diloco import _membership
from ..diloco._membership import PAUSE_S, Membership
from ..diloco._reduction import FIRST_TAG
from . import _tensors
from ._grid import connect_in_turn, grid_is_full
from ._state import TrainingState, shared_state

VOTE_TAG = FIRST_TAG + 5  # those before are of Membership
_GATHER_TAG, _WHOLE_TAG = FIRST_TAG + 6, FIRST_TAG + 7
CONFIRM_S = 60.0
_STEP = "elastic.step"


class Inside:
    """The processes of this replica."""

    def __init__(self, group: Any) -> None:
        """group: by default that of all processes of torch.distributed, if it is in use."""
        distributed = torch.distributed
        in_use = distributed.is_available() and distributed.is_initialized()
        self.group = group or (distributed.group.WORLD if in_use else None)
        self.rank = distributed.get_rank(self.group) if in_use else 0
        self.size = distributed.get_world_size(self.group) if in_use else 1

    def name(self) -> str:
        """That no other replica has."""
        name = [uuid.uuid4().hex]
        if self.size > 1:
            first = torch.distributed.get_global_rank(self.group, 0)
            torch.distributed.broadcast_object_list(name, first, group=self.group, device=torch.device("cpu"))
        return name[0]

    def highest(self, *numbers: int) -> List[int]:
        """The highest of each that any process has. Raises if one of them is dead."""
        if self.size == 1:
            return list(numbers)
        values = torch.tensor(numbers, dtype=torch.int64)
        torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX, group=self.group)
        return [int(value) for value in values.tolist()]


class Content:
    """What replicas share: the model, the optimizer, what the program adds, and the number of steps."""

    position = 0

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        more: Mapping[str, Any],
        step: int,
        **how: Any,
    ) -> None:
        if _STEP in more:
            raise InvalidArgument(f"elastic: state: the name {_STEP!r} is taken")
        self.model = model
        self._step = torch.tensor([step])
        self._state: TrainingState = shared_state(model, optimizer, {**more, _STEP: self._step}, **how)

    @property
    def round(self) -> int:
        return int(self._step[0])

    def count_step(self) -> None:
        self._step += 1

    def state(self, revision: int) -> TrainingState:
        self._state.revision = revision
        return self._state

    def lines(self) -> List[str]:
        return [f"{info.name}: {info.numel} of {info.dtype.name.lower()}" for info in self._state.tensor_infos]

    def keep(self) -> List[Tuple[Any, Any]]:
        def copy(thing: Any) -> Any:
            return thing.clone() if isinstance(thing, torch.Tensor) else bytes(_memory(thing))

        return [(thing, copy(thing)) for _, thing in self._state._look_up()[0]]

    def restore(self, kept: Sequence[Tuple[Any, Any]]) -> None:
        for thing, copy in kept:
            if isinstance(thing, torch.Tensor):
                thing.copy_(copy)
            else:
                _memory(thing)[:] = copy


def _memory(thing: Any) -> memoryview:
    return memoryview(thing).cast("B")


class Replicas(Membership):
    """This replica's place among the others, each of which has a rank that no other living one has."""

    comes_in_by = "pccl.torch.elastic()"

    def __init__(
        self, comm: Communicator, inside: Inside, content: Content, min_peers: int, words: Sequence[str]
    ) -> None:
        """words: what must be the same on all, besides the content."""
        settings = [
            _membership.listing("model, optimizer and state", content.lines()),
            _membership.listing("elastic", words),
            _membership.number("min_peers", min_peers),
        ]
        super().__init__(comm, "elastic replicas", content, min_peers, None, settings)
        self._inside, self._model = inside, content.model
        self._name = inside.name()
        self._rank: Optional[int] = None
        self._ranks: Dict[str, int] = {}
        self.newcomers = 0  # how often some came

    @property
    def rank(self) -> int:
        assert self._rank is not None
        return self._rank

    def ranks_of(self, ids: Sequence[str]) -> List[int]:
        return sorted(self._ranks[one] for one in ids)

    def join(self, n_attempts: int) -> int:
        """Connects, and receives what the others have: so many bytes."""
        self._rank, self.established = None, False
        if self._inside.size == 1:
            self.comm.connect(n_attempts)
        else:
            connect_in_turn(self.comm, self._inside.group, n_attempts, CONFIRM_S, self._fill)
        self.enter(self.comm)
        return self.meet_all()

    def meet_all(self) -> int:
        """The bytes that this peer received."""
        _tensors.reshard(self._model)  # a forward of an evaluation leaves it otherwise
        meeting = self.meet()
        self.newcomers += meeting.newcomers
        if meeting.newcomers or self._rank is None:
            self._tell_ranks()
        return meeting.moved_bytes

    def _tell_ranks(self) -> None:
        """Newcomers take the lowest ranks that are free, in the order in which they were admitted."""
        while True:
            told = told_by_all(self.comm, -1 if self._rank is None else self._rank, tag=_GATHER_TAG)
            taken = set(told.values())
            if -1 not in taken:
                self._ranks = told
                return
            if self._rank is None:
                free = [rank for rank in range(2 * len(told)) if rank not in taken]
                new = [one for one, rank in told.items() if rank < 0]
                # What the first process finds counts for the replica.
                found = free[new.index(self.comm.id)] if self._inside.rank == 0 else -1
                self._rank = self._inside.highest(found)[0]

    def update(self) -> None:
        self.comm.update_topology()
        if self._inside.size > 1:
            self._fill()

    def _fill(self) -> None:
        """Updates the topology until all processes of all replicas are in. Newcomers come in one by one, and cannot
        ask their siblings before these are in, too; those who were in before tell them."""
        while not self._is_whole():
            time.sleep(PAUSE_S)
            self.comm.update_topology()

    def _is_whole(self) -> bool:
        """Whether all peer groups have processes of the same replicas. Their numbers do not tell: of one replica the
        first process may just have come in, and of another one died."""
        told = told_by_all(self.comm, [self._name, self.established], tag=_GATHER_TAG)
        if not any(was_in for _, was_in in told.values()):
            return grid_is_full(self.comm, self._inside.size)  # a run begins
        differ = array("q", [0])
        if self.established:
            own = zlib.crc32("\n".join(sorted(name for name, _ in told.values())).encode())
            highest, lowest = self._inside.highest(own, -own)
            differ[0] = highest != -lowest
        try:
            self._highest(differ, _WHOLE_TAG)
        except TooFewPeersError:  # the others are gone
            return self.established and not differ[0]
        return not differ[0]

    def _counted(self, count: int) -> int:
        return -self._inside.highest(-count)[0]
