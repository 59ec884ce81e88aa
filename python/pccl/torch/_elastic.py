"""Elastic replicas: optimizer.step() averages gradients among replicas that join and leave.

Each step is a vote of all replicas, and all of them get the same verdict. Without DistributedDataParallel the gradients
are part of the same operation as the vote, so the average is over exactly the voters. With it, the gradients are
reduced in units during backward, and the vote follows. A hook cannot prevent the optimizer from running, so a step that
does not count leaves it without gradients, which makes it do nothing.

Newcomers join just before the forward that begins a step, and not directly after the previous step. Anything that the
program does in between (a scheduler's step, a counter) is therefore part of the state that they receive.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import zlib
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch

from .._codec import QuantizationOptions
from .._communicator import Communicator
from .._core import Option
from .._enums import ReduceOp
from .._errors import (
    AbortedError,
    DrainedError,
    ExpelledError,
    InternalError,
    InvalidArgument,
    InvalidUsage,
    MasterLostError,
    MembersChangedError,
    PCCLError,
    PeerLostError,
    TimeoutError_,
    TooFewPeersError,
)
from .._reduce import OperationInfo, ReduceInfo
from ..diloco._inside import Inside, of_all_processes
from . import _commit, _tensors
from ._ddp import DDPState, _Copies, ddp_hook
from ._gradients import BUCKET_BYTES, Bucket, GradientBuckets
from ._replica import BUFFERS_TAG, VOTE_TAG, Content, Replicas
from ._statistics import Copies

_log = logging.getLogger("pccl")

_DROPS = AbortedError, TimeoutError_, InternalError  # failures of a step for all replicas; the next step may succeed


@dataclass
class ElasticStats:
    """Counters of a replica.

    committed       number of steps that counted while this replica was in the run
    dropped         number of steps that did not count
    repeated        number of operations that were repeated because a replica was lost
    admissions      number of newcomers admitted
    returns         number of returns after a removal from the run
    state_bytes     number of bytes of shared state received
    sent_bytes      number of bytes sent by reductions in the optimizer's step (not during backward)
    received_bytes  number of bytes received by these reductions
    """

    committed: int = 0
    dropped: int = 0
    repeated: int = 0
    admissions: int = 0
    returns: int = 0
    state_bytes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class _InBackward(DDPState):
    """Averages gradients during the backward of a DistributedDataParallel. A replica that is alone continues. A failure
    does not end the backward; the gradients are then this replica's own, and the step is dropped."""

    left = False

    def _average(self, unit: Bucket) -> ReduceInfo:
        if self.left:
            return ReduceInfo(1, 0, 0)
        try:
            return super()._average(unit)
        except TooFewPeersError:
            return ReduceInfo(1, 0, 0)

    def _bring(self, ends: List[Future[ReduceInfo]], copies: _Copies) -> None:
        try:
            super()._bring(ends, copies)
        except Exception as error:
            _commit.note(error)

    def tensors(self) -> List[torch.Tensor]:
        """Returns the tensors that remain to be averaged in the optimizer's step: none. Raises if there was no complete
        backward."""
        if not self._ends or self._launched < len(self._units):
            raise InvalidUsage(
                "elastic: optimizer.step() without a complete backward() through DistributedDataParallel: it was not "
                "called, it raised, or it did not reach some parameters (use find_unused_parameters=True)"
            )
        self._ends, self._launched = [], 0
        return []

    def bring(self) -> None:
        """Does nothing, because the averages are already in place."""


class _InStep(GradientBuckets):
    """Averages gradients in the optimizer's step. All gradients of a type form one tensor."""

    left = False

    def tensors(self) -> List[torch.Tensor]:
        self._load()
        return [bucket.wire for bucket in self._buckets]

    def bring(self) -> None:
        self._unload()


class _Caller:
    """A hook that does nothing in a copy of the module (averaged weights, for example). It is hidden from
    torch.compile, which would recompile the call in each step. This does not import the compiler, because the optimizer
    has already done so."""

    def __init__(self, call: Callable[..., None] = lambda *_: None) -> None:
        self._call = torch.compiler.disable(call)

    def __call__(self, *arguments: Any) -> None:
        self._call(*arguments)

    def __reduce__(self) -> Any:
        return _Caller, ()


