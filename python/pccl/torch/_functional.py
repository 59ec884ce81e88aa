"""Kernels for functional collectives that C++ implements with methods that a process group in Python cannot override.

For groups of this backend they call the group's methods and wait. For other groups they call the previous kernels.
"""

from __future__ import annotations

from typing import Any, Callable, List

import torch
import torch.distributed as dist

from .._buffers import TORCH_DEVICES

_library: Any = None  # keeps the kernels alive
_DEVICES = "CPU", *(kind.upper() for kind in TORCH_DEVICES)


def _all_gather_into_tensor_out(group: Any, input: torch.Tensor, _: int, __: Any, *, out: torch.Tensor) -> torch.Tensor:
    group.all_gather_single(out, input).wait()
    return out


def _batch_p2p_ops(
    group: Any, names: List[str], peers: List[int], tags: List[int], tensors: List[torch.Tensor], _: Any
) -> List[torch.Tensor]:
    works = []
    for name, peer, tag, tensor in zip(names, peers, tags, tensors):
        works.append((group.send if name == "isend" else group.recv)([tensor], peer, tag))
    for work in works:
        work.wait()
    return tensors


def register(kind: type) -> None:
    """Registers the kernels, once for all groups of this class."""
    global _library
    if _library is not None or not hasattr(torch.library, "get_kernel"):
        return  # torch before 2.10 has no get_kernel
    _library = torch.library.Library("_c10d_functional", "IMPL")
    for name, place, ours in (
        ("all_gather_into_tensor_out", 2, _all_gather_into_tensor_out),
        ("batch_p2p_ops", 4, _batch_p2p_ops),
    ):
        if hasattr(torch.ops._c10d_functional, name):
            for device in _DEVICES:
                _add(kind, name, place, ours, device)


def _add(kind: type, name: str, place: int, ours: Callable[..., Any], device: str) -> None:
    """Registers a kernel. place: index of the group in the arguments."""
    before = torch.library.get_kernel(f"_c10d_functional::{name}", device)

    def kernel(keys: Any, *given: Any, **named: Any) -> Any:
        group = given[place]
        if isinstance(group, str):
            group = dist.distributed_c10d._resolve_process_group(group)
        return ours(group, *given, **named) if isinstance(group, kind) else before.call_boxed(keys, *given, **named)

    _library.impl(name, kernel, device, with_keyset=True)
