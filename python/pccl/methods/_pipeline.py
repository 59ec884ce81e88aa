"""Models cut into stages. In some replicas each peer has one stage, in others a single peer has all."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Set, Tuple

import numpy as np

from .. import _buffers
from .._communicator import Communicator
from .._described import takes
from .._errors import (
    InvalidArgument,
    MembersChangedError,
    PeerLostError,
    TooFewPeersError,
)
from .._settings import choice, integer, optional, position, setting, truth
from ..diloco import _arrays
from ..diloco._arrays import Layout
from ..diloco._member import StepInfo
from ..diloco._membership import PAUSE_S, Meeting
from ..diloco._settings import Verified
from . import _random
from ._hooks import as_numpy
from ._method import DATA_TAG, IDS_TAG, Gathered, Method
from ._pipeline_plan import (
    BACKWARD,
    FORWARD,
    WHOLE,
    Handover,
    Seat,
    assign,
    complete,
    counting,
    handovers,
    missing,
    schedule,
)
from ._settings import Sparsely
from ._sparse_loco import Changes

_log = logging.getLogger("pccl.methods")

COMPRESS = ("pipelines", "all", "none")
# Errors that an exchange raises if the other peer has left.
_GONE = (PeerLostError, MembersChangedError, TooFewPeersError)
_LOG_AFTER_S = 2.0
_TAGS = {FORWARD: DATA_TAG + 1, BACKWARD: DATA_TAG + 2}


class Stage(Protocol):
    """A part of the model with its optimizer. `micro` is an entry of the result of batch()."""

    params: Mapping[str, Any]
    """The trained parameters: numpy arrays or torch tensors."""

    def forward(self, micro: Any, hidden: Optional[Any]) -> Tuple[Any, Any]:
        """Computes the stage's output from `hidden`, the output of the previous stage (None at the first stage).
        Returns the output, and data for backward(). The output is a float32 numpy array, or the loss at the last stage.
        Several micro-batches may be in progress."""

    def backward(self, saved: Any, gradient: Optional[Any]) -> Optional[Any]:
        """Adds to the gradients of the parameters. Returns the gradient with respect to `hidden`, or None at the first
        stage. gradient: the gradient with respect to forward()'s output, or None at the last stage."""

    def step(self, step: int, micro_batches: int) -> None:
        """Makes an optimizer step with the mean gradient of this number of micro-batches, and clears the gradients.
        step: the step's number in the run."""

    def forget(self) -> None:
        """Clears the gradients."""


@dataclass(frozen=True)
class PipelineInfo(StepInfo):
    """StepInfo of a Pipeline. participants is the number of replicas whose changes were counted.

    replica, stage: the part that this peer has computed; stage is -1 for all stages. loss: the mean loss of the
        micro-batches, on a peer with the last stage. lost: true if the replica does not take part in this round,
        because one of its peers has left or its result is not finite. idle: true if the replica lacks stages, so that
        this peer has only waited while the others trained. activation_bytes: number of bytes that this peer has sent to
        the neighboring stages.
    """

    replica: int = 0
    stage: int = WHOLE
    loss: Optional[float] = None
    lost: bool = False
    idle: bool = False
    activation_bytes: int = 0


def basis(seed: int, width: int, rank: int) -> Any:
    """Returns a matrix with random orthonormal columns."""
    signs = _random.signs(seed, _random.BASIS, 0, 0, width * rank, np.float64).reshape(width, rank)
    return np.ascontiguousarray(np.linalg.qr(signs)[0], np.float32)


def narrow(array: Any, columns: Any) -> Any:
    """Projects the array onto the span of the columns, along its last dimension."""
    return (array @ columns) @ columns.T


