"""Copies parameters to the host and back, concurrently with training."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence

from .._lazy import Lazy

_staging: Any = Lazy("pccl.torch._staging")


class Copies:
    """Copies in progress."""

    def __init__(self) -> None:
        self.ends: List[Any] = []  # device events

    def wait(self) -> None:
        for end in self.ends:
            end.synchronize()


class HostCopier:
    """Copier for host memory: copies are complete when the call returns."""

    def begin(self) -> None:
        """Orders later copies, on any thread, after the device work that the training thread has enqueued. Call it on
        the training thread."""

    def join(self) -> None:
        """Orders later device work of the training thread after the copies. Call it on the training thread."""

    def wait(self) -> None:
        """Waits until the device work from before begin() is complete."""

    @contextlib.contextmanager
    def copies(self) -> Iterator[Copies]:
        """Yields a record of the copies made within the context."""
        yield Copies()


class DeviceCopier(HostCopier):
    """Copier for devices. Uses a separate stream on each device, and page-locked host memory. Only users of the data
    wait for a copy: device kernels, and the host when it reads the bytes."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = devices
        self._trained: Dict[Any, Any] = {}  # events in the program's streams, by device
        self._copied: Dict[Any, Any] = {}

    def begin(self) -> None:
        self._trained = {device: self._mark(device) for device in self._devices}

    def join(self) -> None:
        for device, end in self._copied.items():
            _staging.api.current_stream(device).wait_event(end)
        self._copied = {}

    def wait(self) -> None:
        for end in self._trained.values():
            end.synchronize()

    @contextlib.contextmanager
    def copies(self) -> Iterator[Copies]:
        made = Copies()
        with contextlib.ExitStack() as within:
            for device in self._devices:
                stream = _staging.stream_of(device, "beside training")
                for before in (self._trained.get(device), self._mark(device)):
                    if before is not None:
                        stream.wait_event(before)
                within.enter_context(_staging.api.stream(stream))
            yield made
            self._copied = {device: self._mark(device) for device in self._devices}
            made.ends += self._copied.values()

    def _mark(self, device: Any) -> Any:
        """Returns an event that follows the work enqueued so far in this thread's current stream."""
        event = _staging.api.Event()
        event.record(_staging.api.current_stream(device))
        return event