class Elastic:
    """A replica in a run of replicas, created by elastic().

    rank        rank of this replica, which never changes; newcomers take the lowest free rank
    world_size  number of replicas whose gradients are in the last step that counted
    ranks       ranks of these replicas
    step        number of steps that have counted, the same on all replicas
    committed   true if the last step counted, the same on all replicas. Actions after a step (a scheduler's step) must
                depend on it. pccl.torch.committed() also returns it
    stopped     true if a replica has called stop()
    drained     reason why this replica was drained, by drain() or by an operator, or None. The replica then leaves
                before the forward of a step, which raises DrainedError; `with` treats that as a regular end
    stats       counters (ElasticStats)
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        averaging: Any,
        replicas: Replicas,
        content: Content,
        inside: Inside,
        how: Mapping[str, Any],
    ) -> None:
        self.comm = replicas.comm
        self.committed = self.stopped = False
        self.stats = ElasticStats()
        self._model, self._optimizer = model, optimizer
        self._averaging, self._replicas, self._content, self._inside = averaging, replicas, content, inside
        self._min_peers: int = how["min_peers"]
        self._n_attempts: int = how["n_attempts"]
        self._quantization: Optional[QuantizationOptions] = how["quantization"]
        self._scaler: Any = how["scaler"]
        self._broadcast_buffers: bool = how["broadcast_buffers"]
        self._stopping = False
        self.drained: Optional[str] = None
        self._verdict: Optional[bool] = None  # verdict on the next step
        self._took_part: Tuple[int, ...] = ()  # ranks of the replicas that voted on it
        self._due = False  # true if newcomers may join
        self._begun = False  # true if the first forward of this step has begun
        self._renew = False  # true if all replicas must update the topology, even without newcomers
        self._returned = False  # true if this replica has returned to the run in this step
        self.stats.state_bytes += replicas.join(self._n_attempts)
        self.ranks: Tuple[int, ...] = tuple(replicas.ranks_of(self.comm.members()))
        if isinstance(averaging, _InBackward):
            model.register_comm_hook(averaging, ddp_hook)
        _commit.is_elastic(optimizer, True)
        if self._scaler is not None:
            self._scaler.unscale_ = self._unscale  # step() of the scaler calls it too
        self._hooks = [
            # Registered to run before FSDP2 gathers the parameters.
            model.register_forward_pre_hook(_Caller(self._before_forward), prepend=True),
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
            *content.statistics.watch(_tensors.bare(model), _Caller),
        ]

    @property
    def rank(self) -> int:
        return self._replicas.rank

    @property
    def world_size(self) -> int:
        return len(self.ranks)

    @property
    def step(self) -> int:
        return self._content.round

    @property
    def root(self) -> int:
        """The lowest rank in the last step that counted. If that replica is lost, the next rank takes over."""
        return self.ranks[0]

    @property
    def is_root(self) -> bool:
        return self.rank == self.root

    def stop(self) -> None:
        """Requests that all replicas end after the same step, in which `stopped` becomes true on all of them. May be
        called from signal handlers."""
        self._stopping = True

    def drain(self) -> None:
        """Requests the drain of this replica alone, as Communicator.drain() does: it leaves after its step, or after
        `drain_ms`. All its processes leave. May be called from signal handlers."""
        self.comm.drain()

    def leave(self) -> None:
        """Leaves the run, while the other replicas continue. The optimizer then steps without them. An exception in a
        step also leaves the run."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._scaler is not None:
            vars(self._scaler).pop("unscale_", None)
        self._averaging.left = True
        _commit.is_elastic(self._optimizer, False)
        self.comm.close()
        self._replicas.leave()

    def __enter__(self) -> Elastic:
        return self

    def __exit__(self, _: object, error: object, __: object) -> bool:
        self.leave()
        return isinstance(error, DrainedError) and self.drained is not None

    # ---- a step

    def admit(self) -> None:
        """Admits newcomers, which receive the shared state. The first forward in training after a step calls this. A
        program must call it itself, before that, if it calls joint functions or changes shared state earlier."""
        if not self._due:
            return
        self._due = False
        with self._or_leave():
            try:
                if self._replicas.answer() or self._renew:
                    self._replicas.update()
                    self._meet()
            except (ExpelledError, MasterLostError) as error:
                self._return_to_run(error)
        self._renew = False

    def _begin(self) -> None:
        """Begins a step: before its first forward, or in optimizer.step() if there was no forward."""
        self.admit()
        if self._begun:
            return
        self._begun = True
        if self._broadcast_buffers:
            with self._or_leave():
                self._take_buffers_of_root()

    def _take_buffers_of_root(self) -> None:
        """Copies the root's buffers to all replicas. All must call it. If it fails for all, the step does not count.
        """
        copies = Copies(_tensors.bare(self._model))
        while copies.flat.numel() > 0:
            try:
                ids = self.comm.members()
                root = self._replicas.first_of(ids)
                self.comm.broadcast(
                    copies.flat, root=root, members=ids, tag=BUFFERS_TAG, alone_ok=True, label=f"buffers {self.step}"
                )
            except (PeerLostError, MembersChangedError):
                self.stats.repeated += 1
            except (ExpelledError, MasterLostError) as error:
                self._return_to_run(error)
                copies = Copies(_tensors.bare(self._model))  # this replica has received a new state
            except _DROPS as error:
                return _commit.note(error)
            else:
                return copies.bring()

    def average_gradients(self) -> bool:
        """Averages the gradients. optimizer.step() does this unless it was called, so only programs that clip averaged
        gradients need it. Returns true if the step will count; otherwise the gradients are dropped."""
        if self._verdict is None:
            self._verdict = self._vote()
            self.committed = False  # remains false if a scaler omits the step
            _commit.step_ended(False)
            if not self._verdict:
                # Without gradients the optimizer does nothing. A scaler needs some, and accepts zeros.
                self._drop_gradients(keep_zeros=self._scaler is not None)
        return self._verdict

    def _drop_gradients(self, keep_zeros: bool) -> None:
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter) if keep_zeros else None

    def _unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Replaces the scaler's method. Averages first, so that the scaler finds the same values on all replicas."""
        if optimizer is self._optimizer:
            self._begin()
            self.average_gradients()
        type(self._scaler).unscale_(self._scaler, optimizer)

    def _before_forward(self, *_: Any) -> None:
        if not (self._model.training and torch.is_grad_enabled()):
            return
        if self._verdict is not None:
            if self._scaler is None:
                raise InvalidUsage("elastic: average_gradients() must be followed by optimizer.step()")
            self._verdict = False  # the scaler has omitted the step on all replicas
            self._after_step()
        self._begin()

    def _before_step(self, _: Any, args: Sequence[Any], given: Mapping[str, Any]) -> None:
        if len(args) > 1 or given.get("closure") is not None:
            raise InvalidUsage(
                "elastic: optimizer.step(closure) is not supported: the closure computes gradients after they were "
                "averaged"
            )
        self._begin()
        if not self.average_gradients():
            self._drop_gradients(keep_zeros=False)

    def _after_step(self, *_: Any) -> None:
        self.committed, self._verdict, self._begun = bool(self._verdict), None, False
        if self.committed:
            self._content.count_step()
            self.ranks = self._took_part
            self.stats.committed += 1
        else:
            self.stats.dropped += 1
        _commit.step_ended(self.committed)
        self._renew = not self.committed
        self._due, self._returned = not self._returned, False

    # ---- decisions of all replicas

    @contextlib.contextmanager
    def _or_leave(self) -> Iterator[None]:
        """Leaves the run after an exception (Ctrl-C, for example), because this replica cannot know whether the
        operation succeeded for the others."""
        try:
            yield
        except BaseException:
            self.leave()
            raise

    def _vote(self) -> bool:
        with self._or_leave():
            try:
                return self._carry_out_vote(self._averaging.tensors())
            except (ExpelledError, MasterLostError) as error:
                self._return_to_run(error)
                self._returned = True
                return False

    def _carry_out_vote(self, tensors: Sequence[torch.Tensor]) -> bool:
        settings = _settings(self._optimizer, self._scaler)
        vote = torch.tensor([_commit.take() is not None, self._stopping, settings, -settings])
        self._replicas.ask()
        ranks: Tuple[int, ...] = ()
        try:
            info = self._reduce([*tensors, vote])
            self._took_part = ranks = tuple(self._replicas.ranks_of(info.participants))
        except _DROPS as error:
            _log.warning("step %d failed: %s", self.step, error)
            vote[0] = 1
        # If the processes of a replica failed one after another, the vote of one group may include the replica and the
        # vote of another may not.
        mark = zlib.crc32(repr(ranks).encode())
        failed, stopped, highest, lowest = self._inside.highest(int(vote[0]), int(vote[1]), mark, -mark)
        if ranks and vote[2] != -vote[3]:
            raise InvalidUsage(
                "elastic: the optimizers of the replicas have different settings (learning rate, ...); change them "
                "only after committed steps: if replica.committed: scheduler.step()"
            )
        if failed or highest != -lowest or len(ranks) < self._min_peers:
            return False
        self.stopped = self.stopped or bool(stopped)
        self._averaging.bring()
        return True

    def _reduce(self, tensors: List[torch.Tensor]) -> OperationInfo:
        """Reduces among the present replicas, and repeats the operation if one is lost."""
        while True:
            try:
                info = self.comm.coalesced(
                    tensors,
                    op=[*[ReduceOp.AVG] * (len(tensors) - 1), ReduceOp.MAX],
                    tag=VOTE_TAG,
                    alone_ok=True,
                    quantization=self._quantization if len(tensors) > 1 else None,
                    label=f"elastic step {self.step}",
                )
            except PeerLostError:
                self.stats.repeated += 1
                continue
            self.stats.sent_bytes += info.tx_bytes
            self.stats.received_bytes += info.rx_bytes
            return info

    def _meet(self) -> None:
        before = self._replicas.newcomers
        self.stats.state_bytes += self._replicas.meet_all()
        self.stats.admissions += self._replicas.newcomers - before

    def _return_to_run(self, error: PCCLError) -> None:
        try:
            if isinstance(error, DrainedError) or self._inside.size > 1:
                raise error  # sibling processes are still in the run, so the launcher must restart all of them
            _log.warning("this replica left the run and rejoins as a newcomer: %s", error)
            self.stats.returns += 1
            self._replicas.leave()
            self.stats.state_bytes += self._replicas.join(self._n_attempts)
        except DrainedError as drained:  # raised by join(): the drain was requested before the removal from the run
            self.drained = drained.reason
            raise


