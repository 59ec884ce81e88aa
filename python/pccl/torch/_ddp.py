"""A communication hook for DistributedDataParallel: gradients are averaged among peers while backward goes on.

The buckets of DistributedDataParallel are not the same on all peers: it arranges them anew after its first iteration,
and a newcomer has its first one when the others have had many. So gradients are reduced in units of our own, which
depend on the parameters only. Units are launched in their order, however gradients come, so that peers never wait for
each other crosswise.
"""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Deque, Dict, List, Optional, Tuple

import torch

from .. import _threads
from .._communicator import Communicator
from .._enums import ReduceOp, Result
from .._errors import AbortedError, InvalidArgument, InvalidUsage, PCCLError
from .._reduce import QuantizationOptions, ReduceInfo
from ._gradients import BUCKET_BYTES, Bucket, make_buckets, trainable

_PAUSE_S = 0.02


class DDPState:
    """What ddp_hook works with.

    Each process of DistributedDataParallel's process group is a peer: with several, all have communicators of the same
    peer group, and the averages go over all processes of all of them. Gradients must have the same order on all peers,
    as they have for the same module. tag: of the first unit; those from there on are the hook's.

    A unit that fails because a peer was lost is repeated with those who remain. What no repetition mends, being alone
    (TooFewPeersError) among that, makes backward() raise a RuntimeError, and stands in `error` as it is: drop the step,
    call update_topology(), go on. If this peer itself fails in the middle of backward(), the others wait for the rest:
    give_up() ends their step too.
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
            raise InvalidArgument(f"DDPState: max_in_flight is {max_in_flight}")
        self.comm = comm
        self.quantization = quantization
        # backward comes to the last parameters first.
        self._units = make_buckets(reversed(trainable(module)), bucket_bytes, tag, torch.device("cpu"))
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
        """Why the last backward() failed."""
        return self._error

    @property
    def world_size(self) -> int:
        """How many peers the gradients of the last backward() are averages of: of its units, the fewest. 0 if it
        failed, or was none."""
        if self._error is not None or self._launched < len(self._units) or not self._units:
            return 0
        return min(end.result().local_world_size for end in self._ends)

    # ---- an iteration

    def _begin(self) -> None:
        if 0 < self._launched < len(self._ends):
            raise InvalidUsage(
                "ddp_hook: the last backward() was left in the middle: give_up() and update_topology() come first",
                result=Result.INVALID_USAGE,
            )
        concurrent.futures.wait(self._ends[: self._launched])
        self._error = None
        self._ends = [Future() for _ in self._units]
        self._missing = [len(unit.slots) for unit in self._units]
        self._launched = 0

    def _take(self, bucket: Any) -> Any:
        """A bucket whose gradients are complete. The future of its buffer with the averages in it."""
        if bucket.index() == 0:
            self._begin()
        copies: List[Tuple[torch.Tensor, torch.Tensor]] = []
        units: Dict[int, Future[ReduceInfo]] = {}
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            place = self._places.get(id(parameter))
            if place is None:
                raise InvalidArgument("ddp_hook: DDPState was made of another module, or parameters were replaced")
            number, view = place
            view.copy_(gradient)
            copies.append((gradient, view))
            units[number] = self._ends[number]
            self._missing[number] -= 1
        self._launch_complete_ones()
        return _when_all(list(units.values()), bucket.buffer(), copies)

    def _launch_complete_ones(self) -> None:
        while self._launched < len(self._units) and self._missing[self._launched] == 0:
            self._waiting.append((self._units[self._launched], self._ends[self._launched]))
            self._launched += 1
        self._keep_going()

    def _keep_going(self) -> None:
        """Each unit has a thread, which the end of the interpreter does not wait for."""
        with self._changed:
            while self._waiting and self._in_flight < self._max_in_flight:
                self._in_flight += 1
                unit, end = self._waiting.popleft()
                _threads.start(functools.partial(self._reduce, unit, end))

    def _reduce(self, unit: Bucket, end: Future[ReduceInfo]) -> None:
        try:
            if self._error is not None:
                raise self._error  # peers that have failed too do not launch this one
            descriptor = unit.descriptor(ReduceOp.AVG, self.quantization)
            info = self.comm.all_reduce_multiple_with_retry([descriptor], max_in_flight=1)
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

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            first, self._error = self._error is None, self._error or error
        if first:
            self._end_units(1)  # others will not launch what is in flight here

    def _end_units(self, left: int) -> None:
        """Gives up what is in flight, until no more than `left` are: some may be about to be launched just now."""
        while True:
            try:
                self.comm.abort()
            except PCCLError:
                return  # it is out of the run, and with it all have ended
            with self._changed:
                if self._changed.wait_for(lambda: self._in_flight <= left, _PAUSE_S):
                    return

    def give_up(self) -> None:
        """Ends a backward() that will not go on, for all peers; update_topology() is what all of them call next."""
        with self._changed:
            error = AbortedError("ddp_hook: given up", result=Result.RANK_CONNECTION_LOST, ext=Result.ABORTED)
            self._error = self._error or error
        self._end_units(0)
        concurrent.futures.wait(self._ends[: self._launched])
        for unit, end in zip(self._units, self._ends):
            if not end.done() or end.exception() is not None:
                self._refuse(unit)
                break
        self._ends, self._launched = [], 0

    def _refuse(self, unit: Bucket) -> None:
        """Lets the first unit that is not reduced fail, which others wait for, or will. Given up alone it might be just
        in time to succeed; something else under its tag does not."""
        nothing = torch.zeros(1)
        try:
            handle = self.comm.all_reduce_async(nothing, nothing, op=ReduceOp.MAX, tag=unit.tag)
            self.comm.abort()
            handle.wait()
        except PCCLError:
            pass  # there is nobody who could wait


def _when_all(
    ends: List[Future[ReduceInfo]], buffer: torch.Tensor, copies: List[Tuple[torch.Tensor, torch.Tensor]]
) -> Any:
    """A torch future of the buffer: when all have ended, the averages are copied into it."""
    devices = [buffer.device] if buffer.device.type == "cuda" else None
    ready: Any = torch.futures.Future(devices=devices)
    left, lock = [len(ends)], threading.Lock()

    def ended(_: Future[ReduceInfo]) -> None:
        with lock:
            left[0] -= 1
            if left[0] > 0:
                return
        ready.set_result(None)

    def finish(_: Any) -> torch.Tensor:
        for end in ends:
            end.result()  # raises what went wrong
        for gradient, view in copies:
            gradient.copy_(view)
        return buffer

    finished = ready.then(finish)
    if not ends:
        ready.set_result(None)
    for end in ends:
        end.add_done_callback(ended)
    return finished


def ddp_hook(state: DDPState, bucket: Any) -> Any:
    """For ddp.register_comm_hook(state, ddp_hook): averages gradients among peers. bucket is a
    torch.distributed.GradBucket; what is returned a torch.futures.Future of its buffer."""
    return state._take(bucket)


ddp_hook.__annotations__.clear()  # torch compares them, and knows none that are text
