"""A communication hook for DistributedDataParallel that averages gradients among peers during backward.

The buckets of DistributedDataParallel differ between peers, because it rearranges them after its first iteration, which
a newcomer completes later than the other peers. Gradients are therefore reduced in separate units that depend only on
the parameters. Units are launched in a fixed order, whatever the order in which gradients become ready, so that peers
never wait for each other in a cycle.
"""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

import torch

from .. import _threads
from .._codec import QuantizationOptions
from .._communicator import Communicator
from .._enums import ReduceOp, Result
from .._errors import AbortedError, InvalidArgument, InvalidUsage, PCCLError
from .._reduce import ReduceInfo
from . import _staging
from ._devices import STREAMED
from ._gradients import BUCKET_BYTES, Bucket, make_buckets, trainable

_PAUSE_S = 0.02


class _Copies(NamedTuple):
    """Gradients, the locations of their averages, and the units with these locations."""

    gradients: List[torch.Tensor]
    views: List[torch.Tensor]
    units: List[Bucket]


class DDPState:
    """The state of ddp_hook.

    Each process of DistributedDataParallel's process group is a peer. If there are several, their communicators must be
    in the same peer group, and the averages are over all processes of all peers. Gradients must have the same order on
    all peers, which holds if they have the same module. tag: the tag of the first unit; the hook uses consecutive tags
    from there.

    If a unit fails because a peer was lost, it is repeated with the remaining peers. If a repetition cannot help, for
    example because this peer is alone (TooFewPeersError), backward() raises RuntimeError; `error` has the original
    exception. In that case drop the step, call update_topology() and continue. If this peer itself fails in the middle
    of backward(), the others wait for its gradients; give_up() ends their step as well.
    """

    def __init__(
        self,
        comm: Communicator,
        module: torch.nn.Module,
        *,
        bucket_bytes: int = BUCKET_BYTES,
        quantization: Optional[QuantizationOptions] = None,
        max_in_flight: int = 4,
        tag: int = 0,
    ) -> None:
        if max_in_flight < 1:
            raise InvalidArgument(f"DDPState: max_in_flight: {max_in_flight}; expected at least 1")
        self.comm = comm
        self.quantization = quantization
        # Backward produces the gradients of the last parameters first
        self._units = make_buckets(reversed(trainable(module)), bucket_bytes, tag, across_devices=True)
        self._places = {
            id(slot.parameter): (number, slot.view)
            for number, unit in enumerate(self._units)
            for slot in unit.slots
        }
        self._max_in_flight = max_in_flight
        self._changed = threading.Condition(threading.Lock())
        self._in_flight = 0
        self._waiting: Deque[Tuple[Bucket, Future[ReduceInfo]]] = deque()
        self._error: Optional[BaseException] = None
        self._ends: List[Future[ReduceInfo]] = []
        self._missing: List[int] = []
        self._launched = 0

    @property
    def error(self) -> Optional[BaseException]:
        """The exception that failed the last backward(), or None."""
        return self._error

    @property
    def world_size(self) -> int:
        """Number of peers in the averages of the last backward(), or the smallest number if units differ. 0 if it
        failed, or before the first one."""
        if self._error is not None or self._launched < len(self._units) or not self._units:
            return 0
        return min(end.result().local_world_size for end in self._ends)

    # ---- an iteration

    def _begin(self) -> None:
        if 0 < self._launched < len(self._ends):
            raise InvalidUsage(
                "ddp_hook: the last backward() was interrupted: call give_up() and update_topology() first",
                result=Result.INVALID_USAGE,
            )
        concurrent.futures.wait(self._ends[: self._launched])
        for unit in self._units:
            unit.join()  # skipped earlier if another unit failed
        self._error = None
        self._ends = [Future() for _ in self._units]
        self._missing = [len(unit.slots) for unit in self._units]
        self._launched = 0

    def _take(self, bucket: Any) -> Any:
        """Accepts a bucket whose gradients are complete. Returns the future of its buffer with the averages."""
        if bucket.index() == 0:
            self._begin()
        copies = _Copies([], [], [])
        ends: Dict[int, Future[ReduceInfo]] = {}
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            place = self._places.get(id(parameter))
            if place is None:
                raise InvalidArgument("ddp_hook: DDPState was created for another module, or parameters were replaced")
            number, view = place
            copies.gradients.append(gradient)
            copies.views.append(view)
            ends[number] = self._ends[number]
            self._missing[number] -= 1
        copies.units.extend(self._units[number] for number in ends)
        _staging.copy_all(copies.views, copies.gradients)
        for unit in copies.units:
            unit.written()
        self._launch_complete_ones()
        buffer = bucket.buffer()

        def finish(_: Any) -> torch.Tensor:
            self._bring(list(ends.values()), copies)
            return buffer

        return _when_all(list(ends.values()), buffer, finish)

    def _launch_complete_ones(self) -> None:
        while self._launched < len(self._units) and self._missing[self._launched] == 0:
            self._units[self._launched].load()
            self._waiting.append((self._units[self._launched], self._ends[self._launched]))
            self._launched += 1
        self._keep_going()

    def _keep_going(self) -> None:
        """Starts units, each on a separate daemon thread, which does not delay the end of the interpreter."""
        with self._changed:
            while self._waiting and self._in_flight < self._max_in_flight:
                self._in_flight += 1
                unit, end = self._waiting.popleft()
                _threads.start(functools.partial(self._reduce, unit, end))

    def _reduce(self, unit: Bucket, end: Future[ReduceInfo]) -> None:
        try:
            if self._error is not None:
                raise self._error  # the other peers have failed as well and do not launch this unit
            unit.wait()
            info = self._average(unit)
            unit.unload()
        except BaseException as error:
            self._fail(error)
            end.set_exception(error)
        else:
            end.set_result(info)
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()
            self._keep_going()

    def _average(self, unit: Bucket) -> ReduceInfo:
        descriptor = unit.descriptor(ReduceOp.AVG, self.quantization)
        return self.comm.all_reduce_multiple_with_retry([descriptor], max_in_flight=1)

    def _bring(self, ends: List[Future[ReduceInfo]], copies: _Copies) -> None:
        """Copies the averages to the gradients once the units have ended. Raises if a unit failed."""
        for end in ends:
            end.result()
        for unit in copies.units:
            unit.join()
        _staging.copy_all(copies.gradients, copies.views)

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            first, self._error = self._error is None, self._error or error
        if first:
            self._end_units(1)  # the other peers will not launch the units that are in flight here

    def _end_units(self, left: int) -> None:
        """Aborts operations until at most `left` units are in flight. One abort is not enough, because some units may
        be about to launch."""
        while True:
            try:
                self.comm.abort()
            except PCCLError:
                return  # this peer has left the run, which has ended all units
            with self._changed:
                if self._changed.wait_for(lambda: self._in_flight <= left, _PAUSE_S):
                    return

    def give_up(self) -> None:
        """Ends a backward() that will not continue, for all peers. All peers must call update_topology() next."""
        with self._changed:
            lost = Result.RANK_CONNECTION_LOST
            error = AbortedError("ddp_hook: cancelled by give_up()", result=lost, ext=Result.ABORTED)
            self._error = self._error or error
        self._end_units(0)
        concurrent.futures.wait(self._ends[: self._launched])
        for unit, end in zip(self._units, self._ends):
            if not end.done() or end.exception() is not None:
                self._refuse(unit)
                break
        self._ends, self._launched = [], 0

    def _refuse(self, unit: Bucket) -> None:
        """Makes the first unreduced unit fail, because other peers wait for it. An abort alone might be too late, but a
        different operation with the same tag cannot succeed."""
        nothing = torch.zeros(1)
        try:
            handle = self.comm.all_reduce_async(nothing, nothing, op=ReduceOp.MAX, tag=unit.tag)
            self.comm.abort()
            handle.wait()
        except PCCLError:
            pass  # no peer is still waiting


def _when_all(ends: List[Future[ReduceInfo]], buffer: torch.Tensor, finish: Callable[[Any], torch.Tensor]) -> Any:
    """Returns a torch future of the result of `finish`, which runs when all units have ended."""
    devices = [buffer.device] if buffer.device.type in STREAMED else None
    ready: Any = torch.futures.Future(devices=devices)
    left, lock = [len(ends)], threading.Lock()

    def ended(_: Future[ReduceInfo]) -> None:
        with lock:
            left[0] -= 1
            if left[0] > 0:
                return
        ready.set_result(None)

    finished = ready.then(finish)
    if not ends:
        ready.set_result(None)
    for end in ends:
        end.add_done_callback(ended)
    return finished


def ddp_hook(state: DDPState, bucket: Any) -> Any:
    """Averages gradients among peers, for ddp.register_comm_hook(state, ddp_hook). bucket is a
    torch.distributed.GradBucket. Returns a torch.futures.Future of its buffer."""
    return state._take(bucket)


ddp_hook.__annotations__.clear()  # torch compares annotations, and rejects strings