class _Held:
    """A stage that this peer has."""

    def __init__(self, number: int, stage: Stage, how: Sparsely, warn: Callable[[str, object], None]) -> None:
        self.number, self.stage = number, stage
        for name in ("forward", "backward", "step", "forget"):
            if not callable(getattr(stage, name, None)):
                raise InvalidArgument(f"stages: stage {number} has no {name}()")
        named = _arrays.named_parameters(stage.params)
        self.layout = Layout(named, [sorted(named)])
        self.theta = self.layout.zeros()
        self.layout.read(self.theta)
        self.changes = Changes(self.layout, self.theta, how, warn)
        self.at = 0  # round of its parameters; -1: no parameters

    def digest(self) -> str:
        return _buffers.digest(list(zip(self.layout.dtypes, self.theta)))

    def write(self) -> None:
        """Sets the parameters to the run's."""
        self.layout.write(self.theta)

    def own(self) -> Dict[str, Any]:
        theta = {f"theta.{dtype}": flat for dtype, flat in zip(self.layout.dtypes, as_numpy(self.theta))}
        return {f"stage.{self.number}.{name}": flat for name, flat in {**theta, **self.changes.own()}.items()}


class _Flow:
    """The transfers of a stage during one step. All receives are launched at once, so that links are busy while this
    peer computes. After an error, the data that is sent in the rest of the round is NaN, so that all peers of the
    replica detect the error and all launched operations end."""

    def __init__(
        self,
        comm: Communicator,
        neighbors: Mapping[int, str],
        stage: int,
        known: Sequence[Any],
        columns: Optional[Any],
        is_sound: bool,
    ) -> None:
        self.is_sound = is_sound
        self.sent_bytes = 0
        self._comm, self._known, self._columns = comm, known, columns
        self._sources = {FORWARD: neighbors.get(stage - 1), BACKWARD: neighbors.get(stage + 1)}
        self._targets = {FORWARD: neighbors.get(stage + 1), BACKWARD: neighbors.get(stage - 1)}
        self._receives = {
            (kind, index): self._launch(self._sources[kind], False, kind, self._room(index))
            for index in range(len(known))
            for kind in (FORWARD, BACKWARD)
        }
        self._sends: List[Any] = []

    def _room(self, index: int) -> Any:
        shape = self._known[index].shape
        width = shape[-1] if self._columns is None else self._columns.shape[1]
        return np.full((int(np.prod(shape[:-1])), width), np.nan, np.float32)

    def _launch(self, peer: Optional[str], sends: bool, kind: str, buffer: Any) -> Any:
        """Launches a transfer. Returns the buffer and the handle, which is None if the peer has left."""
        if peer is None:
            return None
        try:
            handle = (self._comm.send_async if sends else self._comm.recv_async)(buffer, peer, tag=_TAGS[kind])
        except _GONE:
            handle = None
        return buffer, handle

    def _has_ended_well(self, handle: Any) -> bool:
        try:
            if handle is not None:
                handle.result()
                return True
        except _GONE:
            pass
        return False

    def receive(self, kind: str, index: int) -> Optional[Any]:
        launched = self._receives.pop((kind, index))
        if launched is None:
            return None
        buffer, handle = launched
        if not self._has_ended_well(handle) or not np.isfinite(buffer).all():
            self.is_sound = False
            return None
        known = self._known[index]
        if self._columns is not None:
            buffer = buffer @ self._columns.T
        made = buffer.reshape(known.shape)
        return made + known if self._columns is not None and kind == FORWARD else made

    def send(self, kind: str, index: int, made: Any) -> None:
        other = self._targets[kind]
        if other is None:
            return
        buffer, known = self._room(index), self._known[index]
        if self.is_sound:
            if np.shape(made) != known.shape:
                raise InvalidArgument(
                    f"stages: {kind}() made {np.shape(made)}; expected the shape of known(), {known.shape}"
                )
            if self._columns is None:
                buffer[...] = made.reshape(buffer.shape)
            else:
                moving = made - known if kind == FORWARD else made
                buffer[...] = moving.reshape(len(buffer), -1) @ self._columns
            self.is_sound = bool(np.isfinite(buffer).all())
        self._sends.append(self._launch(other, True, kind, buffer))
        self.sent_bytes += buffer.nbytes

    def end(self) -> None:
        for _, handle in self._sends:
            self.is_sound = self._has_ended_well(handle) and self.is_sound


