"""How the parameters come to the host and back, beside what the program trains."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Sequence

from .._lazy import Lazy

_staging: Any = Lazy("pccl.torch._staging")


class Copies:
    """That were asked for."""

    def __init__(self) -> None:
        self.ends: List[Any] = []  # events of devices

    def wait(self) -> None:
        for end in self.ends:
            end.synchronize()


class Here:
    """Of memory of the host: a copy has ended when the call returns."""

    def begin(self) -> None:
        """On the thread that trains, before copies are asked for, on whatever thread: they come behind what it has
        asked devices for."""

    def join(self) -> None:
        """On the thread that trains, afterward: what it asks devices for from now on comes behind them."""

    def wait(self) -> None:
        """Until devices have done what came before begin()."""

    @contextlib.contextmanager
    def copies(self) -> Iterator[Copies]:
        """Those that are made within it."""
        yield Copies()


class Beside(Here):
    """Of devices: copies have a stream of their own on each, and page-locked memory on the host. Nobody waits for
    them but who has to: kernels on the device, the host where it needs the bytes."""

    def __init__(self, devices: Sequence[Any]) -> None:
        self._devices = devices
        self._trained: Dict[Any, Any] = {}  # by device, an event of the program's stream
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
        """What is in this thread's current stream by now."""
        event = _staging.api.Event()
        event.record(_staging.api.current_stream(device))
        return event
