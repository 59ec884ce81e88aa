"""Checks that concern only this machine."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform
import sys
from pathlib import Path
from typing import Any, List, Optional, Tuple

from .. import _native
from .._lazy import Lazy
from ._finding import Finding, bad, note, ok

_resource: Any = Lazy("resource")  # available on Unix only

_FILES_FEW, _FILES_ENOUGH = 256, 65536
_BUFFER_MIN = 4 << 20  # window needed for 1 Gbit/s at a round trip of 30 ms
_TIME_ERROR = 5  # value that adjtimex returns for an unsynchronized clock
_LOCKED_MIN = 64 << 20


def _setting(name: str) -> Optional[List[str]]:
    try:
        return Path("/proc/sys/net/ipv4", name).read_text().split()
    except OSError:
        return None  # not Linux, or not readable by this process


def _version() -> Finding:
    return ok("version", f"PCCL {_native.version()}, Python {platform.python_version()}, {platform.platform()}")


def _limits(name: str) -> Optional[Tuple[int, int]]:
    try:
        limits: Tuple[int, int] = _resource.getrlimit(getattr(_resource, name))
    except ImportError:
        return None
    return limits


def _is_below(limit: int, wanted: int) -> bool:
    return 0 <= limit < wanted  # a negative limit means unlimited


def _files() -> List[Finding]:
    limits = _limits("RLIMIT_NOFILE")
    if limits is None:
        return []
    soft, hard = limits
    text = f"this process may open {soft} files and connections"
    if not _is_below(soft, _FILES_FEW):
        return [ok("files", text)]
    most = min(hard, _FILES_ENOUGH) if hard > 0 else _FILES_ENOUGH
    return [bad("files", f"{text}, too few for connections to many peers", f"ulimit -n {most}")]


def _buffers() -> List[Finding]:
    findings = []
    for name, sample in (("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")):
        values = _setting(name)
        if values is None:
            continue
        text = f"net.ipv4.{name} allows {int(values[2]) / 1e6:.1f} MB per connection"
        if int(values[2]) < _BUFFER_MIN:
            text += ", too little for long paths"
            findings.append(bad("buffers", text, f'sysctl -w net.ipv4.{name}="{sample}"'))
        else:
            findings.append(ok("buffers", text))
    return findings


def _congestion() -> List[Finding]:
    chosen = _setting("tcp_congestion_control")
    if chosen is None:
        return []
    text = f"congestion control is {chosen[0]}"
    if chosen[0].startswith("bbr"):
        return [ok("congestion", text)]
    mend = "sysctl -w net.ipv4.tcp_congestion_control=bbr"
    if "bbr" not in (_setting("tcp_available_congestion_control") or []):
        mend = f"modprobe tcp_bbr && {mend}"
    return [note("congestion", f"{text}: far slower than bbr on long paths with packet loss", mend)]


def _clock() -> List[Finding]:
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "adjtimex"):
        return []
    if library.adjtimex(ctypes.create_string_buffer(256)) != _TIME_ERROR:
        return [ok("clock", "the clock is synchronized")]
    text = "the clock is not synchronized, so logs of different machines are hard to compare"
    return [note("clock", text, "timedatectl set-ntp true")]


def _locked_memory() -> List[Finding]:
    limits = _limits("RLIMIT_MEMLOCK")
    if limits is None or ctypes.util.find_library("cuda") is None or not _is_below(limits[0], _LOCKED_MIN):
        return []
    text = f"this process may lock {limits[0] / 1e6:.1f} MB of memory, too little for an accelerator's buffers"
    return [note("memory lock", text, "ulimit -l unlimited")]


def examine() -> List[Finding]:
    return [_version(), *_files(), *_buffers(), *_congestion(), *_clock(), *_locked_memory()]
