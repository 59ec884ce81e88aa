"""Classes with fields, and methods with the same parameters: both signatures are generated from one list of fields."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Type, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec
    from typing_extensions import dataclass_transform as dataclass_transform

    _P = ParamSpec("_P")
else:

    def dataclass_transform(**_):
        return lambda kind: kind


_S = TypeVar("_S")
_K = TypeVar("_K")
_R = TypeVar("_R")
_REQUIRED: Any = dataclasses.MISSING


class _Positional(NamedTuple):
    default: Any


class Field(NamedTuple):
    annotation: Any
    default: Any
    is_positional: bool


def argument(*, kw_only: bool, default: Any = _REQUIRED) -> Any:
    """Declares a positional field. kw_only must be False: type checkers read it."""
    assert not kw_only
    return _Positional(default)


@dataclass_transform(kw_only_default=True, field_specifiers=(argument,))
def described(cls: Type[_K]) -> Type[_K]:
    """Gives a class a constructor for its own annotated fields and the fields of its described base classes. The
    constructor sets the attributes and calls _begin(). _ORDER is the order of the keyword parameters."""
    known: Dict[str, Field] = {}
    written: Dict[str, str] = cls.__dict__.get("__annotations__", {})
    kind: Any = cls
    kind._own = {name: _field(cls, name, text) for name, text in written.items() if name[0] != "_"}
    if written:
        del cls.__annotations__  # so that help() shows the constructor
    for base in cls.__mro__:
        known = {**base.__dict__.get("_own", {}), **known}
    by_name = sorted((name for name in known if not known[name].is_positional), key=kind._ORDER.index)
    kind._taken = {name: field for name, field in known.items() if field.is_positional}
    kind._taken.update({name: known[name] for name in by_name})
    body = "".join(f"\n        self.{name} = {name}" for name in kind._taken) + "\n        self._begin()"
    made = function_of("__init__", kind._taken, body, vars(sys.modules[cls.__module__]), "None")
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    kind.__init__ = made
    return cls


def _field(cls: type, name: str, annotation: str) -> Field:
    """Returns a field, and removes its default from the class."""
    default = cls.__dict__.get(name, _REQUIRED)
    if default is not _REQUIRED:
        delattr(cls, name)
    if isinstance(default, _Positional):
        return Field(annotation, default.default, True)
    return Field(annotation, default, False)


def function_of(
    name: str, fields: Dict[str, Field], body: str, scope: Dict[str, Any], returns: str, **captured: Any
) -> Callable[..., Any]:
    """Generates a method with these parameters. scope contains the names used in the annotations."""
    parameters: List[str] = ["self"]
    for parameter, field in fields.items():
        if not field.is_positional and "*" not in parameters:
            parameters.append("*")
        parameters.append(parameter if field.default is _REQUIRED else f"{parameter}=None")
    source = f"def make({', '.join(captured)}):\n    def {name}({', '.join(parameters)}):{body}\n    return {name}\n"
    made: Dict[str, Any] = {}
    exec(compile(source, f"<{name}>", "exec"), scope, made)
    function: Any = made["make"](**captured)
    optional = {parameter: field for parameter, field in fields.items() if field.default is not _REQUIRED}
    function.__defaults__ = tuple(field.default for field in optional.values() if field.is_positional) or None
    function.__kwdefaults__ = {name: field.default for name, field in optional.items() if not field.is_positional}
    function.__annotations__ = {name: field.annotation for name, field in fields.items()}
    function.__annotations__["return"] = returns
    made_function: Callable[..., Any] = function
    return made_function


def takes(kind: Callable[_P, _K]) -> Callable[[Callable[[_S, _K], _R]], Callable[Concatenate[_S, _P], _R]]:
    """Decorates a method that takes an object of this class, so that callers pass the constructor's arguments
    instead."""

    def of(method: Any) -> Any:
        taken: Any = kind
        fields: Dict[str, Field] = taken._taken
        given = ", ".join(name if field.is_positional else f"{name}={name}" for name, field in fields.items())
        scope = {**taken.__init__.__globals__, **method.__globals__}
        made: Any = function_of(
            method.__name__,
            fields,
            f"\n        return _method_of_(self, _kind_of_({given}))",
            scope,
            method.__annotations__.get("return", "None"),
            _method_of_=method,
            _kind_of_=kind,
        )
        made.__module__, made.__qualname__, made.__doc__ = method.__module__, method.__qualname__, method.__doc__
        return made

    return of
