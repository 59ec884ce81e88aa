"""The library operations for one call of torch.distributed."""

from __future__ import annotations

import ctypes
import functools
import time
import weakref
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

import torch
import torch.distributed as dist

from .. import _buffers, _native, _operation
from .._collectives import Options
from .._communicator import Communicator
from .._core import Visit
from .._enums import ReduceOp, Result
from .._errors import PCCLError, PeerLostError
from .._handles import AsyncReduceHandle
from .._threads import SLICE_S
from . import _layout, _sparse
from ._futures import Work
from ._staging import Stage, is_on_device
from ._work import CollectiveError, Ending, Part, Standing

# Loaded without argument types, because their conversion by ctypes would take longer than the call. All arguments
# already have C types.
_carry_out = _native.lib["pcclAllReduceWithOptionsFor"]
_await_operation = _native.lib["pcclAwaitOperation"]
_BROADCAST, _ALL_GATHER = _native.lib["pcclBroadcastAsync"], _native.lib["pcclAllGatherAsync"]
_REDUCE_SCATTER, BARRIER = _native.lib["pcclReduceScatterAsync"], _native.lib["pcclBarrierAsync"]
_SUCCESS, _TIMEOUT = int(Result.SUCCESS), int(Result.TIMEOUT)
_SLICE_MS = int(1000 * SLICE_S)
_OPS = {name: int(ReduceOp[name.upper()]) for name in _layout.OPS.values()}
_NO_DEVICES = Stage()
_SUM: Any = "sum", None
_PAUSE_S = 0.001

# Labels of operations that replace another one. Peers with different labels get StateMismatch.
_EMPTY = "no elements"
_UNEQUAL = "all to all in unequal parts"
REFUSED = "refused by a rank"


