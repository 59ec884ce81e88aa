"""What the doctor says of one thing that it has looked at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    check: str
    level: str  # "ok", "note" (it works, and could be better) or "bad"
    text: str
    mend: str = ""  # what to do about it, mostly a line to run


def ok(check: str, text: str) -> Finding:
    return Finding(check, "ok", text)


def note(check: str, text: str, mend: str = "") -> Finding:
    return Finding(check, "note", text, mend)


def bad(check: str, text: str, mend: str) -> Finding:
    return Finding(check, "bad", text, mend)
