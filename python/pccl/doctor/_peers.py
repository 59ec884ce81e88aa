"""Checks involving the other machines that run the doctor: whether they can meet, how each sees the addresses of the
others, and the rates of the paths between them. They are peers of the run in a separate group."""

from __future__ import annotations

import itertools
import os
import re
import statistics
import time
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .. import _native
from .._communicator import Communicator
from .._enums import Attribute, ReduceOp
from .._errors import PCCLError, RefusedError, TimeoutError_, VersionMismatchError
from .._exchange import exchange_json
from ._finding import MENDS, Finding, bad, note, ok

_GROUP = 0x646F63
_POLL_S = 0.1
_OP_MS = 30_000
_BULK_BYTES = 4 << 20
_CLOCKS_APART_S = 1.0
_SLOW = 1 / 3  # a path is slow below this share of the median rate
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}", re.ASCII)


@dataclass(frozen=True)
class Path:
    sender: str
    receiver: str
    rate: int  # bytes per second; 0: unreachable
    rtt_us: Optional[int]  # None: unknown, because traffic over shared memory yields only a rate


@dataclass
class Met:
    findings: List[Finding] = field(default_factory=list)
    names: List[str] = field(default_factory=list)
    paths: List[Path] = field(default_factory=list)


@dataclass(frozen=True)
class _Topology:
    addresses: Dict[str, str]  # by peer id
    paths: List[Path]  # paths between peer ids


def _port() -> str:
    return os.environ.get("PCCL_PORT", "48149")


def _open_port(where: str) -> str:
    line = f"nft add rule inet filter input tcp dport {_port()} accept"
    return f"{where}: {line}; or see NAT in the guide's deployment page"


def _why_not_in(error: PCCLError) -> Finding:
    if isinstance(error, VersionMismatchError):
        return bad("version", error.reason, "install the same version of PCCL everywhere, or correct the address")
    if isinstance(error, RefusedError):
        is_other = "it could not open a link to" in error.reason
        return bad("ports", error.reason, _open_port("on the other machine" if is_other else "on this machine"))
    if isinstance(error, TimeoutError_):
        return bad("peers", error.reason, "wait for the end of the current run at that master")
    return bad("master", error.reason, "check that a master listens at that address")


def _parse(text: str) -> _Topology:
    peers: List[str] = []
    addresses, paths = {}, []
    for line in text.splitlines():
        words = line.split()
        if words[0] == "peer":
            peers.append(words[2])
            addresses[words[2]] = words[3].rpartition(":")[0].strip("[]")
        elif words[0] == "way":
            reaches = words[3] == "rate"
            rate, rtt_us = (int(words[4]), int(words[6]) or None) if reaches else (0, None)
            paths.append(Path(peers[int(words[1])], peers[int(words[2])], rate, rtt_us))
    return _Topology(addresses, paths)


def _assemble(comm: Communicator, count: int, wait_s: float) -> int:
    """Waits until this number of peers has joined, or until one of them has waited for wait_s. Returns the number of
    peers."""
    end = time.monotonic() + wait_s
    while True:
        late = exchange_json(comm, time.monotonic() > end)
        if len(late) >= count or any(late.values()):
            return len(late)
        time.sleep(_POLL_S)
        comm.update_topology()


def _facts_of(fact: Any) -> Tuple[str, List[str]]:
    """Extracts the version and the names of the failed checks from a peer's value, and ignores everything else."""
    said = fact if isinstance(fact, dict) else {}
    version, names = said.get("version"), said.get("bad")
    known = isinstance(version, str) and _VERSION.fullmatch(version)
    listed = names if isinstance(names, list) else []
    checks = [name for name in MENDS if name in listed]
    return str(version) if known else "an unknown version", checks


def _own_and_others(comm: Communicator, findings: Sequence[Finding]) -> List[Finding]:
    """Compares versions and failed checks. Peers send only names of checks, so no other machine's text is printed."""
    names = [finding.check for finding in findings if finding.level == "bad"]
    told = exchange_json(comm, {"version": _native.version(), "bad": names})
    facts = {peer: _facts_of(fact) for peer, fact in told.items()}
    found = []
    if len({version for version, _ in facts.values()}) > 1:
        texts = ", ".join(f"{comm.name_of(peer)} has {version}" for peer, (version, _) in facts.items())
        found.append(note("version", texts, "install the same version of PCCL everywhere"))
    for peer, (_, checks) in facts.items():
        if peer != comm.id:
            text = "this check failed there; see the output of its doctor"
            found += [bad(check, f"{comm.name_of(peer)}: {text}", MENDS[check]) for check in checks]
    return found


