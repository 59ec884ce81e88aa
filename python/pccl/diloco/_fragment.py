"""A fragment of the parameters: what this peer has trained of it, the reduction of that, and the
outer step."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import Callable, NamedTuple, Optional, Sequence

from .. import _threads
from .._communicator import Communicator
from . import _catch_up, _outer
from ._arrays import Flats, Layout, Part, Scratch
from ._beside import Copies
from ._catch_up import Gift
from ._inside import Inside
from ._outer import Outer
from ._reduction import Reduced, Reduction
from ._shared import NOT_LAUNCHED, Shared

_log = logging.getLogger("pccl.diloco")


@dataclass(frozen=True)
class FragmentInfo:
    """What the reduction of a fragment, which has ended, has cost.

    fragment: its number.
    participants: peers that took part, without newcomers that do not have the fragment yet; 0 if it
        was aborted, because one was lost meanwhile: what the peers have trained is then part of the
        fragment's next reduction.
    committed: an outer step was applied.
    tx_bytes, rx_bytes: payload that this peer sent and received.
    waited_s: seconds in which this peer could not train because it waited for the end.
    age: inner steps between the launch and the outer step.
    skipped: this peer's own delta was not finite and counted for nothing.
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
    """A reduction that has ended. reduced: None if it was aborted."""

    info: FragmentInfo
    reduced: Optional[Reduced]
    launched: int  # the inner step at which the delta was measured


