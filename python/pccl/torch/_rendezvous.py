"""Rendezvous of the processes of torch.distributed: how they find their master and each other, and the order in which
they join.

Ranks follow the order of admission, so that collectives need not rearrange anything. With a store (env://, tcp://,
...), rank 0 therefore admits the others one after another. Each sends a request through the store, and connects when
the answer contains the master's address. With init_method="pccl://host:port?world_size=n", the order of admission
determines the rank of a process.

A store may outlive its worlds, as torchrun's does, and still contain keys of earlier ones. Requests are therefore
numbered: each process makes a new one, and rank 0 answers all that have no final answer.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import subprocess
import time
import uuid
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple
from urllib.parse import parse_qs, urlsplit

import torch.distributed as dist

from .. import __version__, _programs
from .._communicator import Communicator
from .._errors import PCCLError
from ._work import CollectiveError, names_of, timed_out
from ._world import World

_log = logging.getLogger("pccl")

LOG_EVERY_S = 10.0  # interval of the warnings about missing ranks
IDLE_EXIT_MS = 30000  # time without peers after which a master started here exits
_PAUSES_S = (0.002, 0.1)  # first and longest polling interval
# A master started here is never restarted, so its peers use the shortest wait for a new one.
_DETACHED_PEER = {"master_lost_ms": 60001}  # more than alone_ms

_masters: List["subprocess.Popen[bytes]"] = []  # keeps running masters alive, because Python warns about dropped ones


class Patience:
    """Paces a wait for other processes, reports the missing ones, and ends the wait after the timeout."""

    def __init__(self, timeout: timedelta, missing: Callable[[], str], call: str = "init_process_group") -> None:
        self._call, self._missing = call, missing
        self._begin = time.monotonic()
        self._limit_s = timeout.total_seconds()
        self._logged_at = self._begin
        self._pause_s = _PAUSES_S[0]

    def pause(self) -> bool:
        """Sleeps. Returns true if it has just logged the missing processes. Raises CollectiveError after the timeout.
        """
        time.sleep(self._pause_s)
        self._pause_s = min(1.5 * self._pause_s, _PAUSES_S[1])
        now = time.monotonic()
        if now - self._begin > self._limit_s:
            raise CollectiveError(f"{self.words(f'within {self._limit_s:g} s')}. {timed_out(self._limit_s)} for it")
        if now - self._logged_at < LOG_EVERY_S:
            return False
        self._logged_at = now
        _log.warning("%s", self.words(f"after {now - self._begin:.0f} s"))
        return True

    def progress(self) -> None:
        self._pause_s = _PAUSES_S[0]

    def words(self, when: str) -> str:
        return f"{self._call}: the world is not complete {when}: {self._missing()}"


# ---- the master


def _own_host() -> str:
    """Returns this process's address for the others, as set by the launcher."""
    return os.environ.get("MASTER_ADDR") or socket.gethostname()