def _clocks(comm: Communicator) -> List[Finding]:
    comm.barrier(alone_ok=True)
    times = exchange_json(comm, time.time())
    own = times[comm.id]
    apart = {peer: when - own for peer, when in times.items() if abs(when - own) > _CLOCKS_APART_S}
    findings = []
    for peer, by in apart.items():
        side = "ahead of" if by > 0 else "behind"
        text = f"the clock of {comm.name_of(peer)} is {abs(by):.1f} s {side} this machine's"
        findings.append(note("clock", text, "timedatectl set-ntp true"))
    return findings


def _bulk(comm: Communicator) -> List[Finding]:
    """Checks that large packets get through, not only small ones."""
    ones = bytearray(_BULK_BYTES)
    try:
        comm.all_reduce(ones, ones, op=ReduceOp.MAX)
    except PCCLError as error:
        text = f"small messages pass, but {_BULK_BYTES >> 20} MiB do not: {error.reason}"
        mend = "on all machines: sysctl -w net.ipv4.tcp_mtu_probing=1, or a smaller MTU of the interface"
        return [bad("bulk", text, mend)]
    return [ok("bulk", f"{_BULK_BYTES >> 20} MiB were reduced")]


def _address(own_address: str, seen: str) -> Finding:
    text = f"others reach this machine at {seen}"
    if seen != own_address and not own_address.startswith("127.") and own_address != "::1":
        return note("address", f"{text}; its own address on the connection to the master is {own_address}")
    return ok("address", text)


def _judge_paths(comm: Communicator, topology: _Topology) -> List[Finding]:
    findings = []
    median = statistics.median(path.rate for path in topology.paths) if topology.paths else 0
    for path in topology.paths:
        sender, receiver = comm.name_of(path.sender), comm.name_of(path.receiver)
        if path.rate == 0:
            text = f"{receiver} cannot be reached from {sender}"
            findings.append(bad("path", text, _open_port(f"on {receiver}")))
        elif path.rate < _SLOW * median:
            text = f"{sender} -> {receiver} carries {path.rate / 1e6:.1f} MB/s (median path: {median / 1e6:.1f} MB/s)"
            findings.append(note("path", text, "check for other traffic on this path; rings avoid it if possible"))
    known = {(path.sender, path.receiver) for path in topology.paths}
    unknown = [pair for pair in itertools.permutations(topology.addresses, 2) if pair not in known]
    if unknown:
        sender, receiver = map(comm.name_of, unknown[0])
        text = f"paths not measured for lack of time: {len(unknown)}, for example {sender} -> {receiver}"
        findings.append(note("unmeasured", text, "give the master more time: --set optimize_ms=10000"))
    return findings


def _examine(comm: Communicator, own_address: str, count: int, wait_s: float, findings: Sequence[Finding]) -> Met:
    met = Met()
    in_all = comm.get_attribute(Attribute.GLOBAL_WORLD_SIZE)
    in_group = comm.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE)
    if in_all > in_group:
        text = f"a run of {in_all - in_group} peers is active at this master, and the doctor delays it"
        met.findings.append(bad("peers", text, "run the doctor before the run, or at a separate master"))
        return met
    there = _assemble(comm, count, wait_s)
    met.names = [comm.name_of(peer) for peer in comm.members()]
    if there < count:
        mend = "start it on the other machines too; if one was refused, " + _open_port("on this machine")
        met.findings.append(bad("peers", f"only {there} of {count} machines joined within {wait_s:.0f} s", mend))
    if there < 2:
        return met
    met.findings += [*_own_and_others(comm, findings), *_clocks(comm), *_bulk(comm)]
    comm.optimize_topology()
    topology = _parse(comm.get_topology())
    met.findings += [_address(own_address, topology.addresses[comm.id]), *_judge_paths(comm, topology)]
    named = comm.name_of
    met.paths = [Path(named(path.sender), named(path.receiver), path.rate, path.rtt_us) for path in topology.paths]
    exchange_json(comm, None)  # keeps all peers in the run until the last one has its answers
    return met


def examine(master: str, own_address: str, count: int, wait_s: float, findings: Sequence[Finding]) -> Met:
    options = {"op_timeout_ms": _OP_MS, "call_timeout_ms": int(1000 * wait_s) + _OP_MS}
    with Communicator(master, peer_group=_GROUP, options=options) as comm:
        try:
            comm.connect(1)
        except PCCLError as error:
            return Met([_why_not_in(error)])
        try:
            return _examine(comm, own_address, count, wait_s, findings)
        except PCCLError as error:
            return Met([bad("peers", error.reason, "see the guide's page on failures")])
