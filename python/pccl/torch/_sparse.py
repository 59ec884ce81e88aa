"""All-reduce of sparse tensors in COO layout, such as the gradients of Embedding(sparse=True).

Ranks have different numbers of elements. Each rank therefore gathers the elements of all ranks and adds them locally,
in the order of the ranks, so that all get the same bits.
"""

from __future__ import annotations

import json
import math
from typing import Any, List, Optional, Sequence

import torch

_HEAD = 8  # size in bytes of the length of the description, which precedes the description
_MARGIN = 4096  # maximum size of a description in bytes
LABEL = "all-reduce of sparse tensors"


def is_sparse(tensor: torch.Tensor) -> bool:
    return bool(tensor.layout is torch.sparse_coo)


def check(op: str, factor: Optional[float], dtype: torch.dtype) -> None:
    if op not in ("sum", "avg") or factor is not None:
        raise ValueError(f"all_reduce of a sparse tensor: reduction {op}: expected SUM or AVG")
    if op == "avg" and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"all_reduce of a sparse tensor: AVG of {dtype}: expected a floating-point or complex type")


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def _described(tensor: torch.Tensor) -> Any:
    """Returns the properties that must be the same on all ranks."""
    return [list(tensor.shape), tensor.sparse_dim(), str(tensor.dtype)]


class Packed:
    """A tensor as bytes to be gathered, and as the destination of the sum."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        own = tensor.detach().coalesce().cpu()
        self._dtype, self._what = own.dtype, _described(own)
        indices, values = own.indices(), own.values().resolve_conj().resolve_neg()
        text = json.dumps([*self._what, own._nnz()]).encode()
        head = torch.tensor([len(text)], dtype=torch.int64)
        described = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.memory = torch.cat([_bytes(head), described, _bytes(indices), _bytes(values)])
        places = int(math.prod(own.shape[: own.sparse_dim()]))
        dense = int(math.prod(values.shape[1:])) * values.element_size()
        self._most = places * (dense + 8 * own.sparse_dim()) + _MARGIN

    def max_bytes(self, ranks: int) -> int:
        """Returns the size of the elements of all ranks if every place is occupied. It is the same on all ranks."""
        return int(min(self._most * ranks, (1 << 63) - 1))

    def bring(self, blobs: Sequence[Any], ranks: Sequence[int], op: str) -> None:
        """Adds up the elements of all ranks. ranks: the sender of each blob."""
        indices: List[torch.Tensor] = []
        values: List[torch.Tensor] = []
        for rank, blob in sorted(zip(ranks, blobs)):
            try:
                self._unpack(blob, indices, values)
            except ValueError as error:
                raise ValueError(f"rank {rank}: {error}") from None
        shape = self._tensor.shape
        total = torch.sparse_coo_tensor(torch.cat(indices, 1), torch.cat(values), shape, check_invariants=True)
        total = total.coalesce()
        if op == "avg":
            total = total / len(blobs)
        with torch.no_grad():
            self._tensor.copy_(total)

    def _unpack(self, blob: Any, indices: List[torch.Tensor], values: List[torch.Tensor]) -> None:
        length = int.from_bytes(blob[:_HEAD], "little")
        *what, count = json.loads(bytes(blob[_HEAD : _HEAD + length]))
        if what != self._what:
            raise ValueError(f"its sparse tensor has shape, sparse dimensions and type {what}, not {self._what}")
        shape, sparse, _ = what
        at = _HEAD + length
        elements = torch.empty([count, *shape[sparse:]], dtype=self._dtype)
        size = 8 * sparse * count
        if len(blob) != at + size + elements.numel() * elements.element_size():
            raise ValueError(f"its sparse tensor has {count} elements in {len(blob)} bytes: wrong length")
        if count:
            data = torch.frombuffer(bytearray(blob[at:]), dtype=torch.uint8)
            indices.append(data[:size].view(torch.int64).view(sparse, count))
            elements.copy_(data[size:].clone().view(self._dtype).view(elements.shape))
        else:
            indices.append(torch.empty([sparse, 0], dtype=torch.int64))
        values.append(elements)
