"""Kinds of devices: the streams and events by which copies between a device and the host are ordered."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Dict, List, NamedTuple

import torch


class _QueueEvent:
    """An event in the only queue of a device."""

    def record(self, _stream: Any) -> None:
        self._event: Any = torch.mps.Event()
        self._event.record()

    def synchronize(self) -> None:
        self._event.synchronize()


class _QueueStream:
    def __init__(self, _device: Any) -> None:
        pass

    def wait_event(self, _event: Any) -> None:
        """Does nothing: the queue performs everything in order."""


class Queue:
    """Has the interface of torch.cuda for Apple's GPUs, where torch uses one queue for all threads."""

    Event = _QueueEvent
    Stream = _QueueStream
    current_stream = _QueueStream

    @staticmethod
    def stream(_stream: Any) -> ContextManager[None]:
        return contextlib.nullcontext()


class Kind(NamedTuple):
    api: Any  # Stream, Event, current_stream and stream, as in torch.cuda
    pins: bool  # true if copies use page-locked memory and do not block the host


KINDS: Dict[str, Kind] = {
    "cuda": Kind(torch.cuda, True),
    "xpu": Kind(torch.xpu, True),
    "mps": Kind(Queue(), False),
}
STREAMED = tuple(name for name, kind in KINDS.items() if kind.pins)  # types of devices that torch's futures know


def available() -> List[str]:
    """Returns the types of the available devices."""
    return [*(["cuda"] if torch.cuda.is_available() else []), *_others()]


def of_this_machine() -> Kind:
    """Returns the kind of the available devices; torch supports one kind at a time. Without others, returns CUDA, and
    does not initialize it."""
    return KINDS[(_others() or ["cuda"])[0]]


def _others() -> List[str]:
    return [name for name in KINDS if name != "cuda" and getattr(torch, name).device_count() > 0]
