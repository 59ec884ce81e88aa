"""Membership that a program assigns to an existing process group, with torch.distributed._reconfigure() (torch 2.14 or
later).

Experimental, as in torch. Each process has a handle, which the program distributes by its own means. All callers with
the same uuid and handles are the ranks of the next world. No store is needed, because the master knows the members. A
handle consists of the address of the master, if it is known, and the peer's id or the name under which it will join.
"""

from __future__ import annotations

import json
import os
import uuid
import weakref
from datetime import timedelta
from typing import Any, List, Optional, Sequence, Set, Tuple

from .. import _threads
from .._communicator import Communicator, Group
from .._errors import PCCLError
from ._rendezvous import Patience
from ._work import CollectiveError
from ._world import World

_SCHEME = "pccl://"
_used: Set[int] = set()
_updates: weakref.WeakKeyDictionary[Communicator, _threads.Job[None]] = weakref.WeakKeyDictionary()


class Unformed(World):
    """The world before the first reconfigure()."""

    def __init__(self, rank: int) -> None:
        self.comm: Any = None
        self.rank = rank
        self.ids = ()
        self._name = uuid.uuid4().hex
        self.ended = "the process group has no members before reconfigure()"
        self._watch = self._probe = None

    def handle(self) -> str:
        return f"{_SCHEME}{os.environ.get('PCCL_MASTER', '')}/{self._name}"

    def connect(self, handles: Sequence[str], limit: timedelta) -> Communicator:
        """Connects to the master. Returns when the other peers have admitted this process."""
        addresses = [address for address in (_parts(one)[0] for one in handles) if address]
        if not addresses:
            raise ValueError("pccl: reconfigure: no handle contains the master's address; set PCCL_MASTER to host:port")
        milliseconds = max(1, int(limit.total_seconds() * 1000))
        comm = Communicator(addresses[0], options={"name": self._name, "call_timeout_ms": milliseconds})
        try:
            comm.connect()
        except BaseException:
            comm.close()
            raise
        return comm

    def end(self, why: str) -> None:
        self.ended = why

    retire = end


def _parts(handle: str) -> Tuple[str, str]:
    """Splits a handle into the master's address and the peer's id or name."""
    address, slash, who = handle[len(_SCHEME) :].partition("/")
    if not handle.startswith(_SCHEME) or not slash:
        raise ValueError(f"pccl: reconfigure: {handle!r} is not a handle of this backend")
    return address, who


def _present(comm: Communicator, handles: Sequence[str]) -> List[Optional[str]]:
    """Returns the peer id for each handle, or None if its peer is not in the run."""
    members = comm.members()
    known = {**{comm.name_of(one): one for one in members}, **{one: one for one in members}}
    return [known.get(_parts(handle)[1]) for handle in handles]


def _update(comm: Communicator, patience: Patience) -> None:
    """Admits newcomers. All members must call it. If a call is interrupted by its timeout, the update continues, and
    the next call waits for it."""
    if comm not in _updates:
        _updates[comm] = _threads.start(comm.update_topology)
    while not _updates[comm].wait(_threads.SLICE_S):
        patience.pause()
    _updates.pop(comm).value()


def _gather(comm: Communicator, handles: Sequence[str], limit: timedelta) -> List[str]:
    """Waits until the peers of all handles are present. Returns their ids."""
    found = _present(comm, handles)
    patience = Patience(limit, lambda: f"{found.count(None)} of {len(handles)} handles missing", "reconfigure")
    while None in found:
        _update(comm, patience)
        found = _present(comm, handles)
        if None in found:
            patience.pause()
    return [one for one in found if one is not None]


def carry_out(world: World, opts: Any, timeout: timedelta) -> Tuple[World, Group]:
    """Returns the world of these handles, and the group of all its ranks. On failure the previous world is unchanged,
    and the next attempt needs a new uuid."""
    handles, is_ordered = list(opts.handles), not isinstance(opts.handles, (set, frozenset))
    limit = getattr(opts, "timeout", None) or timeout
    if opts.uuid in _used:
        raise ValueError(f"pccl: reconfigure: the uuid {opts.uuid} was already used")
    if world.handle() not in handles or len(set(handles)) < len(handles):
        raise ValueError("pccl: reconfigure: the handles must be distinct and include this rank's")
    _used.add(opts.uuid)
    comm = world.comm
    try:
        if comm is None:
            assert isinstance(world, Unformed)
            comm = world.connect(handles, limit)
        ids = _gather(comm, handles, limit)
        if not is_ordered:
            ids = [one for one in comm.members() if one in ids]
        return _formed(comm, ids, opts.uuid, limit)
    except BaseException as error:
        if comm is not None and comm is not world.comm:
            comm.close()
        world.look_closer()
        if isinstance(error, PCCLError):
            raise CollectiveError(f"pccl: reconfigure, {error.reason}") from error
        raise


def _formed(comm: Communicator, ids: Sequence[str], number: int, limit: timedelta) -> Tuple[World, Group]:
    world = World(comm, ids.index(comm.id), ids, limit)
    group = None
    try:
        group = world.group(range(world.size), limit)
        beliefs = group.all_gather_v(json.dumps([number, ids]).encode(), alone_ok=True, label="reconfigure")
        if len({bytes(blob) for _, blob in beliefs}) > 1:
            raise CollectiveError("pccl: reconfigure: the ranks passed different uuids, or handles in different orders")
    except BaseException:
        if group is not None:
            group.close()
        world.retire("its members did not agree")
        raise
    return world, group
