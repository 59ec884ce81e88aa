"""Launches calls of torch.distributed: single calls, several as one, and transfers between two ranks."""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .._communicator import Communicator
from .._errors import InvalidArgument, PCCLError
from . import _call, _layout, _seen, _transfers
from ._call import REFUSED, Call, Pool
from ._futures import Work
from ._staging import Stage
from ._untraced import untrace
from ._work import Ending, Standing
from ._world import World

Step = Callable[[Call], None]
_modes, _is_profiled, _PLAIN = _seen.modes, _seen.is_profiled, _layout.PLAIN


def _do_nothing(_: Call) -> None:
    pass


class Launching(Standing):
    """A process group that launches operations."""

    def _form(self, world: World, ranks: Sequence[int], rank: int, comm: Optional[Communicator]) -> None:
        super()._form(world, ranks, rank, comm)
        self._pool = Pool(self)
        self._coalesced: Dict[int, List[Work]] = {}  # coalesced works by thread

    # ---- several calls as one

    def _start_coalescing(self, _device: torch.device) -> None:
        self._coalesced[threading.get_ident()] = []

    def _end_coalescing(self, _device: torch.device) -> Work:
        works = self._coalesced.pop(threading.get_ident(), [])
        parts = [part for work in works for part in work._parts]
        outputs = [tensor for work in works for tensor in work._outputs]

        def finish() -> None:
            for work in works:
                work.wait()

        ending = Ending(outputs, finish, lambda: _zero(outputs), self._timeout, Stage())
        return Work(self, "coalesced operations", parts, ending)

    def _collect(self, work: Work) -> Work:
        """Adds the work to this thread's coalesced operations, if it has begun coalescing."""
        if self._coalesced:
            self._coalesced.get(threading.get_ident(), []).append(work)
        return work

    # ---- launching

    def _launch(
        self,
        name: str,
        tensors: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
        make: Step,
        opts: Any = None,
        locally: Optional[Callable[[], None]] = None,
        refuse: Step = Call.refuse,
        count: int = 1,
        is_now: bool = False,
        shown: Tuple[Any, ...] = (),
        is_seen: bool = False,
    ) -> Work:
        """Launches a call. make adds the library's operations to the call, `count` of them under tags of the group. If
        a peer is lost, the work fails; an error here is raised, and makes the operation fail on the other ranks. With
        is_now the caller waits for the work immediately, and after a success the result is None. shown: method of
        torch's process groups and its arguments, for torch's tools, unless is_seen."""
        if not is_seen and (_modes() or _is_profiled()):
            unseen = functools.partial(self._launch, is_seen=True)
            go: Callable[[], Work] = lambda: unseen(
                name, tensors, outputs, make, opts, locally, refuse, count=count, is_now=is_now
            )
            if not tensors and _seen.is_faked():
                go = lambda: unseen(name, [], [], _do_nothing)  # noqa: E731
            seen: Work = _seen.launch(self, name, tensors, outputs, shown, go)
            return seen
        if self._under_way or self._pairs:
            self._sweep()
        pool = self._pool
        try:
            call = pool.free.pop()
        except IndexError:
            call = pool.make()
        call.group, call.count, call.is_now = self, count, is_now
        # If the group consists of all ranks, losing one makes its launched operations fail.
        why = self._ended or (self._world.ended if count > 0 and self._is_whole else self._world.why())
        is_over = False
        try:
            if why is None:
                for tensor in tensors:
                    if type(tensor) not in _PLAIN or not tensor.is_cpu or tensor.layout is not torch.strided:
                        if _seen.is_unreal(tensor):
                            make = _do_nothing
                            break
                        _layout.check_device(tensor, name == "all_reduce")
                make(call)
                is_over = is_now and not call.parts and not call.after
        except PCCLError as error:
            if isinstance(error, InvalidArgument):
                _call.refuse(call, refuse)
                raise ValueError(f"pccl: {name}, rank {self._world.rank}: {error.reason}") from error
            why = self._why_not(error)
        except Exception:
            _call.refuse(call, refuse)
            raise
        except BaseException as interrupt:
            call.interrupted(interrupt)
            raise
        if is_over:
            call.group = None
            pool.free.append(call)
            if self._under_way or self._pairs:
                self._sweep()
            return None  # type: ignore[return-value]
        limit, locally = self._limit(opts), locally or (lambda: _zero(outputs))
        if why is not None:
            words = f"pccl: {name} of group {self._name!r}, rank {self._world.rank}: {why}"
            failed: Work = call.work(name, outputs, locally, limit, self._error(words, why))
            return failed
        work: Work = call.work(name, outputs, locally, limit)
        call.clear()
        pool.free.append(call)
        return self._collect(work)

    # ---- transfers between two ranks

    def send(self, tensors: List[torch.Tensor], dst: int, tag: object = 0) -> Work:
        place = dst, self._tag_of_pair(tag)
        return self._transfer(_transfers.SEND, tensors, *place) or self._send(tensors, place, tag)

    def _send(self, tensors: List[torch.Tensor], place: Tuple[int, int], tag: object) -> Work:
        make: Step = lambda call: call.sends(call.source(_layout.to_move(tensors[0])), *place)
        refuse: Step = lambda call: call.sends(*_refusal(place))
        shown = "send", tensors, place[0], _shown_tag(tag)
        return self._launch(f"send to rank {place[0]}", tensors, [], make, refuse=refuse, count=0, shown=shown)

    def recv(self, tensors: List[torch.Tensor], src: int, tag: object = 0) -> Work:
        place = src, self._tag_of_pair(tag)
        return self._transfer(_transfers.RECV, tensors, *place) or self._recv(tensors, place, tag)

    def _recv(self, tensors: List[torch.Tensor], place: Tuple[int, int], tag: object) -> Work:
        make: Step = lambda call: call.receives(call.target(tensors), *place)
        refuse: Step = lambda call: call.receives(*_refusal(place))
        shown, name = ("recv", tensors, place[0], _shown_tag(tag)), f"receive from rank {place[0]}"
        return self._launch(name, tensors, tensors, make, refuse=refuse, count=0, shown=shown)

    def _transfer(self, function: Any, tensors: List[torch.Tensor], peer: int, tag: int) -> Optional[Work]:
        """Launches a transfer on the fast path. Returns None if it has launched nothing."""
        if self._coalesced or _modes() or _is_profiled():
            return None
        if self._under_way:
            self._sweep()
        return _transfers.begin(self, function, tensors, peer, tag)

    def recv_anysource(self, tensors: List[torch.Tensor], tag: int = 0) -> Work:
        """Receives from any rank. The work's _source_rank is the sender. Only ranks of this group send with its tags.
        """
        make: Step = lambda call: call.receives(call.target(tensors), None, self._tag_of_pair(tag))
        shown = "recv_anysource", tensors, _shown_tag(tag)
        return self._launch("receive from any rank", tensors, tensors, make, refuse=_do_nothing, count=0, shown=shown)


untrace(Launching, but=("rank", "size", "name", "get", "set"))


def _shown_tag(tag: object) -> int:
    return tag if isinstance(tag, int) else 0


def _refusal(place: Tuple[int, int]) -> Tuple[torch.Tensor, int, int, str]:
    """Returns arguments of a transfer that cannot match the other side's."""
    return (torch.zeros(1, dtype=torch.uint8), *place, REFUSED)


def _zero(outputs: Sequence[torch.Tensor]) -> None:
    """Clears unused results, so that no invalid number traps or propagates."""
    with torch.no_grad():
        for output in outputs:
            output.zero_()
