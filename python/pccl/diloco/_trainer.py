"""A peer in a DiLoCo run: rounds of inner steps, and their boundaries."""

from __future__ import annotations

import contextlib
import logging
import math
import operator
import threading
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar

from .. import _errors, _threads
from .._communicator import Communicator
from .._errors import InvalidArgument, InvalidUsage, LayoutError, NotConnected
from .._state import TensorInfo
from . import _arrays, _membership
from ._arrays import Flats, Layout, Scratch
from ._membership import Meeting, Membership
from ._outer import Nesterov
from ._reduction import CODECS, Reduced, Reduction
from ._shared import Shared

_T = TypeVar("_T")

_log = logging.getLogger("pccl.diloco")

BUCKET_BYTES = 16 << 20
_MODES = ("sync", "delayed", "eager")
_WEIGHTS = ("uniform", "tokens")


@dataclass(frozen=True)
class StepInfo:
    """The result of step(), join() and finish().

    synced: a round has ended.
    round: the number of rounds that have ended.
    participants: peers that took part in the reduction that was applied; 0 if there was none.
    tx_bytes: payload of that reduction that this peer sent.
    rx_bytes: payload of that reduction that this peer received.
    waited_s: seconds in which this peer could not train because it waited for others.
    committed: an outer step was applied.
    admitted: newcomers were admitted.
    joined: this peer itself was admitted: its parameters are the run's.
    moved_bytes: of shared state that this peer received: when it joined, or when a verification
        found it to differ.
    skipped: this peer's own delta was not finite and counted for nothing.
    finished: the run has ended: its parameters are final.
    """

    synced: bool = False
    round: int = 0
    participants: int = 0
    tx_bytes: int = 0
    rx_bytes: int = 0
    waited_s: float = 0.0
    committed: bool = False
    admitted: bool = False
    joined: bool = False
    moved_bytes: int = 0
    skipped: bool = False
    finished: bool = False


def not_connected() -> NotConnected:
    return _errors.not_connected("DiLoCo", "rejoin() takes a new one")


class _Flight:
    """A reduction in the background, and the question whether newcomers wait. The question is asked
    beside the reduction, so that it costs no extra round trips. If the reduction has a whole
    round's time, the question waits until the reduction has begun everywhere, so that newcomers are
    in time."""

    def __init__(self, comm: Communicator, reduction: Reduction, ask_at_once: bool) -> None:
        self._comm = comm
        self._asked: Optional[_threads.Job[bool]] = None
        if ask_at_once:
            self._ask()
        self._job = _threads.start(lambda: self._work(reduction))

    def _ask(self) -> _threads.Job[bool]:
        if self._asked is None:
            self._asked = _threads.start(self._comm.are_peers_pending)
        return self._asked

    def _work(self, reduction: Reduction) -> Tuple[Reduced, bool]:
        reduced = reduction.run(self._comm, self._ask)
        asked = self._ask()
        asked.wait()
        return reduced, asked.value()

    def result(self) -> Tuple[Reduced, bool]:
        self._job.wait()
        return self._job.value()

    def end(self) -> None:
        """To be called after the communicator was closed. Afterward nothing uses the memory any
        more."""
        self._job.wait()
        if self._asked is not None:
            self._asked.wait()


class _Own:
    """The start of a peer's round in "eager" mode: its parameters are ahead of the outer copy by
    the peer's own contribution to the mean that has not arrived yet. With the share s of this peer
    in the mean, the outer optimizer gets s * delta[t] for it now, and mean[t-1] - s * delta[t-1]
    for what the mean has brought. The optimizer is linear. So this equals the outer copy, stepped
    with the mean alone, and one more step from there with a momentum of the peer's own shares."""

    def __init__(self, layout: Layout) -> None:
        self.start, self._momentum = layout.zeros(), layout.zeros()

    def begin(self, theta: Flats, share: Flats, outer: Nesterov, scratch: Scratch) -> None:
        _arrays.copy(self.start, theta)
        for start, momentum, part in zip(self.start, self._momentum, share):
            outer.apply(start, momentum, part, scratch)

    def forget(self, theta: Flats) -> None:
        _arrays.copy(self.start, theta)
        _arrays.fill(self._momentum, 0.0)


