"""Results of the doctor's checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    check: str
    level: str  # "ok", "note" (it works, but could be improved) or "bad"
    text: str
    mend: str = ""  # the fix, usually a command


# Fixes for checks that failed on other machines, which send only the names of the checks.
MENDS = {
    "files": "there: ulimit -n 65536",
    "buffers": "there: raise net.ipv4.tcp_rmem and net.ipv4.tcp_wmem to 4 MiB or more",
    "name": "there: make the master's name resolve to an address",
    "port": "there: make the master's port reachable",
    "mtu": "there: raise the MTU of the interface",
}


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def note(check: str, text: str, mend: str = "") -> Finding:
    return Finding(check, "note", text, mend)


def bad(check: str, text: str, mend: str) -> Finding:
    return Finding(check, "bad", text, mend)
