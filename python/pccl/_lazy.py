"""Modules that are optional or slow to import, imported when one of their attributes is first used."""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """A proxy for a module. Reading an attribute raises ImportError if the module is missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


numpy: Any = Lazy("numpy")
torch: Any = Lazy("torch")
