"""The library's parameters, which can be set in `options` and in the environment."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import List, Optional

from . import _native

_SCOPES = ("communicator", "master", "process")


@dataclass(frozen=True)
class Parameter:
    name: str
    env: str
    default: str
    min: str
    max: str
    help: str
    scope: str


def _text(text: Optional[bytes]) -> str:
    return (text or b"").decode()


def parameters() -> List[Parameter]:
    """Returns all parameters. Parameters with scope "process" are read from the environment only."""
    found = []
    for index in range(_native.lib.pcclGetParameterCount()):
        info = _native.ParameterInfoC(size=ctypes.sizeof(_native.ParameterInfoC))
        _native.lib.pcclGetParameterInfo(index, ctypes.byref(info))
        found.append(
            Parameter(
                name=_text(info.name),
                env=_text(info.env),
                default=_text(info.default_value),
                min=_text(info.min_value),
                max=_text(info.max_value),
                help=_text(info.help),
                scope=_SCOPES[info.scope],
            )
        )
    return found


def maximum(name: str) -> int:
    return next(int(parameter.max) for parameter in parameters() if parameter.name == name)