class _PeerReport:
    """A peer's report at the end of a round and before stages are assigned. All peers check the same reports."""

    def __init__(self, peer: str, said: memoryview, stages: int) -> None:
        try:
            values = json.loads(bytes(said))
            self.stage: Optional[int] = values["stage"]
            self.is_ready: bool = values["ready"]
            self.done: List[int] = values["done"]
            self.held = {int(number): (at, digest) for number, (at, digest, _) in values["held"].items()}
            self.marks = {int(number): mark for number, (_, _, mark) in values["held"].items()}
            numbers = [*self.done, *self.held, *([] if self.stage in (None, WHOLE) else [self.stage])]
            are_right = [type(at) is int and type(digest) is str for at, digest in self.held.values()]
            is_right = all(type(one) is int and 0 <= one < stages for one in numbers) and all(are_right)
        except (ValueError, LookupError, TypeError, AttributeError):
            is_right = False
        if not is_right:
            raise InvalidArgument(f"{peer} sent an invalid description of its stages")


class PipelineSettings(Sparsely, Verified):
    stages: Sequence[Callable[[], Stage]] = position(kw_only=False)
    batch: Callable[[int, int], Sequence[Any]] = position(kw_only=False)
    known: Callable[[Any], Any] = position(kw_only=False)
    width: int = setting(check=integer(1), same=False)
    inner_steps: int = setting(check=integer(1))
    rank: Optional[int] = setting(default=None, check=optional(integer(1)), same=False)
    whole: bool = setting(default=False, check=truth, same=False)
    compress: str = setting(default="pipelines", check=choice(COMPRESS))
    ahead: int = setting(default=0, check=integer(0))
    admit_every: int = 1

    def _check(self) -> None:
        if self.rank is not None and self.rank > self.width:
            raise InvalidArgument(f"rank: {self.rank}; expected at most width, {self.width}")
        makers = list(self.stages)
        if not makers or not all(map(callable, makers)):
            raise InvalidArgument("stages: expected one function per stage that creates it")


