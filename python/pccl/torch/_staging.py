"""Tensors in the memory of CUDA devices: their way through page-locked memory, and what streams have to wait for.

The library reads memory of this process. So what a device has is copied there first, in the caller's stream: behind the
kernels that make it; the launch waits for these copies alone. Results go back in a stream of their own, behind what the
caller's stream had in it at the launch, and the stream of whoever waits for the work continues behind them. The host
does not wait for that.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List

import torch

api: Any = torch.cuda  # its streams and events; tests that have no device put others here
_streams: Dict[torch.device, Any] = {}  # for results, by device


def is_on_device(tensor: torch.Tensor) -> bool:
    return str(tensor.device.type) == "cuda"


def host_memory(count: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device="cpu", pin_memory=True)


def copy(target: torch.Tensor, source: torch.Tensor) -> None:
    """In the current stream, where a device takes part."""
    target.copy_(source, non_blocking=True)


def _stream_for_results(device: torch.device) -> Any:
    if device not in _streams:
        _streams[device] = api.Stream(device)
    return _streams[device]


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

    @contextlib.contextmanager
    def completing(self) -> Iterator[None]:
        """A future that is ended within it knows that it must wait for the results."""
        with contextlib.ExitStack() as streams:
            for device in self._unloaded:
                streams.enter_context(api.stream(_stream_for_results(device)))
            yield
