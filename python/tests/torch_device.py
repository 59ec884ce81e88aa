"""A made-up device, for machines without one: its memory is CPU tensors, and its streams do nothing before a thread
waits for them. So a read that is too early gets the old content."""

import functools
import threading

import torch


_running = threading.RLock()
waited = set()  # threads that have waited for something


class Stream:
    def __init__(self, _device=None):
        self._steps = []
        self._done = 0

    def put(self, step):
        self._steps.append(step)

    def wait_event(self, event):
        self.put(event.synchronize)

    def run(self, end):
        waited.add(threading.get_ident())
        with _running:
            while self._done < end:
                step = self._steps[self._done]
                self._done += 1
                step()

    def synchronize(self):
        self.run(len(self._steps))

    def mark(self):
        return len(self._steps)


class Event:
    def record(self, stream):
        self._stream, self._end = stream, stream.mark()

    def synchronize(self):
        self._stream.run(self._end)


class _QueueEvent(Event):
    """Takes the place of torch.mps.Event."""

    def __init__(self, queue):
        self._queue = queue

    def record(self):
        super().record(self._queue)


class Device:
    """Takes the place of pccl.torch._staging's device. copies: number of copies, of one tensor or many at once. kind: a
    row of pccl.torch._devices. Without page-locked memory (mps), the device has one queue, and the host waits for each
    copy."""

    Stream, Event = Stream, Event

    def __init__(self, staging, kind="cuda"):
        from pccl.torch import _devices

        self._memory = {}  # by address, so that it is not used again
        self.copies = 0
        self._current = threading.local()
        self._default = Stream()
        self._waits = not _devices.KINDS[kind].pins
        staging.api = self
        if kind == "mps":
            staging.api = _devices.KINDS[kind].api
            torch.mps.Event = functools.partial(_QueueEvent, self._default)
        staging.is_on_device = self._is_mine
        staging.host_memory = lambda count, dtype: torch.full((count,), 77, dtype=dtype)
        staging.copy = self._copy
        staging.copy_all = self._copy_all
        mix = staging.mix
        staging.mix = lambda target, source, alpha: self.current_stream().put(lambda: mix(target, source, alpha))
        staging.device_memory = lambda count, like: self.empty(count, dtype=like.dtype)
        from pccl import _staged
        from pccl.diloco import _arrays
        from pccl.torch import _call, _layout

        _arrays.is_on_device = self._is_mine
        _staged.on_device = lambda buffer: self._is_mine(buffer.owner)
        _call.is_on_device = _layout.is_on_device = staging.is_on_device
        is_plain = _layout.is_plain
        _layout.is_plain = lambda tensor: is_plain(tensor) and not self._is_mine(tensor)
        _layout.host_memory, _layout.copy = staging.host_memory, staging.copy

    def empty(self, *shape, dtype=torch.float32):
        made = torch.zeros(*shape, dtype=dtype)
        self._memory[made.untyped_storage().data_ptr()] = made
        return made

    def of(self, tensor):
        """Returns a copy on the device."""
        made = self.empty(tensor.shape, dtype=tensor.dtype)
        made.copy_(tensor)
        return made

    def _is_mine(self, tensor):
        return isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() in self._memory

    def _copy(self, target, source):
        self.copies += 1
        self._put(target, source)

    def _copy_all(self, targets, sources):
        self.copies += 1
        for target, source in zip(targets, sources):
            self._put(target, source)

    def _put(self, target, source):
        if self._is_mine(target) or self._is_mine(source):
            self.current_stream().put(lambda: target.copy_(source))
            if self._waits:
                self.current_stream().synchronize()
        else:
            target.copy_(source)

    def current_stream(self, _device=None):
        return getattr(self._current, "stream", self._default)

    def stream(self, stream):
        return _Within(self._current, stream)


class _Within:
    def __init__(self, current, stream):
        self._current, self._stream = current, stream

    def __enter__(self):
        self._before = getattr(self._current, "stream", None)
        self._current.stream = self._stream

    def __exit__(self, *_):
        if self._before is None:
            del self._current.stream
        else:
            self._current.stream = self._before