class Fragment:
    """The reduction runs in the background, from launch() to land(). Of what comes before it and after it, the thread
    that trains makes two copies, or asks a device for them, and the outer step."""

    def __init__(
        self, index: int, part: Part, layout: Layout, shared: Shared, outer: Outer, period: int, reduction: Reduction,
        inside: Inside
    ) -> None:
        """period: inner steps between two launches. inside: the processes that have shards of the same fragment, and do
        with theirs what this one does."""
        self.index, self.part, self.outer, self.period, self.reduction = index, part, outer, period, reduction
        self.counted = 0  # samples since the last launch
        self.is_usable = True  # what was measured last, once measured() has returned
        self.is_held = True  # this peer has the run's outer copy of it
        self.received = 0  # bytes of that
        self._layout, self._shared, self._inside = layout, shared, inside
        self._theta, self._momentum, self._second = [
            part.of(flats) for flats in (shared.theta, shared.momentum, shared.second)
        ]
        self._measuring: Optional[_threads.Job[None]] = None
        self._shown = Copies()  # to the parameters, of the outer copy
        self._handing_on: Optional[_threads.Job[None]] = None  # the outer copy, to a newcomer or to this one
        self._job: Optional[_threads.Job[Optional[Reduced]]] = None
        self._again: Optional[Callable[[], None]] = None  # launches what is on its way once more

    @property
    def launched(self) -> int:
        return self._shared.launched(self.index)

    @property
    def is_launched(self) -> bool:
        """Whether all peers have it on its way, perhaps not yet this one."""
        return self.launched != NOT_LAUNCHED

    @property
    def is_on_its_way(self) -> bool:
        return self._job is not None

    def measure(
        self, start: Flats, delta: Flats, step: int, weight: Callable[[int], float], at_once: bool
    ) -> None:
        """Measures the delta for a launch at this step, in the background, unless it is needed at once. start, delta:
        of all fragments. weight: of the delta, by its samples."""
        loaded = self._layout.load(delta, self.part)
        counted, self.counted = self.counted, 0
        self._shared.set_launched(self.index, step)

        def weigh() -> None:
            loaded.wait()
            self._layout.subtract(start, delta, self.part)
            unusable, samples = self._inside.total(not self.reduction.is_finite(), counted)
            self.is_usable = unusable == 0
            if not self.is_usable:
                _log.warning("step %d: this peer's delta is not finite and counts for nothing", step)
            self.reduction.give(weight(samples) if self.is_usable else 0.0, samples)

        if at_once or self._inside.size > 1:  # the others inside are asked in the order of the program
            self._measuring = None
            weigh()
        else:
            self._measuring = _threads.start(weigh)

    def measured(self) -> None:
        """Waits until the delta is there, a copy of what error feedback keeps, and until the parameters have what was
        shown last. Only then may others write the outer copy."""
        job = self._measuring
        if job is not None:
            job.wait()
            job.value()
        self._shown.wait()

    def skip(self, step: int) -> None:
        """Measures nothing for the launch at this step."""
        self._measuring, self.counted = None, 0
        self._shared.set_launched(self.index, step)
        self.contribute_nothing()

    def hand_on(self, comm: Communicator, own: str, gifts: Sequence[Gift]) -> None:
        """Sends the outer copy, or receives it, in the background. It must not change before handed_on()."""
        mine = [gift for gift in gifts if own in gift]
        arrays = [array for array in (*self._theta, *self._momentum, *self._second) if len(array) > 0]

        def carry() -> None:
            received = _catch_up.carry(comm, own, mine, arrays, self.reduction.state_tag)
            if received is not None:
                self.received += received
                self.is_held = True

        if mine:
            self._handing_on = _threads.start(carry)

    def handed_on(self) -> None:
        """Waits until what hand_on() began has ended."""
        job = self._handing_on
        if job is not None:
            job.wait()
            job.value()

    def launch(self, comm: Communicator, repeat: bool) -> None:
        """repeat: everybody waits for it, so that it is not given up when a peer is lost."""
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
            self.handed_on()
            return self.reduction.run(comm, repeat)

        self._job = _threads.start(reduce)
        self._again = (lambda: self.launch(comm, repeat)) if repeat else None

    def land(self, step: int) -> Landing:
        """Waits for the end of the reduction. step: the run's inner step."""
        begin = time.monotonic()
        reduced = self._outcome()
        launched = self.launched
        age = step - launched
        self._shared.set_launched(self.index, NOT_LAUNCHED)
        waited_s = time.monotonic() - begin
        info = FragmentInfo(self.index, waited_s=waited_s, age=age, skipped=not self.is_usable)
        if reduced is None:
            _log.info("fragment %d: its reduction was aborted; it goes again in its next slot", self.index)
            if self._inside.rank == 0:  # they are those of all processes
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
        """The same for all processes inside. Where trainers die, one may be in the mean of one shard and not in that
        of another one: then the reduction counts for none of them. Their names tell, which two with one each cannot
        hide, as they would in numbers."""
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
        """Makes the outer step, if there is a mean, and an outer copy here to make it with."""
        info, reduced, launched = landing
        if reduced is None:
            return info
        if self.index == 0:  # a sample is in all fragments, and is counted once
            self._shared.samples += reduced.samples
        if reduced.weight == 0 or not self.is_held:
            return info
        if self._inside.highest(not self.reduction.mean_is_finite())[0]:
            _log.warning("fragment %d: the mean is not finite, so there is no outer step", self.index)
            self.reduction.take_back()
            return info
        outer = _outer.at(self.outer, launched, self.period)
        seconds = self._second or [None] * len(self._theta)
        for theta, momentum, second, mean in zip(self._theta, self._momentum, seconds, self.reduction.mean):
            _outer.apply(outer, theta, momentum, mean, scratch, second)
        self.reduction.count()
        return replace(info, committed=True)

    def show(self, alpha: float, room: Flats, scratch: Scratch) -> None:
        """Sets the parameters to the outer copy, but for the share alpha of what is finite. room:
        the flat arrays of all means."""
        kept = alpha if self.is_usable else 0.0
        self._shown = self._layout.show(self._shared.theta, self.part, kept, room, scratch)

    def contribute_nothing(self) -> None:
        """To what the others have on their way."""
        self.reduction.give(0.0, 0)
        self.is_usable = True

    def save_feedback(self, comm: Communicator, target: Flats) -> None:
        """target: of all fragments."""
        if self.reduction.has_feedback:
            self.measured()
            self.reduction.save_feedback(comm, self.part.of(target), self.is_on_its_way)

    def load_feedback(self, comm: Communicator, source: Flats) -> None:
        if self.reduction.has_feedback:
            self.reduction.load_feedback(comm, self.part.of(source))

    def end(self) -> None:
        """To be called after the communicator was closed. Afterward nothing uses the memory any
        more."""
        for job in (self._measuring, self._job, self._handing_on):
            if job is not None:
                job.wait()
        self._measuring = self._job = self._handing_on = None
        self.counted, self.is_held = 0, True
