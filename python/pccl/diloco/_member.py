"""A peer's membership in a run: join, joint work with the other peers, drop-out, and return."""

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

    synced: true if a round has ended.
    round: the number of rounds that have ended.
    participants: peers that took part in the reductions that were applied last, in the one with the fewest; before the
        first reduction, the number of peers. pccl.methods: in this step; 0 without a reduction.
    tx_bytes: payload that this peer sent in the reductions that ended.
    rx_bytes: payload that this peer received in them.
    waited_s: seconds in which this peer could not train because it waited for others.
    committed: true if an outer step was applied.
    admitted: true if newcomers were admitted.
    joined: true if this peer itself was admitted: its parameters are now the run's.
    moved_bytes: bytes of shared state that this peer received, when it joined or when a verification replaced its
        state.
    skipped: true if a reduction ended without this peer's delta, which was not finite.
    finished: true if the run has ended: its parameters are final.
    fragments: the cost of each reduction that ended.
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
    """Base of the runs of pccl.diloco and pccl.methods. After an exception from joint work this peer has left the run.

    drained: the reason why this peer was drained, by drain() or an operator; None if it was not. Joint work then raises
    DrainedError at a boundary, which `with` handles as a regular end.
    """

    _kind = "DiLoCo"  # name in errors

    def __init__(self, layout: Layout, shared: Shared, membership: Membership, rounds: Optional[int]) -> None:
        self.rounds = rounds
        self._layout, self._shared, self._membership = layout, shared, membership
        self._busy = threading.RLock()  # held while the shared state is read or written
        self._in_run = False
        self._has_state = False  # true if it has a state; otherwise join() takes the parameters
        self._waited_s = 0.0
        self.drained: Optional[str] = None

    # ---- hooks of the subclasses

    def _join(self) -> StepInfo:
        raise NotImplementedError

    def _peers(self) -> int:
        """Returns the number of peers in the last reductions, for StepInfo."""
        return 0

    def _end(self) -> None:
        """Runs at the regular end of `with`."""

    def _leave(self) -> None:
        """Leaves the run. Call it after the communicator was closed."""
        self._membership.leave()
        self._in_run = False
        self._shared.forget_step()

    def _restore(self) -> None:
        """Sets the parameters to the state that remains after a drop-out."""
        self._write()

    def _write(self) -> None:
        """Sets the parameters to the shared ones."""
        self._layout.write(self._shared.theta)

    # ---- membership

    @property
    def comm(self) -> Communicator:
        return self._membership.comm

    def join(self) -> StepInfo:
        """Joins the run; connects the communicator if it is not connected. Afterwards the parameters are the run's.
        step() and `with` also join. Joint with the other peers at their next boundary."""
        if self._is_in_run():
            return StepInfo(round=self.round, participants=self._peers(), finished=self.finished)
        return self._jointly(self._join)

    def rejoin(self, comm: Communicator) -> StepInfo:
        """Continues with a new communicator after this peer has left the run. This peer is then a newcomer: it gets the
        state of a running run, or otherwise the state of the most advanced peer among the peers that join together."""
        if self._is_in_run():
            raise InvalidUsage(f"{self._kind}: rejoin() while this peer is in the run")
        with self._busy:
            self._membership.comm = comm
            self.drained = None
        return self.join()

    def drain(self) -> None:
        """Requests the drain of this peer, as Communicator.drain(): it leaves at the next boundary, or after
        `drain_ms`. The other processes of its trainer leave with it. A signal handler may call it."""
        self.comm.drain()

    def close(self) -> None:
        """Leaves the run and closes the communicator; drops reductions in flight. May be called any number of times."""
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

    # ---- shared state

    @property
    def round(self) -> int:
        """Number of boundaries that the run has passed."""
        return self._shared.round

    @property
    def finished(self) -> bool:
        """True if the run has passed the last of its `rounds`: the parameters are final, whether this peer has trained
        them, has joined after the end, or has loaded a state of it."""
        return self.rounds is not None and self.round >= self.rounds

    def shared_tensors(self) -> List[TensorInfo]:
        return self._shared.tensors()

    def digest(self) -> str:
        """Returns a digest of the shared state, in hexadecimal: the same on all peers after each boundary."""
        with self._busy:
            return self._shared.digest()

    # ---- joint work, on a thread where no signal interrupts arithmetic

    def _jointly(self, work: Callable[[], StepInfo]) -> StepInfo:
        self._layout.settle()
        comm = self.comm
        try:
            return _threads.blocking(lambda: self._guarded(comm, work), comm.close)
        finally:
            self._layout.copier.join()

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
        """Drops out if the communicator was closed. An interrupted call ends on another thread, perhaps after this
        thread has noticed the end."""
        if self._in_run and self.comm.closed:
            self._layout.copier.begin()
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
