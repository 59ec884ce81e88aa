"""The shared state of elastic replicas, and the membership of a replica. All processes of a replica make the same
decisions (diloco/_inside.py).

Replicas that have made the same steps have the same state, except for buffers that forward changes in training
(_statistics.py). Before newcomers receive the state, its holders compare their contents here, tensor by tensor. Without
this, the synchronization would remove a differing holder without naming a tensor, and that holder would return and
differ again.
"""

from __future__ import annotations

import logging
import zlib
from array import array
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import torch

from .. import _buffers
from .._communicator import Communicator
from .._enums import SharedStateSyncStrategy
from .._errors import InvalidArgument, StateMismatch
from .._exchange import exchange_json
from ..diloco import _membership
from ..diloco._inside import Inside
from ..diloco._membership import ESTABLISHED, GATHER_TAG, NO_VALUE, Membership
from ..diloco._reduction import FIRST_TAG
from . import _tensors
from ._state import TrainingState, shared_state
from ._statistics import Statistics

VOTE_TAG, BUFFERS_TAG = FIRST_TAG + 5, FIRST_TAG + 8  # the tags in between belong to Membership
_DIGESTS_TAG = FIRST_TAG + 9
_STEP = "elastic.step"
_NAMED = 4  # maximum number of tensors that a message names

_log = logging.getLogger("pccl")


