"""A peer's life in a run: it joins, works together with the others, drops out, comes back."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import Callable, List, Optional, Tuple, TypeVar

from .. import _errors, _threads
from .._communicator import Communicator
from .._errors import DrainedError, InvalidUsage, LayoutError, NotConnected
from .._state import TensorInfo
from ._arrays import Layout
from ._fragment import FragmentInfo
from ._membership import Membership
from ._shared import Shared

_T = TypeVar("_T")
_M = TypeVar("_M", bound="Member")


@dataclass(frozen=True)
class StepInfo:
    """The result of step(), join() and finish().

    synced: a round has ended.
    round: the number of rounds that have ended.
    participants: peers that took part in the reductions that were applied last, of those with fewest; before the first,
        the peers that are there. pccl.methods: in this step; 0 if there was none.
    tx_bytes: payload that this peer sent in the reductions that ended.
    rx_bytes: payload that this peer received in them.
    waited_s: seconds in which this peer could not train because it waited for others.
    committed: an outer step was applied.
    admitted: newcomers were admitted.
    joined: this peer itself was admitted: its parameters are the run's.
    moved_bytes: of shared state that this peer received: when it joined, or when a verification
        found it to differ.
    skipped: this peer's own delta, of a reduction that has ended, was not finite and counted for
        nothing.
    finished: the run has ended: its parameters are final.
    fragments: what each reduction that ended has cost.
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
    fragments: Tuple[FragmentInfo, ...] = ()


class Member:
    """What pccl.diloco and pccl.methods have in common. An exception that leaves joint work means
    that this peer has left the run.

    drained: why this peer was drained, by drain() or an operator, as words; None: it was not. Joint work then raises
    DrainedError at a boundary, which `with` takes for its regular end.
    """

    _kind = "DiLoCo"  # as errors name it

    def __init__(self, layout: Layout, shared: Shared, membership: Membership, rounds: Optional[int]) -> None:
        self.rounds = rounds
        self._layout, self._shared, self._membership = layout, shared, membership
        self._busy = threading.RLock()  # held by whoever reads or writes the shared state
        self._in_run = False
        self._has_state = False  # a state of its own; otherwise join() takes the parameters
        self._waited_s = 0.0
        self.drained: Optional[str] = None

    # ---- what the classes do in their own way

    def _join(self) -> StepInfo:
        raise NotImplementedError

    def _peers(self) -> int:
        """In the last reductions, for StepInfo."""
        return 0

    def _end(self) -> None:
        """At the regular end of `with`."""

    def _leave(self) -> None:
        """To be called after the communicator was closed."""
        self._membership.leave()
        self._in_run = False
        self._shared.forget_step()

    def _restore(self) -> None:
        """Sets the parameters to what counts when this peer has dropped out."""
        self._write()

    def _write(self) -> None:
        """Sets the parameters to what is shared."""
        self._layout.write(self._shared.theta)

    # ---- membership

    @property
    def comm(self) -> Communicator:
        return self._membership.comm

    def join(self) -> StepInfo:
        """Joins the run; connects the communicator if it is not connected. From then on the
        parameters are the run's. step() and `with` do it too. Joint with the others at their next
        boundary."""
        if self._is_in_run():
            return StepInfo(round=self.round, participants=self._peers(), finished=self.finished)
        return self._jointly(self._join)

    def rejoin(self, comm: Communicator) -> StepInfo:
        """Continues with a new communicator after this peer has left the run. It is a newcomer
        then: it gets the state of a running run, or else of the peer that has come furthest among
        those that join together."""
        if self._is_in_run():
            raise InvalidUsage(f"{self._kind}: rejoin() while this peer is in the run")
        with self._busy:
            self._membership.comm = comm
            self.drained = None
        return self.join()

    def drain(self) -> None:
        """Asks for the drain of this peer, as Communicator.drain(): it leaves at the next boundary, or after
        `drain_ms`. The other processes of its trainer leave with it. A handler of a signal may call it."""
        self.comm.drain()

    def close(self) -> None:
        """Leaves the run and closes the communicator; what is in flight is dropped. May be called
        any number of times."""
        self.comm.close()
        with self._busy:
            self._leave()

    def __enter__(self: _M) -> _M:
        self.join()
        return self

    def __exit__(self, kind: object, error: object, _: object) -> bool:
        was_drained = isinstance(error, DrainedError) and self.drained is not None
        try:
            if kind is None and self._is_in_run():
                self._end()
        except DrainedError:
            was_drained = True
        finally:
            self.close()
        return was_drained

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

    def shared_tensors(self) -> List[TensorInfo]:
        return self._shared.tensors()

    def digest(self) -> str:
        """A digest of everything shared, in hexadecimal: the same on all peers after each
        boundary."""
        with self._busy:
            return self._shared.digest()

    # ---- joint work, on a thread where no signal interrupts arithmetic

    def _jointly(self, work: Callable[[], StepInfo]) -> StepInfo:
        self._layout.settle()
        comm = self.comm
        try:
            return _threads.blocking(lambda: self._guarded(comm, work), comm.close)
        finally:
            self._layout.beside.join()

    def _guarded(self, comm: Communicator, work: Callable[[], StepInfo]) -> StepInfo:
        with self._busy:
            if comm is not self.comm:  # interrupted before this began; the peer now has another one
                raise self._not_connected()
            self._waited_s = 0.0
            try:
                if comm.closed:
                    raise self._not_connected()
                return work()
            except BaseException as error:
                if isinstance(error, DrainedError):
                    self.drained = error.reason
                self._drop_out()
                raise

    def _is_in_run(self) -> bool:
        self._notice_close()
        return self._in_run

    def _notice_close(self) -> None:
        """An interrupted call ends on a thread of its own, perhaps after this thread noticed the
        end."""
        if self._in_run and self.comm.closed:
            self._layout.beside.begin()
            _threads.blocking(self._drop_out_if_closed)

    def _drop_out_if_closed(self) -> None:
        with self._busy:
            if self._in_run and self.comm.closed:
                self._drop_out()

    def _drop_out(self) -> None:
        self.comm.close()
        self._leave()
        with contextlib.suppress(LayoutError):  # if that was the reason
            self._restore()

    def _wait(self, call: Callable[[], _T]) -> _T:
        begin = time.monotonic()
        try:
            return call()
        finally:
            self._waited_s += time.monotonic() - begin

    def _not_connected(self) -> NotConnected:
        return _errors.not_connected(self._kind, "rejoin() takes a new one")