class DiLoCo:
    """Peers train by themselves for inner_steps steps; then all make one outer step with the mean
    of their changes (delta = outer copy - parameters).

    params: a mapping from names to numpy arrays or torch tensors, or a torch.nn.Module, whose
        parameters that require gradients are trained. The program trains them in place, with any
        optimizer. float16, bfloat16, float32 or float64; the outer copy is in float32 (float64 for
        float64), in host memory.
    mode: "sync" waits for the reduction. "delayed" lets it run during the next round and applies it
        one round late. "eager" does so too, but applies each peer's own share at once, to its own
        parameters.
    codec: "u8-minmax" or "u8-zps": deltas are sent as 8 bits. weight: "uniform", or "tokens": a
        peer's weight is the number of samples of its round, as given to step() or add_samples().
    extra: arrays that are shared as well (a cursor, a schedule). The program must keep them equal
        on all peers at each boundary.
    share_buffers: newcomers get the module's buffers (BatchNorm's statistics) of one peer;
        otherwise, and afterward, buffers are each peer's own.
    min_peers: with fewer, a boundary waits for more; with several peer groups leave it at 1.
        verify_every: all peers compare their state by digests once in so many rounds; 0: never.
    rounds: the number of rounds of the run. After the last one it is `finished`: the parameters are
        final, and newcomers get them and learn that there is nothing left to train. linger_s:
        finish() of a finished run waits this long for late peers. A state_dict() of the end can be
        continued with more rounds.

    Shared, with the same bits on all peers after each boundary: the outer copy, its momentum,
    `round`, `samples` and extra. Not shared: the parameters between boundaries, in "eager" mode at
    boundaries also; the inner optimizer's state; random numbers. The settings must be the same on
    all peers; a newcomer with others is refused with a reason.

    Newcomers are admitted at boundaries and get the run's state, however many they are. Peers that
    die are left out: the mean is that of exactly those that remain. A peer that is alone continues
    with its own delta. If nobody has been in a run before (all restarted from checkpoints), the
    peer that has come furthest gives the state: min_peers makes them wait for each other.

    An exception that leaves step(), join() or finish(), Ctrl-C among them, means that this peer has
    left the run (its communicator is closed, so that nobody waits for it), with its shared state as
    of the last outer step and its parameters set to that. rejoin() continues with a new
    communicator. Errors in arguments change nothing.

    All calls except close() must come from one thread. Tags of reductions from 2**40 on are used.
    Memory of the host, besides the parameters: four times that of the outer copy, in "eager" mode
    six times.
    """

    def __init__(
        self,
        comm: Communicator,
        params: Any,
        *,
        inner_steps: int,
        outer: Nesterov = Nesterov(0.7, 0.9),
        mode: str = "sync",
        codec: Optional[str] = None,
        weight: str = "uniform",
        bucket_bytes: int = BUCKET_BYTES,
        max_in_flight: int = 4,
        extra: Optional[Mapping[str, Any]] = None,
        min_peers: int = 1,
        verify_every: int = 50,
        share_buffers: bool = False,
        rounds: Optional[int] = None,
        linger_s: float = 0.0,
    ) -> None:
        _check("inner_steps", inner_steps, 1)
        _check("min_peers", min_peers, 1)
        _check("verify_every", verify_every, 0)
        if rounds is not None:
            _check("rounds", rounds, 1)
        if not 0 <= linger_s < math.inf:
            raise InvalidArgument(f"linger_s: {linger_s!r}; expected a number of seconds, at least 0")
        _check_choice("mode", mode, _MODES)
        _check_choice("weight", weight, _WEIGHTS)
        if not isinstance(outer, Nesterov):
            raise InvalidArgument(f"outer: {outer!r} is not a pccl.diloco.Nesterov")
        self.inner_steps, self.outer, self.mode, self.weight = inner_steps, outer, mode, weight
        self.rounds = rounds
        self._verify_every, self._min_peers, self._linger_s = verify_every, min_peers, linger_s
        self._layout = Layout(params)
        self._scratch = Scratch(self._layout)
        self._reduction = Reduction(self._layout, codec, bucket_bytes, max_in_flight)
        buffers = _arrays.persistent_buffers(params) if share_buffers else None
        self._shared = Shared(self._layout, extra, buffers)
        settings = (
            _membership.mark("params", self._shared.layout_mark, self._layout.lines()),
            _membership.mark("extra and buffers", self._shared.mark(), self._shared.lines()),
            _membership.number("inner_steps", inner_steps),
            _membership.fraction("outer.lr", outer.lr),
            _membership.fraction("outer.momentum", outer.momentum),
            _membership.choice("mode", mode, _MODES),
            _membership.choice("codec", codec, list(CODECS)),
            _membership.choice("weight", weight, _WEIGHTS),
            _membership.number("bucket_bytes", bucket_bytes),
            _membership.number("min_peers", min_peers),
            _membership.number("verify_every", verify_every),
            _membership.limit("rounds", rounds),
            _membership.fraction("linger_s", linger_s),
        )
        self._membership = Membership(comm, self._shared, min_peers, rounds, settings)
        self._own = _Own(self._layout) if mode == "eager" else None
        self._busy = threading.RLock()  # held by whoever reads or writes the shared state
        self._in_run = False
        self._has_state = False  # a state of its own; otherwise join() takes the parameters
        self._position = 0
        self._counted = 0
        self._flight: Optional[_Flight] = None
        self._pending = False
        self._waited_s = 0.0
        self._stays_until = 0.0  # after the end of the run

    # ---- membership

    @property
    def comm(self) -> Communicator:
        return self._membership.comm

    def join(self) -> StepInfo:
        """Joins the run; connects the communicator if it is not connected. From then on the
        parameters are the run's. step() and `with` do it too. Joint with the others at their next
        boundary."""
        if self._is_in_run():
            return StepInfo(round=self.round, finished=self.finished)
        return self._jointly(self._join)

    def rejoin(self, comm: Communicator) -> StepInfo:
        """Continues with a new communicator after this peer has left the run. It is a newcomer
        then: it gets the state of a running run, or else of the peer that has come furthest among
        those that join together."""
        if self._is_in_run():
            raise InvalidUsage("DiLoCo: rejoin() while this peer is in the run")
        with self._busy:
            self._membership.comm = comm
        return self.join()

    def _join(self) -> StepInfo:
        if not self._has_state:
            self._layout.read(self._shared.theta)
        self._membership.enter(self.comm)
        meeting = self._meet()
        self._in_run = self._has_state = True
        self._pending = False
        if self._own is not None:
            self._own.forget(self._shared.theta)
        _arrays.fill(self._reduction.delta, 0.0)
        self._begin_round(0.0, None)
        return StepInfo(
            round=self.round,
            joined=True,
            admitted=meeting.newcomers,
            participants=meeting.participants,
            moved_bytes=meeting.moved_bytes,
            waited_s=self._waited_s,
            finished=self.finished,
        )

    # ---- steps

    def add_samples(self, count: int) -> None:
        """Counts samples (tokens) of this round, as step(samples=...) does."""
        count = operator.index(count)
        if count < 0:
            raise InvalidArgument(f"samples: {count}")
        self._counted += count

    def step(self, samples: int = 0) -> StepInfo:
        """Call it after each step of the inner optimizer. The last one of a round is joint with all
        peers. If this peer is not in the run, the call only joins: what was trained before is
        dropped."""
        if not self._is_in_run():
            return self.join()
        if self.finished:
            raise InvalidUsage(
                f"DiLoCo: step() after the end of the run, which has {self.rounds} rounds: its state_dict() goes on in "
                "one that has more"
            )
        self.add_samples(samples)
        self._position += 1
        if self._position < self.inner_steps:
            return StepInfo(round=self.round)
        return self._jointly(self._end_round)

    def finish(self) -> StepInfo:
        """Ends together with the others: waits for what is in flight and applies it, and sets the
        parameters to the outer copy, with the same bits on all peers that do so after the same
        step. Inner steps after the last boundary are dropped. All may then make more steps, unless
        the run has finished: then it waits linger_s for late peers, which must call finish() or
        close(), too."""
        if not self._is_in_run():
            raise InvalidUsage("DiLoCo: finish() of a peer that is not in the run")
        return self._jointly(self._finish)

    def close(self) -> None:
        """Leaves the run and closes the communicator; what is in flight is dropped. May be called
        any number of times."""
        self.comm.close()
        with self._busy:
            self._leave()

    def __enter__(self) -> DiLoCo:
        self.join()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None and self._is_in_run():
                self.finish()
        finally:
            self.close()

    # ---- what is shared

    @property
    def round(self) -> int:
        """Boundaries that the run has passed."""
        return self._shared.round

    @property
    def finished(self) -> bool:
        """The run has passed the last of its `rounds`: the parameters are final, whether this peer
        has trained them, has joined after the end, or has loaded a state of it."""
        return self.rounds is not None and self.round >= self.rounds

    @property
    def inner_step(self) -> int:
        """Inner steps that the run has made, for schedules; the same for newcomers."""
        return self.round * self.inner_steps + self._position

    @property
    def samples(self) -> int:
        """Samples that all peers together have counted in the reduced rounds."""
        return self._shared.samples

    def shared_tensors(self) -> List[TensorInfo]:
        return self._shared.tensors()

    def digest(self) -> str:
        """A digest of everything shared, in hexadecimal: the same on all peers after each
        boundary."""
        with self._busy:
            return self._shared.digest()

    def state_dict(self) -> Dict[str, Any]:
        """A copy of what is shared, as a flat dictionary of arrays and numbers for numpy.savez or
        torch.save. What is in flight is not in it: finish() first, or lose a round."""
        self._notice_close()
        with self._busy:
            return self._shared.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Call it before join() or rejoin(): the run continues from here, unless another peer has
        come further. Arrays may be of numpy or torch. Sets the parameters."""
        if self._is_in_run():
            raise InvalidUsage("DiLoCo: load_state_dict() of a peer that is in the run")
        with self._busy:
            self._shared.load_state_dict(state)
            self._layout.write(self._shared.theta)
            self._has_state = True

    # ---- joint work, on a thread where no signal interrupts arithmetic

    def _jointly(self, work: Callable[[], StepInfo]) -> StepInfo:
        self._layout.settle()
        comm = self.comm
        return _threads.blocking(lambda: self._guarded(comm, work), comm.close)

    def _guarded(self, comm: Communicator, work: Callable[[], StepInfo]) -> StepInfo:
        with self._busy:
            if comm is not self.comm:  # interrupted before this began; the peer now has another one
                raise not_connected()
            self._waited_s = 0.0
            try:
                if comm.closed:
                    raise not_connected()
                return work()
            except BaseException:
                self._drop_out()
                raise

    def _is_in_run(self) -> bool:
        self._notice_close()
        return self._in_run

    def _notice_close(self) -> None:
        """An interrupted call ends on a thread of its own, perhaps after this thread noticed the
        end."""
        if self._in_run and self.comm.closed:
            _threads.blocking(self._drop_out_if_closed)

    def _drop_out_if_closed(self) -> None:
        with self._busy:
            if self._in_run and self.comm.closed:
                self._drop_out()

    def _drop_out(self) -> None:
        self.comm.close()
        self._leave()
        with contextlib.suppress(LayoutError):  # if that was the reason
            self._layout.write(self._shared.theta)

    def _leave(self) -> None:
        """To be called after the communicator was closed."""
        if self._flight is not None:
            self._flight.end()
        self._flight = None
        self._in_run = self._membership.established = False
        self._position = self._counted = 0

    def _wait(self, call: Callable[[], _T]) -> _T:
        begin = time.monotonic()
        try:
            return call()
        finally:
            self._waited_s += time.monotonic() - begin

    def _end_round(self) -> StepInfo:
        if self.mode == "sync":
            skipped = self._measure()
            self._launch(0.0 if skipped else self._own_weight())
            reduced = self._land()
        else:
            reduced = self._land()
            skipped = self._measure()
        committed = self._commit(reduced)
        self._shared.round += 1
        if self.finished:
            if self.mode != "sync":  # also this round's, so that newcomers get the final state
                self._launch(0.0 if skipped else self._own_weight())
                reduced = self._land()
                committed = self._commit(reduced) or committed
            self._stays_until = time.monotonic() + self._linger_s
        meeting = self._admit(reduced)
        self._begin_round(0.0 if skipped else self._own_weight(), reduced)
        info = StepInfo(
            synced=True,
            committed=committed,
            admitted=meeting.newcomers,
            moved_bytes=meeting.moved_bytes,
            skipped=skipped,
        )
        return self._complete(info, reduced)

    def _finish(self) -> StepInfo:
        reduced = self._land()
        committed = self._commit(reduced)
        self._settle()
        if self.finished and self._linger_s > 0:
            self._wait(self._linger)
        return self._complete(StepInfo(committed=committed), reduced)

    def _settle(self) -> None:
        """Sets the parameters to the outer copy, when nothing is in flight."""
        if self._own is not None:
            self._own.forget(self._shared.theta)
        self._layout.write(self._shared.theta)
        self._position = self._counted = 0

    def _linger(self) -> None:
        """Waits for late peers as long as any peer wants to. All peers decide this alike."""
        while self._membership.any(time.monotonic() < self._stays_until):
            if self.comm.are_peers_pending():
                self.comm.update_topology()
                self._membership.meet(self._reduction.delta, self._reduction.mean)
            else:
                time.sleep(_membership.PAUSE_S)

    def _complete(self, info: StepInfo, reduced: Optional[Reduced]) -> StepInfo:
        info = replace(info, round=self.round, waited_s=self._waited_s, finished=self.finished)
        if reduced is None:
            return info
        return replace(
            info, participants=reduced.participants, tx_bytes=reduced.tx_bytes, rx_bytes=reduced.rx_bytes
        )

    # ---- parts of a boundary

    def _measure(self) -> bool:
        """Measures the delta of this round. Returns whether it is unusable."""
        delta = self._reduction.delta
        self._layout.measure(self._shared.theta if self._own is None else self._own.start, delta)
        if self._reduction.is_finite():
            return False
        _log.warning("round %d: this peer's delta is not finite and counts for nothing", self.round)
        _arrays.fill(delta, 0.0)
        return True

    def _own_weight(self) -> float:
        return 1.0 if self.weight == "uniform" else float(self._counted)

    def _launch(self, weight: float) -> None:
        self._reduction.give(weight, self._counted)
        self._flight = _Flight(self.comm, self._reduction, ask_at_once=self.mode == "sync")

    def _land(self) -> Optional[Reduced]:
        flight = self._flight
        if flight is None:
            return None
        reduced, self._pending = self._wait(flight.result)
        self._flight = None
        return reduced

    def _commit(self, reduced: Optional[Reduced]) -> bool:
        """Makes the outer step, if there is a mean."""
        if reduced is None:
            return False
        self._shared.samples += reduced.samples
        if reduced.weight == 0:
            return False
        if not self._reduction.mean_is_finite():
            _log.warning("round %d: the mean is not finite, so there is no outer step", self.round)
            return False
        shared = self._shared
        for theta, momentum, mean in zip(shared.theta, shared.momentum, self._reduction.mean):
            self.outer.apply(theta, momentum, mean, self._scratch)
        return True

    def _admit(self, reduced: Optional[Reduced]) -> Meeting:
        """All peers decide this alike, by what a joint call has told them."""
        count = self._membership.world() if reduced is None else reduced.participants
        if self._pending or count < self._min_peers or self.finished:
            self._pending = False
            self._wait(self.comm.update_topology)
            return self._meet()
        if count > 1 and self._verify_every > 0 and self.round % self._verify_every == 0:
            return Meeting(count, moved_bytes=self._wait(self._membership.verify))
        return Meeting(count)

    def _meet(self) -> Meeting:
        # An established peer receives nothing, so its delta stays intact.
        return self._wait(lambda: self._membership.meet(self._reduction.delta, self._reduction.mean))

    def _begin_round(self, weight: float, reduced: Optional[Reduced]) -> None:
        """Begins a round, unless the run has ended. `weight`: of the last round's delta, which the
        modes with a pipeline begin to reduce now."""
        if self.finished:
            self._settle()
            return
        if self._own is not None:
            _arrays.copy(self._reduction.mean, self._reduction.delta)
            _arrays.scale(self._reduction.mean, self._share(weight, reduced))
            self._own.begin(self._shared.theta, self._reduction.mean, self.outer, self._scratch)
        self._layout.write(self._shared.theta if self._own is None else self._own.start)
        if self.mode != "sync":
            self._launch(weight)
        self._position = self._counted = 0

    def _share(self, weight: float, reduced: Optional[Reduced]) -> float:
        """The share of this peer in the next mean, estimated from the last one."""
        if reduced is None or reduced.weight == 0:
            return 1.0 / self._membership.world() if weight > 0 else 0.0
        return min(1.0, weight / reduced.weight)


class LocalSGD(DiLoCo):
    """DiLoCo whose outer step is the plain average: parameters become the mean of the peers'
    parameters."""

    def __init__(self, comm: Communicator, params: Any, *, inner_steps: int, **settings: Any) -> None:
        super().__init__(comm, params, inner_steps=inner_steps, outer=Nesterov(1.0, 0.0), **settings)


def _check(name: str, value: Any, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidArgument(f"{name}: {value!r}; expected an integer of at least {least}")


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InvalidArgument(f"{name}: {value!r}; there are {', '.join(choices)}")
