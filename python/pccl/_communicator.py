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

    address: of the master, "ip:port", "[v6]:port" or "name:port", or several addresses of one master separated by
    commas. options: any parameter of communicators (`man 7 pccl`, pccl.parameters()), for example {"op_timeout_ms":
    60000}; parameters that are not given have their value from the environment or the default.

    Calls that wait for other peers release the interpreter's lock, and Ctrl-C interrupts the waiting at once. The call
    then continues in the library, with its memory kept alive, until it ends or the communicator is closed.
    """

    _has_loop = False  # true after pccl.loop() has used it

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
        values["extended_results"] = 1  # PCCLError.result still has the codes of PCCL 1.0
        _threads.janitor.ensure()
        self._core = _core.create(address, values)
        self.address = address
        self._given_group = values.get("peer_group", os.environ.get("PCCL_PEER_GROUP", 0))

    # ---- membership

    def connect(
        self, n_attempts: int = 5, *, min_peers: Optional[int] = None, timeout: Optional[float] = None
    ) -> None:
        """Joins the run; waits until its peers update the topology. Repeats an attempt that found no master after a
        second, and begins none later than two seconds times n_attempts after the first. One attempt lasts up to
        connect_retry_ms, 30 s, if the other side accepts connections and closes them: a busy master, or another
        service. With min_peers, then waits as wait_for(min_peers, timeout) does; the other peers must do so too."""
        self._connect(n_attempts)
        if min_peers is not None:
            self.wait_for(min_peers, timeout)

    def wait_for(self, count: int, timeout: Optional[float] = None) -> int:
        """Updates the topology until the group has `count` peers, and returns its size. Raises TimeoutError_ after
        `timeout` seconds. Joint with all peers of the run, which call it with the same count. A newcomer calls it after
        connect(), as pccl.loop() does for its caller."""
        number("wait_for: count", count, 1, 1 << 31)
        begin = time.monotonic()
        while (size := self.size) < count:
            elapsed = time.monotonic() - begin
            if timeout is not None and elapsed >= timeout:
                raise TimeoutError_(
                    f"wait_for: {size} of {count} peers joined within {timeout} s",
                    result=Result.UPDATE_TOPOLOGY_FAILED,
                    ext=Result.TIMEOUT,
                    operation="pcclUpdateTopology",
                    elapsed=elapsed,
                )
            time.sleep(_UPDATE_PAUSE_S)
            self.update_topology()
        return size

    def get_attribute(self, attribute: Union[Attribute, str]) -> int:
        """Returns a count of peers, as of the last call that the master decided: a loop that only reads it never sees a
        peer fail. Attributes named `_NOW` are as of the latest member list from the master."""
        value = ctypes.c_int()
        self._core.call("pcclGetAttribute", member("attribute", Attribute, attribute), ctypes.byref(value))
        return value.value

    def update_topology(self) -> None:
        """Admits the newcomers that are ready. Joint with all peers of the run."""
        self._joint("pcclUpdateTopology")

    def are_peers_pending(self) -> bool:
        """Returns true if an update is worthwhile: newcomers are ready, or a ring can avoid a slow link. Joint with all
        peers of the run; may be called while reductions run, but not concurrently with another joint call."""
        pending = ctypes.c_bool()
        self._joint("pcclArePeersPending", ctypes.byref(pending))
        return pending.value

    def optimize_topology(self) -> None:
        """Measures the links and sets up the best ring. Joint with all peers of the run; takes some seconds."""
        self._joint("pcclOptimizeTopology")

    def get_topology(self) -> str:
        """Returns the master's topology report as text: the links of this group and its ring. Waits for the master's
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
            size = 2 * needed.value  # peers may have joined between the two calls

    def report(self, *, step: int, loss: float) -> None:
        """Reports the loss of a step to the master, for its page. Does not wait: sends at most ten reports a second,
        and none while the master is away; drops the others."""
        self._core.call("pcclReportTraining", number("report: step", step, 0, 1 << 64), float(loss))

    @property
    def id(self) -> str:
        """Id of this peer, as in errors and get_topology(). Each connect() creates a new one."""
        return self._id()

    def members(self) -> Tuple[str, ...]:
        """Returns the ids of the peers of this group in order of their ranks, that is of their admission, as of the
        last call that has returned."""
        return self._members()[0]

    @property
    def rank(self) -> int:
        """Index of this peer in members()."""
        return self._members()[1]

    @property
    def size(self) -> int:
        """Number of members()."""
        return self.get_attribute(Attribute.PEER_GROUP_WORLD_SIZE)

    def __repr__(self) -> str:
        kind, at = type(self).__name__, f"of the master at {self.address}"
        try:
            own = self.id
            return f"<pccl.{kind} {self.name_of(own)!r} ({own[:8]}) {at}: rank {self.rank} of {self.size}>"
        except PCCLError:
            return f"<pccl.{kind} {at}: {'closed' if self.closed else 'not in the run'}>"

    def group(self, ids: Sequence[str], *, timeout: Optional[float] = None, label: str = "") -> Group:
        """Creates a group of the peers with these ids, which include this peer, in any order. Returns when all of them
        have called it with the same ids. Raises TimeoutError_ after `timeout` seconds (by default op_timeout_ms), and
        MembersChangedError if one of them has left. Ctrl-C aborts it. Updates of the topology neither end groups nor
        change them."""
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
        """Returns the name of the peer with this id, for example one of an error's `peers`; "" if it is unknown."""
        name = ctypes.create_string_buffer(65)
        self._core.call("pcclGetPeerName", _core.text("peer", peer), name, len(name))
        return name.value.decode("utf-8", "replace")

    def describe_waits(self) -> str:
        """Returns a line for each known wait, with the waiting peers and the peers they wait for; "" without waits.
        Call it while another thread is blocked in a call."""
        text = ctypes.create_string_buffer(4096)
        self._core.call("pcclDescribeWaits", text, len(text))
        return text.value.decode("utf-8", "replace")

    def progress(self) -> Optional[Progress]:
        """Returns the progress of the call in which a thread has waited longest; None if no thread waits. Call it while
        another thread is blocked in a call; pccl.progress shows it."""
        return progress_of(self._core, self.describe_waits)

    def flight_recorder(self) -> Dict[str, Any]:
        """Returns the contents of this peer's flight recorder: its latest operations, with times, bytes, outcomes, and
        the peers that unfinished operations wait for. Callable from any thread, also while another one is blocked in a
        call; does not block. docs/guide/operations.md explains the members; pccl.recorder reads dumps of several peers.
        """
        dump: Dict[str, Any] = json.loads(_recorder.text(self._core))
        return dump

    def verdicts(self) -> List[Dict[str, Any]]:
        """Returns the master's verdicts: the causes of a slow or stuck group. Each is a dictionary with class, number,
        peer, other (the peer at the far end of a link, else None), for_ms, evidence, and the action that was taken.
        Callable from any thread, also while another one is blocked in a call; does not block. docs/guide/operations.md
        explains it."""
        return _recorder.verdicts(self._core)

    def abort(self) -> None:
        """Aborts all launched operations without an outcome, for all peers of the group. Does not wait."""
        self._core.call("pcclAbortOperations")

    def get_feedback(self, tag: int) -> "array.array[float]":
        """Returns the residuals of error feedback (QuantizationOptions) for a tag, for a checkpoint; an empty array if
        the tag has none."""
        return _feedback.get(self._core, tag)

    def set_feedback(self, tag: int, kept: Any) -> None:
        """Replaces the residuals of a tag by these float32 elements in the host's memory. The next operation with the
        tag must have the same number of elements. Removes the residuals if kept is empty or None."""
        _feedback.put(self._core, tag, kept)

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
                shared_state.revision = given.revision  # even if the caller has stopped waiting
            return code

        self._await(self._bound("pcclSynchronizeSharedState", synchronize, given))
        shared_state._finish(given)
        return SharedStateSyncInfo(info.tx_bytes, info.rx_bytes)

    # ---- reductions

    @takes(AllReduce)
    def all_reduce(self, operation: AllReduce) -> OperationInfo:
        """Reduces send of all peers of the group into recv, by default into send itself. Raises PCCLError if it fails;
        send is then unchanged. Ctrl-C aborts this communicator's reductions, for all peers. quantization: the codec
        (`quantization_options` is the same). label: a description of the reduction, for example f"step {step}", at most
        32 bytes; if the labels of peers differ, a peer has skipped an operation, and all get StateMismatch. factor: for
        op="premul_sum", the multiplier of this peer's elements; peers may have different factors."""
        return self._do("all_reduce", operation, AsyncReduceHandle)

    @takes(AllReduce)
    def all_reduce_async(self, operation: AllReduce) -> AsyncReduceHandle:
        """Does the same as all_reduce without waiting. send must stay unchanged and recv untouched until the handle has
        been awaited. A tensor may be given other memory during the operation (`.data = ...`), but its storage must not
        be resized (resize_()): that frees memory in use."""
        return self._begin("all_reduce_async", operation, AsyncReduceHandle)

    @takes(Coalesced)
    def coalesced(self, operation: Coalesced) -> OperationInfo:
        """Reduces several tensors, also of several types, in one operation: it has one outcome, and takes hardly longer
        than one tensor of the total size. Reduces in place, or into the tensors of recv. op: one reduction, or one for
        each tensor. quantization: packs the tensors of floats; the others are sent exactly. factor: for all
        premultiplied sums in the list. Requires particular members only if members are given."""
        return self._do("coalesced", operation, AsyncReduceHandle)

    @takes(Coalesced)
    def coalesced_async(self, operation: Coalesced) -> AsyncReduceHandle:
        """Does the same as coalesced without waiting."""
        return self._begin("coalesced_async", operation, AsyncReduceHandle)

    def all_reduce_multiple_with_retry(
        self, descriptors: Sequence[ReduceOpDescriptor], *, max_in_flight: int = 4, label: str = ""
    ) -> ReduceInfo:
        """Carries out a list of reductions, several at a time, and repeats reductions that fail because a peer was
        lost. Ctrl-C aborts them, for all peers. label: the label of each reduction.

        CUDA tensors of torch are copied through page-locked memory together, after the work of the current stream;
        after an error they are unchanged. Later work in that stream runs after the results have been copied back."""
        given = Retried(descriptors, max_in_flight, label)
        self._await(self._bound("pcclAllReduceMultipleWithRetry", given.call, given), self._give_up)
        return given.end()

    # ---- other collectives

    @takes(Broadcast)
    def broadcast(self, operation: Broadcast) -> OperationInfo:
        """Copies the root's t to all members. root: a rank, or the id of a peer.

        members: the ids that this call requires; by default members() at the time of the call. If the group has other
        members at the launch, all get MembersChangedError, and every input is unchanged. alone_ok: a peer that is alone
        in its group carries it out by itself, without TooFewPeersError. quantization: all members, also the root, get
        the unpacked values. tag, label, failures and Ctrl-C: as for all_reduce."""
        return self._do("broadcast", operation, AsyncReduceHandle)

    @takes(Broadcast)
    def broadcast_async(self, operation: Broadcast) -> AsyncReduceHandle:
        """Does the same as broadcast without waiting. As with all_reduce_async, the library uses the buffers until the
        handle has been awaited."""
        return self._begin("broadcast_async", operation, AsyncReduceHandle)

    @takes(AllGather)
    def all_gather(self, operation: AllGather) -> OperationInfo:
        """Gathers the send of all members on all: recv has room for the elements of each member, in order of their
        ranks. send may be this peer's part of recv. The other arguments: as for broadcast."""
        return self._do("all_gather", operation, AsyncReduceHandle)

    @takes(AllGather)
    def all_gather_async(self, operation: AllGather) -> AsyncReduceHandle:
        """Does the same as all_gather without waiting."""
        return self._begin("all_gather_async", operation, AsyncReduceHandle)

    @takes(SeenAllGatherV)
    def all_gather_v(self, operation: SeenAllGatherV) -> List[Tuple[str, memoryview]]:
        """Gathers the data of all members on all: bytes, or any buffer that all_reduce accepts, of any length, also
        empty; the other members need not know the length. Returns the id of each member and its bytes, in order of
        their ranks. The bytes are in the library's memory, which is freed with the last reference.

        Without `members` it requires no particular members, and can be repeated unchanged after the loss of a peer.
        max_bytes: the limit of the total length; if it is exceeded, all get StateMismatch.

        on_arrival(peer, part): called on this thread with each part on its arrival, also with this peer's part, before
        the call returns. The parts are provisional: the operation may still fail, for all alike. on_arrival must not
        call functions that wait for other peers. If it raises, the exception ends the call as Ctrl-C does. The other
        arguments: as for broadcast."""
        return self._do("all_gather_v", operation, AsyncBlobsHandle)

    @takes(SeenAllGatherV)
    def all_gather_v_async(self, operation: SeenAllGatherV) -> AsyncBlobsHandle:
        """Does the same as all_gather_v without waiting. data must stay unchanged until the handle has been awaited."""
        return self._begin("all_gather_v_async", operation, AsyncBlobsHandle)

    @takes(SeenGatherV)
    def gather_v(self, operation: SeenGatherV) -> List[Tuple[str, memoryview]]:
        """Gathers the data of all members on the root, a rank or an id. Returns the same as all_gather_v on the root,
        an empty list on the others. Requires members as broadcast does. The other arguments: as for all_gather_v."""
        return self._do("gather_v", operation, AsyncBlobsHandle)

    @takes(SeenGatherV)
    def gather_v_async(self, operation: SeenGatherV) -> AsyncBlobsHandle:
        """Does the same as gather_v without waiting. data must stay unchanged until the handle has been awaited."""
        return self._begin("gather_v_async", operation, AsyncBlobsHandle)

    @takes(SeenScatterV)
    def scatter_v(self, operation: SeenScatterV) -> memoryview:
        """Sends each member one of the root's parts, and returns this peer's part. parts, on the root only: data for
        each member, as for all_gather_v, in order of their ranks; the parts may be anywhere in memory. max_bytes: the
        limit of one part. The other arguments: as for gather_v."""
        return self._do("scatter_v", operation, AsyncBlobHandle)

    @takes(SeenScatterV)
    def scatter_v_async(self, operation: SeenScatterV) -> AsyncBlobHandle:
        """Does the same as scatter_v without waiting. parts must stay unchanged until the handle has been awaited."""
        return self._begin("scatter_v_async", operation, AsyncBlobHandle)

    @takes(SeenAllToAllV)
    def all_to_all_v(self, operation: SeenAllToAllV) -> List[Tuple[str, memoryview]]:
        """Sends a part from each member to each: parts as for the root of scatter_v, on all members. Returns the id of
        each member and its part for this peer, in order of their ranks. Up to 31 members. max_bytes: the limit of the
        total that one member receives. The other arguments: as for gather_v."""
        return self._do("all_to_all_v", operation, AsyncBlobsHandle)

    @takes(SeenAllToAllV)
    def all_to_all_v_async(self, operation: SeenAllToAllV) -> AsyncBlobsHandle:
        """Does the same as all_to_all_v without waiting. parts must stay unchanged until the handle is awaited."""
        return self._begin("all_to_all_v_async", operation, AsyncBlobsHandle)

    @takes(ReduceScatter)
    def reduce_scatter(self, operation: ReduceScatter) -> OperationInfo:
        """Reduces, and gives each member its share. send has the elements of recv for each member, in order of their
        ranks. counts: the number of elements of each member, the same list on all peers; any may be 0. recv may be this
        peer's share of send. factor: as for all_reduce. The other arguments: as for broadcast."""
        return self._do("reduce_scatter", operation, AsyncReduceHandle)

    @takes(ReduceScatter)
    def reduce_scatter_async(self, operation: ReduceScatter) -> AsyncReduceHandle:
        """Does the same as reduce_scatter without waiting."""
        return self._begin("reduce_scatter_async", operation, AsyncReduceHandle)

    @takes(Reduce)
    def reduce(self, operation: Reduce) -> OperationInfo:
        """Reduces to the root. Only the root needs recv, which may be its send. root: a rank or an id. factor: as for
        all_reduce. The other arguments: as for broadcast."""
        return self._do("reduce", operation, AsyncReduceHandle)

    @takes(Reduce)
    def reduce_async(self, operation: Reduce) -> AsyncReduceHandle:
        """Does the same as reduce without waiting."""
        return self._begin("reduce_async", operation, AsyncReduceHandle)

    @takes(ExclusiveScan)
    def exclusive_scan(self, operation: ExclusiveScan) -> OperationInfo:
        """Gives each member the reduction of send of all members with lower ranks. recv has the same number of elements
        and may be send. Rank 0 receives the identity of the reduction: 0 for sum, or and xor; 1 for prod; all bits for
        and; the least value of the type for max and the greatest for min, infinities if it has them. Does not support
        avg and quantization. factor: as for all_reduce. The other arguments: as for broadcast."""
        return self._do("exclusive_scan", operation, AsyncReduceHandle)

    @takes(ExclusiveScan)
    def exclusive_scan_async(self, operation: ExclusiveScan) -> AsyncReduceHandle:
        """Does the same as exclusive_scan without waiting."""
        return self._begin("exclusive_scan_async", operation, AsyncReduceHandle)

    @takes(InclusiveScan)
    def inclusive_scan(self, operation: InclusiveScan) -> OperationInfo:
        """Does the same as exclusive_scan, with the member itself included. The arguments: as for exclusive_scan."""
        return self._do("inclusive_scan", operation, AsyncReduceHandle)

    @takes(InclusiveScan)
    def inclusive_scan_async(self, operation: InclusiveScan) -> AsyncReduceHandle:
        """Does the same as inclusive_scan without waiting."""
        return self._begin("inclusive_scan_async", operation, AsyncReduceHandle)

    @takes(Gather)
    def gather(self, operation: Gather) -> OperationInfo:
        """Gathers the parts of all members on the root. Only the root needs recv: the elements of send for each member,
        in order of their ranks. The root's send may be its part of recv. The other arguments: as for broadcast."""
        return self._do("gather", operation, AsyncReduceHandle)

    @takes(Gather)
    def gather_async(self, operation: Gather) -> AsyncReduceHandle:
        """Does the same as gather without waiting."""
        return self._begin("gather_async", operation, AsyncReduceHandle)

    @takes(Scatter)
    def scatter(self, operation: Scatter) -> OperationInfo:
        """Sends each member its part of the root's send, which has the elements of recv for each member, in order of
        their ranks. The other members may pass None. The root's recv may be its part of send. The other arguments: as
        for broadcast."""
        return self._do("scatter", operation, AsyncReduceHandle)

    @takes(Scatter)
    def scatter_async(self, operation: Scatter) -> AsyncReduceHandle:
        """Does the same as scatter without waiting."""
        return self._begin("scatter_async", operation, AsyncReduceHandle)

    @takes(AllToAll)
    def all_to_all(self, operation: AllToAll) -> OperationInfo:
        """Sends a part from each member to each: send has equal parts for the members in order of their ranks, and recv
        gets each member's part for this peer in the same order. The two must not overlap. The other arguments: as for
        broadcast."""
        return self._do("all_to_all", operation, AsyncReduceHandle)

    @takes(AllToAll)
    def all_to_all_async(self, operation: AllToAll) -> AsyncReduceHandle:
        """Does the same as all_to_all without waiting."""
        return self._begin("all_to_all_async", operation, AsyncReduceHandle)

    @takes(Send)
    def send(self, operation: Send) -> OperationInfo:
        """Sends a buffer to one peer, a rank or an id, which calls recv with a buffer of the same size and type. The
        n-th send of a tag to a peer meets its n-th recv of that tag from this one, so any number may be in progress at
        once (send_async). Returns when the other peer has received all of it; both succeed, or both fail. No other peer
        takes part: the loss of a third peer disturbs neither. In a group, peer is a rank of the group, its tags are
        separate from the tags of the communicator and of other groups, and the end of the group ends its transfers."""
        return self._do("send", operation, AsyncReduceHandle)

    @takes(Send)
    def send_async(self, operation: Send) -> AsyncReduceHandle:
        """Does the same as send without waiting."""
        return self._begin("send_async", operation, AsyncReduceHandle)

    @takes(Recv)
    def recv(self, operation: Recv) -> OperationInfo:
        """Receives a buffer that the peer, a rank or an id, sends to this one.

        peer=None receives from any member that sends this tag in this group, unless another receive matches its send.
        The sender is the first of the info's participants. Several senders take turns."""
        return self._do("recv", operation, AsyncReduceHandle)

    @takes(Recv)
    def recv_async(self, operation: Recv) -> AsyncReduceHandle:
        """Does the same as recv without waiting."""
        return self._begin("recv_async", operation, AsyncReduceHandle)

    @takes(Barrier)
    def barrier(self, operation: Barrier) -> OperationInfo:
        """Returns when all members have called it. Without `members` it requires no particular members."""
        return self._do("barrier", operation, AsyncReduceHandle)

    @takes(Barrier)
    def barrier_async(self, operation: Barrier) -> AsyncReduceHandle:
        """Does the same as barrier without waiting."""
        return self._begin("barrier_async", operation, AsyncReduceHandle)

    # ---- operations of all kinds

    def run(
        self,
        operations: Sequence[ListedOperation],
        *,
        max_in_flight: int = 4,
        rebuild: Optional[Callable[[Tuple[str, ...]], Sequence[ListedOperation]]] = None,
    ) -> List[OperationInfo]:
        """Carries out a list of operations (AllReduce, Broadcast, AllGather ...: each collective has a class), several
        at a time, and repeats operations that fail because a peer was lost. Returns the infos in the order of the list.
        Tags must be distinct.

        Operations that require members use members() at the time of the call. If the members change, run calls
        rebuild(members) on this thread. It returns operations with the tags of those to repeat: all that require
        members and whose `info` is still None. run ignores other operations in the result, so rebuild may return a
        whole list. It is called for each change of the members, but one peer may miss a list that another one gets:
        build the operations from `members` alone. It must not wait for other peers. Without rebuild, or if it raises,
        the list ends for all: with MembersChangedError, or with the exception of rebuild. Other failures, and Ctrl-C:
        as for all_reduce_multiple_with_retry."""
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
        which raises DrainedError here; no operation of the others fails. Without an update within `drain_ms` (20 s) it
        leaves, and its calls raise DrainedError. A drain cannot be revoked: afterwards connect() raises DrainedError.
        Has no effect if repeated, or on a closed communicator. Callable from any thread and signal handler; does not
        block."""
        error = self._core.attempt("pcclDrain")
        if error is not None and not self._core.closed:
            raise error

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Leaves the run and notifies the other peers; calls of other threads return. The buffer of an in-place
        operation that is not awaited holds the whole input or, only after a success, the whole result. May be called
        any number of times."""
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
    """A communicator of Communicator.group(): its operations run among its members only, with separate tags. members()
    never change, and rank is this peer's rank among them. Calls for the whole run (connect, update_topology,
    sync_shared_state ...) raise InvalidUsage.

    The group ends for all members when one of them closes it, leaves or fails: its operations then raise PeerLostError
    with the reason. The remaining members may create another group.
    """

    def __init__(self, core: _core.Core, whole: Optional[Communicator] = None) -> None:
        self._core = core
        self._launching = None
        self._whole = whole  # a group ends with its communicator, so it keeps a reference

    @property
    def address(self) -> str:  # type: ignore[override]
        return self._whole.address if self._whole is not None else ""

    def close(self) -> None:
        """Ends the group for all members; operations in progress fail. May be called any number of times."""
        super().close()
