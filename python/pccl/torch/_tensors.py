"""The memory of tensors in this process, and names that identify it."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Tuple

import torch

# Components that wrappers insert into the names of a module. Peers may use different wrappers.
_WRAPPINGS = ("_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")

_SHARED_DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


def bare(module: torch.nn.Module) -> torch.nn.Module:
    """Returns the module inside a DataParallel or DistributedDataParallel."""
    while isinstance(module, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        module = module.module
    return module


def reshard(module: torch.nn.Module) -> None:
    """Frees parameters that FSDP2 has gathered and would otherwise keep until the next backward."""
    for part in module.modules():
        if hasattr(part, "reshard") and hasattr(part, "unshard"):
            part.reshard()


def plain_name(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPINGS)


class Place(NamedTuple):
    """Location of a buffer in a module, which may replace the tensor or set it to None."""

    owner: torch.nn.Module
    key: str

    def tensor(self) -> Any:
        return self.owner._buffers.get(self.key)


def persistent_buffers(module: torch.nn.Module) -> Iterator[Tuple[str, Place]]:
    """Yields the buffers that are part of a state_dict. The others are caches, which each peer creates itself."""
    seen = set()
    for prefix, part in module.named_modules():
        for name, buffer in part._buffers.items():
            if buffer is None or name in part._non_persistent_buffers_set or id(buffer) in seen:
                continue
            seen.add(id(buffer))
            yield (f"{prefix}.{name}" if prefix else name), Place(part, name)


def is_dtensor(tensor: Any) -> bool:
    return hasattr(tensor, "to_local") and hasattr(tensor, "placements")


def local(tensor: Any) -> torch.Tensor:
    """Returns the tensor's memory in this process; for a DTensor, its local shard. Never copies."""
    with torch.no_grad():
        part: torch.Tensor = tensor.to_local() if is_dtensor(tensor) else tensor
        return part.detach()


def shard_name(tensor: Any) -> str:
    """Returns a suffix for names that identifies this process's shard: "@S0:1/2" is the second of two along dimension
    0."""
    if not is_dtensor(tensor):
        return ""
    mesh = tensor.device_mesh
    where = mesh.get_coordinate()
    parts: List[str] = []
    for dimension, placement in enumerate(tensor.placements):
        if placement.is_replicate():
            parts.append("R")
        else:
            letter = f"S{placement.dim}" if hasattr(placement, "dim") else str(placement)
            at = "-" if where is None else where[dimension]
            parts.append(f"{letter}:{at}/{mesh.size(dimension)}")
    return "@" + ",".join(parts)


def is_dense(tensor: torch.Tensor) -> bool:
    """Returns true if the tensor fills its memory without gaps and overlaps, with the dimensions in any order
    (channels_last)."""
    expected = 1
    extents = zip(tensor.stride(), tensor.shape)
    for stride, extent in sorted((stride, extent) for stride, extent in extents if extent > 1):
        if stride != expected:
            return False
        expected *= extent
    return True


def in_memory_order(tensor: torch.Tensor) -> Tuple[torch.Tensor, str]:
    """Returns the same memory as a contiguous tensor of a supported data type, and a suffix for names. The suffix gives
    the order of the dimensions in memory if it is not the usual one, so that bytes in different orders are not mixed
    up."""
    order = ""
    if not tensor.is_contiguous() and is_dense(tensor):
        dimensions = sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))
        tensor = tensor.permute(dimensions)
        order = "@order:" + ",".join(map(str, dimensions))
    if tensor.dtype not in _SHARED_DTYPES and tensor.is_contiguous():
        tensor = tensor.reshape(-1).view(torch.uint8)
    return tensor, order