class Call(Visit):
    """Launches operations one after another, and becomes a Work. The group reuses its C structs for later calls (Pool).
    As a Visit, it marks a thread that is in reduces_now()."""

    def __init__(self, group: Standing) -> None:
        self._comm = group._comm
        self.handle = None if group._core is None else group._core._handle
        self.mark = weakref.ref(self)
        self.numbers = group._lanes.program
        self.number: Optional[int] = None  # number of the next operation, set from its reservation to its launch
        self.tag = -1
        self._options = Options("all_reduce", 0, group._members or None, alone_ok=True)
        self._struct = self._options.c
        self._given = ctypes.byref(self._struct)
        self._address, self._elements, self._second = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p()
        self.pair: Any = None  # options of transfers (_transfers.py)
        self.pair_given: Any = None
        self.seen = ctypes.c_int()
        self.seen_place = ctypes.byref(self.seen)
        self._world_ids = group._world.ids
        self._prepare()
        self.clear()
        self.group: Any = group

    def _prepare(self) -> None:
        self._launched_as = _native.AsyncReduceOpC()  # handle, set by _carry_out
        self._place = ctypes.byref(self._launched_as)

    def clear(self) -> None:
        """Resets the call before its first use by torch, and after each use."""
        self.group = None  # the group, which owns the calls
        self.count = 1  # number of operations under tags of the group, the same on all ranks
        self.is_now = False  # true if the caller waits for the operation immediately
        self.parts: List[Part] = []
        self.after: List[Callable[[], None]] = []  # steps to process the results once all parts have ended
        self._tags: List[int] = []
        self._stage = _NO_DEVICES
        self._first: Optional[int] = None  # number of the first operation

    # ---- memory

    def staged(self) -> Stage:
        """Returns the stage, for tensors on devices."""
        if self._stage is _NO_DEVICES:
            self._stage = Stage()
        return self._stage

    def source(self, elements: torch.Tensor) -> torch.Tensor:
        """Returns memory that the library reads in place of the elements, from the next operation on."""
        return self.staged().source(elements) if is_on_device(elements) else elements

    def target(
        self,
        tensors: Sequence[torch.Tensor],
        form: Callable[[torch.Tensor], torch.Tensor] = _layout.to_move,
        is_read: bool = False,
    ) -> torch.Tensor:
        """Returns memory for a result, which is copied to the tensors once the work is complete."""
        if len(tensors) == 1 and _layout.is_plain(tensors[0]):
            return tensors[0]
        stage = self.staged() if any(is_on_device(one) for one in tensors) else self._stage
        target = _layout.Target(stage, tensors, form, is_read)
        self.after.append(target.bring)
        return target.memory

    # ---- collectives

    def add(self, launch: Callable[..., Any], *buffers: Optional[torch.Tensor], **named: Any) -> None:
        """Launches an operation on the group's communicator. An operation without elements becomes a barrier; ranks
        that do have elements detect this."""
        group = self.group
        given = next((one for one in buffers if one is not None), None)
        if given is not None and given.numel() == 0:
            launch, buffers, named = self._comm.barrier_async, (), {"label": _EMPTY}
        self._stage.ready()
        tag = self._take_tag()
        handle = launch(*buffers, tag=tag, members=group._members, alone_ok=True, **named)
        self._launched(self._comm, handle)

    def reduces(self, memory: torch.Tensor, op: str, factor: Optional[float]) -> None:
        """Launches an all-reduce in place."""
        count = memory.numel()
        if count == 0:
            self.add(self._comm.barrier_async, label=_EMPTY)
            return
        if self._stage is not _NO_DEVICES:
            self._stage.ready()
        # Raises if the tensor has no memory
        address = memory.data_ptr() or _buffers.of(memory, "all_reduce: send").address
        struct = self._struct
        struct.tag = tag = self._take_tag()
        struct.factor = 1.0 if factor is None else factor
        arguments = address, address, count, _layout.DTYPES[memory.dtype], _OPS[op]
        work = _operation.Work("pcclAllReduce", tag, self._given, arguments, memory.untyped_storage(), world=0)
        self._launched(self._comm, self._comm._launched(work, AsyncReduceHandle))
        struct.factor = 1.0

    def reduces_now(self, memory: torch.Tensor, op: str) -> bool:
        """Performs an all-reduce in place, as now() does."""
        place, elements = self._address, self._elements
        place.value, elements.value = memory.data_ptr(), memory.numel()
        return self.now(_carry_out, (memory,), place, place, elements, _layout.DTYPES[memory.dtype], _OPS[op])

    def now(self, function: Any, memory: Tuple[torch.Tensor, ...], *arguments: Any) -> bool:
        """Launches an operation and waits for it briefly, without creating an Operation, because most operations end
        within that time. An operation that does not end becomes a part. Returns false if it has launched nothing.

        function   the library's launching function, or _carry_out
        memory     tensors that it reads and writes, all with elements
        arguments  arguments of the function that precede the options
        """
        core = self.group._core
        for tensor in memory:
            if not tensor.numel():
                return False
        if self._stage is not _NO_DEVICES:
            self._stage.ready()
        handle, struct = self._launched_as, self._struct
        handle.comm = None
        try:
            core._visits.add(self.mark)
            if core._closing:
                return False
            struct.tag = self.group._take_number(self)
            if function is _carry_out:
                code = function(*arguments, self._given, self.handle, _SLICE_MS, self._place)
            else:
                code = function(*arguments, self._given, self.handle, self._place)
                if code == _SUCCESS:
                    code = _await_operation(self._place, _SLICE_MS, None)
            if code == _SUCCESS:
                self.number = None
                return True
            if not handle.comm:
                give_back(self.group, self)
                return False
            why = _operation.NO_WORDS if code == _TIMEOUT else _native.last_failure(self.handle)
            operation = self._adopt(memory)
            if code != _TIMEOUT:
                operation.awaited(code, why)
            return True
        except BaseException:
            if handle.comm:
                done = ctypes.c_bool()
                if _native.lib.pcclTestAsyncReduce(self._place, ctypes.byref(done)) == _SUCCESS:
                    self._adopt(memory)
                self.number = None  # otherwise the operation has ended
            raise
        finally:
            core._visits.discard(self.mark)
            if core._closing:
                core.left()

    def pair_options(self) -> Any:
        """Creates the options of transfers, whose members are all peers of the world. Returns a pointer to them."""
        self.pair = Options("send", 0, self._world_ids)
        self.pair_given = ctypes.byref(self.pair.c)
        return self.pair_given

    def _adopt(self, memory: Sequence[torch.Tensor]) -> _operation.Operation:
        """Creates a part for the operation that now() has launched."""
        pins = [tensor.untyped_storage() for tensor in memory]
        handle = AsyncReduceHandle(_operation.adopted(self.group._core, self.tag, self._launched_as, pins))
        self._prepare()
        self._launched(self._comm, handle)
        return handle._operation

    def scatter_reduced(
        self, given: torch.Tensor, output: torch.Tensor, op: str, factor: Optional[float], counts: Optional[List[int]]
    ) -> None:
        place = self.target([output], lambda one: _layout.to_reduce(one, op))
        self.add(self._comm.reduce_scatter_async, self.source(given), place, op=op, factor=factor, counts=counts)

    def gather_blobs(self, given: torch.Tensor, places: Sequence[torch.Tensor]) -> None:
        """Launches an all-gather of unequal parts whose sizes all ranks know."""
        total = sum(one.numel() * one.element_size() for one in places)
        memory = self.source(given)
        for place in places:
            self._stage.will_write(place)

        def bring(blobs: List[Any]) -> None:
            for rank, (place, blob) in enumerate(zip(places, blobs)):
                if len(blob) != place.numel() * place.element_size():
                    raise ValueError(f"rank {rank} sent {len(blob)} bytes for an output of shape {tuple(place.shape)}")
                if len(blob) > 0:
                    _layout.write(place, torch.frombuffer(blob, dtype=torch.uint8))

        self._gathers(memory, total, bring)

    def _gathers(self, memory: torch.Tensor, max_bytes: int, bring: Callable[[List[Any]], None], **named: Any) -> None:
        """Launches an all-gather of bytes. bring is called with a list of each member's bytes."""
        self._stage.ready()
        tag = self._take_tag()
        handle = self._comm.all_gather_v_async(
            memory, tag=tag, members=self.group._members, alone_ok=True, max_bytes=max(1, max_bytes), **named
        )
        self._launched(self._comm, handle)

        def gathered() -> None:
            outcome = handle._operation.outcome
            assert outcome is not None
            bring([blob for _, blob in outcome.blobs])

        self.after.append(gathered)

    def reduces_sparse(self, tensor: torch.Tensor, op: str, factor: Optional[float]) -> None:
        """Launches an all-reduce of a sparse tensor in place."""
        _sparse.check(op, factor, tensor.dtype)
        packed, ranks = _sparse.Packed(tensor), self.group._order or range(self.group.size())
        bring: Callable[[List[Any]], None] = lambda blobs: packed.bring(blobs, ranks, op)
        self._gathers(packed.memory, packed.max_bytes(self.group.size()), bring, label=_sparse.LABEL)

    def exchange(self, places: Sequence[torch.Tensor], given: Sequence[torch.Tensor]) -> None:
        """Launches an all-to-all with parts of any sizes, as transfers between pairs. A barrier makes it fail on ranks
        that call a different operation."""
        group = self.group
        _layout.need_one_each("all_to_all: outputs", list(places), group.size())
        _layout.need_one_each("all_to_all: inputs", list(given), group.size())
        _layout.need_one_kind("all_to_all", [*places, *given])
        own = group.rank()
        if places[own].numel() != given[own].numel():
            raise ValueError("all_to_all: a rank's part for itself must have the size of its output")
        self.add(self._comm.barrier_async, label=_UNEQUAL)
        tag = group._tag_of_pair(f"all_to_all/{self.numbers.first_tag}")
        for peer in (rank for rank in range(group.size()) if rank != own):
            if given[peer].numel() > 0:
                self.sends(self.source(_layout.to_move(given[peer])), peer, tag)
            if places[peer].numel() > 0:
                self.receives(self.target([places[peer]]), peer, tag)
        self.after.append(lambda: _layout.write(places[own], _layout.to_move(given[own])))

    # ---- collectives on plain tensors that are awaited immediately; they return false if they have launched nothing

    def broadcasts_now(self, memory: torch.Tensor, root: int) -> bool:
        if not _layout.is_plain(memory):
            return False
        place, elements = self._address, self._elements
        place.value, elements.value = memory.data_ptr(), memory.numel()
        return self.now(_BROADCAST, (memory,), place, elements, _layout.DTYPES[memory.dtype], root)

    def gathers_now(self, given: torch.Tensor, output: torch.Tensor) -> bool:
        count = given.numel()
        if not self._are_plain(given, output) or output.numel() != count * self.group.size():
            return False
        self._address.value, self._second.value, self._elements.value = given.data_ptr(), output.data_ptr(), count
        memory, dtype = (given, output), _layout.DTYPES[given.dtype]
        return self.now(_ALL_GATHER, memory, self._address, self._second, self._elements, dtype)

    def gathers_pieces_now(self, given: torch.Tensor, places: List[torch.Tensor]) -> bool:
        """Performs an all-gather that has an output tensor for each rank."""
        if self.group._order is not None or len(places) != self.group.size() or not _layout.is_plain(given):
            return False
        shape, dtype = given.shape, given.dtype
        for place in places:
            if place.dtype is not dtype or place.shape != shape or not place.is_cpu or place.requires_grad:
                return False
        memory = torch.empty((len(places), *shape), dtype=dtype)
        send, recv, count = self._address, self._second, self._elements
        send.value, recv.value, count.value = given.data_ptr(), memory.data_ptr(), given.numel()
        if not self.now(_ALL_GATHER, (given, memory), send, recv, count, _layout.DTYPES[dtype]):
            return False
        if self.parts:
            self.after.append(lambda: torch._foreach_copy_(places, memory.unbind(0)))
        else:
            torch._foreach_copy_(places, memory.unbind(0))
        return True

    def scatters_now(self, given: torch.Tensor, output: torch.Tensor, op: str) -> bool:
        count = output.numel()
        if not self._are_plain(given, output) or given.numel() != count * self.group.size():
            return False
        self._address.value, self._second.value, self._elements.value = given.data_ptr(), output.data_ptr(), count
        memory, dtype = (given, output), _layout.DTYPES[given.dtype]
        return self.now(_REDUCE_SCATTER, memory, self._address, self._second, self._elements, dtype, _OPS[op])

    def _are_plain(self, given: torch.Tensor, output: torch.Tensor) -> bool:
        if self.group._order is not None or given.dtype is not output.dtype:
            return False
        return _layout.is_plain(given) and _layout.is_plain(output)

    # ---- pairs

    def sends(self, memory: torch.Tensor, peer: int, tag: int, label: str = "") -> None:
        self._transfer("send_async", memory, peer, tag, label)

    def receives(self, memory: torch.Tensor, peer: Optional[int], tag: int, label: str = "") -> None:
        """Receives from a peer. With peer=None, from any peer."""
        self._transfer("recv_async", memory, peer, tag, label)

    def _transfer(self, method: str, memory: torch.Tensor, peer: Optional[int], tag: int, label: str) -> None:
        comm, name = self.group._world.comm, None if peer is None else self.group._ids[peer]
        if name is not None and name not in comm.members():
            raise PeerLostError(f"the peer {name[:8]} has left")
        if memory.numel() == 0:
            memory, label = torch.zeros(1, dtype=torch.uint8), _EMPTY
        self._stage.ready()
        self.parts.append(Part(comm, getattr(comm, method)(memory, name, tag=tag, label=label)))

    # ---- end of the call

    def refuse(self) -> None:
        """Makes the operation fail on the other ranks, which wait for this one."""
        self._give_up(self._take_tag() if self.number is None else self.numbers.tag_of(self.number))
        self._end_early("refused operation")

    def interrupted(self, by: BaseException) -> None:
        """Ends the call after an interrupt during the launch. The operations fail on the other ranks, unless this rank
        has launched nothing."""
        if self.number is not None:
            self.tag = self.numbers.tag_of(self.number)
            handle = self.group._comm._launching.pop(self.tag, None)
            if handle is not None and handle._operation._handle.comm:
                self._launched(self._comm, handle)
        for tag in self._tags:  # otherwise an entry would remain until its tag is used again
            self.group._comm._launching.pop(tag, None)
        if self._tags:
            self._end_early("interrupted operation").interrupted(by)
        else:
            give_back(self.group, self)

    def _end_early(self, name: str) -> Work:
        """Launches the call's remaining operations as refused. The other ranks launch them, and would otherwise give
        the outcome of one to the next operation under the same tag."""
        try:
            if self.number is not None and self.number < self.numbers.next:
                self._give_up(self.numbers.tag_of(self.number))
            while self._first is not None and self.numbers.next < self._first + self.count:
                if len(self._tags) >= self.numbers.tags:
                    self._comm.abort()  # so that taking another tag never blocks
                self._give_up(self._take_tag())
        except PCCLError:
            pass  # the group has ended, so no further operation uses the tag
        return self.work(name, [], _nothing, self.group._timeout)

    def _give_up(self, tag: int) -> None:
        self.tag = tag
        handle = self._comm.barrier_async(tag=tag, members=self.group._members, alone_ok=True, label=REFUSED)
        self._launched(self._comm, handle)

    def work(
        self,
        name: str,
        outputs: Sequence[torch.Tensor],
        locally: Callable[[], None],
        limit: timedelta,
        error: Optional[CollectiveError] = None,
    ) -> Work:
        after, stage = self.after, self._stage

        def finish() -> None:
            with stage.unloading():
                for step in after:
                    step()

        ending = Ending(outputs, finish if after else None, locally, limit, stage)
        made = Work(self.group, name, self.parts, ending, error)
        if error is None:
            self.group._hold(made, self._tags)
        return made

    def _take_tag(self) -> int:
        # The oldest operation belongs to this call, whose works are not recorded yet
        if len(self._tags) >= self.numbers.tags:
            part = self.parts[len(self._tags) - self.numbers.tags]
            while not part.wait_briefly() and self.group._why() is None:
                pass
        tag: int = self.group._take_number(self)
        if self._first is None:
            self._first = self.number
        self.group._comm._launching.pop(tag, None)  # also removes an interrupted operation
        return tag

    def _launched(self, comm: Communicator, handle: Any) -> None:
        """Records an operation under the tag that was last taken."""
        self.parts.append(Part(comm, handle))
        self._tags.append(self.tag)
        self.number = None
        self.group._comm._launching.pop(self.tag, None)


