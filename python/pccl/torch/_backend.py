"""The backend "pccl" of torch.distributed: a process group, implemented in Python, that uses the library's collectives.

All ranks must perform the operations of a group in the same order, so that the n-th operation of each rank matches the
n-th of the others. Tags distinguish concurrent operations. The membership is fixed (_world.py).
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from .._communicator import Communicator
from .._errors import PCCLError
from . import _commit, _devices, _functional, _layout, _monitored, _reconfigure
from ._call import BARRIER, Call, all_reduces
from ._forms import in_all_forms, usual
from ._futures import Completer, Work
from ._launching import Launching
from ._rendezvous import from_store, take_arrived
from ._untraced import untrace
from ._work import CollectiveError
from ._world import World

_AllreduceOptions = dist.AllreduceOptions
_HAS_ASYNC_OP = hasattr(dist.AllreduceOptions(), "asyncOp")  # false for older versions

_world: Optional[World] = None


def _nothing() -> None:
    pass


def make_group(options: Any, backend_options: Any = None) -> ProcessGroup:
    """Creates a process group for init_process_group and new_group."""
    global _world
    is_reconfigurable = getattr(backend_options, "enable_reconfigure", None)
    if backend_options is not None and is_reconfigurable is None:
        raise ValueError("pccl does not support pg_options: set its parameters in the environment (man 7 pccl)")
    timeout, rank, size = options.timeout, options.group_rank, options.group_size
    if not options.global_ranks_in_group:
        _commit.watch_steps()
        if is_reconfigurable:
            return ProcessGroup(_reconfigure.Unformed(rank), range(size), rank, timeout, is_default=True)
        _world = take_arrived() or from_store(options.store, rank, size, timeout)
        try:
            return ProcessGroup(_world, range(size), rank, timeout, is_default=True)
        except BaseException:
            _world.end("the default group was not created")
            _world = None
            raise
    if _world is None:
        raise RuntimeError("pccl: new_group requires a default group of this backend")
    return ProcessGroup(_world, options.global_ranks_in_group, rank, timeout)


def _found(world: World, ranks: Sequence[int], timeout: timedelta) -> Communicator:
    try:
        return world.group(ranks, timeout)
    except PCCLError as error:
        why = world.named(error.reason)
        raise CollectiveError(f"pccl: the group of ranks {list(ranks)} cannot be created: {why}") from error


class ProcessGroup(Launching):
    """A process group. Its methods have the names that torch 2.13 and older versions call."""

    supports_splitting = False
    supports_coalescing = False

    def __init__(
        self, world: World, ranks: Sequence[int], rank: int, timeout: timedelta, is_default: bool = False
    ) -> None:
        super().__init__(world, ranks, rank, timeout, None if world.comm is None else _found(world, ranks, timeout))
        _functional.register(ProcessGroup)
        self._is_default = is_default
        self._completer = Completer()

    def _root(self, rank: int) -> int:
        return rank if self._order is None else self._order.index(rank)

    def _placed(self, parts: Sequence[Any]) -> List[Any]:
        """Reorders entries, one for each rank, to the library's order."""
        return list(parts) if self._order is None else [parts[rank] for rank in self._order]

    def _pieces(self, tensor: torch.Tensor) -> List[torch.Tensor]:
        """Splits a tensor into equal parts, one for each rank, in the library's order."""
        if self._order is None:
            return [tensor]
        if not tensor.is_contiguous() and len(tensor) % self.size():
            raise ValueError(
                f"pccl: {len(tensor)} rows of a non-contiguous tensor cannot be divided equally among the ranks"
            )
        return self._placed((tensor.view(-1) if tensor.is_contiguous() else tensor).chunk(self.size()))

    @property
    def _device_types(self) -> List[torch.device]:
        return [torch.device(kind) for kind in ("cpu", *_devices.available())]

    def _get_backend(self, _device: torch.device) -> ProcessGroup:
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of operations launched from now on."""
        self._timeout = timeout

    _set_default_timeout = set_timeout

    # ---- membership given by the program

    @property
    def supports_reconfigure(self) -> bool:
        return self._is_default

    def get_reconfigure_handle(self) -> str:
        return self._world.handle()

    def reconfigure(self, opts: Any) -> Work:
        """Forms the group of opts.handles. In a list, the positions are the ranks; for a set, the master assigns the
        ranks."""
        global _world
        if not self._is_default:
            raise RuntimeError(
                "pccl: only the default group can be reconfigured: recreate the other groups with new_group() "
                "afterward"
            )
        world, comm = _reconfigure.carry_out(self._world, opts, self._timeout)
        self._world.retire("the default group has been reconfigured")
        if self._comm is not None:
            self._comm.close()
        self._form(world, range(world.size), world.rank, comm)
        _world = world
        return Call(self).work("reconfigure", [], lambda: None, self._timeout)

    # ---- collectives

    def _is_awaited(self, opts: Any) -> bool:
        """Returns true if the caller waits for the work immediately. Older versions of torch do not report this."""
        return not getattr(opts, "asyncOp", True) and not self._coalesced

    def allreduce(self, tensors: Any = None, opts: Any = None, *more: Any, **named: Any) -> Optional[Work]:
        """Returns None instead of a work if the caller waits immediately and the operation has succeeded."""
        if not isinstance(opts, _AllreduceOptions):
            given = tensors, opts, *more
            tensors, opts = usual(dist.AllreduceOptions, 1, ("op", "timeout"), given, named)
        is_now = _HAS_ASYNC_OP and not opts.asyncOp and not self._coalesced  # same as _is_awaited()
        make = functools.partial(all_reduces, "all_reduce", tensors, opts)
        # After a failure the tensors are unchanged: they contain this rank's values.
        shown = "allreduce", tensors, opts
        return self._launch("all_reduce", tensors, tensors, make, opts, _nothing, is_now=is_now, shown=shown)

    @in_all_forms(dist.AllreduceCoalescedOptions, 1, "op", "timeout")
    def allreduce_coalesced(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        make = functools.partial(all_reduces, "all_reduce_coalesced", tensors, opts)
        shown = "allreduce_coalesced", tensors, opts
        count = len(tensors)
        return self._launch("all_reduce_coalesced", tensors, tensors, make, opts, _nothing, count=count, shown=shown)

    @in_all_forms(dist.BroadcastOptions, 1, "root", "timeout")
    def broadcast(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        def make(call: Call) -> None:
            (tensor,) = _layout.need_one("broadcast", tensors)
            is_root = self._rank == opts.rootRank
            if call.is_now and call.broadcasts_now(tensor, self._root(opts.rootRank)):
                return
            memory = call.source(_layout.to_move(tensor)) if is_root else call.target([tensor])
            call.add(self._comm.broadcast_async, memory, root=self._root(opts.rootRank))

        shown, is_now = ("broadcast", tensors, opts), self._is_awaited(opts)
        return self._launch("broadcast", tensors, tensors, make, opts, is_now=is_now, shown=shown)

    @in_all_forms(dist.ReduceOptions, 1, "root", "op", "timeout")
    def reduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Work:
        def make(call: Call) -> None:
            op, factor = _layout.operation_of(opts.reduceOp)
            _layout.need_one("reduce", tensors)
            form: Callable[[torch.Tensor], torch.Tensor] = lambda one: _layout.to_reduce(one, op)
            recv = call.target(tensors, form, is_read=True) if self._rank == opts.rootRank else None
            send = call.source(form(tensors[0])) if recv is None else recv
            call.add(self._comm.reduce_async, send, recv, root=self._root(opts.rootRank), op=op, factor=factor)

        return self._launch("reduce", tensors, tensors, make, opts, shown=("reduce", tensors, opts))

    @in_all_forms(distributed_c10d.AllgatherOptions, 2, "timeout")
    def allgather(self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        def make(call: Call) -> None:
            _layout.need_as_many("all_gather", outputs, inputs)
            for places, given in zip(outputs, inputs):
                self._gather_into(call, places, given)

        places = sum(outputs, [])
        tensors, count, is_now = [*places, *inputs], len(inputs), self._is_awaited(opts)
        shown = "allgather", outputs, inputs, opts
        return self._launch("all_gather", tensors, places, make, opts, count=count, is_now=is_now, shown=shown)

    @in_all_forms(distributed_c10d.AllgatherOptions, 2, "timeout")
    def allgather_coalesced(
        self, outputs: List[List[torch.Tensor]], inputs: List[torch.Tensor], opts: Any = None
    ) -> Work:
        """outputs: for each rank a list, with a tensor for each input."""

        def make(call: Call) -> None:
            _layout.need_one_each("all_gather_coalesced: outputs", outputs, self.size(), "lists")
            for places in outputs:
                _layout.need_as_many("all_gather_coalesced", places, inputs)
                for place, given in zip(places, inputs):
                    _layout.need_one_shape("all_gather_coalesced", place, given)
            for at, given in enumerate(inputs):
                self._gather_into(call, [places[at] for places in outputs], given)

        places = sum(outputs, [])
        shown, count = ("allgather_coalesced", outputs, inputs, opts), len(inputs)
        return self._launch("all_gather_coalesced", [*places, *inputs], places, make, opts, count=count, shown=shown)

    def _gather_into(self, call: Call, places: List[torch.Tensor], given: torch.Tensor) -> None:
        if call.is_now and call.gathers_pieces_now(given, places):
            return
        _layout.need_one_each("all_gather: outputs", places, self.size())
        _layout.need_one_kind("all_gather", [*places, given])
        if places[self._rank].numel() != given.numel():
            raise ValueError(
                f"all_gather: the input has {given.numel()} elements, but its output has "
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
                if call.is_now and call.gathers_now(given, output):
                    continue
                _layout.need_one_kind("all_gather_into_tensor", [output, given])
                place = call.target(self._pieces(output))
                call.add(self._comm.all_gather_async, call.source(_layout.to_move(given)), place)

        shown: Tuple[Any, ...] = "allgather_into_tensor_coalesced", outputs, inputs, opts
        if len(outputs) == len(inputs) == 1:
            shown = "_allgather_base", *outputs, *inputs, opts
        tensors, count, is_now = [*outputs, *inputs], len(inputs), self._is_awaited(opts)
        return self._launch(
            "all_gather_into_tensor", tensors, outputs, make, opts, count=count, is_now=is_now, shown=shown
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

        tensors, shown = [*outputs, *sum(inputs, [])], ("reduce_scatter", outputs, inputs, opts)
        return self._launch("reduce_scatter", tensors, outputs, make, opts, count=len(inputs), shown=shown)

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
                if call.is_now and factor is None and call.scatters_now(given, output, op):
                    continue
                _layout.need_one_kind("reduce_scatter_tensor", [output, given])
                form = _layout.to_reduce(given, op)
                if self._order is not None:
                    form = torch.cat(self._pieces(form))
                call.scatter_reduced(form, output, op, factor, None)

        def own_shares() -> None:
            for output, given in zip(outputs, inputs):
                output.copy_(given.reshape(-1).split(output.numel())[self._rank].view(output.shape))

        tensors = [*outputs, *inputs]
        shown: Tuple[Any, ...] = "reduce_scatter_tensor_coalesced", outputs, inputs, opts
        if len(outputs) == len(inputs) == 1:
            shown = "_reduce_scatter_base", *tensors, opts
        count, is_now = len(inputs), self._is_awaited(opts)
        return self._launch(
            "reduce_scatter_tensor", tensors, outputs, make, opts, own_shares, count=count, is_now=is_now, shown=shown
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

        shown = "gather", outputs, inputs, opts
        return self._launch("gather", [*places, *inputs], places, make, opts, shown=shown)

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

        shown = "scatter", outputs, inputs, opts
        return self._launch("scatter", [*outputs, *given], outputs, make, opts, shown=shown)

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

        shown = "alltoall_base", output, input, list(output_split_sizes), list(input_split_sizes), opts
        return self._launch("all_to_all_single", [output, input], [output], make, opts or timeout, shown=shown)

    alltoall_base = all_to_all_single

    def _equal_split(self, tensor: torch.Tensor) -> List[int]:
        if len(tensor) % self.size():
            raise ValueError(
                f"all_to_all_single: {len(tensor)} rows cannot be divided equally among {self.size()} ranks"
            )
        return [len(tensor) // self.size()] * self.size()

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Work:
        make: Callable[[Call], None] = lambda call: call.exchange(outputs, inputs)
        shown = "alltoall", outputs, inputs, opts
        return self._launch("all_to_all", [*outputs, *inputs], outputs, make, opts, shown=shown)

    @in_all_forms(dist.BarrierOptions, 0, "timeout")
    def barrier(self, opts: Any = None) -> Work:
        def make(call: Call) -> None:
            if not call.is_now or not call.now(BARRIER, ()):
                call.add(self._comm.barrier_async)

        return self._launch("barrier", [], [], make, opts, is_now=self._is_awaited(opts), shown=("barrier", opts))

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """Does the same as pccl.torch.monitored_barrier."""
        _monitored.carry_out(self, self._timeout if timeout is None else timeout, wait_all_ranks)

    # ---- failure and end

    def abort(self) -> None:
        """Fails all operations in progress. init_process_group may be called again afterwards."""
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


