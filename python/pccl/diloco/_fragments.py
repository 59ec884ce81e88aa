"""Which parameters are reduced together."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, Dict, List, Mapping, Sequence, Union

from .._errors import InvalidArgument
from ._arrays import is_module

Fragments = Union[int, Sequence[Any]]

PATTERNS = ("strided", "contiguous")


def split(params: Mapping[str, Any], fragments: Fragments, pattern: str) -> List[List[str]]:
    """The names of each fragment, sorted. Each parameter is in one of them.

    A number: layers are dealt out in turn ("strided") or cut into runs of about the same size
    ("contiguous"). Or a sequence of fragments, each of which is a torch.nn.Module or a sequence of
    names, of parameters or of what contains them."""
    if pattern not in PATTERNS:
        raise InvalidArgument(f"pattern: {pattern!r}; there are {', '.join(PATTERNS)}")
    if isinstance(fragments, int) and not isinstance(fragments, bool):
        found = _by_count(params, fragments, pattern)
    elif isinstance(fragments, Sequence) and not isinstance(fragments, str):
        found = [_given(params, fragment, index) for index, fragment in enumerate(fragments)]
        _check_partition(params, found)
    else:
        raise InvalidArgument(f"fragments: {fragments!r}; expected a number, or a sequence of modules or of names")
    return [sorted(names) for names in found]


# ---- by count


def _by_count(params: Mapping[str, Any], count: int, pattern: str) -> List[List[str]]:
    if count < 1:
        raise InvalidArgument(f"fragments: {count}; expected at least 1")
    units = _layers(params)
    if len(units) < count:
        units = [[name] for name in sorted(params, key=_natural)]
    if len(units) < count:
        raise InvalidArgument(f"fragments: {count}; there are only {len(units)} parameters")
    runs = _deal(units, count) if pattern == "strided" else _cut(params, units, count)
    return [[name for unit in run for name in unit] for run in runs]


def _natural(name: str) -> List[Any]:
    """A key that puts layer 10 after layer 2."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def _layer(name: str) -> str:
    """The layer of a parameter: its name up to the first number, else what contains it."""
    parts = name.split(".")
    for index, part in enumerate(parts):
        if part.isdigit():
            return ".".join(parts[: index + 1])
    return ".".join(parts[:-1]) or name


def _layers(params: Mapping[str, Any]) -> List[List[str]]:
    found: Dict[str, List[str]] = {}
    for name in sorted(params, key=_natural):
        found.setdefault(_layer(name), []).append(name)
    return list(found.values())


def _deal(units: List[List[str]], count: int) -> List[List[List[str]]]:
    return [units[p::count] for p in range(count)]


def _size(params: Mapping[str, Any], unit: List[str]) -> int:
    return sum(math.prod(getattr(params[name], "shape", ())) for name in unit)


def _cut(params: Mapping[str, Any], units: List[List[str]], count: int) -> List[List[List[str]]]:
    """A run ends with the unit whose middle is the last within its share of the elements, but each
    has a unit at least."""
    sizes = [_size(params, unit) for unit in units]
    whole, before, runs = max(1, sum(sizes)), 0, [[units[0]]]
    for index in range(1, len(units)):
        before += sizes[index - 1]
        wanted = (2 * before + sizes[index]) * count // (2 * whole)
        left = len(units) - index
        if left == count - len(runs) or (wanted >= len(runs) and len(runs) < count):
            runs.append([])
        runs[-1].append(units[index])
    return runs


# ---- as given


def _given(params: Mapping[str, Any], fragment: Any, index: int) -> List[str]:
    if is_module(fragment):
        own = {id(parameter) for parameter in fragment.parameters()}
        return [name for name, value in params.items() if id(value) in own]
    if isinstance(fragment, str) or not isinstance(fragment, Sequence):
        raise InvalidArgument(f"fragments: number {index} is {fragment!r}, neither a module nor a sequence of names")
    return [name for entry in fragment for name in _named(params, entry)]


def _named(params: Mapping[str, Any], entry: Any) -> List[str]:
    found = [name for name in params if name == entry or name.startswith(f"{entry}.")]
    if not found:
        raise InvalidArgument(f"fragments: there is no parameter {entry!r}, nor one in it")
    return found


def _check_partition(params: Mapping[str, Any], found: List[List[str]]) -> None:
    for index, names in enumerate(found):
        if not names:
            raise InvalidArgument(f"fragments: number {index} has no parameters to train")
    named = Counter(name for names in found for name in names)
    twice = sorted(name for name, times in named.items() if times > 1)
    if twice:
        raise InvalidArgument(f"fragments: {', '.join(twice)} is in more than one")
    missing = sorted(set(params) - set(named))
    if missing:
        raise InvalidArgument(f"fragments: {', '.join(missing)} is in none")
