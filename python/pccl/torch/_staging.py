"""Tensors in the memory of devices: their copies in host memory, and the order of streams.

The library reads host memory, so device tensors are first copied there. This happens in the caller's stream, after the
kernels that compute them, and the launch waits only for these copies. Results are copied back in a separate stream,
after the work that the caller's stream had at the launch. The streams of threads that wait for the work continue after
that copy, for which the host does not wait.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch

from .._buffers import TORCH_DEVICES
from . import _devices

_kind = _devices.of_this_machine()
api: Any = _kind.api  # torch's streams and events; replaced by tests that have no device
_streams: Dict[Tuple[torch.device, str], Any] = {}  # streams of this module by device and purpose
_FUSED_BYTES = 1 << 20  # size above which gathering tensors first has no benefit


def is_on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type in TORCH_DEVICES


def host_memory(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device="cpu", pin_memory=_kind.pins)


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """Copies a tensor. If a device is involved, copies in its current stream, and the device converts the type."""
    if is_on_device(target) and target.dtype != source.dtype:
        source = source.to(target.device, non_blocking=_kind.pins)
    target.copy_(source, non_blocking=_kind.pins)


def mix(target: torch.Tensor, source: torch.Tensor, alpha: float) -> None:
    """Sets `target`, on a device, to alpha * target + (1 - alpha) * source, where `source` is in page-locked memory.
    Works in the current stream, and rounds as the host does."""
    mixed = target.to(source.dtype) * alpha
    mixed += source.to(target.device, non_blocking=_kind.pins) * (1 - alpha)
    target.copy_(mixed)


def device_memory(count: int, like: torch.Tensor) -> torch.Tensor:
    return torch.empty(count, dtype=like.dtype, device=like.device)


def copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """Copies many tensors of the same device and type with a single kernel."""
    torch._foreach_copy_(list(targets), list(sources), non_blocking=_kind.pins)


def stream_of(device: torch.device, purpose: str) -> Any:
    if (device, purpose) not in _streams:
        _streams[device, purpose] = api.Stream(device)
    return _streams[device, purpose]


def _stream_for_results(device: torch.device) -> Any:
    return stream_of(device, "to the device")


class Stage:
    """The devices involved in one work."""

    def __init__(self) -> None:
        self._loaded: List[torch.device] = []  # devices from which sources were read since the last launch
        self._launched: Dict[torch.device, Any] = {}  # event that follows the earlier work of the caller's stream
        self._unloaded: Dict[torch.device, Any] = {}  # event that follows the copies of the results

    def source(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns memory that the library can read in place of these dense elements after ready() has returned."""
        if not is_on_device(tensor):
            return tensor
        host = host_memory(tensor.numel(), tensor.dtype)
        copy(host, tensor)
        self._loaded.append(tensor.device)
        return host

    def will_write(self, tensor: torch.Tensor) -> None:
        """Registers the destination of a result."""
        if is_on_device(tensor):
            self._launched.setdefault(tensor.device, None)

    def ready(self) -> None:
        """Waits until the sources have been copied. Call it before a launch."""
        for device in {*self._loaded, *self._launched}:
            event = api.Event()
            event.record(api.current_stream(device))
            self._launched[device] = event
        for device in set(self._loaded):
            self._launched[device].synchronize()
        self._loaded.clear()

    @contextlib.contextmanager
    def unloading(self) -> Iterator[None]:
        """Inside this context, results are copied to their destinations."""
        with contextlib.ExitStack() as streams:
            for device, event in self._launched.items():
                stream = _stream_for_results(device)
                stream.wait_event(event)
                streams.enter_context(api.stream(stream))
            yield
            for device in self._launched:
                self._unloaded[device] = api.Event()
                self._unloaded[device].record(_stream_for_results(device))

    def join(self) -> None:
        """Makes later work of the current streams wait for the results."""
        for device, event in self._unloaded.items():
            api.current_stream(device).wait_event(event)


class Fused:
    """Many tensors on devices, and their places in page-locked memory. Small tensors of the same device and type are
    adjacent there, so that one kernel gathers them and one copy moves them."""

    def __init__(self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
        """The tensors must be dense. A tensor may be both source and target of one entry."""
        self._stage = Stage()
        self._targets = targets
        # Indices of the tensors that are moved together, and their common memory
        self._together: List[Tuple[List[int], torch.Tensor]] = []
        self.hosts: List[torch.Tensor] = list(sources)  # flat memory for each tensor
        for numbers in _fitting(sources):
            self._load(numbers, [sources[n].detach().reshape(-1) for n in numbers])
        for target in targets:
            self._stage.will_write(target)
        self._stage.ready()

    def _load(self, numbers: List[int], sources: List[torch.Tensor]) -> None:
        counts = [one.numel() for one in sources]
        flat = sources[0]
        if len(sources) > 1:
            flat = device_memory(sum(counts), flat)
            copy_all(flat.split(counts), sources)
        host = self._stage.source(flat)
        self._together.append((numbers, host))
        for number, piece in zip(numbers, host.split(counts)):
            self.hosts[number] = piece

    def bring(self) -> None:
        """Copies the results to the targets, after the current and before later work in the current streams."""
        with self._stage.unloading():
            for numbers, host in self._together:
                targets = [self._targets[n].detach().reshape(-1) for n in numbers]
                if len(targets) == 1:
                    copy(targets[0], host)
                    continue
                flat = device_memory(host.numel(), targets[0])
                copy(flat, host)
                copy_all(targets, flat.split([one.numel() for one in targets]))
        self._stage.join()


def _fitting(tensors: Sequence[torch.Tensor]) -> List[List[int]]:
    """Returns groups of indices of the tensors that are moved together."""
    small: Dict[Tuple[torch.device, torch.dtype], List[int]] = {}
    large: List[List[int]] = []
    for number, tensor in enumerate(tensors):
        if tensor.numel() * tensor.element_size() <= _FUSED_BYTES:
            small.setdefault((tensor.device, tensor.dtype), []).append(number)
        else:
            large.append([number])
    return [*small.values(), *large]


class Twin:
    """Device memory and its twin in page-locked memory, for as long as both are used. Copies between them use separate
    streams, concurrently with kernels in the caller's streams."""

    def __init__(self, memory: torch.Tensor, host: torch.Tensor) -> None:
        self.memory, self._host = memory, host
        self._written: List[Any] = []
        self._loaded: Any = None
        self._unloaded: Any = None

    def written(self) -> None:
        """Records that the current stream has written to a part of the memory."""
        self._written.append(api.Event())
        self._written[-1].record(api.current_stream(self.memory.device))

    def load(self) -> None:
        """Copies to the host, after all recorded writes."""
        stream = stream_of(self.memory.device, "to the host")
        for event in self._written:
            stream.wait_event(event)
        self._written.clear()
        self._loaded = self._copy(self._host, self.memory, stream)

    def wait(self) -> None:
        """Waits for the copy of load()."""
        self._loaded.synchronize()

    def unload(self) -> None:
        """Copies to the device."""
        self._unloaded = self._copy(self.memory, self._host, _stream_for_results(self.memory.device))

    def join(self) -> None:
        """Makes later work of the current stream wait for the copy of unload()."""
        if self._unloaded is not None:
            api.current_stream(self.memory.device).wait_event(self._unloaded)

    @staticmethod
    def _copy(target: torch.Tensor, source: torch.Tensor, stream: Any) -> Any:
        with api.stream(stream):
            copy(target, source)
        event = api.Event()
        event.record(stream)
        return event
