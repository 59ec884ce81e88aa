"""The communicator: a peer's membership in one run."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from . import _buffers, _core, _native, _threads
from ._enums import Attribute, ReduceOp, Result, SharedStateSyncStrategy, member, number
from ._errors import ConnectionError_, InvalidArgument, PCCLError, VersionMismatchError
from ._parameters import maximum
from ._reduce import (
    AsyncReduceHandle,
    Operation,
    QuantizationOptions,
    ReduceDescriptor,
    ReduceInfo,
    ReduceOpDescriptor,
    ReduceOperandDescriptor,
    check_descriptor,
)
from ._state import SharedState, SharedStateSyncInfo

_RETRY_PAUSE_S = 1.0
_ATTEMPT_S = 2.0  # on average: where something else than a master listens, an attempt takes ten


def _label(where: str, label: str) -> bytes:
    """The library checks the label before anything is launched."""
    written = _core.text(f"{where}: label", label)
    if _native.labeled(written, lambda: 0):
        raise InvalidArgument(f"{where}: {label!r}: {_native.last_failure().reason}")
    return written


class Communicator:
    """A peer's membership in one run.

    address: of the master, "ip:port", "[v6]:port" or "name:port", or several of one master separated by commas.
    options: any parameter of communicators (`man 7 pccl`, pccl.parameters()), for example {"op_timeout_ms": 60000};
    others come from the environment or have their defaults.

    Calls that wait for other peers release the interpreter's lock, and Ctrl-C interrupts the
    waiting at once. The call then continues in the library, with its memory kept alive, until it
    ends or the communicator is closed.
    """

    def __init__(
        self,
        address: str,
        peer_group: Optional[int] = None,
        p2p_connection_pool_size: int = 0,
        *,
        options: Optional[Mapping[str, _core.Option]] = None,
    ) -> None:
        values: Dict[str, _core.Option] = dict(options or {})
        if peer_group is not None:
            values["peer_group"] = peer_group
        if p2p_connection_pool_size != 0:
            pool = number("p2p_connection_pool_size", p2p_connection_pool_size, -(1 << 63), 1 << 64)
            values["connection_pool_size"] = min(pool, maximum("connection_pool_size"))  # as PCCL 1.0 takes it
        values["extended_results"] = 1  # PCCLError.result has the codes of PCCL 1.0 all the same
        _threads.janitor.ensure()
        self._core = _core.create(address, values)
        self.address = address

    # ---- membership

    def connect(self, n_attempts: int = 5) -> None:
        """Joins the run; waits until its peers update the topology. Attempts that found no master
        are repeated after a second, and none begins later than two seconds for each of them after
        the first."""
        end = time.monotonic() + n_attempts * _ATTEMPT_S
        for attempt in range(1, n_attempts + 1):
            try:
                return self._joint("pcclConnect")
            except ConnectionError_ as error:
                if attempt == n_attempts or time.monotonic() >= end or isinstance(error, VersionMismatchError):
                    raise
            time.sleep(_RETRY_PAUSE_S)
        raise InvalidArgument(f"connect: n_attempts is {n_attempts}")

    def get_attribute(self, attribute: Union[Attribute, str]) -> int:
        """One of the four counts, as of the last call that the master decided."""
        value = ctypes.c_int()
        self._core.call("pcclGetAttribute", member("attribute", Attribute, attribute), ctypes.byref(value))
        return value.value

    def update_topology(self) -> None:
        """Admits the newcomers that are ready. Joint with all peers of the run."""
        self._joint("pcclUpdateTopology")

    def are_peers_pending(self) -> bool:
        """Whether newcomers are ready to be admitted. Joint with all peers of the run; may be
        called while reductions run."""
        pending = ctypes.c_bool()
        self._joint("pcclArePeersPending", ctypes.byref(pending))
        return pending.value

    def optimize_topology(self) -> None:
        """Measures the links and sets up the best ring. Joint with all peers of the run; takes some
        seconds."""
        self._joint("pcclOptimizeTopology")

    def get_topology(self) -> str:
        """The master's topology report as text: the links of this group and its ring. Waits for the
        master's answer."""
        size = 4096
        while True:
            text, needed = ctypes.create_string_buffer(size), ctypes.c_size_t()
            try:
                self._joint("pcclGetTopology", text, size, ctypes.byref(needed))
                return text.value.decode("utf-8", "replace")
            except InvalidArgument:
                if needed.value <= size:
                    raise
            size = 2 * needed.value  # peers may have joined meanwhile

    @property
    def id(self) -> str:
        """The id of this peer, as errors and get_topology() write it. Each connect() makes a new
        one."""
        digits = ctypes.create_string_buffer(33)
        self._core.call("pcclGetPeerId", digits, len(digits))
        return digits.value.decode()

    def name_of(self, peer: str) -> str:
        """The name of the peer with this id, for example one of an error's `peers`; "" if it is
        unknown."""
        name = ctypes.create_string_buffer(65)
        self._core.call("pcclGetPeerName", _core.text("peer", peer), name, len(name))
        return name.value.decode("utf-8", "replace")

    def describe_waits(self) -> str:
        """Says who waits for whom, a line for each; empty if nobody is known to wait. Call it while
        another thread is blocked in a call."""
        text = ctypes.create_string_buffer(4096)
        self._core.call("pcclDescribeWaits", text, len(text))
        return text.value.decode("utf-8", "replace")

    def abort(self) -> None:
        """Aborts all launched reductions without an outcome, for all peers of the group.
        Does not wait."""
        self._core.call("pcclAbortOperations")

    # ---- shared state

    def sync_shared_state(
        self,
        shared_state: SharedState,
        strategy: Union[SharedStateSyncStrategy, str] = SharedStateSyncStrategy.ENFORCE_POPULAR,
    ) -> SharedStateSyncInfo:
        """Makes all peers of the group hold the same bytes for every tensor. Joint with the group."""
        if not isinstance(shared_state, SharedState):
            raise InvalidArgument(f"sync_shared_state: expected a SharedState, not {shared_state!r}")
        chosen = member("strategy", SharedStateSyncStrategy, strategy)
        info = _native.SharedStateSyncInfoC()
        given = shared_state._prepare()

        def synchronize(comm: Any) -> int:
            code: int = _native.lib.pcclSynchronizeSharedState(comm, given.reference, chosen, ctypes.byref(info))
            if code == Result.SUCCESS:
                shared_state.revision = given.revision  # even if nobody waits for the call any more
            return code

        self._await(self._bound("pcclSynchronizeSharedState", synchronize, given))
        shared_state._finish(given)
        return SharedStateSyncInfo(info.tx_bytes, info.rx_bytes)

    # ---- reductions

    def all_reduce(
        self,
        send: Any,
        recv: Any,
        *,
        op: Union[ReduceOp, str],
        tag: int = 0,
        operand_descriptor: Optional[ReduceOperandDescriptor] = None,
        quantization_options: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> ReduceInfo:
        """Reduces send of all peers of the group into recv, which may be the same buffer. PCCLError
        if it fails; send is then unchanged. Ctrl-C aborts this communicator's reductions, for all
        peers. label: what the program is reducing, for example f"step {step}", at most 32 bytes; if
        peers use different labels, one has skipped something, and all get StateMismatch."""
        given = op, tag, operand_descriptor, quantization_options, label
        handle = self._make("all_reduce", send, recv, *given, function="pcclAllReduce")
        operation = handle._operation
        try:
            operation.launch()
            operation.wait()
        except PCCLError:
            raise
        except BaseException:
            self._give_up()
            raise
        error = operation.error()
        if error is not None:
            raise error
        assert operation.outcome is not None
        return operation.outcome.info

    def all_reduce_async(
        self,
        send: Any,
        recv: Any,
        *,
        op: Union[ReduceOp, str],
        tag: int = 0,
        operand_descriptor: Optional[ReduceOperandDescriptor] = None,
        quantization_options: Optional[QuantizationOptions] = None,
        label: str = "",
    ) -> AsyncReduceHandle:
        """The same without waiting. send must stay unchanged and recv untouched until the handle has been awaited. A
        tensor may be given other memory meanwhile (`.data = ...`), but its storage must not be resized (resize_()):
        that frees what is being reduced."""
        handle = self._make("all_reduce_async", send, recv, op, tag, operand_descriptor, quantization_options, label)
        handle._operation.launch()
        return handle

    def all_reduce_multiple_with_retry(
        self, descriptors: Sequence[ReduceOpDescriptor], *, max_in_flight: int = 4, label: str = ""
    ) -> ReduceInfo:
        """Carries out a list of reductions, several at a time, and repeats those that fail because
        a peer was lost. Ctrl-C aborts them, for all peers. label: the label of each reduction."""
        named = _label("all_reduce_multiple_with_retry", label)
        entries = list(descriptors)
        for entry in entries:
            if not isinstance(entry, ReduceOpDescriptor):
                raise InvalidArgument(f"all_reduce_multiple_with_retry: expected ReduceOpDescriptors, not {entry!r}")
        pinned = [entry._pinned() for entry in entries]
        array = (_native.ReduceOpDescriptorC * len(entries))(*[made for made, _ in pinned])
        info = _native.ReduceInfoC()
        in_flight = max(-1, min(number("max_in_flight", max_in_flight, -(1 << 63), 1 << 63), 1 << 30))
        call = self._bound(
            "pcclAllReduceMultipleWithRetry",
            lambda comm: _native.labeled(
                named,
                lambda: _native.lib.pcclAllReduceMultipleWithRetry(
                    array, len(array), comm, ctypes.byref(info), in_flight
                ),
            ),
            pinned,
        )
        self._await(call, self._give_up)
        return ReduceInfo(info.local_world_size, info.tx_bytes, info.rx_bytes)

    def _make(
        self,
        where: str,
        send: Any,
        recv: Any,
        op: Union[ReduceOp, str],
        tag: int,
        operand_descriptor: Optional[ReduceOperandDescriptor],
        quantization_options: Optional[QuantizationOptions],
        label: str,
        function: Optional[str] = None,
    ) -> AsyncReduceHandle:
        """Makes the handle before the launch: if that is interrupted, the handle takes care of what
        was launched."""
        source = _buffers.of(send, f"{where}: send")
        target = source if recv is send else _buffers.of(recv, f"{where}: recv")
        _buffers.need_writable(target, recv, f"{where}: recv")
        _buffers.match(source, target, where)
        operand = operand_descriptor or ReduceOperandDescriptor(source.dtype)
        descriptor = ReduceDescriptor(source.count, op, tag, operand, quantization_options)
        check_descriptor(source, descriptor, where)
        named = _label(where, label)
        return AsyncReduceHandle(Operation(self._core, descriptor, source, target, function, named))

    def _give_up(self) -> None:
        self._core.attempt("pcclAbortOperations")

    # ---- joint calls

    def _bound(
        self, function: str, call: Callable[[Any], int], keep: object
    ) -> Callable[[], Optional[PCCLError]]:
        """A call that another thread can finish when nobody waits for it any more, with all that it
        needs, except the communicator itself: dropping that is what ends such a call."""
        core = self._core

        def bound(_keep: object = keep) -> Optional[PCCLError]:
            return core.attempt_with(function, call)

        return bound

    def _joint(self, function: str, *arguments: Any) -> None:
        native = getattr(_native.lib, function)
        self._await(self._bound(function, lambda comm: native(comm, *arguments), arguments))

    @staticmethod
    def _await(call: Callable[[], Optional[PCCLError]], interrupted: Optional[Callable[[], None]] = None) -> None:
        error = _threads.blocking(call, interrupted)
        if error is not None:
            raise error

    # ---- end

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Leaves the run and tells the others; calls of other threads return. May be called any
        number of times."""
        _threads.blocking(self._core.close)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            _threads.janitor.put(core.drop)
