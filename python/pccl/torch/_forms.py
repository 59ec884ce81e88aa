"""The forms in which torch lets programs call the methods of a process group: with lists of tensors and options, which
may be left out; and with one tensor instead of each list, and what the options would have."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Sequence, TypeVar

import torch

_Method = TypeVar("_Method", bound=Callable[..., Any])
_FIELDS = {"op": "reduceOp", "root": "rootRank", "timeout": "timeout"}


def usual(make: type, count: int, names: Sequence[str], given: Sequence[Any], named: Any) -> List[Any]:
    """So many lists of tensors, and options.

    make    the class of these
    names   the short form's arguments behind the tensors
    given   the caller's arguments, without names and with
    """
    lists, rest = list(given[:count]), given[count:]
    opts = rest[0] if rest else named.get("opts")
    if not isinstance(opts, make):
        opts = make()
        for name, value in [*zip(names, rest), *named.items()]:
            if name != "opts" and value is not None:
                setattr(opts, _FIELDS[name], value)
    if any(isinstance(one, torch.Tensor) for one in lists):
        lists = [[one] for one in lists]
    return [*lists, opts]


def in_all_forms(make: type, count: int, *names: str) -> Callable[[_Method], _Method]:
    """Of a method in the first of them."""

    def of(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            return method(self, *usual(make, count, names, given, named))

        return call  # type: ignore[return-value]

    return of
