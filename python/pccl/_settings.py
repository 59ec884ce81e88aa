"""Settings: frozen dataclasses whose fields are the keyword arguments of a constructor, and checks of their values."""

from __future__ import annotations

import dataclasses
import math
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Sequence, Union

from ._described import Field, dataclass_transform, function_of
from ._errors import InvalidArgument

# A check returns the value, possibly converted, or raises if it is invalid for the setting of this name.
Check = Callable[[str, Any], Any]

if TYPE_CHECKING:
    _REQUIRED: Any
else:
    _REQUIRED = dataclasses.MISSING


def setting(
    *, default: Any = _REQUIRED, check: Optional[Check] = None, same: Union[bool, Callable[[Any], Any]] = True
) -> Any:
    """Declares a setting that needs more than a type and a default.

    default: if omitted, the setting is required. check: see Check. same: whether the value must be equal on all peers;
    or a function that returns the part of the value that must be equal.
    """
    about = {"same": same} if check is None else {"same": same, "check": check}
    return dataclasses.field(default=default, metadata=about)


def position(*, kw_only: bool, default: Any = _REQUIRED) -> Any:
    """Declares a positional argument. kw_only must be False: type checkers read it."""
    assert not kw_only
    return dataclasses.field(default=default, repr=False, metadata={"same": False, "is_positional": True})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(setting, position))
class Declared:
    """Base that makes each subclass a frozen dataclass. The constructor takes the fields by name, checks each value,
    and calls _check(). A field that a subclass declares again with another default keeps its check."""

    _about: Dict[str, Any] = {}

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        kind: Any = dataclasses.dataclass(init=False, eq=False, frozen=True)(cls)
        fields = {one.name: one for one in dataclasses.fields(kind)}
        own = [name for name in _annotations(cls) if name in fields]
        above = {name: about for base in cls.__mro__[:0:-1] for name, about in vars(base).get("_about", {}).items()}
        kind._about = {name: {**above.get(name, {"same": True}), **fields[name].metadata} for name in fields}
        kind._own = own
        by_name = dict.fromkeys(name for base in cls.__mro__ for name in vars(base).get("_own", ()))
        places = [name for name in fields if kind._about[name].get("is_positional")]
        kind._taken = {
            name: Field(fields[name].type, fields[name].default, name in places)
            for name in dict.fromkeys([*places, *by_name])
        }
        scope = {name: one for base in cls.__mro__[::-1] for name, one in vars(sys.modules[base.__module__]).items()}
        values = ", ".join(f"{name}={name}" for name in kind._taken)
        body = f"\n        vars(self).update({values})\n        self._begin()"
        kind.__init__ = made = function_of("__init__", kind._taken, body, scope, "None")
        made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"

    def _begin(self) -> None:
        for name, about in self._about.items():
            if "check" in about:
                vars(self)[name] = about["check"](name, getattr(self, name))
        self._check()

    def _check(self) -> None:
        """Raises if the combination of settings is invalid."""

    def compared(self) -> Dict[str, Any]:
        """Returns the values that must be equal on all peers, by name."""
        same = {name: self._about[name]["same"] for name in self._taken}
        return {
            name: how(getattr(self, name)) if callable(how) else getattr(self, name)
            for name, how in same.items()
            if how
        }

    _taken: Dict[str, Field] = {}


def _annotations(cls: type) -> Dict[str, Any]:
    """Returns the annotations of the class itself, excluding its bases."""
    if sys.version_info < (3, 10):
        return dict(cls.__dict__.get("__annotations__", {}))
    return dict(cls.__annotations__)


# ---- checks


def integer(least: int, most: Optional[int] = None, words: str = "") -> Check:
    """Returns a check for integers in a range. words: text of the error for a value above `most`."""

    def check(name: str, value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidArgument(f"{name}: {value!r}; expected an integer of at least {least}")
        if most is not None and value > most:
            raise InvalidArgument(f"{name}: {value}; expected {words or f'at most {most}'}")
        return value

    return check


def finite(*, zero: bool = False, most: float = 1.0) -> Check:
    """Returns a check for finite numbers greater than 0, or, with zero=True, at least 0."""
    limit = "" if most == math.inf else f" and at most {most:g}"
    expected = f"at least 0{limit}" if zero else f"more than 0{limit}"

    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0:
            raise InvalidArgument(f"{name}: {value!r}; expected a finite number")
        if not (0 <= value if zero else 0 < value) or value > most:
            raise InvalidArgument(f"{name}: {value!r}; expected {expected}")
        return float(value)

    return check


def where(holds: Callable[[Any], bool], expected: str, found: str = ": ") -> Check:
    """Returns a check that applies a predicate. found: text between the name and the value in the error."""

    def check(name: str, value: Any) -> Any:
        try:
            is_right = holds(value)
        except (TypeError, ValueError):
            is_right = False
        if not is_right:
            raise InvalidArgument(f"{name}{found}{value!r}; expected {expected}")
        return value

    return check


def choice(choices: Sequence[str]) -> Check:
    def check(name: str, value: Any) -> Any:
        if value not in choices:
            raise InvalidArgument(f"{name}: {value!r}; expected {', '.join(choices)}")
        return value

    return check


truth = where(lambda value: isinstance(value, bool), "True or False")


def function(name: str, value: Any) -> Any:
    if not callable(value):
        raise InvalidArgument(f"{name}: {value!r} is not callable")
    return value


def optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)
