"""Divides the parameters into fragments, each of which is reduced as a unit."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import accumulate
from typing import Any, Dict, List, Mapping, Sequence, Union

from .._errors import InvalidArgument
from ._arrays import Piece, bare_name, is_module, local_count

Fragments = Union[int, Sequence[Any]]

PATTERNS = ("strided", "contiguous")

# Tensors are cut at multiples of this number of elements, the largest block of the scaled codecs.
_GRAIN = 256


def split(params: Mapping[str, Any], fragments: Fragments, pattern: str) -> List[List[Piece]]:
    """Returns the sorted pieces of each fragment. Each element of the parameters belongs to exactly one fragment.

    fragments: either the number of fragments, or a sequence of them. With a number, layers are assigned in turn
        ("strided") or in runs ("contiguous"), and tensors are cut so that each fragment has about the same number of
        this process's elements. The fragments of a sequence are not cut; each is a torch.nn.Module, or a sequence of
        names of parameters or of modules.
    """
    if pattern not in PATTERNS:
        raise InvalidArgument(f"pattern: {pattern!r}; expected {', '.join(PATTERNS)}")
    if isinstance(fragments, int) and not isinstance(fragments, bool):
        return _by_count(params, fragments, pattern)
    if isinstance(fragments, str) or not isinstance(fragments, Sequence):
        raise InvalidArgument(f"fragments: {fragments!r}; expected a number, or a sequence of modules or of names")
    found = [_given(params, fragment, index) for index, fragment in enumerate(fragments)]
    _check_partition(params, found)
    return [[Piece(name) for name in sorted(names)] for names in found]


# ---- by count


def _by_count(params: Mapping[str, Any], count: int, pattern: str) -> List[List[Piece]]:
    if count < 1:
        raise InvalidArgument(f"fragments: {count}; expected at least 1")
    elements = sum(math.prod(getattr(array, "shape", ())) for array in params.values())
    if 1 < count > elements:
        raise InvalidArgument(f"fragments: {count}; expected at most the number of elements, {elements}")
    sizes = {name: local_count(array) for name, array in params.items()}
    share = -(-sum(sizes.values()) // count)
    layers = [[Piece(name, 0, sizes[name]) for name in layer] for layer in _layers(params)]
    line = [piece for layer in layers for piece in layer]
    if pattern == "strided":
        units = layers if len(layers) >= count else [[piece] for piece in line]
        fragments = [[piece for unit in units[p::count] for piece in unit] for p in range(count)]
        _level(fragments, share)
    else:
        fragments = _runs(line, count, share)
    found = [_joined(fragment, sizes) for fragment in fragments]
    found[0] = sorted([*found[0], *(Piece(name) for name, size in sizes.items() if size == 0)])
    return found


def _natural(name: str) -> List[Any]:
    """Returns a sort key that puts layer 10 after layer 2."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def _layer(name: str) -> str:
    """Returns the layer of a parameter: its name up to the first number, or else the name of its module."""
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


def _grain(share: int) -> int:
    """Returns a power of two. Cuts at its multiples leave fragments of about `share` elements nearly equal."""
    return min(_GRAIN, 1 << max(0, (share // 64).bit_length() - 1))


def _slack(share: int) -> int:
    """Returns the tolerated difference between fragments, which avoids small cuts."""
    return share // 32


def _size(piece: Piece) -> int:
    assert piece.end is not None
    return piece.end - piece.begin


def _round(count: int, grain: int) -> int:
    return (2 * count + grain) // (2 * grain) * grain


def _level(fragments: List[List[Piece]], share: int) -> None:
    """Moves ends of the largest pieces from the largest to the smallest fragment until the sizes are about equal.
    Terminates, because each move decreases the sum of the squared sizes."""
    grain, sizes = _grain(share), [sum(map(_size, fragment)) for fragment in fragments]
    while max(sizes) > share + _slack(share) or min(sizes) < share // 2:
        full, low = sizes.index(max(sizes)), sizes.index(min(sizes))
        largest = max(fragments[full], key=_size)
        end = largest.begin + _size(largest)
        cut = min(_round(end - min(sizes[full] - share, share - sizes[low]), grain), (end - 1) // grain * grain)
        moved = largest._replace(begin=max(largest.begin, cut))
        fragments[low].append(moved)
        fragments[full][fragments[full].index(largest)] = largest._replace(end=moved.begin)
        sizes[full], sizes[low] = sizes[full] - _size(moved), sizes[low] + _size(moved)


def _runs(line: Sequence[Piece], count: int, share: int) -> List[List[Piece]]:
    """Cuts consecutive pieces into fragments of about `share` elements, preferably at the end of a tensor."""
    ends = list(accumulate(map(_size, line)))
    borders = [0, *(_border(ends, ends[-1] * p // count, share) for p in range(1, count)), ends[-1]]
    found: List[List[Piece]] = [[] for _ in range(count)]
    for piece, end in zip(line, ends):
        begin = end - _size(piece)
        for fragment, start, stop in zip(found, borders, borders[1:]):
            fragment.append(Piece(piece.name, max(start, begin) - begin, min(stop, end) - begin))
    return found


def _border(ends: Sequence[int], wanted: int, share: int) -> int:
    nearest = min((0, *ends), key=lambda end: abs(end - wanted))
    if abs(nearest - wanted) <= _slack(share):
        return nearest
    begin = max(end for end in (0, *ends) if end <= wanted)
    return min(begin + _round(wanted - begin, _grain(share)), *(end for end in ends if end > wanted))


def _joined(fragment: Sequence[Piece], sizes: Mapping[str, int]) -> List[Piece]:
    """Returns the pieces in order, merging adjacent ones."""
    found: List[Piece] = []
    for piece in sorted(piece for piece in fragment if _size(piece) > 0):
        if found and (found[-1].name, found[-1].end) == (piece.name, piece.begin):
            found[-1] = found[-1]._replace(end=piece.end)
        else:
            found.append(piece)
    return [Piece(piece.name) if _size(piece) == sizes[piece.name] else piece for piece in found]


# ---- as given


def _given(params: Mapping[str, Any], fragment: Any, index: int) -> List[str]:
    if is_module(fragment):
        own = {id(parameter) for parameter in fragment.parameters()}
        return [name for name, value in params.items() if id(value) in own]
    if isinstance(fragment, str) or not isinstance(fragment, Sequence):
        raise InvalidArgument(f"fragments: number {index} is {fragment!r}, neither a module nor a sequence of names")
    return [name for entry in fragment for name in _named(params, entry)]


def _named(params: Mapping[str, Any], entry: Any) -> List[str]:
    bare = bare_name(f"{entry}.")[:-1]
    found = [name for name in params if name == bare or name.startswith(f"{bare}.")]
    if not found:
        raise InvalidArgument(f"fragments: no parameter {entry!r} and no parameter below it")
    return found


def _check_partition(params: Mapping[str, Any], found: List[List[str]]) -> None:
    for index, names in enumerate(found):
        if not names:
            raise InvalidArgument(f"fragments: number {index} has no parameters to train")
    named = Counter(name for names in found for name in names)
    twice = sorted(name for name, times in named.items() if times > 1)
    if twice:
        raise InvalidArgument(f"fragments: {', '.join(twice)} is in more than one fragment")
    missing = sorted(set(params) - set(named))
    if missing:
        raise InvalidArgument(f"fragments: {', '.join(missing)} is in no fragment")
