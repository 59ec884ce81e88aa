"""Lists of operations and of reductions in progress."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, List, Optional, Sequence, Tuple

from . import _buffers, _collectives, _core, _native
from ._enums import number
from ._errors import InternalError, InvalidArgument
from ._operation import Work
from ._operations import ListedOperation
from ._reduce import OperationInfo, ReduceInfo, ReduceOpDescriptor, info_of
from ._staged import fuse
from ._threads import Errands

def _operations(what: str, given: Any) -> List[ListedOperation]:
    try:
        listed = list(given)
    except TypeError:
        raise InvalidArgument(f"run: {what}: expected operations, not {given!r}") from None
    for one in listed:
        if not isinstance(one, ListedOperation):
            raise InvalidArgument(f"run: {what}: expected operations, not {one!r}")
    return listed


class Run:
    """A list of operations in progress, with all memory that the library reads and writes."""

    def __init__(
        self,
        operations: Sequence[ListedOperation],
        members: Tuple[str, ...],
        rank: int,
        max_in_flight: int,
        rebuild: Optional[Callable[[Tuple[str, ...]], Sequence[ListedOperation]]],
    ) -> None:
        self.errands = Errands()
        self._operations = _operations("operations", operations)
        self._rebuild = rebuild
        count = len(self._operations)
        self._made: List[Optional[Work]] = [None] * count
        self._entries = (_native.OperationC * count)()
        self._infos = (_native.OperationInfoC * count)()
        # Large enough, because no newcomers are admitted while the list is in progress
        self._participants = [_native.ids_type(len(members))() for _ in range(count)]
        for index in range(count):
            self._make(index, members, rank)
        self._options = _native.RunOptionsC(
            ctypes.sizeof(_native.RunOptionsC), number("run: max_in_flight", max_in_flight, 1, 1 << 32)
        )
        if rebuild is not None:
            self._options.rebuild = _native.RebuildCallback(self._called)
        for operation in self._operations:
            operation._take(None)

    def _make(self, index: int, members: Tuple[str, ...], rank: int) -> None:
        def counted_on(where: str, given: Optional[Sequence[str]]) -> Tuple[Tuple[str, ...], int]:
            return (members, rank) if given is None else _collectives.given_members(where, given, members[rank])

        operation = self._operations[index]
        work = operation._make(f"run: entry {index}", counted_on)
        info, ids = self._infos[index], self._participants[index]
        info.size, info.participants, info.participants_max = ctypes.sizeof(info), ctypes.addressof(ids), len(ids)
        self._entries[index] = _native.OperationC(
            ctypes.sizeof(_native.OperationC),
            operation._NUMBER,
            options=work.options,
            info=ctypes.addressof(info),
            blobs=None if work.blobs is None else ctypes.addressof(work.blobs.c),
            **dict(zip(operation._PLACES.split(), work.arguments)),
        )
        self._made[index] = work

    def call(self, comm: Any) -> int:
        code: int = _native.lib.pcclRunOperations(self._entries, len(self._entries), ctypes.byref(self._options), comm)
        return code

    # ---- other members

    def _called(self, rebuild: Any, _: Any) -> bool:
        return self.errands.ask(lambda: self._remake(rebuild.contents))

    def _remake(self, given: _native.RebuildC) -> None:
        assert self._rebuild is not None
        members = tuple(given.members[i].digits.decode() for i in range(given.member_count))
        self.end()
        fresh = {one.tag: one for one in _operations("rebuild", self._rebuild(members))}
        for index in given.entries[: given.entry_count]:
            made = self._made[index]
            assert made is not None
            kind, tag = type(self._operations[index]), made.tag
            replacement = fresh.get(tag)
            if replacement is None or type(replacement) is not kind:
                raise InvalidArgument(f"run: entry {index}: rebuild did not return a {kind.__name__} with tag {tag}")
            replacement._take(None)
            self._operations[index] = replacement
            self._make(index, members, given.rank)

    # ---- results

    def end(self) -> None:
        """Stores the results of the operations that have succeeded so far."""
        for index, (operation, made) in enumerate(zip(self._operations, self._made)):
            info = self._infos[index]
            if operation.info is not None or info.world == 0 or made is None:
                continue
            staged = made.staged
            if staged is not None:
                try:
                    staged.finish()
                except Exception as error:
                    words = f"run: entry {index}: cannot copy the result to the device: {error}"
                    raise InternalError(words) from error
            operation._take(info_of(info.tag, info, self._participants[index]), made)

    def infos(self) -> List[OperationInfo]:
        return [operation.info for operation in self._operations if operation.info is not None]


def _is_of_another_copy(entry: Any) -> bool:
    """Returns true for a descriptor from another copy of this package, loaded under another name or a second time."""
    return type(entry).__name__ == "ReduceOpDescriptor" and hasattr(entry, "_pinned")


def _pinned(entry: Any) -> Tuple[_native.ReduceOpDescriptorC, Any]:
    made, memory = entry._pinned()
    if isinstance(made, _native.ReduceOpDescriptorC):
        return made, memory
    ours = _native.ReduceOpDescriptorC.from_buffer_copy(made)
    return ours, None if memory is None else tuple(_buffers.of_another_copy(one) for one in memory)


class Retried:
    """A list of reductions in progress, for Communicator.all_reduce_multiple_with_retry."""

    def __init__(self, descriptors: Sequence[ReduceOpDescriptor], max_in_flight: int, label: str) -> None:
        where = "all_reduce_multiple_with_retry"
        self._label = _core.label(where, label)
        entries = list(descriptors)
        for entry in entries:
            if not isinstance(entry, ReduceOpDescriptor) and not _is_of_another_copy(entry):
                raise InvalidArgument(f"{where}: expected ReduceOpDescriptors, not {entry!r}")
        self._pinned = [_pinned(entry) for entry in entries]
        self._fused = fuse(self._pinned)
        self._entries = (_native.ReduceOpDescriptorC * len(entries))(*[made for made, _ in self._pinned])
        self._info = _native.ReduceInfoC()
        self._in_flight = max(-1, min(number("max_in_flight", max_in_flight, -(1 << 63), 1 << 63), 1 << 30))

    def call(self, comm: Any) -> int:
        entries, info = self._entries, ctypes.byref(self._info)
        function = _native.lib.pcclAllReduceMultipleWithRetry
        return _native.labeled(self._label, lambda: function(entries, len(entries), comm, info, self._in_flight))

    def end(self) -> ReduceInfo:
        """Returns the result. Call it after a success."""
        if self._fused is not None:
            self._fused.bring()
        return ReduceInfo(self._info.local_world_size, self._info.tx_bytes, self._info.rx_bytes)
