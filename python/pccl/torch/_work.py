"""Operations of torch.distributed under way, and the process group that they are under way in."""

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
from ._lanes import Lanes, stays
from ._staging import Stage
from ._untraced import untrace
from ._world import World

_NAMES_S = 3.0  # the library knows after where_ms, 2 s by default, for whom it waits
_PAIR_TAGS = 4096  # that are kept at once
_UNLIMITED = timedelta(0)  # what torch passes for no timeout
_UNSET = timedelta(0)  # torch's options have a negative one where the group's counts


class CollectiveError(dist.DistBackendError):  # type: ignore[misc]
    """An operation of a process group failed; the words say why. ranks: those of the default group that are lost or
    missing, as far as they are known. The exception of the library, if there is one, is its cause."""

    def __init__(self, words: str, ranks: Sequence[int] = ()) -> None:
        super().__init__(words)
        self.ranks = tuple(ranks)


def names_of(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def timed_out(seconds: float) -> str:
    """Returns gloo's words for it, for which programs search."""
    return f"Timed out waiting {1000 * seconds:.0f}ms"


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


class BaseWork(dist.Work):  # type: ignore[misc]
    """Ends when all of its parts have ended and the results are in their places. Any thread may wait, any number of
    times, and Ctrl-C ends the waiting and the operation."""

    def __init__(
        self,
        group: Standing,
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
        self._finish = ending.finish
        self._locally: Optional[Callable[[], None]] = ending.locally
        self._stage = ending.stage
        self._limit_s = ending.limit.total_seconds()
        self._begin = time.monotonic()
        self._error = error
        self._over = error is not None
        self._ending = threading.Lock()
        self._record: Any = None  # of the profiler (_seen.py)

    def recorded(self, record: Any) -> None:
        """The record ends with the work."""
        self._record = record
        if self._over:
            record.end()

    # ---- what torch calls

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
        """Of a receive from anybody that has succeeded: who sent."""
        outcome = self._parts[0].handle._operation.outcome if len(self._parts) == 1 else None
        info = outcome.info if outcome is not None else None
        if info is None or len(info.participants) != 2:
            return self._group.rank()
        return self._group._ids.index(info.participants[0])

    _source_rank = source_rank  # the name by which torch.distributed calls it

    @property
    def is_over(self) -> bool:
        return self._over

    # ---- the end

    def _let_backward_end(self) -> None:
        assert self._error is not None
        _commit.note(self._error)
        with self._ending:
            locally, self._locally = self._locally, None
        if locally is not None:
            locally()

    def _await(self, seconds: Optional[float]) -> None:
        """Waits until the work is over. Raises CollectiveError after this time; the operation continues. The group's
        limit ends it."""
        if self._over:
            return
        end = None if seconds is None else time.monotonic() + seconds
        try:
            for part in self._parts:
                while not part.wait_briefly():
                    self._look_around()
                    if end is not None and time.monotonic() > end:
                        words = f"{timed_out(seconds or 0.0)} for it to complete; it is still under way"
                        raise CollectiveError(f"{self._title()}: {words}")
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

    def _look_around(self) -> None:
        """What may end the waiting, other than the outcome."""
        now = time.monotonic()
        if len(self._parts) > 1 and any(part.has_failed() for part in self._parts):
            self._abort()  # those who are in the others may have heard of it before they began them
        why = self._group._why()
        if why is not None:
            self._fail(why)
        elif now - self._begin > self._limit_s:
            self._fail(f"{timed_out(self._limit_s)} for it to complete. {self._missing()}")

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
            self._error = CollectiveError(f"{self._title()}: the result could not be brought to its tensors: {error}")

    def _end(self, error: CollectiveError) -> None:
        with self._ending:
            if not self._over:
                self._error, self._over = error, True
        if self._record is not None:
            self._record.end()

    def _title(self) -> str:
        return f"pccl: {self._name} of group {self._group.group_name!r}, rank {self._group._world.rank}"


class Standing(dist.ProcessGroup):  # type: ignore[misc]
    """Parts of a process group that works and calls use: who is in it, why it has ended, and its works under way."""

    def __init__(
        self, world: World, ranks: Sequence[int], rank: int, timeout: timedelta, comm: Optional[Communicator]
    ) -> None:
        super().__init__(rank, len(ranks))
        self._timeout = timeout
        self._name = self._description = ""
        self._completer: Any = None  # of the futures (_futures.py)
        self._ended: Optional[str] = None
        self._form(world, ranks, rank, comm)

    def _form(self, world: World, ranks: Sequence[int], rank: int, comm: Optional[Communicator]) -> None:
        """It is of these ranks of the world, which comm connects. Nothing is under way in it."""
        self._world, self._ranks, self._rank = world, list(ranks), rank
        self._comm: Any = comm
        self._ids = tuple(world.ids[one] for one in self._ranks) if comm is not None else ()
        self._members = comm.members() if comm is not None else ()
        # Ranks may be in another order than those whom comm connects: the rank of each of these.
        self._order = None if self._members == self._ids else [self._ids.index(one) for one in self._members]
        self._core: Any = comm._core if comm is not None else None
        self._pool: Any = None  # of calls (_call.py)
        if comm is not None:
            comm._launching = {}
        self._is_whole = len(self._ranks) == world.size
        self._lanes = Lanes()
        # Works that have not ended, by tag, oldest first; those of pairs, by number. Nothing else has to keep them.
        self._under_way: Dict[int, BaseWork] = {}
        self._pairs: Dict[int, BaseWork] = {}
        self._pair_tags: Dict[object, int] = {}  # of the library, by those of the program
        if comm is not None:
            world.groups.add(self)

    # ---- what it is

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

    # ---- what is under way

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
        """Ends what has an outcome and may have been dropped by its caller: its results belong in their places."""
        for held in (self._under_way, self._pairs):
            while held:
                try:
                    key, work = next(iter(held.items()))
                except (StopIteration, RuntimeError):
                    break  # another thread has changed it, and completes works itself
                if not work.is_completed():
                    break
                found = held.pop(key, None)
                if found is not None and found is not work:
                    held[key] = found  # by another thread, which has taken the tag since

    def has_met(self) -> bool:
        """Returns true if a collective of this group has ended."""
        if self._pool is None:
            return False
        works = [work for work in list(self._under_way.values()) if not work.is_over]
        calls = [call for call in (mark() for mark in self._pool.made.copy()) if call and call.number is not None]
        launched: int = self._lanes.program.next
        return launched > len(works) + len(calls)

    def _take_number(self, holder: Any) -> int:
        """The tag of the group's next operation. The holder's number is that of this operation from before it is taken
        until the operation is launched: whoever is interrupted meanwhile gives it back."""
        holder.numbers = numbers = self._lanes.here() if stays else self._lanes.program
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
        """Two peers have the tags of all their groups in common."""
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
        """Why the library's operation failed: with the world, if that has ended meanwhile."""
        return self._why() or self._world.named(error.reason)

    def _error(self, words: str, why: str) -> CollectiveError:
        """ranks: of words that the library begins with whom it is about, the first; of those who wait, all."""
        ranks = self._world.ranks_in(why)
        return CollectiveError(words, ranks if "waits for" in why else ranks[:1])

    def _waits(self) -> str:
        return self._world.named(self._world.waits())


untrace(BaseWork)
untrace(Standing, but=("rank", "size", "name", "get", "set"))
