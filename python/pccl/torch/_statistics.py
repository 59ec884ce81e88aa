"""Buffers that may differ among elastic replicas: running statistics, and others that forward changes in training.

Normalization layers are recognized by their class. Any other buffer may differ once a forward has changed it. A
newcomer has not run a forward yet, so replicas exchange the names when newcomers join (_replica.py).
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch
from torch.nn.modules.batchnorm import _NormBase

from . import _tensors
from ._tensors import Place


class Statistics:
    """Finds the buffers of a module that may differ.

    names  names in the shared state of the buffers found so far
    """

    def __init__(self, buffers: Sequence[Tuple[str, Place]]) -> None:
        self.names: Set[str] = {name for name, place in buffers if isinstance(place.owner, _NormBase)}
        self._others = {name: place for name, place in buffers if name not in self.names}
        self._before: Dict[str, Tuple[Optional[torch.Tensor], int]] = {}

    def watch(self, module: torch.nn.Module, caller: Callable[..., Any]) -> List[Any]:
        """Registers hooks that compare buffers before and after each forward. Returns the hooks."""
        if not self._others:
            return []
        return [
            module.register_forward_pre_hook(caller(self.before_forward)),
            module.register_forward_hook(caller(self.after_forward)),
        ]

    def before_forward(self, module: torch.nn.Module, *_: Any) -> None:
        if not module.training:
            self._before = {}
            return
        watched = {name: place for name, place in self._others.items() if name not in self.names}
        self._before = {name: (place.tensor(), _version(place.tensor())) for name, place in watched.items()}

    def after_forward(self, *_: Any) -> None:
        for name, (tensor, version) in self._before.items():
            now = self._others[name].tensor()
            if now is not tensor or _version(now) != version:
                self.names.add(name)
        self._before = {}


def _version(tensor: Optional[torch.Tensor]) -> int:
    """Returns a number that increases when the contents are changed in place."""
    return 0 if tensor is None or tensor.is_inference() else int(tensor._version)


class Copies:
    """A copy of all buffers of a module in one tensor, for a broadcast."""

    def __init__(self, module: torch.nn.Module) -> None:
        parts = [_tensors.in_memory_order(_tensors.local(buffer))[0] for buffer in module.buffers()]
        self._parts = [part.reshape(-1).view(torch.uint8) for part in parts if part.numel() > 0]
        device = self._parts[0].device if self._parts else torch.device("cpu")
        self.flat = torch.cat([part.to(device) for part in self._parts]) if self._parts else torch.empty(0)

    def bring(self) -> None:
        """Copies the contents back to the buffers."""
        for part, content in zip(self._parts, self.flat.split([part.numel() for part in self._parts])):
            part.copy_(content)