class Content:
    """The shared state of replicas: the model, the optimizer, the program's additional state, and the number of steps.
    """

    position = 0

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        more: Mapping[str, Any],
        step: int,
        own: Callable[[str], bool] = lambda name: False,
    ) -> None:
        if _STEP in more:
            raise InvalidArgument(f"elastic: state: the name {_STEP!r} is reserved")
        self.model = model
        self._step = torch.tensor([step])
        self._state: TrainingState = shared_state(model, optimizer, {**more, _STEP: self._step}, own=own)
        self.statistics = Statistics(self._state._shared_buffers())

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

    def digests(self) -> List[int]:
        """Returns a digest of each tensor. Takes about one second per GB and thread."""

        def digest(one: Tuple[str, Any]) -> int:
            return int(_buffers.digest([one])[:14], 16)

        with ThreadPoolExecutor() as pool:
            return list(pool.map(digest, self._state._now()[0]))

    def let_differ(self, varies: Sequence[bool]) -> List[bool]:
        """Allows tensors marked by `varies` (the same on all replicas) or by `own` to differ. Returns for each tensor
        whether it must be the same."""
        infos = self._state.tensor_infos
        self.statistics.names = {info.name for info, one in zip(infos, varies) if one}
        self._state._let_differ(self.statistics.names)
        return [not info.allow_content_inequality for info in infos]

    def let_none_differ(self) -> None:
        """Prepares for the start of a run, after which all replicas have the same statistics as well."""
        self._state._let_differ(())

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
    """This replica's membership. Each living replica has a different rank."""

    entry_call = "pccl.torch.elastic()"

    def __init__(
        self, comm: Communicator, inside: Inside, content: Content, min_peers: int, words: Sequence[str]
    ) -> None:
        """words: further descriptions that must be the same on all replicas."""
        settings = [
            _membership.listing("model, optimizer and state", content.lines()),
            _membership.listing("elastic", words),
            _membership.number("min_peers", min_peers),
        ]
        super().__init__(comm, "elastic replicas", content, min_peers, None, settings, inside)
        self._content, self._model = content, content.model
        self.catch_up = self._compare_content
        self._rank: Optional[int] = None
        self._ranks: Dict[str, int] = {}
        self.newcomers = 0  # number of newcomers admitted

    @property
    def rank(self) -> int:
        assert self._rank is not None
        return self._rank

    def ranks_of(self, ids: Sequence[str]) -> List[int]:
        return sorted(self._ranks[one] for one in ids)

    def join(self, n_attempts: int) -> int:
        """Connects and receives the shared state. Returns the number of bytes received."""
        self._rank, self.established, self._revision = None, False, 0
        self._content.let_none_differ()
        self._inside.connect(self.comm, n_attempts, lambda: self._fill(self.comm.update_topology))
        return self.meet_all()

    def meet_all(self) -> int:
        """Meets the other replicas. Returns the number of bytes that this peer received."""
        _tensors.reshard(self._model)  # the forward of an evaluation leaves the model unsharded
        meeting = self.meet()
        self.newcomers += meeting.newcomers
        if meeting.newcomers or self._rank is None:
            self._assign_ranks()
        return meeting.moved_bytes

    def first_of(self, ids: Sequence[str]) -> str:
        """Returns the member with the lowest rank."""
        return min(ids, key=lambda one: self._ranks[one])

    def _strategy(self, own: int, highest: int, lowest: int) -> SharedStateSyncStrategy:
        """Returns the strategy. When a run starts from checkpoints, which may differ in statistics, a single replica
        provides the state of all."""
        if lowest < highest < ESTABLISHED:
            return self._strategy_of_one_source(own == highest)
        return super()._strategy(own, highest, lowest)

    # ---- comparison of content

    def _compare_content(self, counts: bool, _: int) -> None:
        """Determines which tensors may differ, before newcomers receive the state. All replicas must call it. If others
        differ, raises StateMismatch on the minority, or on all replicas and newcomers if there is no majority."""
        names = [info.name for info in self._content.state(self._revision).tensor_infos]
        count = len(names)
        values = array("q", [NO_VALUE] * (3 * count))
        if self.established:
            digests = self._content.digests()
            varies = [name in self._content.statistics.names for name in names]
            values = array("q", [*digests, *(-one for one in digests), *varies])
        self._highest(values, _DIGESTS_TAG)
        highest, lowest = values[:count], [-one for one in values[count : 2 * count]]
        if highest[0] == NO_VALUE:
            return  # no replica is in the run yet
        common = self._content.let_differ([one > 0 for one in values[2 * count :]])
        odd = [at for at in range(count) if common[at] and highest[at] != lowest[at]]
        if odd:
            own = zlib.crc32(repr([digests[at] for at in odd]).encode()) if self.established else None
            self._refuse([names[at] for at in odd], own)

    def _refuse(self, names: Sequence[str], own: Optional[int]) -> None:
        """Raises or logs the mismatch of these tensors. All replicas must call it. own: digest of the tensors on this
        replica, or None for a newcomer."""
        told = exchange_json(self.comm, [self._rank, own, self._content.round], tag=GATHER_TAG)
        holders = {rank: digest for rank, digest, _ in told.values() if digest is not None}
        if len(set(holders.values())) < 2:
            return  # the replicas that differed have left
        step = max(step for _, digest, step in told.values() if digest is not None)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        what = f"elastic: shared state of step {step}: {', '.join(names[:_NAMED])}{more}"
        (most, votes), = Counter(holders.values()).most_common(1)
        advice = (
            "; check code that changes it outside forward and optimizer.step() (seeds, loading, averages of weights), "
            "and the memory of that machine; own= names tensors that may differ"
        )
        if 2 * votes <= len(holders):
            raise StateMismatch(f"{what}: replicas {_listed(holders)} differ, and no version has a majority{advice}")
        others = [rank for rank, digest in holders.items() if digest != most]
        words = f"{what}: replica {_listed(others)} differs from the majority{advice}"
        if own is not None and own != most:
            raise StateMismatch(words)
        _log.warning("%s", words)

    def _assign_ranks(self) -> None:
        """Exchanges the ranks. Newcomers take the lowest free ranks, in the order in which they were admitted."""
        while True:
            told = exchange_json(self.comm, -1 if self._rank is None else self._rank, tag=GATHER_TAG)
            taken = set(told.values())
            if -1 not in taken:
                self._ranks = told
                return
            if self._rank is None:
                free = [rank for rank in range(2 * len(told)) if rank not in taken]
                new = [one for one, rank in told.items() if rank < 0]
                # The first process decides for the whole replica.
                found = free[new.index(self.comm.id)] if self._inside.rank == 0 else -1
                self._rank = self._inside.highest(found)[0]


def _listed(ranks: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ranks)))
