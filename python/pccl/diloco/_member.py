"""A peer's membership in a run: joining, work together with the other peers, dropping out, and returning."""

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
    """Result of step(), join() and finish().

    synced: true if a round has ended.
    round: number of rounds that have ended.
    participants: number of peers in the most recently applied reductions, or in the smallest of them if they differ;
        before the first reduction, the number of peers. In pccl.methods: the number of peers in this step's reduction,
        or 0 without a reduction.
    tx_bytes: number of payload bytes that this peer sent in the reductions that ended.
    rx_bytes: number of payload bytes that this peer received in them.
    waited_s: time for which this peer could not train because it waited for others, in seconds.
    committed: true if an outer step was applied.
    admitted: true if newcomers were admitted.
    joined: true if this peer itself was admitted: its parameters are now the run's.
    moved_bytes: number of bytes of shared state that this peer received, because it joined or because a verification
        replaced its state.
    skipped: true if a reduction ended without this peer's delta, which was not finite.
    finished: true if the run has ended: its parameters are final.
    fragments: information about each reduction that ended.
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
    """Base of the runs in pccl.diloco and pccl.methods. If joint work with other peers raises an exception, this peer
    has left the run.

    drained: reason why this peer was drained, by drain() or an operator; None if it was not. Joint work then raises
        DrainedError at a boundary. The `with` statement treats it as a regular end.
    """

    _kind = "DiLoCo"  # name in errors

    def __init__(self, layout: Layout, shared: Shared, membership: Membership, rounds: Optional[int]) -> None:
        self.rounds = rounds
        self._layout, self._shared, self._membership = layout, shared, membership
        self._busy = threading.RLock()  # held while the shared state is read or written
        self._in_run = False
        self._has_state = False  # false until the first join(), which then takes the parameters as the state
        self._waited_s = 0.0
        self.drained: Optional[str] = None

    # ---- hooks of the subclasses

    def _join(self) -> StepInfo:
        raise NotImplementedError

    def _peers(self) -> int:
        """Returns the number of peers in the last reductions, for StepInfo."""
        return 0

    def _end(self) -> None:
        """Runs when `with` ends without an exception."""

    def _leave(self) -> None:
        """Leaves the run. Call it after closing the communicator."""
        self._membership.leave()
        self._in_run = False
        self._shared.forget_step()

    def _restore(self) -> None:
        """Restores the parameters from the state that this peer has after dropping out."""
        self._write()

    def _write(self) -> None:
        """Sets the parameters to the shared parameters."""
        self._layout.write(self._shared.theta)

    # ---- membership

    @property
    def comm(self) -> Communicator:
        return self._membership.comm

    def join(self) -> StepInfo:
        """Joins the run, and connects the communicator if necessary. Afterwards the parameters are the run's. Waits for
        the next boundary of the other peers. step() and `with` join automatically."""
        if self._is_in_run():
            return StepInfo(round=self.round, participants=self._peers(), finished=self.finished)
        return self._jointly(self._join)

    def rejoin(self, comm: Communicator) -> StepInfo:
        """Returns to the run with a new communicator, after this peer has left it. This peer is then a newcomer: it
        gets the run's state if the run still continues, and otherwise the state of the most advanced of the peers that
        join together."""
        if self._is_in_run():
            raise InvalidUsage(f"{self._kind}: rejoin() while this peer is in the run")
        with self._busy:
            self._membership.comm = comm
            self.drained = None
        return self.join()

    def drain(self) -> None:
        """Requests the drain of this peer, as Communicator.drain() does: it leaves at the next boundary, or after
        `drain_ms`. The other processes of its trainer leave with it. May be called from signal handlers."""
        self.comm.drain()

    def close(self) -> None:
        """Leaves the run and closes the communicator. Drops reductions in flight. May be called repeatedly."""
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
        """True if the run has completed its `rounds`: the parameters are final. This also holds for a peer that joined
        after the end or has loaded a final state."""
        return self.rounds is not None and self.round >= self.rounds

    def shared_tensors(self) -> List[TensorInfo]:
        return self._shared.tensors()

    def digest(self) -> str:
        """Returns a hexadecimal digest of the shared state, which is equal on all peers after each boundary."""
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
            if comm is not self.comm:  # interrupted before this began; the peer has a new communicator
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
        """Drops out if the communicator was closed. An interrupted call ends on another thread, possibly after this
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
        with contextlib.suppress(LayoutError):  # a LayoutError may be the reason for dropping out
            self._restore()

    def _wait(self, call: Callable[[], _T]) -> _T:
        begin = time.monotonic()
        try:
            return call()
        finally:
            self._waited_s += time.monotonic() - begin

    def _not_connected(self) -> NotConnected:
        return _errors.not_connected(self._kind, "rejoin() takes a new one")
