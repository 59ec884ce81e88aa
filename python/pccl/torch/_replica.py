"""What elastic replicas share, and a replica's place among them. Its processes decide alike (diloco/_inside.py).
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch

from .._communicator import Communicator
from .._errors import InvalidArgument
from .._told import told_by_all
from ..diloco import _membership
from ..diloco._inside import Inside
from ..diloco._membership import GATHER_TAG, Membership
from ..diloco._reduction import FIRST_TAG
from . import _tensors
from ._state import TrainingState, shared_state

VOTE_TAG = FIRST_TAG + 5  # the others are of Membership
_STEP = "elastic.step"


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
        super().__init__(comm, "elastic replicas", content, min_peers, None, settings, inside)
        self._model = content.model
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
        self._rank, self.established, self._revision = None, False, 0
        self._inside.connect(self.comm, n_attempts, self._fill)
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
            told = told_by_all(self.comm, -1 if self._rank is None else self._rank, tag=GATHER_TAG)
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
