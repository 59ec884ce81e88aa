"""Modules that may be missing, or take long to import: `import pccl` imports them when something of them is used."""

from __future__ import annotations

import importlib
from typing import Any


class Lazy:
    """Stands for a module, with its attributes. ImportError where one is used and the module is missing."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


numpy: Any = Lazy("numpy")
torch: Any = Lazy("torch")
