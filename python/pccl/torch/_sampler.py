"""Distributes samples over replicas that join, leave and fail (docs/guide/data.md)."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._errors import InvalidArgument, InvalidUsage
from ._elastic import Elastic

_MOST = 1024  # limit on the number of replicas


class _Place(NamedTuple):
    """A run's position in its samples. The samples are cut into blocks, which are numbered continuously over the
    epochs."""

    steps: int  # number of steps that have counted
    fresh: int  # first block that has not been offered to any step
    waiting: Tuple[int, ...]  # earlier blocks that are in no step that counted, oldest first
    ranks: Tuple[int, ...]  # replicas of the last step that counted

    def line(self, rank: int) -> int:
        """Returns a replica's place in the queue of blocks, which no other living replica has."""
        return self.ranks.index(rank) if rank in self.ranks else len(self.ranks) + rank

    def block(self, place: int) -> int:
        queued = len(self.waiting)
        return self.waiting[place] if place < queued else self.fresh + place - queued

    def after(self, ranks: Sequence[int]) -> _Place:
        """Returns the position after a step of these replicas."""
        taken = {self.line(rank) for rank in ranks}
        offered, queued = max(taken) + 1, len(self.waiting)
        left = tuple(self.block(place) for place in range(max(offered, queued)) if place not in taken)
        return _Place(self.steps + 1, self.fresh + max(0, offered - queued), left, tuple(ranks))


class ElasticSampler:
    """Cuts `count` samples into batches. In each epoch, each sample is in exactly one step that counts, whichever
    replicas take part. The samples of a replica that failed are given to others.

        sampler = ElasticSampler(len(data), 32)
        replica = elastic(model, optimizer, {"sampler": sampler})
        for x, y in sampler.batches(replica, lambda own: DataLoader(data, batch_sampler=own, num_workers=2)):
            ...
            optimizer.step()
            if replica.committed:
                sampler.step(replica)
            if sampler.epoch == epochs:
                replica.stop()

    batch    number of samples of a replica in a step; its processes share them. An epoch's last batch may be shorter
    seed     seed of the order in each epoch; the same on all replicas
    shuffle  false: use the samples in order
    """

    def __init__(self, count: int, batch: int, *, seed: int = 0, shuffle: bool = True) -> None:
        for name, value in (("count", count), ("batch", batch)):
            if not isinstance(value, int) or value < 1:
                raise InvalidArgument(f"ElasticSampler: {name}: {value!r}; expected a whole number, at least 1")
        self._count, self._batch, self._seed, self._shuffle = count, batch, seed, shuffle
        self._blocks = -(-count // batch)
        self._orders: Dict[int, torch.Tensor] = {}  # by epoch
        self._memory = torch.full((2, 2 + _MOST), -1)  # memory of a _Place, which is shared state
        self._set(_Place(0, 0, (), ()))

    @property
    def epoch(self) -> int:
        """Number of epochs whose samples have all been in a step that counted."""
        here = self._get()
        return min(here.waiting + (here.fresh,)) // self._blocks

    def step(self, replica: Elastic) -> None:
        """Counts a step, like a scheduler. Call it after each step that counted, and after no other."""
        self._set(self._get().after(replica.ranks))

    def batches(self, replica: Elastic, loader: Callable[[Iterable[List[int]]], Iterable[Any]]) -> Iterator[Any]:
        """Yields this replica's batches until replica.stopped. loader creates a DataLoader with the given
        batch_sampler. It may load ahead. When the set of replicas changes, a new one is created, because the batches
        loaded ahead then belong to others."""
        while not replica.stopped:
            replica.admit()
            ahead: Deque[Optional[_Place]] = deque()
            for batch in loader(_Own(self, replica, ahead)):
                expected, steps, counted = ahead.popleft(), replica.step, self._get().steps
                yield batch
                if replica.step - steps != self._get().steps - counted:
                    raise InvalidUsage("ElasticSampler: step() must be called once after each committed step")
                replica.admit()
                if replica.stopped or expected != self._get():
                    break

    def state_dict(self) -> Dict[str, torch.Tensor]:
        return {"place": self._memory}

    def load_state_dict(self, state: Dict[str, torch.Tensor]) -> None:
        self._memory.copy_(state["place"])

    def _get(self) -> _Place:
        (steps, *waiting), (fresh, *ranks) = (row[row >= 0].tolist() for row in self._memory)
        return _Place(steps, fresh, tuple(waiting), tuple(ranks))

    def _set(self, place: _Place) -> None:
        self._memory.fill_(-1)
        for row, values in zip(self._memory, ((place.steps, *place.waiting), (place.fresh, *place.ranks))):
            if len(values) > len(row):
                raise InvalidUsage(
                    f"ElasticSampler: too many replicas or unfinished batches: {len(values)}; expected at most "
                    f"{_MOST}"
                )
            row[: len(values)] = torch.tensor(values)

    def _indices(self, block: int) -> List[int]:
        epoch, place = divmod(block, self._blocks)
        if epoch not in self._orders:
            generator = torch.Generator().manual_seed(self._seed + epoch)
            order = torch.randperm(self._count, generator=generator) if self._shuffle else torch.arange(self._count)
            self._orders = {**{one: self._orders[one] for one in sorted(self._orders)[-1:]}, epoch: order}
        found: List[int] = self._orders[epoch][place * self._batch : (place + 1) * self._batch].tolist()
        return found


class _Own:
    """Batches of a replica, valid until the set of replicas changes. Appends the position expected after each batch to
    `ahead`; None for a new replica, which cannot predict it."""

    def __init__(self, sampler: ElasticSampler, replica: Elastic, ahead: Deque[Optional[_Place]]) -> None:
        self._sampler, self._replica, self._ahead = sampler, replica, ahead

    def __iter__(self) -> Iterator[List[int]]:
        here: Optional[_Place] = self._sampler._get()
        rank, inside = self._replica.rank, self._replica._inside
        while here is not None:
            indices = self._sampler._indices(here.block(here.line(rank)))
            here = here.after(here.ranks) if rank in here.ranks else None
            self._ahead.append(here)
            yield indices[inside.rank :: inside.size] or indices[-1:]
