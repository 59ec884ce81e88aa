"""Objects received from other ranks, without pickles that can run code."""

from __future__ import annotations

import pickle
from typing import Any

import torch
import torch.distributed.distributed_c10d as _c10d

from .._errors import InvalidUsage

_WORDS = "refuse_pickles() allows plain data only: None, bool, int, float, str, bytes, list, tuple, dict, set"


class _Plain(pickle.Unpickler):
    """An unpickler that rejects classes and functions, so that loading runs no code of the sender."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"another rank sent {module[:100]!r}.{name[:100]!r}: {_WORDS}")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"another rank sent a reference: {_WORDS}")


def refuse_pickles() -> None:
    """Makes torch.distributed's object collectives in this process load plain data only.

    all_gather_object(), broadcast_object_list(), gather_object(), scatter_object_list() and recv_object_list() send
    pickles, and a pickle can run code in the process that loads it. After this call they raise pickle.UnpicklingError
    for everything but None, bool, int, float, str, bytes, list, tuple, dict and set. This affects all process groups:
    features that send other objects, for example torch.distributed.checkpoint, fail. Call it before the first
    collective.
    """
    if not hasattr(_c10d, "_unpickler"):
        raise InvalidUsage(f"refuse_pickles: torch {torch.__version__} loads objects in an unsupported way")
    _c10d._unpickler = _Plain

