"""The backend "pccl" of torch.distributed: a process group in Python over the collectives of the library.

All ranks make the operations of a group in the same order, so the n-th of one rank belongs to the n-th of the others;
tags tell them apart while several are under way. Membership is fixed (_world.py).
"""

from __future__ import annotations

import hashlib
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .._communicator import Communicator
from .._errors import InvalidArgument, PCCLError
from . import _commit, _direct, _layout, _monitored, _reconfigure
from ._call import REFUSED, Call
from ._forms import in_all_forms, usual
from ._futures import Completer, Lanes, stays
from ._rendezvous import from_store, take_arrived
from ._staging import Stage
from ._untraced import untrace
from ._work import CollectiveError, Ending, Part, Work
from ._world import World

_AllreduceOptions = dist.AllreduceOptions
_HAS_ASYNC_OP = hasattr(dist.AllreduceOptions(), "asyncOp")  # not in older versions
_UNSET = timedelta(0)  # torch's options have a negative one where the group's counts
_NO_DEVICES = Stage()

_world: Optional[World] = None


_Step = Callable[[Call], None]


def make_group(options: Any, backend_options: Any = None) -> ProcessGroup:
    """What init_process_group and new_group call."""
    global _world
    is_reconfigurable = getattr(backend_options, "enable_reconfigure", None)
    if backend_options is not None and is_reconfigurable is None:
        raise ValueError("pccl takes no pg_options; its parameters come from the environment (man 7 pccl)")
    timeout, rank, size = options.timeout, options.group_rank, options.group_size
    if not options.global_ranks_in_group:
        _commit.watch_steps()
        if is_reconfigurable:
            return ProcessGroup(_reconfigure.Unformed(rank), range(size), rank, timeout, is_default=True)
        _world = take_arrived() or from_store(options.store, rank, size, timeout)
        try:
            return ProcessGroup(_world, range(size), rank, timeout, is_default=True)
        except BaseException:
            _world.end("the default group was not made")
            _world = None
            raise
    if _world is None:
        raise RuntimeError("pccl: new_group needs a default group of this backend")
    return ProcessGroup(_world, options.global_ranks_in_group, rank, timeout)


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Methods have the names that torch 2.13 calls, and those of older versions."""

    supports_splitting = False
    supports_coalescing = False

    def __init__(
        self, world: World, ranks: Sequence[int], rank: int, timeout: timedelta, is_default: bool = False
    ) -> None:
        super().__init__(rank, len(ranks))
        self._is_default = is_default
        self._timeout = timeout
        self._name = self._description = ""
        self._completer = Completer()
        self._ended: Optional[str] = None
        self._form(world, ranks, rank, None if world.comm is None else self._found(world, ranks))

    def _form(self, world: World, ranks: Sequence[int], rank: int, comm: Optional[Communicator]) -> None:
        """It is of these ranks of the world, which comm connects. Nothing is under way in it."""
        self._world, self._ranks, self._rank = world, list(ranks), rank
        self._comm: Any = comm
        self._ids = tuple(world.ids[one] for one in self._ranks) if comm is not None else ()
        self._members = comm.members() if comm is not None else ()
        # Ranks may be in another order than those whom comm connects: the rank of each of these.
        self._order = None if self._members == self._ids else [self._ids.index(one) for one in self._members]
        self._core: Any = comm._core if comm is not None else None
        self._pool: Any = None
        if comm is not None:
            self._pool = _direct.Pool(comm._core, self._members)
            comm._launching = {}
        self._is_whole = len(self._ranks) == world.size
        self._lanes = Lanes()
        # Works that have not ended, by tag, oldest first; those of pairs, by their number. Nobody else need keep them.
        self._under_way: Dict[int, Work] = {}
        self._pairs: Dict[int, Work] = {}
        self._coalesced: Dict[int, List[Work]] = {}  # by thread

    def _found(self, world: World, ranks: Sequence[int]) -> Communicator:
        try:
            return world.group(ranks, self._timeout)
        except PCCLError as error:
            why = world.named(error.reason)
            raise CollectiveError(f"pccl: the group of ranks {list(ranks)} cannot be founded: {why}") from error

    def _root(self, rank: int) -> int:
        return rank if self._order is None else self._order.index(rank)

    def _placed(self, parts: Sequence[Any]) -> List[Any]:
        """What there is for each rank, in the library's order."""
        return list(parts) if self._order is None else [parts[rank] for rank in self._order]

    def _pieces(self, tensor: torch.Tensor) -> List[torch.Tensor]:
        """The same of one tensor that has an equal part for each rank."""
        if self._order is None:
            return [tensor]
        if not tensor.is_contiguous() and len(tensor) % self.size():
            raise ValueError(f"pccl: {len(tensor)} rows of a non-contiguous tensor: no equal parts for each rank")
        return self._placed((tensor.view(-1) if tensor.is_contiguous() else tensor).chunk(self.size()))

    # ---- what it is

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self._ranks)

    getRank, getSize = rank, size

    def name(self) -> str:
        return "pccl"

    getBackendName = _get_backend_name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    _set_group_name = setGroupName

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    @property
    def _device_types(self) -> List[torch.device]:
        kinds = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
        return [torch.device(kind) for kind in kinds]

    def _get_backend(self, _device: torch.device) -> ProcessGroup:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """Of operations that are launched from now on."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # ---- membership that the program gives

    @property
    def supports_reconfigure(self) -> bool:
        return self._is_default

    def get_reconfigure_handle(self) -> str:
        return self._world.handle()

    def reconfigure(self, opts: Any) -> Work:
        """Makes it the group of opts.handles: a list gives ranks by position, a set leaves them to the master."""
        global _world
        if not self._is_default:
            raise RuntimeError("pccl: only the default group can be reconfigured; make others anew")
        world, comm = _reconfigure.carry_out(self._world, opts, self._timeout)
        self._world.retire("the default group has been reconfigured")
        if self._comm is not None:
            self._comm.close()
        self._form(world, range(world.size), world.rank, comm)
        _world = world
        return Call(self).work("reconfigure", [], lambda: None, self._timeout)

    # ---- collectives

    def allreduce(self, tensors: Any = None, opts: Any = None, *more: Any, **named: Any) -> Optional[Work]:
        """None if the caller would wait for it at once, and it has succeeded."""
        if not isinstance(opts, _AllreduceOptions):
            given = tensors, opts, *more
            tensors, opts = usual(dist.AllreduceOptions, 1, ("op", "timeout"), given, named)
        if self._under_way or self._pairs:
            self._sweep()
        # A lost member of the group itself fails what is launched in it.
        why = self._world.ended if self._is_whole else self._world.why()
        found: Any = _direct.UNUSUAL
        if len(tensors) == 1 and not self._ended and why is None:
            if _HAS_ASYNC_OP and not opts.asyncOp and not self._coalesced:
                found = _direct.all_reduce_now(self, tensors[0], opts)
            else:
                found = self._all_reduce_directly(tensors, opts)
        return self._all_reduce("all_reduce", tensors, opts) if found is _direct.UNUSUAL else found

    def _all_reduce_directly(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        handle = _direct.all_reduce(self, tensors[0], opts.reduceOp)
        if handle is _direct.UNUSUAL:
            return handle
        return self._collect(self._follow(handle, tensors, opts))

    def _follow(self, handle: Any, tensors: List[torch.Tensor], opts: Any) -> Work:
        """The work of an all-reduce that went directly."""
        ending = Ending(tensors, None, lambda: None, self._limit(opts), _NO_DEVICES)
        work = self._under_way[handle.tag] = Work(self, "all_reduce", [Part(self._comm, handle)], ending)
        return work

    @in_all_forms(dist.AllreduceCoalescedOptions, 1, "op", "timeout")
    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        return self._all_reduce("all_reduce_coalesced", tensors, opts)

    def _all_reduce(self, name: str, tensors: List[torch.Tensor], opts: Any) -> Work:
        def make(call: Call) -> None:
            op, factor = _layout.operation_of(opts.reduceOp)
            (_layout.need_one if name == "all_reduce" else _layout.need_some)(name, tensors)
            for tensor in tensors:
                call.reduces(call.target([tensor], lambda one: _layout.to_reduce(one, op), is_read=True), op, factor)

        # What fails leaves its tensors as they were: they have this rank's values.
        return self._launch(name, tensors, tensors, make, opts, lambda: None, count=len(tensors))

    @in_all_forms(dist.BroadcastOptions, 1, "root", "timeout")
    def broadcast(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        def make(call: Call) -> None:
            (tensor,) = _layout.need_one("broadcast", tensors)
            is_root = self._rank == opts.rootRank
            memory = call.source(_layout.to_move(tensor)) if is_root else call.target([tensor])
            call.add(self._comm.broadcast_async, memory, root=self._root(opts.rootRank))

        return self._launch("broadcast", tensors, tensors, make, opts)

    @in_all_forms(dist.ReduceOptions, 1, "root", "op", "timeout")
    def reduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        def make(call: Call) -> None:
            op, factor = _layout.operation_of(opts.reduceOp)
            _layout.need_one("reduce", tensors)
            form: Callable[[torch.Tensor], torch.Tensor] = lambda one: _layout.to_reduce(one, op)
            recv = call.target(tensors, form, is_read=True) if self._rank == opts.rootRank else None
            send = call.source(form(tensors[0])) if recv is None else recv
            call.add(self._comm.reduce_async, send, recv, root=self._root(opts.rootRank), op=op, factor=factor)

        return self._launch("reduce", tensors, tensors, make, opts)

    @in_all_forms(distributed_c10d.AllgatherOptions, 2, "timeout")
    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        def make(call: Call) -> None:
            _layout.need_as_many("all_gather", outputs, inputs)
            for places, given in zip(outputs, inputs):
                self._gather_into(call, places, given)

        places = sum(outputs, [])
        return self._launch("all_gather", [*places, *inputs], places, make, opts, count=len(inputs))

    @in_all_forms(distributed_c10d.AllgatherOptions, 2, "timeout")
    def allgather_coalesced(
        self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None
    ) -> Work:
        """outputs: one list for each rank, with a tensor for each of the inputs."""

        def make(call: Call) -> None:
            _layout.need_one_each("all_gather_coalesced: outputs", outputs, self.size(), "lists")
            for places in outputs:
                _layout.need_as_many("all_gather_coalesced", places, inputs)
                for place, given in zip(places, inputs):
                    _layout.need_one_shape("all_gather_coalesced", place, given)
            for at, given in enumerate(inputs):
                self._gather_into(call, [places[at] for places in outputs], given)

        places = sum(outputs, [])
        return self._launch("all_gather_coalesced", [*places, *inputs], places, make, opts, count=len(inputs))

    def _gather_into(self, call: Call, places: List[torch.Tensor], given: torch.Tensor) -> None:
        _layout.need_one_each("all_gather: outputs", places, self.size())
        _layout.need_one_kind("all_gather", [*places, given])
        if places[self._rank].numel() != given.numel():
            raise ValueError(
                f"all_gather: the input has {given.numel()} elements, its place in the outputs "
                f"{places[self._rank].numel()}"
            )
        places = self._placed(places)
        if _layout.same_count(places):
            call.add(self._comm.all_gather_async, call.source(_layout.to_move(given)), call.target(places))
        else:
            call.gather_blobs(_layout.to_move(given), places)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self.all_gather_single_coalesced([output], [input], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None
    ) -> Work:
        def make(call: Call) -> None:
            _layout.need_as_many("all_gather_into_tensor", outputs, inputs)
            for output, given in zip(outputs, inputs):
                _layout.need_one_kind("all_gather_into_tensor", [output, given])
                place = call.target(self._pieces(output))
                call.add(self._comm.all_gather_async, call.source(_layout.to_move(given)), place)

        return self._launch(
            "all_gather_into_tensor", [*outputs, *inputs], outputs, make, opts, count=len(inputs)
        )

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @in_all_forms(dist.ReduceScatterOptions, 2, "op", "timeout")
    def reduce_scatter(
        self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any = None
    ) -> Work:
        def make(call: Call) -> None:
            op, factor = _layout.operation_of(opts.reduceOp)
            _layout.need_as_many("reduce_scatter", outputs, inputs)
            for output, given in zip(outputs, inputs):
                _layout.need_one_each("reduce_scatter: inputs", given, self.size())
                _layout.need_one_kind("reduce_scatter", [output, *given])
                forms = [_layout.to_reduce(one, op) for one in self._placed(given)]
                counts = None if _layout.same_count(forms) else [one.numel() for one in forms]
                call.scatter_reduced(torch.cat(forms), output, op, factor, counts)

        return self._launch(
            "reduce_scatter", [*outputs, *sum(inputs, [])], outputs, make, opts, count=len(inputs)
        )

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None
    ) -> Work:
        opts = opts or dist.ReduceScatterOptions()

        def make(call: Call) -> None:
            op, factor = _layout.operation_of(opts.reduceOp)
            _layout.need_as_many("reduce_scatter_tensor", outputs, inputs)
            for output, given in zip(outputs, inputs):
                _layout.need_one_kind("reduce_scatter_tensor", [output, given])
                form = _layout.to_reduce(given, op)
                if self._order is not None:
                    form = torch.cat(self._pieces(form))
                call.scatter_reduced(form, output, op, factor, None)

        def own_shares() -> None:
            for output, given in zip(outputs, inputs):
                output.copy_(given.reshape(-1).split(output.numel())[self._rank].view(output.shape))

        return self._launch(
            "reduce_scatter_tensor", [*outputs, *inputs], outputs, make, opts, own_shares, count=len(inputs)
        )

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    @in_all_forms(dist.GatherOptions, 2, "root", "timeout")
    def gather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        places = outputs[0] if outputs else []

        def make(call: Call) -> None:
            (given,) = _layout.need_one("gather", inputs)
            recv = None
            if self._rank == opts.rootRank:
                _layout.need_one("gather: outputs", outputs, "list")
                _layout.need_one_each("gather: outputs", places, self.size())
                _layout.need_one_kind("gather", [*places, given])
                _layout.need_one_count("gather", [*places, given])
                recv = call.target(self._placed(places))
            sent = call.source(_layout.to_move(given))
            call.add(self._comm.gather_async, sent, recv, root=self._root(opts.rootRank))

        return self._launch("gather", [*places, *inputs], places, make, opts)

    @in_all_forms(dist.ScatterOptions, 2, "root", "timeout")
    def scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any = None) -> Work:
        given = inputs[0] if inputs else []

        def make(call: Call) -> None:
            _layout.need_one("scatter", outputs)
            sent = None
            if self._rank == opts.rootRank:
                _layout.need_one("scatter: inputs", inputs, "list")
                _layout.need_one_each("scatter: inputs", given, self.size())
                _layout.need_one_kind("scatter", [*given, *outputs])
                _layout.need_one_count("scatter", [*given, *outputs])
                sent = call.source(_layout.joined(self._placed(given)))
            call.add(self._comm.scatter_async, sent, call.target(outputs), root=self._root(opts.rootRank))

        return self._launch("scatter", [*outputs, *given], outputs, make, opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
        timeout: Optional[timedelta] = None,
    ) -> Work:
        def make(call: Call) -> None:
            _layout.need_one_kind("all_to_all_single", [output, input])
            if not output_split_sizes and not input_split_sizes:
                sent = call.source(_layout.joined(self._pieces(input.contiguous())))
                call.add(self._comm.all_to_all_async, sent, call.target(self._pieces(output)))
                return
            places = output.split(list(output_split_sizes) or self._equal_split(output))
            call.exchange(places, input.split(list(input_split_sizes) or self._equal_split(input)))

        return self._launch("all_to_all_single", [output, input], [output], make, opts or timeout)

    alltoall_base = all_to_all_single

    def _equal_split(self, tensor: torch.Tensor) -> List[int]:
        if len(tensor) % self.size():
            raise ValueError(f"all_to_all_single: {len(tensor)} rows are no equal parts for {self.size()} ranks")
        return [len(tensor) // self.size()] * self.size()

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        return self._launch(
            "all_to_all", [*outputs, *inputs], outputs, lambda call: call.exchange(outputs, inputs), opts
        )

    @in_all_forms(dist.BarrierOptions, 0, "timeout")
    def barrier(self, opts: Any = None) -> Work:
        return self._launch("barrier", [], [], lambda call: call.add(self._comm.barrier_async), opts)

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """As pccl.torch.monitored_barrier; always waits for all."""
        _monitored.carry_out(self, timeout or self._timeout)

    # ---- from one to another

    def send(self, tensors: List[torch.Tensor], dst: int, tag: object = 0) -> Work:
        place = dst, self._tag_of_pair(tag)
        make: _Step = lambda call: call.sends(call.source(_layout.to_move(tensors[0])), *place)
        refuse: _Step = lambda call: call.sends(*_refusal(place))

        return self._launch(f"send to rank {dst}", tensors, [], make, refuse=refuse)

    def recv(self, tensors: List[torch.Tensor], src: int, tag: object = 0) -> Work:
        place = src, self._tag_of_pair(tag)
        make: _Step = lambda call: call.receives(call.target(tensors), *place)
        refuse: _Step = lambda call: call.receives(*_refusal(place))
        return self._launch(f"receive from rank {src}", tensors, tensors, make, refuse=refuse)

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Work:
        """The work's _source_rank tells who sent. Only ranks of this group send under its tags."""
        make: _Step = lambda call: call.receives(call.target(tensors), None, self._tag_of_pair(tag))
        return self._launch("receive from any rank", tensors, tensors, make, refuse=lambda call: None)

    def _tag_of_pair(self, tag: object) -> int:
        """Two peers have the tags of all their groups in common."""
        return int.from_bytes(hashlib.blake2b(f"{self._name}/{tag}".encode(), digest_size=8).digest(), "little")

    # ---- several in one

    def _start_coalescing(self, _device: torch.device) -> None:
        self._coalesced[threading.get_ident()] = []

    def _end_coalescing(self, _device: torch.device) -> Work:
        works = self._coalesced.pop(threading.get_ident(), [])
        parts = [part for work in works for part in work._parts]
        outputs = [tensor for work in works for tensor in work._outputs]

        def finish() -> None:
            for work in works:
                work.wait()

        ending = Ending(outputs, finish, lambda: _zero(outputs), self._timeout, Stage())
        return Work(self, "coalesced operations", parts, ending)

    def _collect(self, work: Work) -> Work:
        """Adds it to the coalesced operations of this thread, if the thread has begun some."""
        if self._coalesced:
            self._coalesced.get(threading.get_ident(), []).append(work)
        return work

    # ---- launching

    def _launch(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        make: _Step,
        opts: Any = None,
        locally: Optional[Callable[[], None]] = None,
        refuse: _Step = Call.refuse,
        count: int = 1,
    ) -> Work:
        """make adds the library's operations to the call, so many under tags of the group. What is lost fails the work;
        what is wrong here is raised here, and fails the operation for the others."""
        self._sweep()
        locally = locally or (lambda: _zero(outputs))
        call, why = Call(self, count), self._why()
        try:
            if why is None:
                for tensor in tensors:
                    _layout.check_device(tensor)
                make(call)
        except PCCLError as error:
            if isinstance(error, InvalidArgument):
                self._refuse(call, refuse)
                raise ValueError(f"pccl: {name}, rank {self._world.rank}: {error.reason}") from error
            why = self._why_not(error)
        except Exception:
            self._refuse(call, refuse)
            raise
        except BaseException as interrupt:
            call.interrupted(interrupt)
            raise
        limit = self._limit(opts)
        if why is not None:
            words = f"pccl: {name} of group {self._name!r}, rank {self._world.rank}: {why}"
            return call.work(name, outputs, locally, limit, self._error(words, why))
        return self._collect(call.work(name, outputs, locally, limit))

    def _limit(self, opts: Any) -> timedelta:
        given = opts if isinstance(opts, timedelta) else getattr(opts, "timeout", None) or _UNSET
        return given if given > _UNSET else self._timeout

    @staticmethod
    def _refuse(call: Call, refuse: _Step) -> None:
        try:
            refuse(call)
        except PCCLError:
            pass  # nobody is left who could wait

    def _hold(self, work: Work, tags: Sequence[int]) -> None:
        if tags:
            self._under_way.update(dict.fromkeys(tags, work))
        else:
            self._pairs[id(work)] = work

    def _sweep(self) -> None:
        """Ends what has an outcome and may have been dropped by its caller: its results belong in their places."""
        for held in (self._under_way, self._pairs):
            while held:
                try:
                    key, work = next(iter(held.items()))
                except (StopIteration, RuntimeError):
                    break  # another thread has changed it, and completes works itself
                if not work.is_completed():
                    break
                found = held.pop(key, None)
                if found is not None and found is not work:
                    held[key] = found  # by another thread, which has taken the tag since

    def _take_number(self, holder: Any) -> int:
        """The tag of the group's next operation. The holder's number is that of this operation from before it is taken
        until the operation is launched: whoever is interrupted meanwhile gives it back."""
        holder.numbers = numbers = self._lanes.here() if stays else self._lanes.program
        holder.number = number = numbers.next
        numbers.next = number + 1
        holder.tag = tag = numbers.first_tag + number % numbers.tags
        if len(self._pool.made) > 1:
            self._pool.wait_for_others(holder)
        if self._under_way:
            before = self._under_way.pop(tag, None)
            if before is not None:
                before._await(None)
        return tag

    def _give_back(self, holder: Any) -> None:
        """Nothing is launched under the number that it holds, so that the next operation has it. Where another thread
        has begun that, it is too late: then what the others launch under it fails."""
        number, holder.number = holder.number, None
        numbers = holder.numbers
        if number is None or numbers.next <= number:
            return
        if numbers.next == number + 1:
            numbers.next = number
        else:
            late = Call(self)
            late.number, late.numbers = number, numbers
            self._refuse(late, Call.refuse)

    # ---- failure and the end

    def _why(self) -> Optional[str]:
        return self._ended or self._world.why()

    def _why_not(self, error: PCCLError) -> str:
        """Why the library's operation failed: with the world, if that has ended meanwhile."""
        return self._why() or self._world.named(error.reason)

    def _error(self, words: str, why: str) -> CollectiveError:
        """ranks: of words that the library begins with whom it is about, the first; of those who wait, all."""
        ranks = self._world.ranks_in(why)
        return CollectiveError(words, ranks if "waits for" in why else ranks[:1])

    def _waits(self) -> str:
        return self._world.named(self._world.waits())

    def abort(self) -> None:
        """Whatever is under way fails. A new init_process_group may follow."""
        self._end("this rank has aborted the process group")

    def shutdown(self) -> None:
        self._end("this rank has destroyed the process group")

    def _end(self, why: str) -> None:
        global _world
        self._ended = self._ended or why
        if self._comm is not None:
            self._comm.close()
        self._completer.close()
        if self._is_default:
            self._world.end(why)
            _world = None


untrace(ProcessGroup, but=("rank", "size", "name", "get", "set"))


def _refusal(place: Tuple[int, int]) -> Tuple[torch.Tensor, int, int, str]:
    """Arguments of a transfer that the other side's does not match."""
    return (torch.zeros(1, dtype=torch.uint8), *place, REFUSED)


def _zero(outputs: Sequence[torch.Tensor]) -> None:
    """Of results that nobody will use: no numbers that trap or spread."""
    with torch.no_grad():
        for output in outputs:
            output.zero_()
