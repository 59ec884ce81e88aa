"""What one call of torch.distributed makes of the library's operations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch

from .. import _collectives
from .._communicator import Communicator
from .._errors import PCCLError, PeerLostError
from .._handles import AsyncReduceHandle
from .._operations import AllReduce
from . import _layout
from ._futures import Work
from ._staging import Stage
from ._work import CollectiveError, Ending, Part, Standing

# Labels of operations that stand for something else; peers with different ones get StateMismatch.
_EMPTY = "no elements"
_UNEQUAL = "all to all in unequal parts"
REFUSED = "refused by a rank"


class Call:
    """Launches operations one after another, and becomes a Work."""

    def __init__(self, group: Standing, count: int = 1) -> None:
        """count: of operations under tags of the group, as all ranks make them."""
        self._group = group
        self._count = count
        self._comm = group._comm
        self._parts: List[Part] = []
        self._tags: List[int] = []
        self._after: List[Callable[[], None]] = []
        self._stage = Stage()
        self.numbers = group._lanes.here()
        self.number: Optional[int] = None  # of the next operation, once it has one and until it is launched
        self._first: Optional[int] = None  # that of the first one
        self.tag = -1

    # ---- memory

    def source(self, elements: torch.Tensor) -> torch.Tensor:
        """What the library reads in their place; in the next operation, or later."""
        return self._stage.source(elements)

    def target(
        self,
        tensors: Sequence[torch.Tensor],
        form: Callable[[torch.Tensor], torch.Tensor] = _layout.to_move,
        is_read: bool = False,
    ) -> torch.Tensor:
        """Memory for a result, which is brought to the tensors when the work is complete."""
        target = _layout.Target(self._stage, tensors, form, is_read)
        self._after.append(target.bring)
        return target.memory

    # ---- collectives

    def add(self, launch: Callable[..., Any], *buffers: Optional[torch.Tensor], **named: Any) -> None:
        """An operation of the group's communicator. One without elements is a barrier, which the others notice if
        theirs have some."""
        group = self._group
        given = next((one for one in buffers if one is not None), None)
        if given is not None and given.numel() == 0:
            launch, buffers, named = self._comm.barrier_async, (), {"label": _EMPTY}
        self._stage.ready()
        tag = self._take_tag()
        handle = launch(*buffers, tag=tag, members=group._members, alone_ok=True, **named)
        self._launched(self._comm, handle)

    def reduces(self, memory: torch.Tensor, op: str, factor: Optional[float]) -> None:
        """An all-reduce in place."""
        if memory.numel() == 0:
            self.add(self._comm.barrier_async, label=_EMPTY)
            return
        self._stage.ready()
        tag = self._take_tag()
        options = _collectives.Options(
            "all_reduce", tag, alone_ok=True, factor=_collectives.factor_of("all_reduce", op, factor)
        )
        work = AllReduce(memory, memory, op=op)._fill(options)
        self._launched(self._comm, self._comm._launched(work, AsyncReduceHandle))

    def scatter_reduced(
        self, given: torch.Tensor, output: torch.Tensor, op: str, factor: Optional[float], counts: Optional[List[int]]
    ) -> None:
        place = self.target([output], lambda one: _layout.to_reduce(one, op))
        self.add(self._comm.reduce_scatter_async, self.source(given), place, op=op, factor=factor, counts=counts)

    def gather_blobs(self, given: torch.Tensor, places: Sequence[torch.Tensor]) -> None:
        """An all-gather of unequal parts, whose sizes all ranks know."""
        total = sum(one.numel() * one.element_size() for one in places)
        memory = self.source(given)
        for place in places:
            self._stage.will_write(place)
        self._stage.ready()
        tag = self._take_tag()
        handle = self._comm.all_gather_v_async(
            memory, tag=tag, members=self._group._members, alone_ok=True, max_bytes=max(1, total)
        )
        self._launched(self._comm, handle)

        def bring() -> None:
            outcome = handle._operation.outcome
            assert outcome is not None
            for rank, (place, (_, blob)) in enumerate(zip(places, outcome.blobs)):
                if len(blob) != place.numel() * place.element_size():
                    raise ValueError(f"rank {rank} gave {len(blob)} bytes for a place of {tuple(place.shape)}")
                if len(blob) > 0:
                    _layout.write(place, torch.frombuffer(blob, dtype=torch.uint8))

        self._after.append(bring)

    def exchange(self, places: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        """An all-to-all in parts of any sizes, by pairs. The barrier makes it meet nothing else."""
        group = self._group
        _layout.need_one_each("all_to_all: outputs", list(places), group.size())
        _layout.need_one_each("all_to_all: inputs", list(given), group.size())
        _layout.need_one_kind("all_to_all", [*places, *given])
        own = group.rank()
        if places[own].numel() != given[own].numel():
            raise ValueError("all_to_all: a rank's part for itself must have the size of its place")
        self.add(self._comm.barrier_async, label=_UNEQUAL)
        tag = group._tag_of_pair(f"all_to_all/{self.numbers.first_tag}")
        for peer in (rank for rank in range(group.size()) if rank != own):
            if given[peer].numel() > 0:
                self.sends(self.source(_layout.to_move(given[peer])), peer, tag)
            if places[peer].numel() > 0:
                self.receives(self.target([places[peer]]), peer, tag)
        self._after.append(lambda: _layout.write(places[own], _layout.to_move(given[own])))

    # ---- pairs

    def sends(self, memory: torch.Tensor, peer: int, tag: int, label: str = "") -> None:
        self._transfer("send_async", memory, peer, tag, label)

    def receives(self, memory: torch.Tensor, peer: Optional[int], tag: int, label: str = "") -> None:
        """peer: None: from anybody."""
        self._transfer("recv_async", memory, peer, tag, label)

    def _transfer(self, method: str, memory: torch.Tensor, peer: Optional[int], tag: int, label: str) -> None:
        comm, name = self._group._world.comm, None if peer is None else self._group._ids[peer]
        if name is not None and name not in comm.members():
            raise PeerLostError(f"the peer {name[:8]} has gone")
        if memory.numel() == 0:
            memory, label = torch.zeros(1, dtype=torch.uint8), _EMPTY
        self._stage.ready()
        self._parts.append(Part(comm, getattr(comm, method)(memory, name, tag=tag, label=label)))

    # ---- the end of the call

    def refuse(self) -> None:
        """Lets the others' operation fail, which wait for this rank."""
        self._give_up(self._take_tag() if self.number is None else self.numbers.tag_of(self.number))
        self._end_early("refused operation")

    def interrupted(self, by: BaseException) -> None:
        """While it launched. What the others have launched fails, unless it is as if this rank had not begun."""
        if self.number is not None:
            handle = self._group._comm._launching.pop(self.numbers.tag_of(self.number), None)
            if handle is not None and handle._operation._handle.comm:
                self._launched(self._comm, handle)
        for tag in self._tags:  # or what is kept there would only end when its tag is needed again
            self._group._comm._launching.pop(tag, None)
        if self._tags:
            self._end_early("interrupted operation").interrupted(by)
        else:
            give_back(self._group, self)

    def _end_early(self, name: str) -> Work:
        """The others make the rest of the call's operations, which this rank gives up. It launches these, too: what
        becomes of one would otherwise be told to its next operation under the same tag."""
        try:
            if self.number is not None and self.number < self.numbers.next:
                self._give_up(self.numbers.tag_of(self.number))
            while self._first is not None and self.numbers.next < self._first + self._count:
                if len(self._tags) >= self.numbers.tags:
                    self._comm.abort()  # so that taking another tag waits for nobody
                self._give_up(self._take_tag())
        except PCCLError:
            pass  # the group has ended, and there is no next one
        return self.work(name, [], _nothing, self._group._timeout)

    def _give_up(self, tag: int) -> None:
        handle = self._comm.barrier_async(tag=tag, members=self._group._members, alone_ok=True, label=REFUSED)
        self._launched(self._comm, handle)

    def work(
        self,
        name: str,
        outputs: Sequence[torch.Tensor],
        locally: Callable[[], None],
        limit: timedelta,
        error: Optional[CollectiveError] = None,
    ) -> Work:
        after, stage = self._after, self._stage

        def finish() -> None:
            with stage.unloading():
                for step in after:
                    step()

        made = Work(self._group, name, self._parts, Ending(outputs, finish, locally, limit, stage), error)
        if error is None:
            self._group._hold(made, self._tags)
        return made

    def _take_tag(self) -> int:
        if len(self._tags) >= self.numbers.tags:  # the oldest is of this call, whose works are not held yet
            part = self._parts[len(self._tags) - self.numbers.tags]
            while not part.wait_briefly() and self._group._why() is None:
                pass
        tag = self._group._take_number(self)
        if self._first is None:
            self._first = self.number
        self._group._comm._launching.pop(tag, None)  # of one that was interrupted as well
        return tag

    def _launched(self, comm: Communicator, handle: Any) -> None:
        """Under the tag that was taken last."""
        self._parts.append(Part(comm, handle))
        self._tags.append(handle.tag)
        self.number = None
        self._group._comm._launching.pop(handle.tag, None)


def _nothing() -> None:
    pass


def refuse(call: Call, how: Callable[[Call], None] = Call.refuse) -> None:
    try:
        how(call)
    except PCCLError:
        pass  # nobody is left who could wait


def give_back(group: Standing, holder: Any) -> None:
    """Nothing is launched under the number that the holder has, so that the next operation has it. Where another
    thread has begun that, it is too late: then what the others launch under it fails."""
    number, holder.number = holder.number, None
    numbers = holder.numbers
    if number is None or numbers.next <= number:
        return
    if numbers.next == number + 1:
        numbers.next = number
    else:
        late = Call(group)
        late.number, late.numbers = number, numbers
        refuse(late)
