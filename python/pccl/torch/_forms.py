"""Supports both forms in which torch lets programs call the methods of a process group: with lists of tensors and an
optional options object, or with a single tensor in place of each list and the fields of the options as arguments."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Sequence, TypeVar

import torch

_Method = TypeVar("_Method", bound=Callable[..., Any])
_FIELDS = {"op": "reduceOp", "root": "rootRank", "timeout": "timeout"}
_LISTS = {
    **dict.fromkeys(("tensor", "tensors", "output", "output_tensor", "output_tensors", "output_lists"), 0),
    **dict.fromkeys(("input", "input_tensor", "input_tensors", "input_list"), 1),
}


def usual(make: type, count: int, names: Sequence[str], given: Sequence[Any], named: Dict[str, Any]) -> List[Any]:
    """Returns `count` lists of tensors, and the options.

    make    class of the options
    names   names of the short form's arguments after the tensors
    given   positional arguments of the caller
    named   keyword arguments of the caller
    """
    lists = dict(enumerate(given[:count]))
    lists.update({_LISTS[name]: value for name, value in named.items() if name in _LISTS})
    values = dict(zip(names, given[count:]))
    values.update({name: value for name, value in named.items() if name not in _LISTS})
    opts = values.pop("opts", None)
    is_known = len(lists) == count and len(given) <= count + len(names) and values.keys() <= {*names}
    if not is_known or not isinstance(opts, (make, type(None))):
        raise TypeError(
            f"pccl: wrong arguments: expected {count} lists of tensors, and {make.__name__} or "
            f"{', '.join(names)}"
        )
    if opts is None and len(given) > count:
        opts = given[count]
    if not isinstance(opts, make):
        opts = make()
        for name, value in values.items():
            if value is not None:
                setattr(opts, _FIELDS[name], value)
    tensors = [lists[at] for at in range(count)]
    if any(isinstance(one, torch.Tensor) for one in tensors):
        tensors = [[one] for one in tensors]
    return [*tensors, opts]


def in_all_forms(make: type, count: int, *names: str) -> Callable[[_Method], _Method]:
    """Decorates a method that takes the first form."""

    def of(method: _Method) -> _Method:
        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            if not named and len(given) == count + 1 and isinstance(given[count], make):
                for one in given[:count]:
                    if type(one) is not list:
                        break
                else:
                    return method(self, *given)
            return method(self, *usual(make, count, names, given, named))

        return call  # type: ignore[return-value]

    return of
