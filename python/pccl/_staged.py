"""Copies of tensors on devices in host memory, which the library uses in their place."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from . import _native
from ._buffers import Buffer
from ._errors import LayoutError
from ._lazy import Lazy

_staging: Any = Lazy("pccl.torch._staging")


def on_device(buffer: Buffer) -> bool:
    if not buffer.is_on_device:
        return False
    if buffer.family != "torch":
        raise LayoutError("CUDA device memory is supported for torch tensors only")
    return True


class Staged:
    """Host memory of `count` elements for tensors on a device. Copies `source` to the elements from `begin` on.
    When the operation has succeeded, copies the elements from `end` on to `target`."""

    def __init__(self, count: int, source: Any, begin: int, target: Any, end: int) -> None:
        given = target if source is None else source
        self._target = target
        self._end = end
        host: Any = _staging.host_memory(count, given.dtype)
        self._host = host
        if source is not None:
            host[begin : begin + source.numel()].copy_(source.reshape(-1))  # waits for the stream's pending work
        self._address = int(host.data_ptr())
        self._itemsize = int(host.element_size())

    def address(self, element: int) -> int:
        return self._address + element * self._itemsize

    def finish(self) -> None:
        target = self._target
        if target is not None:
            target.copy_(self._host[self._end : self._end + target.numel()].view(target.shape))


def fuse(pinned: Sequence[Tuple[_native.ReduceOpDescriptorC, Any]]) -> Any:
    """Points descriptors of tensors on devices at host memory. Returns an object whose bring() copies the results to
    the tensors, or None if there are no such tensors."""
    places = [(made, memory) for made, memory in pinned if memory is not None and on_device(memory[0])]
    if not places:
        return None
    fused = _staging.Fused([send.owner for _, (send, _) in places], [recv.owner for _, (_, recv) in places])
    for (made, _), host in zip(places, fused.hosts):
        made.sendbuf = made.recvbuf = host.data_ptr()
    return fused


class StagedTogether:
    """Finishes several staged tensors as one."""

    def __init__(self, each: Sequence[Staged]) -> None:
        self._each = each

    def finish(self) -> None:
        for one in self._each:
            one.finish()


def placed(
    count: int, source: Optional[Buffer], begin: int, target: Optional[Buffer], end: int
) -> Tuple[Optional[int], Optional[int], Optional[Staged]]:
    """Returns the addresses of source and target for the library. For tensors on a device, these are in a staged copy
    of `count` elements, with the source at `begin` and the target at `end`."""
    given = source or target
    assert given is not None
    if not on_device(given):
        return source.address if source else None, target.address if target else None, None
    staged = Staged(count, source and source.owner, begin, target and target.owner, end)
    return staged.address(begin) if source else None, staged.address(end) if target else None, staged
