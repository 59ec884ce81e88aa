"""A fragment of the parameters: this peer's delta, its reduction, and the outer step."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Callable, NamedTuple, Optional, Sequence

from .. import _threads
from .._communicator import Communicator
from . import _catch_up, _outer
from ._arrays import Flats, Layout, Part, Scratch
from ._catch_up import Transfer
from ._copier import Copies
from ._inside import Inside
from ._outer import Outer
from ._reduction import Reduced, Reduction
from ._shared import NOT_LAUNCHED, Shared

_log = logging.getLogger("pccl.diloco")


@dataclass(frozen=True)
class FragmentInfo:
    """Cost and result of a fragment's reduction.

    fragment: number of the fragment.
    participants: number of peers that took part, not counting newcomers that lack the fragment. 0 if the reduction was
        aborted because a peer was lost; its deltas are then part of the fragment's next reduction.
    committed: true if an outer step was applied.
    tx_bytes, rx_bytes: number of payload bytes that this peer sent and received.
    waited_s: time for which this peer could not train because it waited for the reduction to end, in seconds.
    age: number of inner steps between the launch and the outer step.
    skipped: true if this peer's delta was not finite and was left out.
    """

    fragment: int
    participants: int = 0
    committed: bool = False
    tx_bytes: int = 0
    rx_bytes: int = 0
    waited_s: float = 0.0
    age: int = 0
    skipped: bool = False


class Landing(NamedTuple):
    """Result of a reduction that has ended. reduced: None if it was aborted."""

    info: FragmentInfo
    reduced: Optional[Reduced]
    launched: int  # inner step at which the delta was measured


class Fragment:
    """A fragment, which is reduced in the background between launch() and land(). The training thread makes or enqueues
    the copies before and after the reduction, and makes the outer step."""

    def __init__(
        self, index: int, part: Part, layout: Layout, shared: Shared, outer: Outer, period: int, reduction: Reduction,
        inside: Inside
    ) -> None:
        """period: inner steps between two launches. inside: the processes that hold shards of the same fragment and
        make the same steps."""
        self.index, self.part, self.outer, self.period, self.reduction = index, part, outer, period, reduction
        self.counted = 0  # samples since the last launch
        self.is_usable = True  # true if the last delta was finite; valid after measured()
        self.is_held = True  # true if this peer has the run's outer copy of the fragment
        self.received = 0  # number of bytes of the outer copy received
        self._layout, self._shared, self._inside = layout, shared, inside
        self._theta, self._momentum, self._second = [
            part.of(flats) for flats in (shared.theta, shared.momentum, shared.second)
        ]
        self._measuring: Optional[_threads.Job[None]] = None
        self._shown = Copies()  # copying of the outer copy to the parameters
        self._transfer: Optional[_threads.Job[None]] = None  # transfer of the outer copy to or from another peer
        self._job: Optional[_threads.Job[Optional[Reduced]]] = None
        self._again: Optional[Callable[[], None]] = None  # repeats the launch that is in flight

    @property
    def launched(self) -> int:
        return self._shared.launched(self.index)

    @property
    def is_launched(self) -> bool:
        """True if the fragment is in flight in the run, even if this peer has not launched it yet."""
        return self.launched != NOT_LAUNCHED

    @property
    def is_on_its_way(self) -> bool:
        return self._job is not None

    def measure(
        self, start: Flats, delta: Flats, step: int, weight: Callable[[int], float], at_once: bool
    ) -> None:
        """Measures the delta for a launch at this step, in the background unless at_once. start, delta: flat arrays of
        all fragments. weight: the delta's weight as a function of its samples."""
        loaded = self._layout.load(delta, self.part)
        counted, self.counted = self.counted, 0
        self._shared.set_launched(self.index, step)

        def weigh() -> None:
            loaded.wait()
            self._layout.subtract(start, delta, self.part)
            unusable, samples = self._inside.total(not self.reduction.is_finite(), counted)
            self.is_usable = unusable == 0
            if not self.is_usable:
                _log.warning("step %d: this peer's delta is not finite and is ignored", step)
            self.reduction.give(weight(samples) if self.is_usable else 0.0, samples)

        if at_once or self._inside.size > 1:  # collectives of the processes inside must follow the program's order
            self._measuring = None
            weigh()
        else:
            self._measuring = _threads.start(weigh)

    def measured(self) -> None:
        """Waits for the delta, the copy of the error-feedback residuals, and the last copies to the parameters. The
        outer copy may only be written after that."""
        job = self._measuring
        if job is not None:
            job.wait()
            job.value()
        self._shown.wait()

    def skip(self, step: int) -> None:
        """Launches the fragment at this step without a delta."""
        self._measuring, self.counted = None, 0
        self._shared.set_launched(self.index, step)
        self.contribute_nothing()

    def start_transfer(self, comm: Communicator, own: str, transfers: Sequence[Transfer]) -> None:
        """Sends or receives the outer copy in the background. The copy must not change until wait_for_transfer()
        returns."""
        mine = [transfer for transfer in transfers if own in transfer]
        arrays = [array for array in (*self._theta, *self._momentum, *self._second) if len(array) > 0]

        def carry() -> None:
            received = _catch_up.carry(comm, own, mine, arrays, self.reduction.state_tag)
            if received is not None:
                self.received += received
                self.is_held = True

        if mine:
            self._transfer = _threads.start(carry)

    def wait_for_transfer(self) -> None:
        """Waits for the transfers of start_transfer()."""
        job = self._transfer
        if job is not None:
            job.wait()
            job.value()

    def launch(self, comm: Communicator, repeat: bool) -> None:
        """Launches the reduction. repeat: whether to repeat it if a peer is lost, because all peers wait for it."""
        measuring = self._measuring

        def keep() -> None:
            if measuring is not None:
                measuring.wait()
                measuring.value()
            self.reduction.keep(comm)

        if self.reduction.has_feedback:
            self._measuring = _threads.start(keep)

        def reduce() -> Optional[Reduced]:
            self.measured()
            self.wait_for_transfer()
            return self.reduction.run(comm, repeat)

        self._job = _threads.start(reduce)
        self._again = (lambda: self.launch(comm, repeat)) if repeat else None

    def land(self, step: int) -> Landing:
        """Waits until the reduction has ended. step: the run's inner step."""
        begin = time.monotonic()
        reduced = self._outcome()
        launched = self.launched
        age = step - launched
        self._shared.set_launched(self.index, NOT_LAUNCHED)
        waited_s = time.monotonic() - begin
        info = FragmentInfo(self.index, waited_s=waited_s, age=age, skipped=not self.is_usable)
        if reduced is None:
            _log.info("fragment %d: its reduction was aborted; retrying in its next slot", self.index)
            if self._inside.rank == 0:  # the samples count for all processes inside
                self.counted += self.reduction.samples
            return Landing(info, None, launched)
        info = replace(
            info, participants=reduced.participants, tx_bytes=reduced.tx_bytes, rx_bytes=reduced.rx_bytes
        )
        _log.info(
            "fragment %d: %d peers, %d bytes sent, waited %.2f s, %d steps old",
            self.index, info.participants, info.tx_bytes, info.waited_s, age,
        )  # fmt: skip
        return Landing(info, reduced, launched)

    def _outcome(self) -> Optional[Reduced]:
        """Returns the outcome, which is the same for all processes inside.

        If trainers fail, a trainer may be in the mean of one shard but not in the mean of another. The reduction then
        counts for none of the processes. The sums of the names reveal this even if two shards each lack a different
        trainer, so that the numbers of participants are equal."""
        while True:
            assert self._job is not None
            self._job.wait()
            job, self._job = self._job, None
            reduced = job.value()
            if self._inside.agree(0 if reduced is None else reduced.names):
                return reduced
            self.reduction.take_back()
            if self._again is None:
                return None
            self._again()

    def commit(self, landing: Landing, scratch: Scratch) -> FragmentInfo:
        """Makes the outer step if there is a mean and this peer has the outer copy."""
        info, reduced, launched = landing
        if reduced is None:
            return info
        if self.index == 0:  # counted once, because each sample is in all fragments
            self._shared.samples += reduced.samples
        if reduced.weight == 0 or not self.is_held:
            return info
        if self._inside.highest(not self.reduction.mean_is_finite())[0]:
            _log.warning("fragment %d: the mean is not finite; skipping the outer step", self.index)
            self.reduction.take_back()
            return info
        outer = _outer.at(self.outer, launched, self.period)
        seconds = self._second or [None] * len(self._theta)
        for theta, momentum, second, mean in zip(self._theta, self._momentum, seconds, self.reduction.mean):
            _outer.apply(outer, theta, momentum, mean, scratch, second)
        self.reduction.count()
        return replace(info, committed=True)

    def show(self, alpha: float, room: Flats, scratch: Scratch) -> None:
        """Sets the parameters to the outer copy, mixed with a share alpha of the current parameters if these are
        finite. room: the flat arrays of all means."""
        kept = alpha if self.is_usable else 0.0
        self._shown = self._layout.show(self._shared.theta, self.part, kept, room, scratch)

    def contribute_nothing(self) -> None:
        """Makes this peer contribute nothing to the reduction in flight."""
        self.reduction.give(0.0, 0)
        self.is_usable = True

    def save_feedback(self, comm: Communicator, target: Flats) -> None:
        """Saves the residuals in `target`, the flat arrays of all fragments."""
        if self.reduction.has_feedback:
            self.measured()
            self.reduction.save_feedback(comm, self.part.of(target), self.is_on_its_way)

    def load_feedback(self, comm: Communicator, source: Flats) -> None:
        if self.reduction.has_feedback:
            self.reduction.load_feedback(comm, self.part.of(source))

    def end(self) -> None:
        """Waits for the background work, which then no longer uses any memory. Call it after closing the communicator.
        """
        for job in (self._measuring, self._job, self._transfer):
            if job is not None:
                job.wait()
        self._measuring = self._job = self._transfer = None
        self.counted, self.is_held = 0, True