class Pipeline(Method):
    """Trains a model that is cut into stages, in replicas of two kinds: a single peer with the whole model, or a
    pipeline of peers with one stage each, which pass on their results (SparseLoCo with subspace pipelines). Each
    replica trains independently for inner_steps steps. Then the peers that have the same stage make an outer step as in
    SparseLoCo, in a separate group for each stage.

    Transfers in pipelines are compressed. The residual stream, minus a part that all stages can compute, is sent as
    coordinates in a common basis: `rank` numbers instead of `width`. So is its gradient. The component outside the span
    of the basis is dropped. The gradient is exact for a model with such links, and the parameters are unrestricted.

    stages: for each stage, a function that creates it identically on all peers; called for this peer's stages.
    batch: (replica, step) -> the micro-batches of a step, any objects, the same on all peers of a replica.
    known: (micro-batch) -> the part of the residual stream that all stages can compute (embeddings of tokens and
        positions), as float32 in the stream's shape. It must not be a parameter. Zeros if there is no such part.
    width: size of the last dimension of the residual stream. rank: size of the basis; by default an eighth of width.
    whole: true if this peer has all stages.
    compress: "pipelines", "all" (peers with the whole model compute as if they were pipelines) or "none".
    ahead: number of micro-batches for each link that are computed in advance while it transfers others. Useful for long
        links; needs memory.
    kept, decay, lr, clip: as in SparseLoCo.

    A peer that leaves takes its replica out of the round, and the others continue. A newcomer takes the stage that most
    replicas lack, and gets the parameters from another peer that has it. Peers move to other stages if that completes
    more replicas. After each round, the parameters of a stage have the same bits on all peers that have it. If no peer
    has a stage, the others wait until one joins with the stage of this round, by rejoin() or load_state_dict(). For the
    other settings see Method.
    """

    @takes(PipelineSettings)
    def __init__(self, given: PipelineSettings) -> None:
        self._makers, self._how = list(given.stages), given
        self.batch, self.known, self.width, self.whole = given.batch, given.known, given.width, given.whole
        self.rank = max(1, given.width // 8) if given.rank is None else given.rank
        self._compresses = given.compress == "all" or (given.compress == "pipelines" and not given.whole)
        self._ahead = given.ahead
        self._basis = basis(given.seed, given.width, self.rank)
        super().__init__(given.comm, {"basis": self._basis}, given)
        self._held: Dict[int, _Held] = {}
        self._seats: Dict[str, Seat] = {}
        self._seat = Seat(0, WHOLE)
        self._complete: Set[int] = set()
        self._missing: Sequence[int] = ()
        self._neighbors: Dict[int, str] = {}  # peers of the neighboring stages, by stage
        self._groups: Dict[Tuple[str, ...], Communicator] = {}
        self._own_id = ""
        self._lost = False  # true if the replica takes no further part in this round
        self._has_met = self._have_gone = False
        self._stage_bytes = 0  # number of bytes of stages received from others since the last step
        if given.whole:
            self._hold(range(len(self._makers)))

    def _also_compared(self) -> Mapping[str, Any]:
        return {"stages": len(self._makers)}

    # ---- the stages of this peer

    @property
    def replica(self) -> int:
        return self._seat.replica

    @property
    def stages(self) -> Dict[int, Stage]:
        """The stages of this peer, by number."""
        return {number: held.stage for number, held in self._held.items()}

    def digests(self) -> Dict[int, str]:
        """Returns a digest of each stage of this peer, which after each round is equal on all peers with the stage."""
        with self._busy:
            return {number: held.digest() for number, held in self._held.items()}

    def linked(self, micro: Any, hidden: Any) -> Any:
        """Returns the part of a float32 numpy stream that the next stage receives over a compressed link. A model that
        was trained only by pipelines must be used with this function applied between its stages."""
        known = self._known(micro)
        return known + narrow(hidden - known, self._basis)

    @property
    def _columns(self) -> Optional[Any]:
        return self._basis if self._compresses else None

    def _hold(self, numbers: Sequence[int]) -> None:
        made = {
            number: self._held.get(number)
            or _Held(number, self._makers[number](), self._how, self._warn_of)
            for number in numbers
        }
        for number in set(made) - set(self._held):
            made[number].at = 0 if self.round == 0 else -1
        self._held = made

    def _write(self) -> None:
        super()._write()
        for held in self._held.values():
            held.write()

    def _moved(self) -> None:
        """Does nothing, because _hand_over() handles replaced stages and their feedback."""

    def _own(self) -> Dict[str, Any]:
        return {name: flat for held in self._held.values() for name, flat in held.own().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        before = self._held
        names = {name.split(".")[1] for name in state if name.startswith("stage.")}
        wrong = names - set(map(str, range(len(self._makers))))
        if wrong:
            raise InvalidArgument(f"load_state_dict: stage {min(wrong)}; expected 0 to {len(self._makers) - 1}")
        numbers = sorted(map(int, names))
        try:
            self._hold(range(len(self._makers)) if self.whole else numbers[:1])
            super().load_state_dict(state)
        except BaseException:
            self._held = before
            raise
        for number, held in self._held.items():
            held.at = self.round if number in numbers else -1
        self._write()

    # ---- a step

    def step(self) -> PipelineInfo:
        """Trains one step with the other peers of the replica. The last step of a round involves all peers, and so does
        each step while this peer is in no complete replica. If this peer is not in the run, the call only joins it."""
        if not self._is_in_run():
            return self.join()
        self._check_not_finished()
        info: PipelineInfo = self._jointly(self._train)  # type: ignore[assignment]
        return info

    def join(self) -> PipelineInfo:
        return self._in_words(super().join())

    def _in_words(self, info: StepInfo) -> PipelineInfo:
        if isinstance(info, PipelineInfo):
            return info
        told = {**asdict(info), "fragments": info.fragments}
        return PipelineInfo(**told, replica=self._seat.replica, stage=self._seat.stage)

    def _train(self) -> PipelineInfo:
        info = PipelineInfo(round=self.round, replica=self._seat.replica, stage=self._seat.stage)
        if self._seat.replica not in self._complete:
            info = replace(info, idle=True)
        else:
            micros = list(self.batch(self._seat.replica, self._step))
            if not micros:
                raise InvalidArgument("batch: no micro-batches")
            loss, sent = self._whole_batch(micros) if self.whole else self._piped_batch(micros)
            info = replace(info, loss=loss, lost=self._lost, activation_bytes=sent, waited_s=self._waited_s)
        # A peer that detects a loss at the end of a step can inform its neighbors only in the next step.
        trains_on = not info.idle and not (self.whole and self._lost)
        if trains_on and self._shared.position + 1 < self.inner_steps:
            self._shared.position += 1
            return info
        reached = self._reach()
        return replace(
            self._in_words(reached), replica=info.replica, stage=info.stage, loss=info.loss, lost=self._take_lost(),
            idle=info.idle, activation_bytes=info.activation_bytes,
        )

    def _take_lost(self) -> bool:
        was, self._lost = self._lost, False
        return was

    @property
    def _step(self) -> int:
        return self.round * self.inner_steps + self._shared.position

    def _optimize(self, micro_batches: int) -> None:
        for held in self._held.values():
            if self._lost:
                held.stage.forget()
            else:
                held.stage.step(self._step, micro_batches)

    def _known(self, micro: Any) -> Any:
        known = np.asarray(self.known(micro), np.float32)
        if known.ndim == 0 or known.shape[-1] != self.width:
            raise InvalidArgument(f"known: {known.shape}; expected {self.width} in the last dimension")
        return known

    # ---- as a whole

    def _whole_batch(self, micros: Sequence[Any]) -> Tuple[float, int]:
        losses = []
        for micro in micros:
            hidden: Any = None
            saved: List[Any] = []
            for number, held in sorted(self._held.items()):
                if number > 0 and self._compresses:
                    hidden = self.linked(micro, hidden)
                hidden, kept = held.stage.forward(micro, hidden)
                saved.append(kept)
            losses.append(float(hidden))
            gradient = None
            for number, held in sorted(self._held.items(), reverse=True):
                gradient = held.stage.backward(saved.pop(), gradient)
                if number > 0 and self._compresses:
                    gradient = narrow(gradient, self._basis)
        loss = float(np.mean(losses))
        self._lost = not np.isfinite(loss)
        self._optimize(len(micros))
        return loss, 0

    # ---- as a stage of a pipeline

    def _piped_batch(self, micros: Sequence[Any]) -> Tuple[Optional[float], int]:
        ((number, held),) = self._held.items()
        known = [self._known(micro) for micro in micros]
        flow = _Flow(self.comm, self._neighbors, number, known, self._columns, not self._lost)
        saved: Dict[int, Any] = {}
        losses: List[float] = []
        for kind, index in schedule(number, len(self._makers), len(micros), self._ahead):
            given = self._wait(lambda: flow.receive(kind, index))
            made = None
            if flow.is_sound and kind == FORWARD:
                made, saved[index] = held.stage.forward(micros[index], given)
                if number == len(self._makers) - 1:
                    losses.append(float(made))
                    flow.is_sound = bool(np.isfinite(losses[-1]))
            elif flow.is_sound:
                made = held.stage.backward(saved.pop(index), given)
            flow.send(kind, index, made)
        self._wait(flow.end)
        self._lost = not flow.is_sound
        self._optimize(len(micros))
        return float(np.mean(losses)) if losses and flow.is_sound else None, flow.sent_bytes

    # ---- the end of a round

    def _exchange_reports(self, is_ready: bool, done: Sequence[int], digests: bool) -> Dict[str, _PeerReport]:
        """Exchanges the peers' reports, and returns them in order of rank. All peers must call it."""
        current = [number for number, held in self._held.items() if held.at == self.round]
        stage = WHOLE if self.whole else next(iter(current), None)
        held = {
            number: (held.at, held.digest() if digests else "", held.layout.mark())
            for number, held in self._held.items()
        }
        said = json.dumps({"stage": stage, "ready": is_ready, "done": list(done), "held": held})
        count = len(self._makers)
        return {peer: _PeerReport(peer, one, count) for peer, one in self._gather(said.encode(), IDS_TAG)}

    def _exchange(self) -> StepInfo:
        has_trained = self._seat.replica in self._complete and not self._lost
        is_ready = has_trained and all([held.changes.pack() for held in self._held.values()])
        heard: Dict[int, Tuple[Gathered, bool]] = {}  # with whether this peer sent; applied once all stages are done
        counted: Set[int] = set()
        sent = received = 0
        while True:
            told = self._exchange_reports(is_ready, list(heard), False)
            if all(len(told[peer].done) == len(self._seats[peer].stages(len(self._makers))) for peer in told):
                break
            ready = {peer: (self._seats[peer], one.is_ready) for peer, one in told.items()}
            counted = counting(ready, len(self._makers))
            for number, held in sorted(self._held.items()):
                if number in heard:
                    continue
                holders = [peer for peer in told if number in self._seats[peer].stages(len(self._makers))]
                tells = self._seat.replica in counted
                try:
                    found, tx, rx = self._wait(lambda: self._exchange_changes(holders, held.changes, tells))
                    heard[number], sent, received = (found, tells), sent + tx, received + rx
                except _GONE:
                    self._drop_group(holders)
        self._present, self._have_gone = len(told), len(told) < len(self._seats)
        done = {number for one in told.values() for number in one.done}
        if self._have_gone and (not counted or len(done) < len(self._makers)):
            self._shared.round -= 1  # all repeat the round, including peers that dropped out and return
            counted, heard = set(), {}
        committed = any([self._held[number].changes.apply(*what) for number, what in heard.items()])
        for held in self._held.values():
            held.at = self.round + 1
            held.write()
        return PipelineInfo(
            participants=len(counted), committed=committed, tx_bytes=sent, rx_bytes=received,
            skipped=has_trained and not is_ready,
        )

    def _exchange_changes(self, holders: Sequence[str], changes: Changes, tells: bool) -> Tuple[Gathered, int, int]:
        if len(holders) == 1:
            packed = memoryview(changes.packed if tells else b"")
            return [(holders[0], packed)], 0, 0
        operation = changes.operation(tells)
        (info,) = self._group(holders).run([operation])
        return operation.blobs, info.tx_bytes, info.rx_bytes

    def _group(self, peers: Sequence[str]) -> Communicator:
        """Returns a group of these peers, all of which must call it. Reused until it ends or stages are reassigned."""
        key = tuple(sorted(peers))
        if key not in self._groups:
            self._groups[key] = self.comm.group(peers)
        return self._groups[key]

    def _drop_group(self, peers: Sequence[str]) -> None:
        """Drops a group that has ended for all its members. The remaining peers create a new one."""
        group = self._groups.pop(tuple(sorted(peers)), None)
        if group is not None:
            group.close()

    # ---- seats

    def _met(self) -> None:
        self._has_met = True
        self._take_seat()

    def _meet(self) -> Meeting:
        """Waits until a replica can train."""
        meeting, log_at = super()._meet(), time.monotonic() + _LOG_AFTER_S
        while not self._complete and not self.finished:
            if time.monotonic() >= log_at:
                _log.warning("%s", self._wait_reason())
                log_at = time.monotonic() + 5 * _LOG_AFTER_S
            time.sleep(PAUSE_S)
            self._wait(self._membership.update)
            more = super()._meet()
            meeting = Meeting(
                more.participants, meeting.newcomers or more.newcomers, meeting.moved_bytes + more.moved_bytes
            )
        return meeting

    def _wait_reason(self) -> str:
        if self._missing:
            return (
                f"waiting for a peer that has the parameters of stage {self._missing[0]} of round {self.round}: use "
                "rejoin() after it dropped out, or load_state_dict()"
            )
        there = sorted(seat.stage for seat in self._seats.values())
        return f"waiting for a complete replica: of {len(self._makers)} stages, only {there} have peers"

    def _admit(self, admits: bool) -> Meeting:
        self._has_met = False
        meeting = super()._admit(admits)
        verifies = self._verify_every > 0 and self.round % self._verify_every == 0
        if not self._has_met and (self._have_gone or verifies):
            self._take_seat()
            if not self._complete and not self.finished:
                self._wait(self._membership.update)
                meeting = self._meet()
        self._have_gone = False
        return meeting

    def _take_seat(self) -> None:
        """Assigns the stages to peers, and transfers the parameters to peers that lack them. All peers must call it."""
        count = len(self._makers)
        while True:
            told = self._exchange_reports(False, [], True)
            self._own_id = self.comm.id
            self._seats = assign([(peer, one.stage) for peer, one in told.items()], count)
            self._seat = self._seats[self._own_id]
            self._complete = complete(self._seats, count)
            self._hold(self._seat.stages(count))
            there = {peer: one.held for peer, one in told.items()}
            plan, self._missing = handovers(self._seats, there, count, self.round), missing(there, count, self.round)
            if self._missing:
                self._complete = set()
            if not plan:
                break
            for number, handover in sorted(plan.items()):
                self._hand_over(number, handover, told)
        self._end_groups()
        self._find_neighbors()

    def _hand_over(self, number: int, handover: Handover, told: Mapping[str, _PeerReport]) -> None:
        donor, needing = handover
        if donor is None or self._own_id not in (donor, *needing):
            return
        held = self._held[number]
        if held.layout.mark() != told[donor].marks[number]:
            raise InvalidArgument(
                f"stages: the parameters of {number} have other names, shapes or types than the run's"
            )
        try:
            group = self._group([donor, *needing])
            for index, flat in enumerate(held.theta):
                group.broadcast(flat, root=donor, tag=DATA_TAG + index)
        except _GONE:
            self._drop_group([donor, *needing])
            return
        if self._own_id != donor:
            held.at = self.round
            held.changes.forget()
            held.write()
            self._stage_bytes += sum(flat.nbytes for flat in held.changes.theta)

    def _end_groups(self) -> None:
        """Closes the groups of the previous assignment."""
        for group in self._groups.values():
            group.close()
        self._groups.clear()

    def _find_neighbors(self) -> None:
        self._neighbors = {}
        if self.whole or self._seat.replica not in self._complete:
            return
        for peer, (replica, stage) in sorted(self._seats.items(), key=lambda pair: pair[1]):
            if replica == self._seat.replica and abs(stage - self._seat.stage) == 1:
                self._neighbors[stage] = peer

    def _leave(self) -> None:
        super()._leave()
        self._groups.clear()
        self._lost = False

    def _completed(self, info: StepInfo, meeting: Meeting) -> StepInfo:
        moved, self._stage_bytes = self._stage_bytes, 0
        told = super()._completed(info, meeting)
        return replace(told, moved_bytes=told.moved_bytes + moved)
