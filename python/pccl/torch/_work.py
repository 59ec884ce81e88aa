"""Operations of torch.distributed under way."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist

from .._communicator import Communicator
from .._errors import PCCLError
from .._reduce import _Handle
from .._threads import SLICE_S
from . import _commit, _futures
from ._staging import Stage
from ._untraced import untrace

if TYPE_CHECKING:
    from ._backend import ProcessGroup

_NAMES_S = 3.0  # the library knows after where_ms, 2 s by default, for whom it waits
_UNLIMITED = timedelta(0)  # what torch passes for no timeout


class CollectiveError(dist.DistBackendError):  # type: ignore[misc]
    """An operation of a process group failed; the words say why. ranks: those of the default group that are lost or
    missing, as far as they are known. The exception of the library, if there is one, is its cause."""

    def __init__(self, words: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(words)
        self.ranks = tuple(ranks)


def names_of(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


class Part:
    """One operation of the library, and the communicator whose it is."""

    __slots__ = ("comm", "handle")

    def __init__(self, comm: Communicator, handle: _Handle[Any]) -> None:
        self.comm = comm
        self.handle = handle

    @property
    def over(self) -> bool:
        return self.handle._operation.outcome is not None

    def wait_briefly(self) -> bool:
        return self.handle._operation.wait_here(SLICE_S)

    def has_failed(self) -> bool:
        return self.handle._operation.wait_here(0) and self.handle._operation.error() is not None


class Ending(NamedTuple):
    """What becomes of a work.

    outputs   the tensors of its future
    finish    called once, after a success: brings the results to their places, if they are not there
    locally   called once, after a failure inside a backward: gives the outputs values that do no harm
    limit     after so long all ranks give it up
    """

    outputs: Sequence[torch.Tensor]
    finish: Optional[Callable[[], None]]
    locally: Callable[[], None]
    limit: timedelta
    stage: Stage


class Work(dist.Work):  # type: ignore[misc]
    """Ends when all of its parts have ended and the results are in their places. Any thread may wait, any number of
    times, and Ctrl-C ends the waiting and the operation."""

    def __init__(
        self,
        group: ProcessGroup,
        name: str,
        parts: Sequence[Part],
        ending: Ending,
        error: Optional[CollectiveError] = None,
    ) -> None:
        """error: it has failed already."""
        super().__init__()
        self._group = group
        self._name = name
        self._parts = list(parts)
        self._outputs = list(ending.outputs)
        self._finish: Optional[Callable[[], None]] = ending.finish
        self._locally: Optional[Callable[[], None]] = ending.locally
        self._stage = ending.stage
        self._limit_s = ending.limit.total_seconds()
        self._begin = time.monotonic()
        self._error = error
        self._over = error is not None
        self._ending = threading.Lock()
        self._future: Any = None

    # ---- what torch calls

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        self._await(None if timeout <= _UNLIMITED else time.monotonic() + timeout.total_seconds())
        self._group._sweep()
        if self._error is None:
            self._stage.join()
            return True
        if _commit.in_backward():
            self._let_backward_end()
            return True
        raise self._error

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        if not self._over and all(part.handle.test() for part in self._parts):
            self._await(None)
        return self._over

    def is_success(self) -> bool:
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        return self._error

    def result(self) -> List[torch.Tensor]:
        self.wait()
        return self._outputs

    def source_rank(self) -> int:
        """Of a receive from anybody that has succeeded: who sent."""
        outcome = self._parts[0].handle._operation.outcome if len(self._parts) == 1 else None
        info = outcome.info if outcome is not None else None
        if info is None or len(info.participants) != 2:
            return self._group.rank()
        return self._group._ids.index(info.participants[0])

    _source_rank = source_rank  # the name by which torch.distributed calls it

    def get_future(self) -> Any:
        """Returns the future of the outputs."""
        if self._future is None:
            devices = sorted({t.device for t in self._outputs if t.device.type == "cuda"}, key=str)
            self._future = _futures.of_work(self, self._lane(), devices, self._value)
        return self._future

    def _lane(self) -> Optional[int]:
        """Returns the lane of callbacks. Transfers have none, as their numbers differ among ranks."""
        if self._parts and self._parts[0].comm is self._group._comm:
            return _futures.lane_of(self._group.group_name, self._parts[0].handle.tag)
        return None

    @property
    def completer(self) -> _futures.Completer:
        return self._group._completer

    @property
    def is_over(self) -> bool:
        return self._over

    # ---- the end

    def _value(self) -> List[torch.Tensor]:
        if self._error is not None:
            raise self._error
        self._stage.join()  # torch lets whoever waits for the future continue behind the stream of this call
        return self._outputs

    def _let_backward_end(self) -> None:
        assert self._error is not None
        _commit.note(self._error)
        with self._ending:
            locally, self._locally = self._locally, None
        if locally is not None:
            locally()

    def _await(self, deadline: Optional[float]) -> None:
        """Until it is over. CollectiveError at the deadline; it then goes on. The group's limit ends it."""
        if self._over:
            return
        try:
            for part in self._parts:
                while not part.wait_briefly():
                    self._look_around(deadline)
        except CollectiveError:
            raise
        except BaseException as interrupt:
            self.interrupted(interrupt)
            raise
        self._settle()

    def interrupted(self, by: BaseException) -> None:
        """Whoever waited for it."""
        self._end(CollectiveError(f"{self._title()} was interrupted: {type(by).__name__}"))
        self._abort()

    def ends_soon(self) -> bool:
        return self._over or all(part.wait_briefly() for part in self._parts)

    def _look_around(self, deadline: Optional[float]) -> None:
        """What may end the waiting, other than the outcome."""
        now = time.monotonic()
        if len(self._parts) > 1 and any(part.has_failed() for part in self._parts):
            self._abort()  # those who are in the others may have heard of it before they began them
        why = self._group._why()
        if why is not None:
            self._fail(why)
        elif now - self._begin > self._limit_s:
            self._fail(f"not complete within {self._limit_s:g} s. {self._missing()}")
        elif deadline is not None and now > deadline:
            raise CollectiveError(f"{self._title()} is still under way, longer than its caller waits")

    def _missing(self) -> str:
        """Who has not come, if the library can tell."""
        end = time.monotonic() + _NAMES_S
        while time.monotonic() < end and not all(part.over for part in self._parts):
            waits = self._group._waits()
            if waits:
                return f"It waits as follows: {waits}"
            for part in self._parts:
                if not part.over:
                    part.wait_briefly()
                    break
        return ""

    def _fail(self, words: str) -> None:
        """Gives it up for all ranks. It is over when they agree; if it was about to succeed, it still does."""
        if self._error is None:
            self._error = self._group._error(f"{self._title()}: {words}", words)
            self._abort()

    def _abort(self) -> None:
        for comm in {part.comm for part in self._parts if not part.over}:
            try:
                comm.abort()
            except PCCLError:
                pass  # it has ended, and so have they

    def _settle(self) -> None:
        """All parts have outcomes."""
        with self._ending:
            if self._over:
                return
            failed = next((error for error in (part.handle._operation.error() for part in self._parts) if error), None)
            if failed is None:
                self._error = None
                self._bring_results()
            elif self._error is None:
                why = self._group._why_not(failed)
                self._error = self._group._error(f"{self._title()} failed: {why}", why)
                self._error.__cause__ = failed
            self._over = True
        if failed is not None:
            self._abort()

    def _bring_results(self) -> None:
        finish, self._finish, self._locally = self._finish, None, None
        try:
            if finish is not None:
                finish()
        except Exception as error:
            self._error = CollectiveError(f"{self._title()}: the result could not be brought to its tensors: {error}")

    def _end(self, error: CollectiveError) -> None:
        with self._ending:
            if not self._over:
                self._error, self._over = error, True

    def _title(self) -> str:
        return f"pccl: {self._name} of group {self._group.group_name!r}, rank {self._group._world.rank}"


untrace(Work)
