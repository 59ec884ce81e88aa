"""Shared state: tensors that are the same on all peers of a group."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _buffers, _core, _native
from ._enums import DataType, DeviceType, data_type, member, number
from ._errors import DTypeError, InvalidArgument, LayoutError
from ._lazy import torch


@dataclass(frozen=True)
class SharedStateSyncInfo:
    """Number of payload bytes that this peer sent and received in a synchronization."""

    tx_bytes: int
    rx_bytes: int


class TensorInfo:
    """A named tensor of a shared state, in host memory or on a device."""

    def __init__(
        self,
        name: str,
        data_ptr: int,
        *,
        numel: int,
        dtype: DataType,
        device_type: DeviceType = DeviceType.CPU,
        allow_content_inequality: bool = False,
    ) -> None:
        if not _core.text("TensorInfo: name", name):
            raise InvalidArgument("TensorInfo: the name is empty")
        self.name = name
        self.data_ptr = _buffers.address(f"TensorInfo: {name}: data_ptr", data_ptr or 0)
        self.numel = number(f"TensorInfo: {name}: numel", numel, 0, 1 << 63)
        self.dtype = data_type(f"TensorInfo: {name}: dtype", dtype)
        self.device_type = device_type
        self.allow_content_inequality = allow_content_inequality
        if not self.data_ptr and self.numel > 0:
            raise InvalidArgument(f"TensorInfo: {name}: data_ptr is null")
        self._tensor: Any = None  # the owner of the memory
        self._buffer: Optional[_buffers.Buffer] = None

    @classmethod
    def from_buffer(cls, tensor: _buffers.Memory, name: str, *, allow_content_inequality: bool = False) -> TensorInfo:
        """Creates a TensorInfo from any buffer that all_reduce accepts, such as a numpy array or a torch tensor. Keeps
        it alive."""
        buffer = _buffers.of(tensor, f"TensorInfo: {name}")
        _buffers.need_writable(buffer, tensor, f"TensorInfo: {name}")
        made = cls(
            name,
            buffer.address,
            numel=buffer.count,
            dtype=buffer.dtype,
            device_type=buffer.device,
            allow_content_inequality=allow_content_inequality,
        )
        made._tensor, made._buffer = tensor, buffer
        return made

    @classmethod
    def from_torch(cls, tensor: _buffers.Memory, name: str, *, allow_content_inequality: bool = False) -> TensorInfo:
        return cls.from_buffer(tensor, name, allow_content_inequality=allow_content_inequality)

    @classmethod
    def from_numpy(cls, tensor: _buffers.Memory, name: str, *, allow_content_inequality: bool = False) -> TensorInfo:
        return cls.from_buffer(tensor, name, allow_content_inequality=allow_content_inequality)

    def _follow(self) -> None:
        """Looks up the current address of the tensor's memory, which the program may have replaced (`.data = ...`,
        optimizers that reallocate)."""
        if self._buffer is None or not self._buffer.may_move:
            return
        buffer = _buffers.of(self._tensor, f"shared state: {self.name}")
        if buffer.count != self.numel:
            raise LayoutError(f"shared state: {self.name} had {self.numel} elements and now has {buffer.count}")
        if buffer.dtype is not self.dtype or buffer.device is not self.device_type:
            raise DTypeError(
                f"shared state: {self.name} was {self.dtype.name} on {self.device_type.name} and now is "
                f"{buffer.dtype.name} on {buffer.device.name}"
            )
        self._buffer, self.data_ptr = buffer, buffer.address


class Prepared:
    """A shared state in the library's form, with all memory that the call reads and writes. Each call has one, because
    several calls may use the same state concurrently, and a call may outlive its caller."""

    def __init__(self, revision: int, infos: Sequence[TensorInfo]) -> None:
        self._names = [_core.text("TensorInfo: name", info.name) for info in infos]
        self._staged: List[Tuple[Any, Any]] = []  # tensors that the library cannot access, and their copies on the host
        self._pins = [(info._tensor, info._buffer) for info in infos]
        self.infos = (_native.TensorInfoC * len(infos))()
        for index, info in enumerate(infos):
            self.infos[index] = _native.TensorInfoC(
                self._names[index],
                self._address(info),
                info.numel,
                info.dtype,
                member("device_type", DeviceType, info.device_type),
                info.allow_content_inequality,
            )
        self._c = _native.SharedStateC(revision, len(infos), self.infos)
        self.reference = ctypes.byref(self._c)
        self.numbers: Dict[str, Any] = {}  # values of the numbers of a TrainingState

    def _address(self, info: TensorInfo) -> int:
        if info._buffer is None or not info._buffer.is_staged:
            return info.data_ptr
        host: Any = torch.empty(info.numel, dtype=info._tensor.dtype, device="cpu")
        host.copy_(info._tensor.detach().reshape(-1))
        self._staged.append((info._tensor, host))
        return int(host.data_ptr())

    def bring(self) -> None:
        """Copies the synchronized contents to the tensors that the library cannot access."""
        for tensor, host in self._staged:
            tensor.detach().copy_(host.view(tensor.shape))

    @property
    def revision(self) -> int:
        return int(self._c.revision)


class SharedState:
    """Tensors and their revision. Keeps the tensors alive."""

    def __init__(self, tensor_infos: Sequence[TensorInfo]) -> None:
        infos = list(tensor_infos)
        if not infos:
            raise LayoutError("SharedState: no tensors")
        seen: Dict[str, int] = {}
        for index, info in enumerate(infos):
            if not isinstance(info, TensorInfo):
                raise InvalidArgument(f"SharedState: expected TensorInfos, not {info!r}")
            first = seen.setdefault(info.name, index)
            if first != index:
                raise InvalidArgument(f"SharedState: tensors {first} and {index} have the same name {info.name!r}")
        self._infos: List[TensorInfo] = infos
        self._revision = 0

    @property
    def revision(self) -> int:
        return self._revision

    @revision.setter
    def revision(self, value: int) -> None:
        self._revision = number("SharedState: revision", value, 0, 1 << 64)

    def push_revision(self) -> None:
        """Increments the revision. Call it before the next synchronization."""
        self.revision += 1

    @property
    def tensor_infos(self) -> Sequence[TensorInfo]:
        return tuple(self._infos)

    def _need_names(self, now: Sequence[str]) -> None:
        """Raises InvalidArgument unless the tensors have these names."""
        before = [info.name for info in self._infos]
        if before != now:
            changed = sorted(set(before) ^ set(now)) or now
            raise InvalidArgument(
                f"shared state: its tensors differ from the original ones: {', '.join(changed[:4])}"
                f"{' and more' if len(changed) > 4 else ''}"
            )

    def _prepare(self) -> Prepared:
        """Returns the current state in the library's form."""
        for info in self._infos:
            info._follow()
        return Prepared(self._revision, self._infos)

    def _finish(self, prepared: Prepared) -> None:
        """Stores the contents after a successful synchronization."""
        prepared.bring()
