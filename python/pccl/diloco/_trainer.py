"""A peer in a DiLoCo run: rounds of inner steps, and the boundaries between them."""

from __future__ import annotations

import math
import operator
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from .._described import takes
from .._errors import InvalidArgument, InvalidUsage
from . import _arrays, _catch_up, _checkpoint, _fragments, _membership, _outer, _reduction
from ._arrays import Flats, Layout, Part, Piece, Scratch
from ._catch_up import Attendance, CatchUp
from ._eager import Own
from ._fragment import Fragment, FragmentInfo, Landing
from ._inside import Inside, of_all_processes
from ._member import Member, StepInfo
from ._membership import Meeting, Membership
from ._outer import SGD, AdamW, Nesterov, Outer
from ._reduction import Packing, Reduction
from ._schedule import Schedule
from ._settings import CATCH_UPS, MODES, WEIGHTS, DiLoCoSettings, LocalSGDSettings
from ._shared import Kept, Shared


class _Report(NamedTuple):
    """Attendance reported by a reduction, the same on all peers."""

    present: int
    attendance: Optional[Attendance]  # None if no peer lacks fragments


class DiLoCo(Member):
    """Trains on each peer independently for inner_steps steps. Then all peers make one outer step with the mean of
    their changes (delta = outer copy - parameters).

    params: a mapping from names to numpy arrays or torch tensors, or a torch.nn.Module, whose parameters that require
        gradients are trained. The program trains them in place, with any optimizer. Types: float16, bfloat16, float32
        and float64. The outer copy is in host memory, in float64 for float64 parameters and in float32 for all others.
    mode: "sync" waits for the reduction. "delayed" lets it run during the next round and applies it one round late.
        "eager" does the same, but also applies each peer's share to its own parameters at once.
    outer: a Nesterov, SGD or AdamW, with a constant rate or a schedule; or a torch.optim.SGD or torch.optim.AdamW, of
        which only the hyperparameters are used; or a function of (theta, momentum, mean), a fragment's flat arrays,
        that changes the first two in place. The function must compute the same bits on all peers, without fused
        arithmetic or random numbers. Or a list of these, one for each fragment.
    fragments: the number of parts of the model that are reduced at different times, each once every inner_steps steps
        (streaming DiLoCo). Or a list of fragments, which are not cut: modules, or lists of names of parameters or
        modules. pattern: with a number, "strided" assigns the layers in turn, "contiguous" in runs. A layer is all
        parameters with the same name up to the first number, or else up to the last dot. Tensors are cut so that
        fragments have about equal sizes. offsets: the step of a round at which each fragment is launched; None spreads
        them evenly. periods: the period of each fragment in steps, instead of inner_steps; offsets are then within it.
    delay: the number of steps between a fragment's launch and its application, during which the peers continue to
        train; less than inner_steps. alpha: the share of its parameters that a peer keeps when a fragment is applied;
        0, which suits delay 0, sets them to the outer copy.
    codec: "u8-minmax", "u8-zps", "e4m3" or "e5m2" send 8 bits per delta; "int4", "e3m0" or "e2m1" 4; "bf16" 16; "auto"
        as many bits as can be sent in 20 % of the time between two rounds; "exact" sends them unchanged. Or any
        QuantizationOptions. None means "bf16" if all parameters have 16-bit types, otherwise "exact". Or a list of
        these, one for each fragment. feedback: adds the rounding error of an 8-bit or 4-bit format to the next delta.
    weight: "uniform"; or "tokens": a peer's weight is the number of samples since the fragment's last launch, as passed
        to step() or add_samples().
    extra: further arrays to share, for example a cursor or a schedule. The program must keep them equal on all peers at
        each boundary.
    share_buffers: newcomers get the module's buffers (for example BatchNorm's statistics) from one peer. After that
        each peer has its own, as it always does without this setting.
    min_peers: the number of peers for which a boundary waits. verify_every: the number of rounds after which all peers
        compare digests of their states, except while a newcomer catches up; 0: never.
    rounds: the number of rounds of the run. After the last one it is `finished`: the parameters are final, and
        newcomers get them and learn that training has ended. linger_s: the time for which finish() of a finished run
        waits for late peers. A final state_dict() can be continued with more rounds.
    catch_up: how newcomers get the run's state. "whole": at a boundary, while all other peers wait. "fragments": during
        training, each fragment between its next two slots, so that the others do not wait. The newcomer trains once it
        has all fragments, so its join() takes at least a round (the longest of `periods`), and returns within a later
        one. "fragments" is the default with fragments or a delay, unless there are `extra` arrays, shared buffers or
        shards.
    process_group: for a model of DTensors (fully_shard, FSDP2), the torch.distributed group over which it is sharded,
        by default all processes; or any group of processes that make the same steps. Each process constructs this
        object with Communicator(address, its rank), and its shard is averaged with the same shard of the other
        trainers. Either all processes of the group make an outer step, or none does. Each counts the samples that it
        trains on. The group must support tensors in CPU memory (gloo, pccl, "cpu:gloo,cuda:nccl").

    Shared, with the same bits on all peers after each outer step: the outer copy, its momentum, `round`, `samples`; at
    boundaries also extra. Not shared: the inner optimizer's state, random numbers, and the parameters between
    boundaries (in "eager" mode, with fragments and with alpha also at boundaries). All peers must have the same
    settings; a newcomer with different ones is refused with a reason.

    Any number of newcomers can be admitted at a boundary. They get the run's state (see catch_up), and all peers apply
    the reductions in flight at once. Peers that fail are left out: the mean is over exactly the remaining peers. With a
    delay, a fragment whose reduction lost a peer waits for its next slot, and then reduces the whole delta; the other
    fragments are not affected. A peer that is alone continues with its own delta. If no peer has been in a run before
    (all restarted from checkpoints), the most advanced peer provides the state; set min_peers to make them wait for
    each other.

    After an exception from step(), join() or finish(), including Ctrl-C, this peer has left the run: its communicator
    is closed, so that no peer waits for it, its shared state is as of the last outer step, and so are its parameters.
    rejoin() continues with a new communicator. Errors in arguments change nothing.

    All calls except close() must be made from one thread. Tags from 2**40 on are reserved. In addition to the
    parameters, uses host memory of four times the size of the outer copy (six times in "eager" mode). If parameters are
    on a CUDA device, two of these copies are page-locked.
    """

    @takes(DiLoCoSettings)
    def __init__(self, given: DiLoCoSettings) -> None:
        self._begin(given, given.outer)

    def _begin(self, given: LocalSGDSettings, outer: Union[Outer, Sequence[Outer]]) -> None:
        self.inner_steps, self._outer, self.mode, self.weight = given.inner_steps, outer, given.mode, given.weight
        self._verify_every, self._min_peers, self._linger_s = given.verify_every, given.min_peers, given.linger_s
        self._alpha, self._pipelined = given.alpha, given.mode != "sync"
        named = _arrays.named_parameters(given.params)
        sharded = _arrays.are_sharded(named)
        self._inside = inside = Inside(given.process_group or (of_all_processes() if sharded else None))
        pieces = _fragments.split(named, given.fragments, given.pattern)
        self._schedule = self._scheduled(given, len(pieces))
        catch_up = self._way_to_catch_up(given.catch_up, bool(given.extra or given.share_buffers), inside)
        self._layout = Layout(named, pieces, given.params)
        self._scratch = Scratch(self._layout)
        self._delta, self._mean = self._layout.zeros(staged=True), self._layout.zeros()
        outers = self._rules(outer)
        buffers = _arrays.persistent_buffers(given.params) if given.share_buffers else None
        has_second = any(isinstance(one, AdamW) for one in outers)
        self._shared = Shared(self._layout, given.extra, buffers, second=has_second)
        packings = _reduction.packings_of(given.codec, given.feedback, self._layout, len(pieces))
        parts = zip(self._layout.parts, outers, packings)
        self._fragments = [self._fragment(given, index, *about) for index, about in enumerate(parts)]
        settings = self._compared(given, pieces, outers, packings, catch_up)
        membership = Membership(given.comm, self._kind, self._shared, given.min_peers, given.rounds, settings, inside)
        membership.counters = self._shared if catch_up == "fragments" else None
        super().__init__(self._layout, self._shared, membership, given.rounds)
        if inside.size > 1:
            for fragment in self._fragments:
                fragment.reduction.name = membership.number
        self._own = Own(self._layout) if given.mode == "eager" else None
        self._is_midway = False  # true after loading a state that includes this peer's parameters
        self._feedback: Optional[Flats] = None  # residuals from a loaded state
        self._catch_up: Optional[CatchUp] = None  # set while any peer lacks fragments
        self._follows = False  # true while this peer itself lacks fragments
        # Attendance of fragments that finish() has applied early, with the step at which newcomers apply them.
        self._early_reports: Dict[int, Tuple[int, _Report]] = {}
        self._present = 0  # number of peers in the last meeting or reduction
        self._participants = 0  # number of peers in the last reductions; 0 before the first one
        self._last_weight = 0.0  # sum of the weights of all peers in the last reduction
        self._linger_until = 0.0  # end of the wait for late peers after the run

    def _scheduled(self, given: LocalSGDSettings, count: int) -> Schedule:
        schedule = Schedule.make(given.inner_steps, count, given.offsets, given.delay, given.periods)
        if not self._pipelined:
            return schedule
        if count > 1 or given.delay > 0 or given.alpha > 0 or given.periods is not None:
            raise InvalidArgument(
                f'fragments, delay, alpha and periods require mode="sync"; {given.mode!r} delays the whole model'
            )
        return replace(schedule, delay=given.inner_steps)

    def _rules(self, outer: Union[Outer, Sequence[Outer]]) -> List[Outer]:
        """Returns the outer optimizer of each fragment."""
        outers = _outer.per_fragment(outer, len(self._layout.parts))
        if self._layout.is_of_torch_doubles and any(isinstance(one, AdamW) for one in outers):
            raise InvalidArgument("outer: AdamW does not support torch's float64: square roots differ among machines")
        if self.mode == "eager" and not isinstance(outers[0], (Nesterov, SGD)):
            raise InvalidArgument('outer: mode="eager" requires a linear optimizer, Nesterov or SGD')
        if self.mode == "eager" and _outer.has_schedule(outers[0]):
            raise InvalidArgument('outer: mode="eager" requires a constant rate, not a schedule')
        return outers

    def _fragment(self, given: LocalSGDSettings, index: int, part: Part, rule: Outer, packing: Packing) -> Fragment:
        reduction = Reduction(
            index, part.of(self._delta), part.of(self._mean), self._layout.arrays, packing, given.bucket_bytes,
            given.max_in_flight,
        )
        period = self._schedule.periods[index]
        return Fragment(index, part, self._layout, self._shared, rule, period, reduction, self._inside)

    def _compared(
        self,
        given: LocalSGDSettings,
        pieces: Sequence[Sequence[Piece]],
        outers: Sequence[Outer],
        packings: Sequence[Packing],
        catch_up: str,
    ) -> Sequence[_membership.Setting]:
        """Returns the settings that must be the same on all peers."""
        return (
            _membership.listing("params", self._layout.lines()),
            _membership.number("inner_steps", given.inner_steps),
            _membership.listing("fragments", [", ".join(piece.label for piece in part) for part in pieces]),
            _membership.mark("extra and buffers", self._shared.mark(), self._shared.lines()),
            _membership.listing("offsets", [str(offset) for offset in self._schedule.offsets]),
            _membership.listing("periods", [str(period) for period in self._schedule.periods]),
            _membership.number("delay", given.delay),
            _membership.fraction("alpha", given.alpha),
            _membership.listing("outer", [_outer.words(one) for one in outers]),
            _membership.choice("mode", given.mode, MODES),
            _membership.codecs(packings, is_default=given.codec is None),
            _membership.choice("weight", given.weight, WEIGHTS),
            _membership.number("bucket_bytes", given.bucket_bytes),
            _membership.number("min_peers", given.min_peers),
            _membership.number("verify_every", given.verify_every),
            _membership.limit("rounds", given.rounds),
            _membership.fraction("linger_s", given.linger_s),
            _membership.choice("catch_up", catch_up, CATCH_UPS),
        )

    def _way_to_catch_up(self, given: Optional[str], has_more: bool, inside: Inside) -> str:
        overlaps = self._schedule.delay > 0 or len(self._schedule.offsets) > 1
        may = overlaps and not self._pipelined and not has_more and inside.size == 1
        if given is None:
            return "fragments" if may else "whole"
        if given == "fragments" and not may:
            raise InvalidArgument(
                'catch_up: "fragments" requires mode="sync", fragments or a delay, and no `extra`, buffers or shards'
            )
        return given

    @property
    def outer(self) -> Union[Outer, Sequence[Outer]]:
        """The outer optimizer. It cannot be replaced, because it is a setting of the run that is the same on all peers.
        For a changing rate use a schedule: Nesterov(lr=function)."""
        return self._outer

    @outer.setter
    def outer(self, value: object) -> None:
        raise InvalidUsage(
            "outer: cannot be replaced, because all peers of the run use the same one; for a rate that changes use a "
            "schedule: Nesterov(lr=function)"
        )

    # ---- membership

    def _join(self) -> StepInfo:
        if not self._has_state:
            self._layout.read(self._shared.theta)
        self._membership.enter(self.comm)
        on_its_way = self._layout.copy_of(self._delta) if self._is_midway else None
        meeting = self._meet()
        if not self._membership.established:
            return self._follow(meeting)
        self._in_run = self._has_state = True
        has_state = self._inside.highest(meeting.moved_bytes)[0] == 0  # the state is the run's, not a received one
        if has_state and on_its_way is not None:
            _arrays.copy(self._delta, on_its_way)
        else:
            self._settle()
            for fragment in self._fragments:
                fragment.contribute_nothing()
        if has_state and self._feedback is not None:
            for fragment in self._fragments:
                fragment.load_feedback(self.comm, self._feedback)
        self._is_midway, self._feedback, self._last_weight = False, None, 0.0
        if not self.finished:
            if self._pipelined and not self._fragments[0].is_launched:
                self._shared.set_launched(0, self.inner_step)  # the pipeline is never empty
            self._launch([fragment for fragment in self._fragments if fragment.is_launched])
            if self._schedule.delay > 0:
                self._membership.ask()
        return self._joined(meeting)

    def _joined(self, meeting: Meeting) -> StepInfo:
        return StepInfo(
            round=self.round,
            joined=True,
            admitted=meeting.newcomers,
            participants=meeting.participants,
            moved_bytes=meeting.moved_bytes,
            waited_s=self._waited_s,
            finished=self.finished,
        )

    def _follow(self, meeting: Meeting) -> StepInfo:
        """Follows the other peers step by step, without training, until this peer has all fragments. The parameters do
        not change before that."""
        kept = meeting.kept
        for name in ("theta", "momentum"):  # copied, because they are in memory that reductions need
            setattr(kept, name, self._layout.copy_of(getattr(kept, name)) if self._has_state else [])
        self._follows = self._membership.lacks_state = True
        try:
            for fragment in self._fragments:
                fragment.is_held, fragment.received = False, 0
                fragment.contribute_nothing()
            self._launch([fragment for fragment in self._fragments if fragment.is_launched])
            if self._schedule.delay > 0:
                self._membership.ask()
            while not all(fragment.is_held for fragment in self._fragments):
                self._shared.position += 1
                if self._schedule.acts(self.inner_step):
                    self._reach()
        except BaseException:
            self._restore_kept(kept)
            raise
        finally:
            self._follows = self._membership.lacks_state = self._is_midway = False
        self._membership.established = self._in_run = self._has_state = True
        self._settle()
        meeting.moved_bytes += sum(fragment.received for fragment in self._fragments)
        return self._joined(meeting)

    def _restore_kept(self, kept: Kept) -> None:
        """Restores the state that this peer had before it joined."""
        self.comm.close()
        self._leave()
        self._shared.restore(kept)
        if not self._has_state:
            self._layout.read(self._shared.theta)
            _arrays.fill(self._shared.momentum, 0.0)
            _arrays.fill(self._shared.second, 0.0)

    # ---- steps

    def add_samples(self, count: int) -> None:
        """Counts samples (tokens) of this round, as step(samples=...) does."""
        count = operator.index(count)
        if count < 0:
            raise InvalidArgument(f"samples: {count}; expected at least 0")
        for fragment in self._fragments:
            fragment.counted += count

    def step(self, samples: int = 0) -> StepInfo:
        """Counts an inner step. Call it after each step of the inner optimizer. In the last step of a round, all peers
        synchronize. If this peer is not in the run, the call only joins it, and drops earlier training."""
        if not self._is_in_run():
            return self.join()
        if self.finished:
            raise InvalidUsage(
                f"DiLoCo: step() after the end of the run, which has {self.rounds} rounds; to continue training, load "
                "its state_dict() into a run with more rounds"
            )
        self.add_samples(samples)
        self._shared.position += 1
        if not self._schedule.acts(self.inner_step):
            return StepInfo(round=self.round, participants=self._peers())
        return self._jointly(self._reach)

    def finish(self) -> StepInfo:
        """Ends together with the other peers: waits for the reductions in flight and applies them, and sets the
        parameters to the outer copy, which has the same bits on all peers that call this after the same step. Drops
        training since the last launch or boundary, and the steps since the last boundary. While a newcomer catches up,
        these steps still count, and the newcomer continues through its own steps. Afterwards all may make more steps,
        unless the run has finished: then it waits linger_s for late peers, which must also call finish() or close()."""
        if not self._is_in_run():
            raise InvalidUsage("DiLoCo: finish() on a peer that is not in the run")
        return self._jointly(self._finish)

    # ---- shared state

    @property
    def inner_step(self) -> int:
        """Number of inner steps that the run has made, the same for newcomers. Suitable for schedules."""
        return self.round * self.inner_steps + self._shared.position

    @property
    def samples(self) -> int:
        """Number of samples that all peers together have counted in the rounds reduced so far."""
        return self._shared.samples

    def state_dict(self) -> Dict[str, Any]:
        """Returns a copy of the shared state: a flat dictionary of arrays, numbers and lists for numpy.savez or
        torch.save. Within a round, and with fragments at any time, it includes this peer's parameters and its
        reductions in flight: if all peers load their states of the same step, the run continues with the same bits.
        While this peer is in the run, it also includes the error-feedback residuals. In "eager" mode, reductions in
        flight are lost unless finish() is called first."""
        self._notice_close()
        with self._busy:
            state = self._shared.state_dict()
            if self._own is None and not self._is_settled():
                state.update(_checkpoint.save(self._layout, self._shared, self._fragments, self._delta))
            if self._in_run and any(fragment.reduction.has_feedback for fragment in self._fragments):
                kept = self._layout.zeros()
                for fragment in self._fragments:
                    fragment.save_feedback(self.comm, kept)
                state.update(_checkpoint.named_feedback(self._layout, kept))
            return state

    def _is_settled(self) -> bool:
        """Returns true if the shared state is complete: at a boundary, with no reduction in flight and all parameters
        equal to the outer copy."""
        schedule = self._schedule
        is_whole = schedule.offsets == (0,) and self.inner_steps % schedule.periods[0] == 0 and self._alpha == 0
        return is_whole and self._shared.position == 0 and not self._fragments[0].is_launched

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state before join() or rejoin(). The run continues from it, unless another peer is more advanced. The
        arrays may be of numpy or torch. Sets the parameters. If it raises, nothing has changed."""
        if self._is_in_run():
            raise InvalidUsage("DiLoCo: load_state_dict() on a peer that is in the run")
        with self._busy:
            shared, rest, kept = _checkpoint.split(state)
            if self._own is not None:
                rest = {}  # not sufficient in "eager" mode, which has more in flight
            self._shared.check(shared)
            if rest:
                _checkpoint.check(rest, self._layout, self._fragments, self.inner_steps)
            self._feedback = _checkpoint.feedback_of(kept, self._layout) if kept else None
            self._shared.load_state_dict(shared)
            self._layout.write(self._shared.theta)
            if rest:
                _checkpoint.load(rest, self._layout, self._shared, self._fragments, self._delta)
            self._has_state, self._is_midway = True, bool(rest)

    def _reach(self) -> StepInfo:
        """Makes a step that involves the other peers: fragments are launched or due, or a round ends."""
        step = self.inner_step
        for fragment in self._fragments:
            self._handle_early_report(fragment, step, transfers=True)
        is_boundary = self._schedule.is_boundary(step)
        landed = [self._land(fragment) for fragment in self._fragments if self._is_due(fragment, step)]
        launching = [self._fragments[index] for index in self._schedule.launches(step)]
        for fragment in launching:
            self._measure(fragment)
        if self._schedule.delay == 0:
            self._launch(launching)
            if is_boundary:
                self._membership.ask()
            landed, launching = [self._land(fragment) for fragment in launching], []
        ended = [self._commit(landing, transfers=True) for landing in landed]
        info = StepInfo()
        if is_boundary:
            meeting = self._end_round(launching, ended)
            info = replace(info, synced=True, admitted=meeting.newcomers, moved_bytes=meeting.moved_bytes)
        if not self.finished:
            self._launch(launching)
            if is_boundary and self._schedule.delay > 0:
                self._membership.ask()
        return self._complete(info, ended)

    def _is_due(self, fragment: Fragment, step: int) -> bool:
        return fragment.is_on_its_way and step >= fragment.launched + self._schedule.delay

    def _end_round(self, launching: List[Fragment], ended: List[FragmentInfo]) -> Meeting:
        """Ends a round. launching: measured fragments to be launched in this step."""
        self._shared.round, self._shared.position = self.round + 1, 0
        if self.finished:
            self._end_run(launching, ended)
        meeting = self._admit(ended)
        if self._pipelined and not self.finished:
            self._begin_round()
        elif meeting.moved_bytes > 0 and not self._follows:  # its outer copy was wrong, and so were its parameters
            self._layout.write(self._shared.theta)
        return meeting

    def _end_run(self, launching: List[Fragment], ended: List[FragmentInfo]) -> None:
        """Reduces all remaining deltas, so that newcomers get the final state."""
        self._drain(ended)
        now = {info.fragment for info in ended if info.age == 0}
        rest = [fragment for fragment in self._fragments if fragment.index not in now]
        for fragment in rest:
            if fragment not in launching:
                self._measure(fragment)
        self._launch(rest, repeat=True)
        for fragment in rest:
            ended.append(self._commit(self._land(fragment)))
        if not self._follows:
            self._settle()
        self._linger_until = time.monotonic() + self._linger_s

    def _finish(self) -> StepInfo:
        ended: List[FragmentInfo] = []
        early = self._catch_up is not None
        self._drain(ended, early)
        self._wait(self._membership.wait_for_answer)
        self._settle()
        if not early:  # newcomers continue through their steps, and meet this peer in one of them
            self._shared.forget_step()
        if self.finished and self._linger_s > 0:
            self._wait(self._linger)
        return self._complete(StepInfo(), ended)

    def _settle(self) -> None:
        """Sets the parameters to the outer copy."""
        if self._own is not None:
            self._own.forget(self._shared.theta)
        self._layout.write(self._shared.theta)
        for fragment in self._fragments:
            fragment.counted = 0

    def _linger(self) -> None:
        """Waits for late peers as long as any peer wants to. All peers reach the same decision."""
        while self._membership.any(time.monotonic() < self._linger_until):
            if self.comm.are_peers_pending():
                self._membership.update()
                self._membership.meet(self._delta, self._mean)
            else:
                time.sleep(_membership.PAUSE_S)

    def _complete(self, info: StepInfo, ended: Sequence[FragmentInfo]) -> StepInfo:
        self._participants = min(
            (one.participants for one in ended if one.participants > 0), default=self._participants
        )
        return replace(
            info,
            round=self.round,
            waited_s=self._waited_s,
            finished=self.finished,
            fragments=tuple(ended),
            committed=any(one.committed for one in ended),
            skipped=any(one.skipped for one in ended),
            participants=self._peers(),
            tx_bytes=sum(one.tx_bytes for one in ended),
            rx_bytes=sum(one.rx_bytes for one in ended),
        )

    def _peers(self) -> int:
        return self._participants or max(1, self._present)

    def _end(self) -> None:
        self.finish()

    def _leave(self) -> None:
        for fragment in self._fragments:
            fragment.end()
        self._is_midway, self._feedback = False, None
        self._catch_up, self._early_reports = None, {}
        super()._leave()

    # ---- parts of a step

    def _measure(self, fragment: Fragment) -> None:
        if self._follows:
            fragment.skip(self.inner_step)
            return
        start = self._shared.theta if self._own is None else self._own.start
        fragment.measure(start, self._delta, self.inner_step, self._weight_of, at_once=self._pipelined)

    def _weight_of(self, samples: int) -> float:
        return 1.0 if self.weight == "uniform" else float(samples)

    def _launch(self, fragments: Sequence[Fragment], repeat: bool = False) -> None:
        """Launches the fragments. If a peer is lost, repeats a reduction that all peers wait for (without a delay) or
        that the pipeline cannot take back."""
        for fragment in fragments:
            fragment.reduction.attendance = self._attendance_of(fragment)
            fragment.launch(self.comm, repeat or self._pipelined or self._schedule.delay == 0)

    def _attendance_of(self, fragment: Fragment) -> Callable[[], List[float]]:
        """Returns the function that computes this peer's attendance numbers for the fragment's reduction."""
        catch_up = self._catch_up
        if catch_up is None:
            return list
        return lambda: catch_up.entries(not fragment.is_held, sum(not one.is_held for one in self._fragments))

    def _handle_attendance(self, landing: Landing, transfers: bool, due: Optional[int]) -> int:
        """Handles the attendance that the reduction has reported, now or at the later step `due`. Returns the number of
        participants that hold the fragment."""
        reduced, catch_up = landing.reduced, self._catch_up
        # After an abort the number of remaining peers is unknown (0). Unless another reduction counts them, the next
        # boundary does.
        report = _Report(0 if reduced is None else reduced.participants, None)
        if reduced is not None and catch_up is not None:
            report = report._replace(attendance=catch_up.read(reduced.present))
        attendance, index = report.attendance, landing.info.fragment
        if attendance is not None and not attendance.holders and not self._has_everything():  # alone, without all
            raise _membership.state_is_lost()
        if due is None:
            self._handle_report(index, report, transfers)
        else:
            self._early_reports[index] = (due, report)
        return report.present - (0 if attendance is None else len(attendance.lacking))

    def _handle_report(self, index: int, report: _Report, transfers: bool) -> None:
        self._present = report.present
        attendance, catch_up = report.attendance, self._catch_up
        if attendance is None or catch_up is None:
            return
        if attendance.is_over:
            self._catch_up = None
        if transfers:
            turn = self._schedule.turn(index, self.inner_step)
            self._fragments[index].start_transfer(self.comm, catch_up.own, _catch_up.transfers_of(attendance, turn))

    def _handle_early_report(self, fragment: Fragment, step: float, transfers: bool) -> None:
        """Handles attendance that was received early, at the step at which newcomers receive it or all peers drain."""
        due, report = self._early_reports.get(fragment.index, (0, None))
        if report is not None and due <= step:
            del self._early_reports[fragment.index]
            self._handle_report(fragment.index, report, transfers)

    def _has_everything(self) -> bool:
        for fragment in self._fragments:
            self._wait(fragment.wait_for_transfer)
        return all(fragment.is_held for fragment in self._fragments)

    def _land(self, fragment: Fragment) -> Landing:
        landing = self._wait(lambda: fragment.land(self.inner_step))
        self._last_weight = 0.0 if landing.reduced is None else landing.reduced.weight
        return landing

    def _commit(self, landing: Landing, transfers: bool = False, due: Optional[int] = None) -> FragmentInfo:
        """Applies a reduction that has ended, and updates the parameters, except in the pipeline, where _begin_round()
        does so. transfers: send the fragment to peers that lack it. due: the later step at which newcomers apply it."""
        fragment = self._fragments[landing.info.fragment]
        info = fragment.commit(landing, self._scratch)
        info = replace(info, participants=self._handle_attendance(landing, transfers, due))
        if not (self._pipelined or self._follows) and (landing.reduced is not None or not fragment.is_usable):
            fragment.show(self._alpha, self._mean, self._scratch)
        return info

    def _drain(self, ended: List[FragmentInfo], early: bool = False) -> None:
        """Applies reductions in flight before they are due. All peers do so at the same step. early: newcomers do not,
        and apply them when they are due."""
        for fragment in self._fragments:
            if fragment.is_on_its_way:
                due = fragment.launched + self._schedule.delay if early else None
                ended.append(self._commit(self._land(fragment), due=due))
            elif not early:
                self._handle_early_report(fragment, math.inf, transfers=False)
        for fragment in self._fragments:
            self._wait(fragment.wait_for_transfer)

    def _admit(self, ended: List[FragmentInfo]) -> Meeting:
        """Admits newcomers. All peers reach the same decision, because it depends only on results that all have. The
        library admits no peers during reductions, and newcomers lack those in flight, so these are applied first."""
        is_pending = self._wait(self._membership.answer)
        may_admit = self._catch_up is None  # otherwise a fragment may be in transfer to a newcomer
        if (is_pending and may_admit) or self._present < self._min_peers or self.finished:
            self._drain(ended)
            self._wait(self._membership.update)
            return self._meet()
        if may_admit and self._present > 1 and self._verify_every > 0 and self.round % self._verify_every == 0:
            self._drain(ended)
            self._wait_for_copies()
            return Meeting(self._present, moved_bytes=self._wait(self._membership.verify))
        return Meeting(self._present)

    def _wait_for_copies(self) -> None:
        """Waits until nothing uses the outer copy, and the devices have completed their enqueued work."""
        for fragment in self._fragments:
            fragment.measured()
        self._layout.copier.wait()

    def _meet(self) -> Meeting:
        self._wait_for_copies()
        if self._follows and self._has_everything():  # this peer is now one of the senders
            self._membership.established, self._membership.lacks_state = True, False
        # Established peers receive nothing, so their deltas stay intact.
        meeting = self._wait(lambda: self._membership.meet(self._delta, self._mean))
        self._present = meeting.participants
        self._catch_up = CatchUp(meeting.roster, self.comm.id) if meeting.roster else None
        for fragment in self._fragments:
            fragment.is_held = fragment.is_held or self._catch_up is None
            if self._follows:
                fragment.contribute_nothing()  # the meeting has overwritten the deltas
        return meeting

    def _begin_round(self) -> None:
        """Begins a round of the pipeline, in which the last round's delta is reduced."""
        if self._own is None:
            self._layout.write(self._shared.theta)
            return
        _arrays.copy(self._mean, self._delta)
        _arrays.scale(self._mean, self._share())
        self._own.begin(self._shared.theta, self._mean, self._fragments[0].outer, self._scratch)
        self._layout.write(self._own.start)

    def _share(self) -> float:
        """Returns the ratio of this peer's share in the next mean to its weighted delta, estimated from the last mean.
        """
        weight = self._fragments[0].reduction.weight
        if weight == 0:
            return 0.0
        share = min(1.0, weight / self._last_weight) if self._last_weight > 0 else 1.0 / self._membership.world()
        return share / weight


class LocalSGD(DiLoCo):
    """DiLoCo with a plain average as the outer step: parameters become the mean of the peers' parameters."""

    @takes(LocalSGDSettings)
    def __init__(self, given: LocalSGDSettings) -> None:
        self._begin(given, Nesterov(1.0, 0.0))
