"""Operations of torch.distributed in progress, and the process group in which they run."""

from __future__ import annotations

import hashlib
import threading
import time
from datetime import timedelta
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist

from .._communicator import Communicator
from .._errors import PCCLError
from .._handles import _Handle
from .._threads import SLICE_S
from . import _commit
from ._lanes import Lanes, lane_entries
from ._staging import Stage
from ._untraced import untrace
from ._world import World

_NAMES_S = 3.0  # the library reports waits after where_ms, which is 2 s by default
_PAIR_TAGS = 4096  # limit on the number of cached tags
_UNLIMITED = timedelta(0)  # torch's value for no timeout
_UNSET = timedelta(0)  # unset options have a negative timeout, which stands for the group's timeout


class CollectiveError(dist.DistBackendError):  # type: ignore[misc]
    """An operation of a process group failed; the message gives the reason. ranks: the lost or missing ranks of the
    default group, if they are known. The cause is the library's exception, if there is one."""

    def __init__(self, words: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(words)
        self.ranks = tuple(ranks)


def names_of(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def timed_out(seconds: float) -> str:
    """Returns gloo's message for a timeout. Programs match on it."""
    return f"Timed out waiting {1000 * seconds:.0f}ms"


class Part:
    """One of the library's operations, and its communicator."""

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
    """Actions at the end of a work.

    outputs   tensors of the work's future
    finish    called once after a success: copies the results to their places, if necessary
    locally   called once after a failure inside a backward: gives the outputs harmless values
    limit     time after which all ranks abandon it
    """

    outputs: Sequence[torch.Tensor]
    finish: Optional[Callable[[], None]]
    locally: Callable[[], None]
    limit: timedelta
    stage: Stage


class BaseWork(dist.Work):  # type: ignore[misc]
    """A work for torch. It ends when all of its parts have ended and the results are in place. Any thread may wait for
    it, repeatedly. Ctrl-C ends both the wait and the operation."""

    def __init__(
        self,
        group: Standing,
        name: str,
        parts: Sequence[Part],
        ending: Ending,
        error: Optional[CollectiveError] = None,
    ) -> None:
        """error: the work has already failed, for this reason."""
        super().__init__()
        self._group = group
        self._name = name
        self._parts = list(parts)
        self._outputs = list(ending.outputs)
        self._finish = ending.finish
        self._locally: Optional[Callable[[], None]] = ending.locally
        self._stage = ending.stage
        self._limit_s = ending.limit.total_seconds()
        self._begin = time.monotonic()
        self._error = error
        self._over = error is not None
        self._ending = threading.Lock()
        self._record: Any = None  # record of the profiler (_seen.py)

    def recorded(self, record: Any) -> None:
        """Attaches a profiler record that ends with the work."""
        self._record = record
        if self._over:
            record.end()

    # ---- called by torch

    def wait(self, timeout: timedelta = _UNLIMITED) -> bool:
        self._await(None if timeout <= _UNLIMITED else timeout.total_seconds())
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
        """Returns the sender of a completed receive from any rank, and this rank for other works."""
        outcome = self._parts[0].handle._operation.outcome if len(self._parts) == 1 else None
        info = outcome.info if outcome is not None else None
        if info is None or len(info.participants) != 2:
            return self._group.rank()
        return self._group._ids.index(info.participants[0])

    _source_rank = source_rank  # the name that torch.distributed uses

    @property
    def is_over(self) -> bool:
        return self._over

    # ---- end

    def _let_backward_end(self) -> None:
        assert self._error is not None
        _commit.note(self._error)
        with self._ending:
            locally, self._locally = self._locally, None
        if locally is not None:
            locally()

    def _await(self, seconds: Optional[float]) -> None:
        """Waits until the work has ended. Raises CollectiveError after this time, while the operation continues; only
        the group's limit ends it."""
        if self._over:
            return
        end = None if seconds is None else time.monotonic() + seconds
        try:
            for part in self._parts:
                while not part.wait_briefly():
                    self._look_around()
                    if end is not None and time.monotonic() > end:
                        words = f"{timed_out(seconds or 0.0)} for it to complete; it is still running"
                        raise CollectiveError(f"{self._title()}: {words}")
        except CollectiveError:
            raise
        except BaseException as interrupt:
            self.interrupted(interrupt)
            raise
        self._settle()

    def interrupted(self, by: BaseException) -> None:
        """Ends the work after a waiting thread was interrupted."""
        self._end(CollectiveError(f"{self._title()} was interrupted: {type(by).__name__}"))
        self._abort()

    def ends_soon(self) -> bool:
        return self._over or all(part.wait_briefly() for part in self._parts)

    def _look_around(self) -> None:
        """Checks for reasons to end the wait other than the outcome."""
        now = time.monotonic()
        if len(self._parts) > 1 and any(part.has_failed() for part in self._parts):
            self._abort()  # ranks that have seen the failure may never launch the other parts
        why = self._group._why()
        if why is not None:
            self._fail(why)
        elif now - self._begin > self._limit_s:
            self._fail(f"{timed_out(self._limit_s)} for it to complete. {self._missing()}")

    def _missing(self) -> str:
        """Returns the missing ranks, if the library has determined them."""
        end = time.monotonic() + _NAMES_S
        while time.monotonic() < end and not all(part.over for part in self._parts):
            waits = self._group._waits()
            if waits:
                return f"Pending waits: {waits}"
            for part in self._parts:
                if not part.over:
                    part.wait_briefly()
                    break
        return ""

    def _fail(self, words: str) -> None:
        """Abandons the work for all ranks. It ends when they agree; if it was about to succeed, it still does."""
        if self._error is None:
            self._error = self._group._error(f"{self._title()}: {words}", words)
            self._abort()

    def _abort(self) -> None:
        for comm in {part.comm for part in self._parts if not part.over}:
            try:
                comm.abort()
            except PCCLError:
                pass  # the communicator has ended, and so have the parts

    def _settle(self) -> None:
        """Ends the work after all parts have ended."""
        with self._ending:
            if self._over:
                return
            failed: Optional[PCCLError] = None
            for part in self._parts:
                failed = failed or part.handle._operation.error()
            if failed is None:
                self._error = None
                self._bring_results()
            elif self._error is None:
                why = self._group._why_not(failed)
                self._error = self._group._error(f"{self._title()} failed: {why}", why)
                self._error.__cause__ = failed
            self._over = True
        if self._record is not None:
            self._record.end()
        if failed is not None:
            self._abort()

    def _bring_results(self) -> None:
        finish, self._finish, self._locally = self._finish, None, None
        try:
            if finish is not None:
                finish()
        except Exception as error:
            self._error = CollectiveError(f"{self._title()}: cannot copy the result to its tensors: {error}")

    def _end(self, error: CollectiveError) -> None:
        with self._ending:
            if not self._over:
                self._error, self._over = error, True
        if self._record is not None:
            self._record.end()

    def _title(self) -> str:
        return f"pccl: {self._name} of group {self._group.group_name!r}, rank {self._group._world.rank}"


class Standing(dist.ProcessGroup):  # type: ignore[misc]
    """The members of a process group, the reason for its end, and its works in progress."""

    def __init__(
        self, world: World, ranks: Sequence[int], rank: int, timeout: timedelta, comm: Optional[Communicator]
    ) -> None:
        super().__init__(rank, len(ranks))
        self._timeout = timeout
        self._name = self._description = ""
        self._completer: Any = None  # completes futures (_futures.py)
        self._ended: Optional[str] = None
        self._form(world, ranks, rank, comm)

    def _form(self, world: World, ranks: Sequence[int], rank: int, comm: Optional[Communicator]) -> None:
        """Forms the group from these ranks of the world; comm connects their peers. No operation may be in progress."""
        self._world, self._ranks, self._rank = world, list(ranks), rank
        self._comm: Any = comm
        self._ids = tuple(world.ids[one] for one in self._ranks) if comm is not None else ()
        self._members = comm.members() if comm is not None else ()
        # Rank of each member of comm; None if the members are in the order of the ranks.
        self._order = None if self._members == self._ids else [self._ids.index(one) for one in self._members]
        self._core: Any = comm._core if comm is not None else None
        self._pool: Any = None  # pool of calls (_call.py)
        if comm is not None:
            comm._launching = {}
        self._is_whole = len(self._ranks) == world.size
        self._lanes = Lanes()
        # Works that have not ended, by tag, oldest first; transfers by id. There are no other references to works.
        self._under_way: Dict[int, BaseWork] = {}
        self._pairs: Dict[int, BaseWork] = {}
        self._pair_tags: Dict[object, int] = {}  # the library's tag for each tag of the program
        if comm is not None:
            world.groups.add(self)

    # ---- identity

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return len(self._ranks)

    getRank, getSize = rank, size

    def name(self) -> str:
        return "pccl"

    getBackendName = _get_backend_name = name

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name
        self._pair_tags.clear()

    _set_group_name = setGroupName

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    # ---- works in progress

    def _limit(self, opts: Any) -> timedelta:
        given = opts if isinstance(opts, timedelta) else getattr(opts, "timeout", None) or _UNSET
        return given if given > _UNSET else self._timeout

    def _hold(self, work: BaseWork, tags: Sequence[int]) -> None:
        if len(tags) == 1:
            self._under_way[tags[0]] = work
        elif tags:
            self._under_way.update(dict.fromkeys(tags, work))
        else:
            self._pairs[id(work)] = work

    def _sweep(self) -> None:
        """Completes works that have an outcome. The caller may have dropped them, but still expects their results in
        place."""
        for held in (self._under_way, self._pairs):
            while held:
                try:
                    key, work = next(iter(held.items()))
                except (StopIteration, RuntimeError):
                    break  # another thread has changed the dictionary, and completes works itself
                if not work.is_completed():
                    break
                found = held.pop(key, None)
                if found is not None and found is not work:
                    held[key] = found  # a work of another thread, which has taken the tag since

    def has_met(self) -> bool:
        """Returns true if a collective of this group has ended."""
        if self._pool is None:
            return False
        works = [work for work in list(self._under_way.values()) if not work.is_over]
        calls = [call for call in (mark() for mark in self._pool.made.copy()) if call and call.number is not None]
        launched: int = self._lanes.program.next
        return launched > len(works) + len(calls)

    def _take_number(self, holder: Any) -> int:
        """Returns the tag of the group's next operation. The number is stored in the holder before it is taken, and
        until the launch, so that an interrupted thread can return it."""
        holder.numbers = numbers = self._lanes.here() if lane_entries else self._lanes.program
        holder.number = number = numbers.next
        numbers.next = number + 1
        holder.tag = tag = numbers.first_tag + number % numbers.tags
        if len(self._pool.made) > 1:
            self._pool.wait_for_others(holder)
        if self._under_way:
            before = self._under_way.pop(tag, None)
            if before is not None:
                before._await(None)
        return tag

    def _tag_of_pair(self, tag: object) -> int:
        """Returns the library's tag for a transfer. All groups share the tags between two peers."""
        found = self._pair_tags.get(tag)
        if found is None:
            if len(self._pair_tags) >= _PAIR_TAGS:
                self._pair_tags.clear()
            digest = hashlib.blake2b(f"{self._name}/{tag}".encode(), digest_size=8).digest()
            found = self._pair_tags[tag] = int.from_bytes(digest, "little")
        return found

    # ---- failure

    def _why(self) -> Optional[str]:
        return self._ended or self._world.why()

    def _why_not(self, error: PCCLError) -> str:
        """Returns the reason for the failure of a library operation. If the world has ended, returns the reason for its
        end instead."""
        return self._why() or self._world.named(error.reason)

    def _error(self, words: str, why: str) -> CollectiveError:
        """Creates an error. ranks: the first rank in the library's message, which is the one that failed; for waits,
        all ranks in it."""
        ranks = self._world.ranks_in(why)
        return CollectiveError(words, ranks if "waits for" in why else ranks[:1])

    def _waits(self) -> str:
        return self._world.named(self._world.waits())


untrace(BaseWork)
untrace(Standing, but=("rank", "size", "name", "get", "set"))
