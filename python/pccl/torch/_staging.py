"""Tensors in the memory of CUDA devices: their way through page-locked memory, and what streams have to wait for.

The library reads memory of this process. So what a device has is copied there first, in the caller's stream: behind the
kernels that make it; the launch waits for these copies alone. Results go back in a stream of their own, behind what the
caller's stream had in it at the launch, and the stream of whoever waits for the work continues behind them. The host
does not wait for that.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch

api: Any = torch.cuda  # its streams and events; tests that have no device put others here
_streams: Dict[Tuple[torch.device, str], Any] = {}  # besides those of callers, by device and purpose
_FUSED_BYTES = 1 << 20  # larger tensors gain nothing by being gathered first


def is_on_device(tensor: torch.Tensor) -> bool:
    return str(tensor.device.type) == "cuda"


def host_memory(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device="cpu", pin_memory=True)


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """In the current stream, where a device takes part, which then also converts."""
    if is_on_device(target) and target.dtype != source.dtype:
        source = source.to(target.device, non_blocking=True)
    target.copy_(source, non_blocking=True)


def mix(target: torch.Tensor, source: torch.Tensor, alpha: float) -> None:
    """Keeps alpha of the target, of a device, and takes the rest from the source, in page-locked memory. In the current
    stream, and rounded as the host does it."""
    mixed = target.to(source.dtype) * alpha
    mixed += source.to(target.device, non_blocking=True) * (1 - alpha)
    target.copy_(mixed)


def device_memory(count: int, like: torch.Tensor) -> torch.Tensor:
    return torch.empty(count, dtype=like.dtype, device=like.device)


def copy_all(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    """The same for many of one device and type: one kernel, where a copy for each would be many."""
    torch._foreach_copy_(list(targets), list(sources), non_blocking=True)


def stream_of(device: torch.device, purpose: str) -> Any:
    if (device, purpose) not in _streams:
        _streams[device, purpose] = api.Stream(device)
    return _streams[device, purpose]


def _stream_for_results(device: torch.device) -> Any:
    return stream_of(device, "to the device")


class Stage:
    """The devices of one work."""

    def __init__(self) -> None:
        self._loaded: List[torch.device] = []  # since the last launch
        self._launched: Dict[torch.device, Any] = {}  # what was before it in the caller's stream
        self._unloaded: Dict[torch.device, Any] = {}  # that the results are there

    def source(self, tensor: torch.Tensor) -> torch.Tensor:
        """What the library can read in the place of these dense elements, once ready() has returned."""
        if not is_on_device(tensor):
            return tensor
        host = host_memory(tensor.numel(), tensor.dtype)
        copy(host, tensor)
        self._loaded.append(tensor.device)
        return host

    def will_write(self, tensor: torch.Tensor) -> None:
        """A result goes to this one."""
        if is_on_device(tensor):
            self._launched.setdefault(tensor.device, None)

    def ready(self) -> None:
        """Before a launch: the sources have been read."""
        for device in {*self._loaded, *self._launched}:
            event = api.Event()
            event.record(api.current_stream(device))
            self._launched[device] = event
        for device in set(self._loaded):
            self._launched[device].synchronize()
        self._loaded.clear()

    @contextlib.contextmanager
    def unloading(self) -> Iterator[None]:
        """Within it results are copied to their places."""
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
        """What is put into the current streams from now on comes behind the results."""
        for device, event in self._unloaded.items():
            api.current_stream(device).wait_event(event)


class Fused:
    """Many tensors of devices and their places in page-locked memory. Small ones of a device and a type lie side by
    side there: one kernel gathers them, and one copy moves them."""

    def __init__(self, sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> None:
        """Dense ones, of which one at a time may be both."""
        self._stage = Stage()
        self._targets = targets
        self._together: List[Tuple[List[int], torch.Tensor]] = []  # numbers of tensors, and where all of them are
        self.hosts: List[torch.Tensor] = list(sources)  # each in one dimension
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
        """What is in the places goes to the targets, behind what the current streams have, and before what they get."""
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
    """The numbers of those that are moved together."""
    small: Dict[Tuple[torch.device, torch.dtype], List[int]] = {}
    large: List[List[int]] = []
    for number, tensor in enumerate(tensors):
        if tensor.numel() * tensor.element_size() <= _FUSED_BYTES:
            small.setdefault((tensor.device, tensor.dtype), []).append(number)
        else:
            large.append([number])
    return [*small.values(), *large]


class Twin:
    """Memory of a device and its twin in page-locked memory, for as long as both are used. Copies between them have
    streams of their own, beside the kernels of the caller's."""

    def __init__(self, memory: torch.Tensor, host: torch.Tensor) -> None:
        self.memory, self._host = memory, host
        self._written: List[Any] = []
        self._loaded: Any = None
        self._unloaded: Any = None

    def written(self) -> None:
        """The current stream has written a part of the memory."""
        self._written.append(api.Event())
        self._written[-1].record(api.current_stream(self.memory.device))

    def load(self) -> None:
        """To the host, behind all that was written."""
        stream = stream_of(self.memory.device, "to the host")
        for event in self._written:
            stream.wait_event(event)
        self._written.clear()
        self._loaded = self._copy(self._host, self.memory, stream)

    def wait(self) -> None:
        """Until it is there."""
        self._loaded.synchronize()

    def unload(self) -> None:
        """To the device."""
        self._unloaded = self._copy(self.memory, self._host, _stream_for_results(self.memory.device))

    def join(self) -> None:
        """What is put into the current stream from now on comes behind that."""
        if self._unloaded is not None:
            api.current_stream(self.memory.device).wait_event(self._unloaded)

    @staticmethod
    def _copy(target: torch.Tensor, source: torch.Tensor, stream: Any) -> Any:
        with api.stream(stream):
            copy(target, source)
        event = api.Event()
        event.record(stream)
        return event