def _start_master() -> str:
    """Starts a master in a separate session, so that it outlives this process. It exits after its last peer has left.
    Returns its address."""
    path = _programs.find()
    if path is None:
        raise CollectiveError(
            "init_process_group: the program pccl not found; set PCCL_MASTER to the address of a running one"
        )
    # found_after_ms=0: the master starts a run immediately, because no peer can have been in one at this port.
    command = [path, "master", "--log-format=text", f"--set=idle_exit_ms={IDLE_EXIT_MS}", "--set=found_after_ms=0"]
    output = b""
    for host in ("[::]", "0.0.0.0"):  # the second one is for systems without IPv6
        master = subprocess.Popen(
            [*command, f"--listen={host}:0"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        _masters.append(master)
        assert master.stderr is not None
        with master.stderr as lines:
            for line in lines:
                found = re.search(rb"listening on port (\d+)", line)
                if found is not None:
                    return f"{_own_host()}:{int(found.group(1))}"
                output += line
    raise CollectiveError(f"init_process_group: pccl-master did not start: {output.decode(errors='replace').strip()}")


# ---- joining, with a store


class _Admission:
    """The requests and answers, as seen by rank 0."""

    def __init__(self, store: Any, size: int) -> None:
        self._store = store
        self.size = size
        self._seen = 0
        self._asked: Dict[int, int] = {}  # number of the latest request, by rank
        self.inside = 1

    def look(self) -> None:
        last = self._store.add("pccl/asked", 0)
        while self._seen < last and self._store.check([f"pccl/question/{self._seen + 1}"]):
            self._seen += 1
            answer = f"pccl/answer/{self._seen}"
            if not self._store.check([answer]) or self._store.get(answer).startswith(b"wait"):
                self._asked[int(self._store.get(f"pccl/question/{self._seen}"))] = self._seen

    def answer(self, rank: int, word: str, text: str) -> None:
        self._store.set(f"pccl/answer/{self._asked[rank]}", f"{word} {text}")

    def admit(self, rank: int, ticket: str) -> None:
        if rank in self._asked:
            self.answer(rank, "go", ticket)
            del self._asked[rank]

    def answer_all(self, word: str, text: str) -> None:
        for rank in self._asked:
            self.answer(rank, word, text)

    def missing(self) -> str:
        return names_of([rank for rank in range(self.inside, self.size) if rank not in self._asked]) + " missing"


def _lead(store: Any, size: int, timeout: timedelta) -> World:
    """Joins first, and then admits the others in order. Called on rank 0."""
    admission = _Admission(store, size)
    try:
        named = os.environ.get("PCCL_MASTER")
        ticket = {"master": named or _start_master(), "world": uuid.uuid4().hex, "detached": not named}
        with _joining(ticket, 0, size, timeout) as comm:
            _admit_all(admission, comm, json.dumps(ticket), timeout)
            return _agree(comm, 0, size, ticket, timeout)
    except CollectiveError as error:
        admission.look()
        admission.answer_all("error", str(error))
        raise


def _admit_all(admission: _Admission, comm: Communicator, ticket: str, timeout: timedelta) -> None:
    patience = Patience(timeout, admission.missing)
    while admission.inside < admission.size:
        admission.look()
        admission.admit(admission.inside, ticket)
        before = admission.inside
        comm.update_topology()
        admission.inside = _count(comm, admission.size)
        if admission.inside > before:
            patience.progress()
        elif patience.pause():
            admission.answer_all("wait", patience.words("yet"))


def _ask(store: Any, rank: int, timeout: timedelta) -> Dict[str, Any]:
    """Waits until this rank is admitted. Called on all other ranks. Returns rank 0's answer."""
    number = store.add("pccl/asked", 1)
    store.set(f"pccl/question/{number}", str(rank))
    answer = f"pccl/answer/{number}"
    missing = ["rank 0 missing"]
    patience = Patience(timeout, lambda: missing[0])
    while True:
        if _is_there(store, answer):
            word, _, text = store.get(answer).decode().partition(" ")
            if word == "go":
                ticket: Dict[str, Any] = json.loads(text)
                return ticket
            if word == "error":
                raise CollectiveError(text)
            missing[0] = text.rpartition(": ")[2]
        patience.pause()


def _is_there(store: Any, key: str) -> bool:
    try:
        return bool(store.check([key]))
    except dist.DistNetworkError as error:
        raise CollectiveError(f"init_process_group: lost the store and rank 0: {error}", [0]) from None


def from_store(store: Any, rank: int, size: int, timeout: timedelta) -> World:
    if rank == 0:
        return _lead(store, size, timeout)
    ticket = _ask(store, rank, timeout)
    with _joining(ticket, rank, size, timeout) as comm:
        _fill(comm, size, timeout, lambda: names_of(_absent(comm, size)) + " missing")
        return _agree(comm, rank, size, ticket, timeout)


def _absent(comm: Communicator, size: int) -> List[int]:
    here = {comm.name_of(one) for one in comm.members()}
    return [rank for rank in range(size) if _name(rank, size) not in here]


# ---- joining, without a store

_arrived: List[World] = []  # worlds whose process groups are about to be created


def from_master(url: str, timeout: timedelta = timedelta(minutes=30), **_: Any) -> Iterator[Tuple[Any, int, int]]:
    """Handles init_method="pccl://host:port"."""
    parts = urlsplit(url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if "rank" in given:
        raise ValueError("init_process_group: with pccl:// the master assigns the rank; omit it")
    size = int(given.get("world_size") or os.environ.get("WORLD_SIZE") or 0)
    if size < 1:
        raise ValueError("init_process_group: pccl:// requires world_size, as an argument or in WORLD_SIZE")
    ticket = {"master": parts.netloc, "world": "", "detached": False}
    with _joining(ticket, None, size, timeout) as comm:
        _fill(comm, size, timeout, lambda: f"{len(comm.members())} of {size} processes are connected")
        world = _agree(comm, comm.rank, size, ticket, timeout)
    _arrived[:] = [world]
    yield dist.HashStore(), world.rank, world.size
    raise CollectiveError("pccl:// cannot be used for a second rendezvous")


def take_arrived() -> Optional[World]:
    return _arrived.pop() if _arrived else None


# ---- common parts


def _name(rank: Optional[int], size: int) -> str:
    """Returns the name of a peer for logs and errors. Names must differ among the processes of a host, because the
    master recognizes an expelled slow peer by its name."""
    return f"process {os.getpid()} of {size}" if rank is None else f"rank {rank} of {size}"


@contextlib.contextmanager
def _joining(ticket: Dict[str, Any], rank: Optional[int], size: int, timeout: timedelta) -> Iterator[Communicator]:
    """Connects a peer, which leaves the run again if the world cannot be formed."""
    options: Dict[str, Any] = {
        "name": _name(rank, size),
        "call_timeout_ms": max(1, int(timeout.total_seconds() * 1000)),
    }
    if ticket["detached"]:
        options.update(_DETACHED_PEER)
    comm = Communicator(ticket["master"], options=options)
    try:
        comm.connect()
        yield comm
    except PCCLError as error:
        comm.close()
        raise CollectiveError(f"init_process_group, {options['name']}: {error.reason}") from error
    except BaseException:
        comm.close()
        raise


def _count(comm: Communicator, size: int) -> int:
    members = comm.members()
    names = [comm.name_of(one) for one in members]
    if len(members) > size or not all(name.endswith(f" of {size}") for name in names):
        raise CollectiveError(
            f"init_process_group: the world has {size} ranks, but the master at {comm.address} has "
            f"{', '.join(names)}: another job uses it, or the world sizes differ"
        )
    return len(members)


def _fill(comm: Communicator, size: int, timeout: timedelta, missing: Callable[[], str]) -> None:
    patience = Patience(timeout, missing)
    count = _count(comm, size)
    while count < size:
        comm.update_topology()
        before, count = count, _count(comm, size)
        if count > before:
            patience.progress()
        elif count < size:
            patience.pause()


def _agree(comm: Communicator, rank: int, size: int, ticket: Dict[str, Any], timeout: timedelta) -> World:
    """Checks that the settings of all processes agree, and creates the world. All processes must be present."""
    own = {"rank": rank, "size": size, "world": ticket["world"], "version": __version__}
    told = comm.all_gather_v(json.dumps(own).encode(), alone_ok=True, label="init_process_group")
    beliefs = [json.loads(bytes(blob)) for _, blob in told]
    for place, belief in enumerate(beliefs):
        wanted = {**own, "rank": place}
        if belief != wanted:
            raise CollectiveError(
                f"init_process_group: the processes at the master {comm.address} belong to different worlds: number "
                f"{place} reported {belief}, expected {wanted}"
            )
    return World(comm, rank, [one for one, _ in told], timeout)


