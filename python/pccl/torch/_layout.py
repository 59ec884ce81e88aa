"""Tensors in the form that the library uses: dense memory of a supported data type."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from .._buffers import TORCH_DEVICES
from .._enums import BY_NAME
from ._staging import Stage, copy, host_memory, is_on_device

OPS = {
    "SUM": "sum",
    "AVG": "avg",
    "PRODUCT": "prod",
    "MIN": "min",
    "MAX": "max",
    "BAND": "and",
    "BOR": "or",
    "BXOR": "xor",
    "PREMUL_SUM": "premul_sum",
}
_OF_COMPLEX = "sum", "avg", "premul_sum"  # reductions that treat real and imaginary parts separately


def operation_of(given: Any) -> Tuple[str, Optional[float]]:
    """Returns this package's name for torch's reduction, and its factor."""
    kind = getattr(given, "op", given)
    name = OPS.get(getattr(kind, "name", ""))
    if name is None:
        raise ValueError(f"pccl has no reduction {kind}")
    factor = given.__getstate__()[1] if name == "premul_sum" else None
    return name, None if factor is None else float(factor)


DTYPES = {getattr(torch, name): int(kind) for name, kind in BY_NAME.items() if hasattr(torch, name)}
PLAIN = (torch.Tensor, torch.nn.Parameter)  # subclasses may have other memory, or none


def is_known(dtype: torch.dtype) -> bool:
    return dtype in DTYPES


def is_plain(tensor: torch.Tensor) -> bool:
    """Returns true if the library can use the tensor's memory directly."""
    return (
        type(tensor) in PLAIN
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.dtype in DTYPES
        and tensor.is_contiguous()
        and not tensor.is_neg()
    )


def check_device(tensor: Any, may_be_sparse: bool) -> None:
    if tensor.device.type != "cpu" and tensor.device.type not in TORCH_DEVICES:
        raise ValueError(f"pccl: a tensor on {tensor.device}: expected one on cpu, {', '.join(TORCH_DEVICES)}")
    if tensor.layout is not torch.strided and not (may_be_sparse and tensor.layout is torch.sparse_coo):
        others = ", in all_reduce also sparse ones in COO layout" if may_be_sparse else ""
        raise ValueError(f"pccl supports dense tensors{others}, not of layout {tensor.layout}")


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements as one dimension, in order. Copies only if their order in memory differs."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)


def to_move(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements for operations that only move them. Unsupported types become bytes."""
    flat = dense(tensor)
    return flat if is_known(flat.dtype) else flat.view(torch.uint8)


def to_reduce(tensor: torch.Tensor, op: str) -> torch.Tensor:
    flat = dense(tensor)
    if is_known(flat.dtype):
        return flat
    if flat.is_complex() and flat.dtype != torch.complex32 and op in _OF_COMPLEX:
        return torch.view_as_real(flat).reshape(-1)
    raise ValueError(f"pccl cannot reduce {tensor.dtype} by {op}")


class Target:
    """Memory for a result, and its destination, one or several tensors. If the destination is a single dense tensor in
    this process's memory, the result is written to it directly."""

    def __init__(
        self,
        stage: Stage,
        tensors: Sequence[torch.Tensor],
        form: Callable[[torch.Tensor], torch.Tensor] = to_move,
        is_read: bool = False,
    ) -> None:
        """is_read: there is one tensor, whose elements must be in the memory first."""
        self._tensors = list(tensors)
        forms = [form(one) for one in self._tensors]
        self.counts = [one.numel() for one in forms]
        for tensor in self._tensors:
            stage.will_write(tensor)
        self._is_direct = False
        if is_on_device(forms[0]):
            size = sum(self.counts)
            self.memory = stage.source(forms[0]) if is_read else host_memory(size, forms[0].dtype)
        elif len(forms) == 1:
            self.memory = forms[0]
            self._is_direct = _is_same_memory(forms[0], self._tensors[0])
        else:
            self.memory = torch.empty(sum(self.counts), dtype=forms[0].dtype)

    def bring(self) -> None:
        if self._is_direct:
            return
        for tensor, piece in zip(self._tensors, self.memory.split(self.counts)):
            write(tensor, piece)


def _is_same_memory(form: torch.Tensor, tensor: torch.Tensor) -> bool:
    return form.data_ptr() == tensor.data_ptr() and not tensor.is_conj() and not tensor.is_neg()


def write(tensor: torch.Tensor, piece: torch.Tensor) -> None:
    """Writes elements in the form of to_move or to_reduce to the tensor."""
    with torch.no_grad():
        dtype = tensor.dtype
        typed = piece if piece.dtype == dtype else piece.view(dtype)
        copy(tensor, typed.view(tensor.shape))


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the elements of all tensors, concatenated in the form of to_move."""
    forms = [to_move(one) for one in tensors]
    return forms[0] if len(forms) == 1 else torch.cat(forms)


def same_count(tensors: Sequence[torch.Tensor]) -> bool:
    return len({one.numel() for one in tensors}) == 1


def need_one_kind(what: str, tensors: Sequence[torch.Tensor]) -> None:
    for kinds in ({str(one.dtype) for one in tensors}, {str(one.device) for one in tensors}):
        if len(kinds) > 1:
            raise ValueError(f"{what}: tensors of different data types or devices: {', '.join(sorted(kinds))}")


def need_one_each(what: str, tensors: Sequence[Any], size: int, kind: str = "tensors") -> None:
    if len(tensors) != size:
        raise ValueError(f"{what}: {len(tensors)} {kind} for {size} ranks: expected one for each rank")


def need_some(what: str, tensors: Sequence[Any]) -> None:
    if not tensors:
        raise ValueError(f"{what}: no tensors")


def need_one(what: str, tensors: Sequence[Any], kind: str = "tensor") -> Sequence[Any]:
    if len(tensors) != 1:
        raise ValueError(f"{what}: {len(tensors)} {kind}s: expected one")
    return tensors


def need_as_many(what: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    if not inputs:
        need_some(f"{what}: inputs", inputs)
    if len(outputs) != len(inputs):
        raise ValueError(f"{what}: {len(outputs)} outputs for {len(inputs)} inputs")


def need_one_shape(what: str, output: torch.Tensor, given: torch.Tensor) -> None:
    if output.shape != given.shape:
        raise ValueError(f"{what}: an output of shape {tuple(output.shape)} for an input of {tuple(given.shape)}")


def need_one_count(what: str, tensors: Sequence[torch.Tensor]) -> None:
    if not same_count(tensors):
        counts = ", ".join(str(one.numel()) for one in tensors)
        raise ValueError(f"{what}: tensors of different sizes: {counts} elements")