def _settings(optimizer: torch.optim.Optimizer, scaler: Any) -> int:
    """Returns a hash of the hyperparameters in the optimizer's groups, and of the scale."""
    numbers = [
        (key, group[key]) for group in optimizer.param_groups for key in sorted(group) if isinstance(group[key], float)
    ]
    return zlib.crc32(repr([numbers, scaler and scaler.get_scale()]).encode())


def _check(model: Any, optimizer: Any) -> None:
    if not isinstance(model, torch.nn.Module) or not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidArgument(
            f"elastic: expected a module and an optimizer, not {type(model).__name__} and {type(optimizer).__name__}"
        )
    named = list(model.named_parameters())
    lazy = torch.nn.parameter.UninitializedTensorMixin
    tensors = [*named, *model.named_buffers()]
    unready = [name for name, tensor in tensors if isinstance(tensor, lazy) or tensor.is_meta]
    if unready:
        raise InvalidArgument(f"elastic: tensors are not initialized yet: {', '.join(unready[:4])}")
    own = {id(parameter) for _, parameter in named}
    strange = [p for group in optimizer.param_groups for p in group["params"] if id(p) not in own]
    if strange:
        raise InvalidArgument(
            f"elastic: {len(strange)} of the optimizer's parameters are not the model's, so their gradients would not "
            "be averaged; create the optimizer after fully_shard() and similar calls"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgument("elastic: LBFGS requires a closure, which is not supported")


def _is_in_backward(model: torch.nn.Module) -> bool:
    """Returns true for a DistributedDataParallel over a single process, whose averaging this module replaces."""
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        return False
    return int(torch.distributed.get_world_size(model.process_group)) == 1


def elastic(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    state: Optional[Mapping[str, Any]] = None,
    *,
    address: Optional[str] = None,
    options: Optional[Mapping[str, Option]] = None,
    min_peers: int = 1,
    step: int = 0,
    own: Callable[[str], bool] = lambda name: False,
    quantization: Optional[QuantizationOptions] = None,
    bucket_bytes: int = BUCKET_BYTES,
    process_group: Any = None,
    scaler: Any = None,
    broadcast_buffers: bool = False,
    n_attempts: int = 5,
) -> Elastic:
    """Makes this process, or all processes of torch.distributed together, a replica among others that join and leave.
    optimizer.step() then averages gradients over the living replicas, and all make the same step.

        replica = pccl.torch.elastic(model, optimizer)

    Returns when this replica is in the run and has received the others' model, optimizer, `state` and number of steps.
    The training loop needs no change. If a replica fails, the others repeat the failed operations without it.

    model: the module that is called in training: a plain module; a DistributedDataParallel, over one process (gradients
        are then averaged during backward) or over the processes of this replica; or a module with fully_shard(). All
        replicas must have the same number of processes.

    process_group: the processes of this replica, by default all. With more than one process, the group must support
        tensors in CPU memory (gloo, pccl, "cpu:gloo,cuda:nccl"). Each process is a peer, in the peer group of its rank.
        A launcher must end all of them when one fails, as torchrun does.

    state: further state that the next step depends on, by name, as `extra` of shared_state(): schedulers, tensors.

    own: as for shared_state(). Running statistics and other buffers that forward changes in training may always differ.
        All other tensors are compared when newcomers join: StateMismatch names those that differ, on the replicas that
        differ from the majority, or on all replicas if there is no majority.

    broadcast_buffers: copies the buffers of the root (the living replica with the lowest rank) to all others before the
        first forward of each step, as DistributedDataParallel does among ranks. This takes one more round trip.

    address, options: the master's address, by default PCCL_MASTER, and options, both as for Communicator.

    min_peers: number of replicas below which no step counts; the replicas wait for others.

    step: number of steps that model and optimizer have made, if they are from a checkpoint. When a run begins, a
        replica with the most steps provides the state of all.

    bucket_bytes: size of the buckets that backward reduces. quantization: codec of the gradients.

    scaler: the torch.amp.GradScaler with which the optimizer makes its steps. It then checks averages, so that either
        all replicas skip a step or none does, and its scale is shared. Supports neither shards nor fused optimizers.

    Not supported: optimizer.step(closure), and several optimizers for one model.
    """
    _check(model, optimizer)
    if scaler is not None and any(map(_tensors.is_dtensor, model.parameters())):
        raise InvalidArgument(
            "elastic: scaler: not supported with sharded parameters, whose shards it would judge separately"
        )
    if scaler is not None and getattr(optimizer, "_step_supports_amp_scaling", False):
        raise InvalidArgument(
            "elastic: scaler: not supported with a fused optimizer, for which it checks the gradients before averaging"
        )
    state = dict(state or {})
    if scaler is not None and state.setdefault("scaler", scaler) is not scaler:
        raise InvalidArgument("elastic: state: the name 'scaler' is reserved")
    for name, value, least in (("min_peers", min_peers, 1), ("step", step, 0)):
        if not isinstance(value, int) or value < least:
            raise InvalidArgument(f"elastic: {name}: {value!r}; expected a whole number, at least {least}")
    place = address or os.environ.get("PCCL_MASTER")
    if not place:
        raise InvalidArgument("elastic: no master address: pass it, or set PCCL_MASTER to host:port")
    inside = Inside(process_group or of_all_processes())
    content = Content(model, optimizer, state, step, own=own)
    comm = Communicator(place, inside.rank, options=options)
    try:
        averaging: Any
        if _is_in_backward(model):
            averaging = _InBackward(comm, model, bucket_bytes=bucket_bytes, quantization=quantization)
        else:
            averaging = _InStep(model, bucket_bytes=sys.maxsize)
        words = [
            f"optimizer: {type(optimizer).__name__}",
            f"processes of a replica: {inside.size}",
            f"gradients: {type(averaging).__name__[1:]}, {bucket_bytes} bytes, {quantization!r}",
            f"broadcast_buffers: {bool(broadcast_buffers)}",
        ]
        replicas = Replicas(comm, inside, content, min_peers, words)
        how = {
            "min_peers": min_peers,
            "n_attempts": n_attempts,
            "quantization": quantization,
            "scaler": scaler,
            "broadcast_buffers": broadcast_buffers,
        }
        return Elastic(model, optimizer, averaging, replicas, content, inside, how)
    except BaseException:
        comm.close()
        raise