def all_reduces(name: str, tensors: Sequence[torch.Tensor], opts: Any, call: Call) -> None:
    """Launches an in-place all-reduce for each tensor."""
    op, factor = _SUM if opts.reduceOp == dist.ReduceOp.SUM else _layout.operation_of(opts.reduceOp)
    if len(tensors) != 1:
        (_layout.need_one if name == "all_reduce" else _layout.need_some)(name, tensors)
    for tensor in tensors:
        if _layout.is_plain(tensor):
            memory = tensor
        elif _sparse.is_sparse(tensor):
            call.reduces_sparse(tensor, op, factor)
            continue
        else:
            memory = call.target([tensor], functools.partial(_layout.to_reduce, op=op), is_read=True)
        if not call.is_now or factor is not None or not call.reduces_now(memory, op):
            call.reduces(memory, op, factor)


class Pool:
    """The calls of a group, one for each thread that calls concurrently."""

    def __init__(self, group: Standing) -> None:
        self._group = weakref.ref(group)
        self._core = group._core
        # Modified concurrently by other threads, so each access must be atomic.
        self.made: Set[weakref.ref[Call]] = set()
        self.free: List[Call] = []

    def make(self) -> Call:
        group = self._group()
        assert group is not None
        made = Call(group)
        self.made.add(weakref.ref(made, self.made.discard))
        return made

    def wait_for_others(self, holder: Call) -> None:
        """Waits until no other thread is in reduces_now() with the holder's tag, for at most about SLICE_S."""
        while any(self._is_before(mark(), holder) for mark in self.made.copy()):
            time.sleep(_PAUSE_S)

    def _is_before(self, one: Optional[Call], holder: Call) -> bool:
        if one is None or one.tag != holder.tag or one.mark not in self._core._visits:
            return False
        number = one.number
        # If both wait, the one with the lower number continues.
        return number is not None and holder.number is not None and number < holder.number


def _nothing() -> None:
    pass


def refuse(call: Call, how: Callable[[Call], None] = Call.refuse) -> None:
    try:
        how(call)
    except PCCLError:
        pass  # no peer is still waiting


def give_back(group: Standing, holder: Any) -> None:
    """Returns the holder's number without a launch, so that the next operation gets it. If another thread has already
    taken the next number, this is too late; the operation with this number then fails on the other ranks."""
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
