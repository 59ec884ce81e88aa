"""The communicator: a peer's membership in one run."""

from __future__ import annotations

import array
import ctypes
import json
import os
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import _collectives, _core, _feedback, _native, _recorder, _threads
from ._calls import _Calls, milliseconds
from ._described import takes
from ._enums import Attribute, Result, SharedStateSyncStrategy, member, number
from ._errors import InvalidArgument, PCCLError, TimeoutError_, raise_if
from ._handles import AsyncBlobHandle, AsyncBlobsHandle, AsyncReduceHandle
from ._operations import (
    AllGather,
    AllReduce,
    AllToAll,
    Barrier,
    Broadcast,
    Coalesced,
    ExclusiveScan,
    Gather,
    InclusiveScan,
    ListedOperation,
    Recv,
    Reduce,
    ReduceScatter,
    Scatter,
    SeenAllGatherV,
    SeenAllToAllV,
    SeenGatherV,
    SeenScatterV,
    Send,
)
from ._parameters import maximum
from ._progress import Progress, progress_of
from ._reduce import OperationInfo, ReduceInfo, ReduceOpDescriptor
from ._run import Run, Retried
from ._state import SharedState, SharedStateSyncInfo

_UPDATE_PAUSE_S = 0.05


class Communicator(_Calls):
    """A peer's membership in one run.

    address: the master's address ("ip:port", "[v6]:port" or "name:port"), or several addresses of the same master
    separated by commas. options: values of any communicator parameters (`man 7 pccl`, pccl.parameters()), for example
    {"op_timeout_ms": 60000}. Other parameters get their values from the environment or their defaults.

    Calls that wait for other peers release the interpreter's lock. Ctrl-C interrupts the wait at once; the call itself
    then continues in the library, with its memory kept alive, until it ends or the communicator is closed.
    """

    _has_loop = False  # true once pccl.loop() has used this communicator

    def __init__(
        self,
        address: str,
        peer_group: Optional[int] = None,
        p2p_connection_pool_size: int = 0,
        *,
        options: Optional[Mapping[str, _core.Option]] = None,
    ) -> None:
        values: Dict[str, _core.Option] = dict(options or {})
        self._launching: Optional[Dict[int, Any]] = None  # launched operations by tag; None: not recorded
        if peer_group is not None:
            values["peer_group"] = peer_group
        if p2p_connection_pool_size != 0:
            pool = number("p2p_connection_pool_size", p2p_connection_pool_size, -(1 << 63), 1 << 64)
            values["connection_pool_size"] = min(pool, maximum("connection_pool_size"))  # PCCL 1.0 accepts any size
        # PCCLError.ext gets precise codes; PCCLError.result still has the codes of PCCL 1.0
        values["extended_results"] = 1
        _threads.janitor.ensure()
        self._core = _core.create(address, values)
        self.address = address
        self._given_group = values.get("peer_group", os.environ.get("PCCL_PEER_GROUP", 0))

    # ---- membership

    def connect(
        self, n_attempts: int = 5, *, min_peers: Optional[int] = None, timeout: Optional[float] = None
    ) -> None:
        """Joins the run, and waits until its peers admit this one by updating the topology. If no master answers, tries
        again after a second, and starts no new attempt later than 2 * n_attempts seconds after the first. A single
        attempt can last up to connect_retry_ms (30 s) if the other side accepts connections and then closes them. If
        min_peers is given, then waits as wait_for(min_peers, timeout) does; the other peers must do so too."""
        self._connect(n_attempts)
        if min_peers is not None:
            self.wait_for(min_peers, timeout)

    def wait_for(self, count: int, timeout: Optional[float] = None) -> int:
        """Updates the topology until the group has `count` peers, and returns its size. Raises TimeoutError_ after
        `timeout` seconds. All peers of the run must call it together, with the same count. A newcomer calls it after
        connect(); pccl.loop() does so automatically."""
        number("wait_for: count", count, 1, 1 << 31)
        begin = time.monotonic()
        while (size := self.size) < count:
            elapsed = time.monotonic() - begin
            if timeout is not None and elapsed >= timeout:
                raise TimeoutError_(
                    f"wait_for: only {size} of {count} peers joined within {timeout} s",
                    result=Result.UPDATE_TOPOLOGY_FAILED,
                    ext=Result.TIMEOUT,
                    operation="pcclUpdateTopology",
                    elapsed=elapsed,
                )
            time.sleep(_UPDATE_PAUSE_S)
            self.update_topology()
        return size

    def get_attribute(self, attribute: Union[Attribute, str]) -> int:
        """Returns a count of peers. It changes only in calls that the master decides, so a loop that only reads it
        never sees a peer fail. Attributes named `_NOW` reflect the latest member list from the master instead."""
        value = ctypes.c_int()
        self._core.call("pcclGetAttribute", member("attribute", Attribute, attribute), ctypes.byref(value))
        return value.value

    def update_topology(self) -> None:
        """Admits the newcomers that are ready. All peers of the run must call it together."""
        self._joint("pcclUpdateTopology")

    def are_peers_pending(self) -> bool:
        """Returns true if an update is worthwhile: newcomers are ready, or a new ring can avoid a slow link. All peers
        of the run must call it together. Reductions may be in progress at the same time, but no other joint call."""
        pending = ctypes.c_bool()
        self._joint("pcclArePeersPending", ctypes.byref(pending))
        return pending.value

    def optimize_topology(self) -> None:
        """Measures the links and sets up the best ring in a few seconds. All peers of the run must call it together."""
        self._joint("pcclOptimizeTopology")

    def get_topology(self) -> str:
        """Returns the master's topology report: the links of this group and its ring, as text. Waits for the master's
        answer."""
        size = 4096
        while True:
            text, needed = ctypes.create_string_buffer(size), ctypes.c_size_t()
            try:
                self._joint("pcclGetTopology", text, size, ctypes.byref(needed))
                return text.value.decode("utf-8", "replace")
            except InvalidArgument:
                if needed.value <= size:
                    raise
            size = 2 * needed.value  # peers may have joined since the first call

    def report(self, *, step: int, loss: float) -> None:
        """Reports the loss of a training step to the master, which shows it on its page. Never waits: sends at most ten
        reports a second, none while the master is unreachable, and drops the others."""
        self._core.call("pcclReportTraining", number("report: step", step, 0, 1 << 64), float(loss))

    @property
    def id(self) -> str:
        """Id of this peer, as used in errors and get_topology(). Each connect() creates a new one."""
        return self._id()

    def members(self) -> Tuple[str, ...]:
        """Returns the ids of the peers in this group, in order of their ranks (their order of admission), as of the
        last call that has returned."""
        return self._members()[0]

    @property
    def rank(self) -> int:
        """Rank of this peer: its index in members()."""
        return self._members()[1]

    @property
    def size(self) -> int:
        """Number of peers in this group."""
        return self.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE)

    def __repr__(self) -> str:
        kind, at = type(self).__name__, f"of the master at {self.address}"
        try:
            own = self.id
            return f"<pccl.{kind} {self.name_of(own)!r} ({own[:8]}) {at}: rank {self.rank} of {self.size}>"
        except PCCLError:
            return f"<pccl.{kind} {at}: {'closed' if self.closed else 'not in the run'}>"

    def group(self, ids: Sequence[str], *, timeout: Optional[float] = None, label: str = "") -> Group:
        """Creates a group of the given peers, which must include this one, in any order. Returns when all of them have
        made this call with the same ids. Raises TimeoutError_ after `timeout` seconds (by default op_timeout_ms), and
        MembersChangedError if one of them has left. Ctrl-C aborts the creation. Topology updates do not affect groups.
        """
        list_c = _collectives.peer_ids("group", ids)
        options = _native.GroupOptionsC(
            size=ctypes.sizeof(_native.GroupOptionsC),
            label=_core.label("group", label),
            timeout_ms=milliseconds(timeout),
        )
        founded: List[Group] = []  # if the caller stops waiting, the group is closed when this list is dropped

        def create(handle: Any) -> int:
            made = ctypes.c_void_p()
            count = number("group: ids", len(list_c), 0, 1 << 32)
            code: int = _native.lib.pcclCreateGroup(handle, list_c, count, ctypes.byref(options), ctypes.byref(made))
            if code == Result.SUCCESS:
                founded.append(Group(_core.Core(made)))
            return code

        self._await(self._bound("pcclCreateGroup", create, (list_c, options)), self._give_up)
        founded[0]._whole = self
        return founded[0]

    def name_of(self, peer: str) -> str:
        """Returns the name of the peer with this id, for example an id from PCCLError.peers; "" if it is unknown."""
        name = ctypes.create_string_buffer(65)
        self._core.call("pcclGetPeerName", _core.text("peer", peer), name, len(name))
        return name.value.decode("utf-8", "replace")

    def describe_waits(self) -> str:
        """Returns a line for each known wait, with the waiting peers and the peers that they wait for; "" if no peer
        waits. Useful while another thread is blocked in a call."""
        text = ctypes.create_string_buffer(4096)
        self._core.call("pcclDescribeWaits", text, len(text))
        return text.value.decode("utf-8", "replace")

    def progress(self) -> Optional[Progress]:
        """Returns the progress of the call that has been blocking a thread for the longest time, or None if no thread
        waits. Call it from another thread. pccl.progress displays it."""
        return progress_of(self._core, self.describe_waits)

    def flight_recorder(self) -> Dict[str, Any]:
        """Returns the contents of this peer's flight recorder: its latest operations, with times, bytes and outcomes,
        and the peers that unfinished operations wait for. docs/guide/operations.md explains the entries. `pccl
        recorder` analyzes several peers' dumps. May be called from any thread, even while another is blocked in a call;
        does not block."""
        dump: Dict[str, Any] = json.loads(_recorder.text(self._core))
        return dump

    def verdicts(self) -> List[Dict[str, Any]]:
        """Returns the master's verdicts about the causes of a slow or stuck group (docs/guide/operations.md). Each is a
        dictionary with class, number, peer, other (the peer at the far end of a link, or None), for_ms, evidence, and
        the action taken. May be called from any thread, even while another one is blocked in a call; does not block."""
        return _recorder.verdicts(self._core)

    def abort(self) -> None:
        """Aborts all launched operations that have no outcome yet, for all peers of the group. Does not wait."""
        self._core.call("pcclAbortOperations")

    def get_feedback(self, tag: int) -> "array.array[float]":
        """Returns the error-feedback residuals (see QuantizationOptions) of a tag, for a checkpoint; empty if the tag
        has none."""
        return _feedback.get(self._core, tag)

    def set_feedback(self, tag: int, kept: Any) -> None:
        """Replaces the residuals of a tag with float32 elements in host memory. The next operation with the tag must
        have the same number of elements. If kept is empty or None, removes the residuals."""
        _feedback.put(self._core, tag, kept)

    # ---- shared state

    def sync_shared_state(
        self,
        shared_state: SharedState,
        strategy: Union[SharedStateSyncStrategy, str] = SharedStateSyncStrategy.ENFORCE_POPULAR,
    ) -> SharedStateSyncInfo:
        """Makes every tensor bitwise identical on all peers of the group, which must call it together."""
        if not isinstance(shared_state, SharedState):
            raise InvalidArgument(f"sync_shared_state: expected a SharedState, not {shared_state!r}")
        chosen = member("strategy", SharedStateSyncStrategy, strategy)
        info = _native.SharedStateSyncInfoC()
        given = shared_state._prepare()

        def synchronize(comm: Any) -> int:
            code: int = _native.lib.pcclSynchronizeSharedState(comm, given.reference, chosen, ctypes.byref(info))
            if code == Result.SUCCESS:
                shared_state.revision = given.revision  # even if the caller has stopped waiting
            return code

        self._await(self._bound("pcclSynchronizeSharedState", synchronize, given))
        shared_state._finish(given)
        return SharedStateSyncInfo(info.tx_bytes, info.rx_bytes)

    # ---- reductions

    @takes(AllReduce)
    def all_reduce(self, operation: AllReduce) -> OperationInfo:
        """Reduces send across all peers of the group into recv, or in place if recv is not given. Raises PCCLError on
        failure, with send unchanged. Ctrl-C aborts this communicator's reductions for all peers.

        quantization: the codec (alias: `quantization_options`). label: at most 32 bytes, for example f"step {step}"; if
        it differs between peers, one of them has skipped an operation, and all get StateMismatch. factor: with
        op="premul_sum", the multiplier of this peer's elements; it may differ between peers."""
        return self._do("all_reduce", operation, AsyncReduceHandle)

    @takes(AllReduce)
    def all_reduce_async(self, operation: AllReduce) -> AsyncReduceHandle:
        """Starts an all_reduce and returns without waiting. Do not modify send or access recv until the handle has been
        awaited. A tensor may be pointed at other memory during the operation (`.data = ...`), but its storage must not
        be resized (resize_()), because that frees memory in use."""
        return self._begin("all_reduce_async", operation, AsyncReduceHandle)

    @takes(Coalesced)
    def coalesced(self, operation: Coalesced) -> OperationInfo:
        """Reduces several tensors, possibly of different types, in one operation with one outcome, in place or into the
        tensors of recv. Takes little longer than one tensor of the total size. op: one reduction for all, or a list
        with one per tensor. quantization: applies to the float tensors; the others are sent exactly. factor: applies to
        all premultiplied sums in the list. Requires particular members only if `members` is given."""
        return self._do("coalesced", operation, AsyncReduceHandle)

    @takes(Coalesced)
    def coalesced_async(self, operation: Coalesced) -> AsyncReduceHandle:
        """Starts a coalesced and returns without waiting."""
        return self._begin("coalesced_async", operation, AsyncReduceHandle)

    def all_reduce_multiple_with_retry(
        self, descriptors: Sequence[ReduceOpDescriptor], *, max_in_flight: int = 4, label: str = ""
    ) -> ReduceInfo:
        """Performs a list of reductions, several at a time, and repeats those that fail because a peer was lost. Ctrl-C
        aborts them for all peers. label: the label of each reduction. CUDA tensors of torch are copied together through
        page-locked memory, after the pending work of the current stream. They are unchanged after an error. Later work
        in that stream waits until the results have been copied."""
        given = Retried(descriptors, max_in_flight, label)
        self._await(self._bound("pcclAllReduceMultipleWithRetry", given.call, given), self._give_up)
        return given.end()

    # ---- other collectives

    @takes(Broadcast)
    def broadcast(self, operation: Broadcast) -> OperationInfo:
        """Copies t from the root to all members. root: a rank or a peer id.

        members: the ids that this call requires; by default members() at the time of the call. If the group has
        different members at the launch, all get MembersChangedError, and every input is unchanged. alone_ok: if true, a
        peer that is alone in its group succeeds instead of raising TooFewPeersError. quantization: all members,
        including the root, get the unpacked values. tag, label, failures and Ctrl-C are as for all_reduce."""
        return self._do("broadcast", operation, AsyncReduceHandle)

    @takes(Broadcast)
    def broadcast_async(self, operation: Broadcast) -> AsyncReduceHandle:
        """Starts a broadcast and returns without waiting. As with all_reduce_async, the library uses the buffers until
        the handle has been awaited."""
        return self._begin("broadcast_async", operation, AsyncReduceHandle)

    @takes(AllGather)
    def all_gather(self, operation: AllGather) -> OperationInfo:
        """Gathers send from all members into recv on all members, in order of rank. recv has room for every member's
        send; send may be this peer's part of recv. Other arguments are as for broadcast."""
        return self._do("all_gather", operation, AsyncReduceHandle)

    @takes(AllGather)
    def all_gather_async(self, operation: AllGather) -> AsyncReduceHandle:
        """Starts an all_gather and returns without waiting."""
        return self._begin("all_gather_async", operation, AsyncReduceHandle)

    @takes(SeenAllGatherV)
    def all_gather_v(self, operation: SeenAllGatherV) -> List[Tuple[str, memoryview]]:
        """Gathers data of any length from all members on all members. data is bytes or any buffer that all_reduce
        accepts, and may be empty; the other members need not know its length. Returns the id and the bytes of each
        member, in order of rank. The bytes are in the library's memory, which is freed with the last reference.

        Requires particular members only if `members` is given, so it can be repeated unchanged after the loss of a
        peer. max_bytes: limit on the total length; if it is exceeded, all get StateMismatch.

        on_arrival(peer, part): called on this thread for each part as it arrives, including this peer's, before the
        call returns. The parts are provisional, because the operation may still fail for all peers. on_arrival must not
        call functions that wait for other peers. If it raises, the exception ends the call as Ctrl-C does. Other
        arguments are as for broadcast."""
        return self._do("all_gather_v", operation, AsyncBlobsHandle)

    @takes(SeenAllGatherV)
    def all_gather_v_async(self, operation: SeenAllGatherV) -> AsyncBlobsHandle:
        """Starts an all_gather_v and returns without waiting. data must not change before the handle is awaited."""
        return self._begin("all_gather_v_async", operation, AsyncBlobsHandle)

    @takes(SeenGatherV)
    def gather_v(self, operation: SeenGatherV) -> List[Tuple[str, memoryview]]:
        """Gathers data of any length on the root (a rank or a peer id). Returns the same list as all_gather_v on the
        root, and an empty list elsewhere. `members` is as for broadcast; other arguments are as for all_gather_v."""
        return self._do("gather_v", operation, AsyncBlobsHandle)

    @takes(SeenGatherV)
    def gather_v_async(self, operation: SeenGatherV) -> AsyncBlobsHandle:
        """Starts a gather_v and returns without waiting. data must stay unchanged until the handle has been awaited."""
        return self._begin("gather_v_async", operation, AsyncBlobsHandle)

    @takes(SeenScatterV)
    def scatter_v(self, operation: SeenScatterV) -> memoryview:
        """Sends each member one of the root's parts, and returns this peer's part. parts: only on the root, one buffer
        per member in order of rank, each as for all_gather_v; they need not be contiguous in memory. max_bytes: limit
        on each part. Other arguments are as for gather_v."""
        return self._do("scatter_v", operation, AsyncBlobHandle)

    @takes(SeenScatterV)
    def scatter_v_async(self, operation: SeenScatterV) -> AsyncBlobHandle:
        """Starts a scatter_v and returns without waiting. parts must not change until the handle has been awaited."""
        return self._begin("scatter_v_async", operation, AsyncBlobHandle)

    @takes(SeenAllToAllV)
    def all_to_all_v(self, operation: SeenAllToAllV) -> List[Tuple[str, memoryview]]:
        """Sends a part from each member to each member, of which there may be at most 31. Each passes its parts as the
        root of scatter_v does. Returns the id of each member and its part for this peer, in order of rank. max_bytes:
        limit on the total that one member receives. Other arguments are as for gather_v."""
        return self._do("all_to_all_v", operation, AsyncBlobsHandle)

    @takes(SeenAllToAllV)
    def all_to_all_v_async(self, operation: SeenAllToAllV) -> AsyncBlobsHandle:
        """Starts an all_to_all_v and returns without waiting. parts must stay unchanged until the handle is awaited."""
        return self._begin("all_to_all_v_async", operation, AsyncBlobsHandle)

    @takes(ReduceScatter)
    def reduce_scatter(self, operation: ReduceScatter) -> OperationInfo:
        """Reduces, and gives each member a share of the result. send has a part for each member, as large as its recv,
        in order of rank. counts: numbers of elements of the parts, which may be 0; the same on all peers. recv may be
        this peer's share of send. factor is as for all_reduce; other arguments are as for broadcast."""
        return self._do("reduce_scatter", operation, AsyncReduceHandle)

    @takes(ReduceScatter)
    def reduce_scatter_async(self, operation: ReduceScatter) -> AsyncReduceHandle:
        """Starts a reduce_scatter and returns without waiting."""
        return self._begin("reduce_scatter_async", operation, AsyncReduceHandle)

    @takes(Reduce)
    def reduce(self, operation: Reduce) -> OperationInfo:
        """Reduces send across all members into recv of the root (a rank or a peer id). Only the root needs recv, which
        may be its send. factor is as for all_reduce; other arguments are as for broadcast."""
        return self._do("reduce", operation, AsyncReduceHandle)

    @takes(Reduce)
    def reduce_async(self, operation: Reduce) -> AsyncReduceHandle:
        """Starts a reduce and returns without waiting."""
        return self._begin("reduce_async", operation, AsyncReduceHandle)

    @takes(ExclusiveScan)
    def exclusive_scan(self, operation: ExclusiveScan) -> OperationInfo:
        """Gives each member the reduction of send over all members with lower ranks. recv has as many elements as send,
        and may be send. Rank 0 receives the identity of the reduction: 0 for sum, "or" and "xor"; 1 for prod; all bits
        set for "and"; the type's least value for max and its greatest for min (infinities if it has them). avg and
        quantization are not supported. factor is as for all_reduce; other arguments are as for broadcast."""
        return self._do("exclusive_scan", operation, AsyncReduceHandle)

    @takes(ExclusiveScan)
    def exclusive_scan_async(self, operation: ExclusiveScan) -> AsyncReduceHandle:
        """Starts an exclusive_scan and returns without waiting."""
        return self._begin("exclusive_scan_async", operation, AsyncReduceHandle)

    @takes(InclusiveScan)
    def inclusive_scan(self, operation: InclusiveScan) -> OperationInfo:
        """Does the same as exclusive_scan, but includes the member's own send in the reduction."""
        return self._do("inclusive_scan", operation, AsyncReduceHandle)

    @takes(InclusiveScan)
    def inclusive_scan_async(self, operation: InclusiveScan) -> AsyncReduceHandle:
        """Starts an inclusive_scan and returns without waiting."""
        return self._begin("inclusive_scan_async", operation, AsyncReduceHandle)

    @takes(Gather)
    def gather(self, operation: Gather) -> OperationInfo:
        """Gathers send from all members into recv of the root, in order of rank. Only the root needs recv, which has
        room for every member's send; the root's send may be its part of recv. Other arguments are as for broadcast."""
        return self._do("gather", operation, AsyncReduceHandle)

    @takes(Gather)
    def gather_async(self, operation: Gather) -> AsyncReduceHandle:
        """Starts a gather and returns without waiting."""
        return self._begin("gather_async", operation, AsyncReduceHandle)

    @takes(Scatter)
    def scatter(self, operation: Scatter) -> OperationInfo:
        """Sends each member its part of the root's send, which has a part for each member, as large as recv, in order
        of rank. The other members may pass None as send. The root's recv may be its part of send. Other arguments are
        as for broadcast."""
        return self._do("scatter", operation, AsyncReduceHandle)

    @takes(Scatter)
    def scatter_async(self, operation: Scatter) -> AsyncReduceHandle:
        """Starts a scatter and returns without waiting."""
        return self._begin("scatter_async", operation, AsyncReduceHandle)

    @takes(AllToAll)
    def all_to_all(self, operation: AllToAll) -> OperationInfo:
        """Sends a part from each member to each member. send has one part for each member, all of equal size, in order
        of rank; recv receives one part from each, in the same order, and must not overlap send. Other arguments are as
        for broadcast."""
        return self._do("all_to_all", operation, AsyncReduceHandle)

    @takes(AllToAll)
    def all_to_all_async(self, operation: AllToAll) -> AsyncReduceHandle:
        """Starts an all_to_all and returns without waiting."""
        return self._begin("all_to_all_async", operation, AsyncReduceHandle)

    @takes(Send)
    def send(self, operation: Send) -> OperationInfo:
        """Sends a buffer to one peer (a rank or an id), which calls recv with a buffer of the same size and type.
        Returns when that peer has received all of it; both succeed, or both fail. The n-th send with a tag to a peer
        matches that peer's n-th recv with this tag from the sender, so any number may be in progress at once
        (send_async). No other peer takes part, so the loss of a third peer has no effect. In a group, peer is a rank of
        the group; its tags are separate from all others, and the end of the group ends its transfers."""
        return self._do("send", operation, AsyncReduceHandle)

    @takes(Send)
    def send_async(self, operation: Send) -> AsyncReduceHandle:
        """Starts a send and returns without waiting."""
        return self._begin("send_async", operation, AsyncReduceHandle)

    @takes(Recv)
    def recv(self, operation: Recv) -> OperationInfo:
        """Receives a buffer from a peer (a rank or an id).

        With peer=None, receives from any member of this group that sends with this tag, unless another receive matches
        its send. Several senders take turns. The sender is the first of the participants in the result."""
        return self._do("recv", operation, AsyncReduceHandle)

    @takes(Recv)
    def recv_async(self, operation: Recv) -> AsyncReduceHandle:
        """Starts a recv and returns without waiting."""
        return self._begin("recv_async", operation, AsyncReduceHandle)

    @takes(Barrier)
    def barrier(self, operation: Barrier) -> OperationInfo:
        """Waits until all members have made this call. Requires particular members only if `members` is given."""
        return self._do("barrier", operation, AsyncReduceHandle)

    @takes(Barrier)
    def barrier_async(self, operation: Barrier) -> AsyncReduceHandle:
        """Starts a barrier and returns without waiting."""
        return self._begin("barrier_async", operation, AsyncReduceHandle)

    # ---- operations of all kinds

    def run(
        self,
        operations: Sequence[ListedOperation],
        *,
        max_in_flight: int = 4,
        rebuild: Optional[Callable[[Tuple[str, ...]], Sequence[ListedOperation]]] = None,
    ) -> List[OperationInfo]:
        """Performs a list of operations, several at a time, and repeats those that fail because a peer was lost. Each
        collective has a class: AllReduce, Broadcast, AllGather ... Returns the infos in the order of the list. The tags
        must be distinct.

        Operations that require members use members() at the time of the call. If the members change, run calls
        rebuild(members) on this thread. It must return operations with the tags of those to repeat: all that require
        members and whose `info` is still None. run ignores any others, so rebuild may return a whole list. It is called
        for each change in membership, but a peer may miss a change that another one sees: build the operations from
        `members` alone. rebuild must not wait for other peers. If there is no rebuild, the list ends with
        MembersChangedError for all peers; if it raises, the list ends with that exception. Other failures and Ctrl-C
        are as for all_reduce_multiple_with_retry."""
        run = Run(operations, *self._members(), max_in_flight, rebuild)
        call = self._bound("pcclRunOperations", run.call, run)
        error = _threads.blocking(call, self._give_up, run.errands)
        try:
            run.end()
            raise_if(run.errands.error or error)
        finally:
            del error
        return run.infos()

    # ---- end

    def drain(self) -> None:
        """Requests the drain of this peer: it takes part in everything until the next update_topology() of all peers,
        which raises DrainedError here, so no operation of the other peers fails. If there is no update within
        `drain_ms` (20 s), it leaves anyway, and its calls raise DrainedError. Cannot be revoked: later connect() calls
        raise DrainedError. Has no effect if repeated, or on a closed communicator. May be called from any thread and
        from signal handlers; does not block."""
        error = self._core.attempt("pcclDrain")
        if error is not None and not self._core.closed:
            raise error

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Leaves the run and notifies the other peers; calls on other threads return. The buffer of an in-place
        operation that has not been awaited then contains either its whole input or, only if the operation succeeded,
        its whole result. May be called repeatedly."""
        _threads.blocking(self._core.close)

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        core = getattr(self, "_core", None)
        if core is not None and not core.closed:
            _threads.janitor.put(core.drop)


class Group(Communicator):
    """A subset of a communicator's peers, created by Communicator.group(). Its operations run among its members only,
    with separate tags. members() never changes, and rank is this peer's rank in the group. Calls for the whole run
    (connect, update_topology, sync_shared_state ...) raise InvalidUsage.

    The group ends for all members when one of them closes it, leaves or fails: its operations then raise PeerLostError
    with the reason. The remaining members can create another group.
    """

    def __init__(self, core: _core.Core, whole: Optional[Communicator] = None) -> None:
        self._core = core
        self._launching = None
        self._whole = whole  # keeps the communicator alive, because closing it would end the group

    @property
    def address(self) -> str:  # type: ignore[override]
        return self._whole.address if self._whole is not None else ""

    def close(self) -> None:
        """Ends the group for all members; operations in progress fail. May be called repeatedly."""
        super().close()
