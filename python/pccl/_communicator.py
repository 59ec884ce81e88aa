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

    address: of the master, "ip:port", "[v6]:port" or "name:port", or several of one master separated by commas.
    options: any parameter of communicators (`man 7 pccl`, pccl.parameters()), for example {"op_timeout_ms": 60000};
    others come from the environment or have their defaults.

    Calls that wait for other peers release the interpreter's lock, and Ctrl-C interrupts the
    waiting at once. The call then continues in the library, with its memory kept alive, until it
    ends or the communicator is closed.
    """

    _has_loop = False  # which pccl.loop() has made

    def __init__(
        self,
        address: str,
        peer_group: Optional[int] = None,
        p2p_connection_pool_size: int = 0,
        *,
        options: Optional[Mapping[str, _core.Option]] = None,
    ) -> None:
        values: Dict[str, _core.Option] = dict(options or {})
        self._launching: Optional[Dict[int, Any]] = None  # where somebody keeps whatever is launched, by tag
        if peer_group is not None:
            values["peer_group"] = peer_group
        if p2p_connection_pool_size != 0:
            pool = number("p2p_connection_pool_size", p2p_connection_pool_size, -(1 << 63), 1 << 64)
            values["connection_pool_size"] = min(pool, maximum("connection_pool_size"))  # as PCCL 1.0 takes it
        values["extended_results"] = 1  # PCCLError.result has the codes of PCCL 1.0 all the same
        _threads.janitor.ensure()
        self._core = _core.create(address, values)
        self.address = address
        self._given_group = values.get("peer_group", os.environ.get("PCCL_PEER_GROUP", 0))

    # ---- membership

    def connect(
        self, n_attempts: int = 5, *, min_peers: Optional[int] = None, timeout: Optional[float] = None
    ) -> None:
        """Joins the run; waits until its peers update the topology. Attempts that found no master are repeated after a
        second, and none begins later than two seconds for each of them after the first. One attempt lasts up to
        connect_retry_ms, 30 s, if the other side accepts connections and closes them: a master that is busy, or another
        service. min_peers, timeout: then it waits, as wait_for() does, and so must the others."""
        self._connect(n_attempts)
        if min_peers is not None:
            self.wait_for(min_peers, timeout)

    def wait_for(self, count: int, timeout: Optional[float] = None) -> int:
        """Updates the topology until the group has `count` peers, and returns its size; TimeoutError_ after `timeout`
        seconds. Joint with all peers of the run, which call it with the same count. A newcomer calls it after
        connect(), as pccl.loop() does for its caller."""
        number("wait_for: count", count, 1, 1 << 31)
        begin = time.monotonic()
        while (size := self.size) < count:
            elapsed = time.monotonic() - begin
            if timeout is not None and elapsed >= timeout:
                raise TimeoutError_(
                    f"wait_for: {size} of {count} peers are in the run after {timeout} s",
                    result=Result.UPDATE_TOPOLOGY_FAILED,
                    ext=Result.TIMEOUT,
                    operation="pcclUpdateTopology",
                    elapsed=elapsed,
                )
            time.sleep(_UPDATE_PAUSE_S)
            self.update_topology()
        return size

    def get_attribute(self, attribute: Union[Attribute, str]) -> int:
        """A count of peers, as of the last call that the master decided: a loop that only reads it never sees a peer
        die. Those named `_NOW` are as of the latest member list that has arrived from the master."""
        value = ctypes.c_int()
        self._core.call("pcclGetAttribute", member("attribute", Attribute, attribute), ctypes.byref(value))
        return value.value

    def update_topology(self) -> None:
        """Admits the newcomers that are ready. Joint with all peers of the run."""
        self._joint("pcclUpdateTopology")

    def are_peers_pending(self) -> bool:
        """Whether an update is worth it: newcomers are ready to be admitted, or a ring can leave a slow link. Joint
        with all peers of the run; may be called while reductions run, but not beside another joint call."""
        pending = ctypes.c_bool()
        self._joint("pcclArePeersPending", ctypes.byref(pending))
        return pending.value

    def optimize_topology(self) -> None:
        """Measures the links and sets up the best ring. Joint with all peers of the run; takes some seconds."""
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

    def report(self, *, step: int, loss: float) -> None:
        """Tells the master the loss of a step, for its page. Does not wait: at most ten words a second
        go out, and none while the master is away; the others are dropped."""
        self._core.call("pcclReportTraining", number("report: step", step, 0, 1 << 64), float(loss))

    @property
    def id(self) -> str:
        """The id of this peer, as errors and get_topology() write it. Each connect() makes a new
        one."""
        return self._id()

    def members(self) -> Tuple[str, ...]:
        """The ids of the peers of this group, in order of their ranks, which is that of their
        admission, as of the last call that has returned."""
        return self._members()[0]

    @property
    def rank(self) -> int:
        """The place of this peer in members()."""
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
        """Founds a group of the peers with these ids, this one among them, in any order. Returns
        when all of them have called it with the same ids; TimeoutError_ if that takes more than so
        many seconds (by default op_timeout_ms), MembersChangedError if one of them is gone. Ctrl-C
        aborts it. Updates of the topology neither end groups nor change them."""
        list_c = _collectives.peer_ids("group", ids)
        options = _native.GroupOptionsC(
            size=ctypes.sizeof(_native.GroupOptionsC),
            label=_core.label("group", label),
            timeout_ms=milliseconds(timeout),
        )
        founded: List[Group] = []  # if nobody waits for it any more, it is closed when this is dropped

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

    def progress(self) -> Optional[Progress]:
        """How far the call has come that a thread has waited in for longest; None: no thread waits. Call
        it while another thread is blocked in a call; pccl.progress shows it."""
        return progress_of(self._core, self.describe_waits)

    def flight_recorder(self) -> Dict[str, Any]:
        """What the flight recorder of this peer holds: its latest operations, with times, bytes and outcomes, and whom
        those that have not ended wait for. Any thread, also while another one is blocked in a call; waits for nobody.
        docs/guide/operations.md explains the members; pccl.recorder reads the dumps of several peers."""
        dump: Dict[str, Any] = json.loads(_recorder.text(self._core))
        return dump

    def verdicts(self) -> List[Dict[str, Any]]:
        """Who or what makes the group slow, or its operations stand still, as the master concludes: for each a
        dictionary with class, number, peer, other (of a link, which goes from peer to other; else None), for_ms,
        evidence and action, what was done. Any thread, also while another one is blocked in a call; waits for nobody.
        docs/guide/operations.md explains it."""
        return _recorder.verdicts(self._core)

    def abort(self) -> None:
        """Aborts all launched operations without an outcome, for all peers of the group.
        Does not wait."""
        self._core.call("pcclAbortOperations")

    def get_feedback(self, tag: int) -> "array.array[float]":
        """What error feedback (QuantizationOptions) keeps for a tag, for a checkpoint; nothing if it
        keeps none."""
        return _feedback.get(self._core, tag)

    def set_feedback(self, tag: int, kept: Any) -> None:
        """Keeps these float32 elements, in the host's memory, instead, for the next operation with
        the tag, which must have as many; nothing if kept is empty or None."""
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
                shared_state.revision = given.revision  # even if nobody waits for the call any more
            return code

        self._await(self._bound("pcclSynchronizeSharedState", synchronize, given))
        shared_state._finish(given)
        return SharedStateSyncInfo(info.tx_bytes, info.rx_bytes)

    # ---- reductions

    @takes(AllReduce)
    def all_reduce(self, operation: AllReduce) -> OperationInfo:
        """Reduces send of all peers of the group into recv, by default into send itself. PCCLError
        if it fails; send is then unchanged. Ctrl-C aborts this communicator's reductions, for all
        peers. quantization: how elements travel (`quantization_options` is the same). label: what
        the program is reducing, for example f"step {step}", at most 32 bytes; if peers use different
        labels, one has skipped something, and all get StateMismatch. factor: of op="premul_sum", what
        this peer's elements are multiplied by; peers may have different ones."""
        return self._do("all_reduce", operation, AsyncReduceHandle)

    @takes(AllReduce)
    def all_reduce_async(self, operation: AllReduce) -> AsyncReduceHandle:
        """The same without waiting. send must stay unchanged and recv untouched until the handle has been awaited. A
        tensor may be given other memory meanwhile (`.data = ...`), but its storage must not be resized (resize_()):
        that frees what is being reduced."""
        return self._begin("all_reduce_async", operation, AsyncReduceHandle)

    @takes(Coalesced)
    def coalesced(self, operation: Coalesced) -> OperationInfo:
        """Reduces several tensors, also of several types, in one operation: it has one outcome, and takes hardly
        longer than one tensor of that size. They are reduced in place, or into those of recv. op: one reduction, or
        one for each tensor. quantization: packs those of floats; the others travel as they are. factor: of all
        premultiplied sums among them. It counts on nobody in particular, unless it is given members."""
        return self._do("coalesced", operation, AsyncReduceHandle)

    @takes(Coalesced)
    def coalesced_async(self, operation: Coalesced) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("coalesced_async", operation, AsyncReduceHandle)

    def all_reduce_multiple_with_retry(
        self, descriptors: Sequence[ReduceOpDescriptor], *, max_in_flight: int = 4, label: str = ""
    ) -> ReduceInfo:
        """Carries out a list of reductions, several at a time, and repeats those that fail because
        a peer was lost. Ctrl-C aborts them, for all peers. label: the label of each reduction.

        CUDA tensors of torch go through page-locked memory together, behind what the current stream has; after an
        error they are as they were. What is put into that stream afterwards comes behind the results."""
        given = Retried(descriptors, max_in_flight, label)
        self._await(self._bound("pcclAllReduceMultipleWithRetry", given.call, given), self._give_up)
        return given.end()

    # ---- other collectives

    @takes(Broadcast)
    def broadcast(self, operation: Broadcast) -> OperationInfo:
        """Brings the root's content of t to all members. root: a rank, or the id of a peer.

        members: whom this call counts on, as members() names them; by default as it does now. If they are others when
        it is launched, all get MembersChangedError, and every input is as it was. alone_ok: a peer that is alone in its
        group carries it out by itself, without TooFewPeersError. quantization: all of them, the root too, get what the
        packed elements are unpacked to. tag, label, failures and Ctrl-C: as for all_reduce.
        """
        return self._do("broadcast", operation, AsyncReduceHandle)

    @takes(Broadcast)
    def broadcast_async(self, operation: Broadcast) -> AsyncReduceHandle:
        """The same without waiting. As with all_reduce_async, the buffers are the library's until the handle has been
        awaited."""
        return self._begin("broadcast_async", operation, AsyncReduceHandle)

    @takes(AllGather)
    def all_gather(self, operation: AllGather) -> OperationInfo:
        """Brings the send of all members to all: recv has room for as many elements of each, in order of their ranks.
        send may be this peer's part of recv. The other arguments: as for broadcast."""
        return self._do("all_gather", operation, AsyncReduceHandle)

    @takes(AllGather)
    def all_gather_async(self, operation: AllGather) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("all_gather_async", operation, AsyncReduceHandle)

    @takes(SeenAllGatherV)
    def all_gather_v(self, operation: SeenAllGatherV) -> List[Tuple[str, memoryview]]:
        """Brings the data of all members to all: bytes, or any buffer that all_reduce takes, of a length that the
        others need not know, also empty. Returns the id of each member and its bytes, in order of their ranks. They
        lie in memory of the library's, which is freed when nothing refers to it any more.

        Without `members` it counts on nobody in particular: it can be repeated as it is when it has failed because a
        peer was lost. max_bytes: how long all of them may be together; if they are longer, all get StateMismatch.

        on_arrival(peer, part): called on this thread with each part when it comes, this peer's own too, before the call
        returns. It sees them provisionally: the operation may still fail, for all alike. It must not call what waits
        for other peers; if it raises, the call ends with that as with Ctrl-C. The other arguments: as for
        broadcast."""
        return self._do("all_gather_v", operation, AsyncBlobsHandle)

    @takes(SeenAllGatherV)
    def all_gather_v_async(self, operation: SeenAllGatherV) -> AsyncBlobsHandle:
        """The same without waiting. data must stay unchanged until the handle has been awaited."""
        return self._begin("all_gather_v_async", operation, AsyncBlobsHandle)

    @takes(SeenGatherV)
    def gather_v(self, operation: SeenGatherV) -> List[Tuple[str, memoryview]]:
        """Brings the data of all members to the root, a rank or an id: there it returns what all_gather_v does, and an
        empty list at the others. It counts on members as broadcast does. The other arguments: as for all_gather_v."""
        return self._do("gather_v", operation, AsyncBlobsHandle)

    @takes(SeenGatherV)
    def gather_v_async(self, operation: SeenGatherV) -> AsyncBlobsHandle:
        """The same without waiting. What is sent must stay unchanged until the handle has been awaited."""
        return self._begin("gather_v_async", operation, AsyncBlobsHandle)

    @takes(SeenScatterV)
    def scatter_v(self, operation: SeenScatterV) -> memoryview:
        """Gives each member one of the root's parts, and returns the own one. parts, of the root alone: for each
        member, in order of their ranks, what all_gather_v takes as data; each may be elsewhere in memory. max_bytes:
        how long a part may be. The other arguments: as for gather_v."""
        return self._do("scatter_v", operation, AsyncBlobHandle)

    @takes(SeenScatterV)
    def scatter_v_async(self, operation: SeenScatterV) -> AsyncBlobHandle:
        """The same without waiting. What is sent must stay unchanged until the handle has been awaited."""
        return self._begin("scatter_v_async", operation, AsyncBlobHandle)

    @takes(SeenAllToAllV)
    def all_to_all_v(self, operation: SeenAllToAllV) -> List[Tuple[str, memoryview]]:
        """Brings a part of each member to each: parts as for the root of scatter_v, on all; returns the id of each
        member and its part for this one, in order of their ranks. Up to 31 members. max_bytes: how long all that one
        member gets may be. The other arguments: as for gather_v."""
        return self._do("all_to_all_v", operation, AsyncBlobsHandle)

    @takes(SeenAllToAllV)
    def all_to_all_v_async(self, operation: SeenAllToAllV) -> AsyncBlobsHandle:
        """The same without waiting. What is sent must stay unchanged until the handle has been awaited."""
        return self._begin("all_to_all_v_async", operation, AsyncBlobsHandle)

    @takes(ReduceScatter)
    def reduce_scatter(self, operation: ReduceScatter) -> OperationInfo:
        """Reduces, and gives each member its share: send has as many elements for each member as recv has, in order of
        their ranks; with counts as many as that says, of which any may be 0, alike on all peers. recv may be this
        peer's share of send. factor: as for all_reduce. The other arguments: as for broadcast."""
        return self._do("reduce_scatter", operation, AsyncReduceHandle)

    @takes(ReduceScatter)
    def reduce_scatter_async(self, operation: ReduceScatter) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("reduce_scatter_async", operation, AsyncReduceHandle)

    @takes(Reduce)
    def reduce(self, operation: Reduce) -> OperationInfo:
        """Reduces to the root, which alone needs recv; it may be its send. root: a rank or an id. factor: as for
        all_reduce. The other arguments: as for broadcast."""
        return self._do("reduce", operation, AsyncReduceHandle)

    @takes(Reduce)
    def reduce_async(self, operation: Reduce) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("reduce_async", operation, AsyncReduceHandle)

    @takes(ExclusiveScan)
    def exclusive_scan(self, operation: ExclusiveScan) -> OperationInfo:
        """Gives each member the reduction of send of all members of lower ranks. recv has as many elements and may be
        send. Rank 0 receives the identity of the reduction: 0 for sum, or and xor; 1 for prod; all bits for and; the
        least value of the type for max and the greatest for min, infinities if it has them. There is no avg and no
        quantization. factor: as for all_reduce. The other arguments: as for broadcast."""
        return self._do("exclusive_scan", operation, AsyncReduceHandle)

    @takes(ExclusiveScan)
    def exclusive_scan_async(self, operation: ExclusiveScan) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("exclusive_scan_async", operation, AsyncReduceHandle)

    @takes(InclusiveScan)
    def inclusive_scan(self, operation: InclusiveScan) -> OperationInfo:
        """The same, with each member itself included. The arguments: as for exclusive_scan."""
        return self._do("inclusive_scan", operation, AsyncReduceHandle)

    @takes(InclusiveScan)
    def inclusive_scan_async(self, operation: InclusiveScan) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("inclusive_scan_async", operation, AsyncReduceHandle)

    @takes(Gather)
    def gather(self, operation: Gather) -> OperationInfo:
        """Brings the parts of all members to the root, which alone needs recv: as many elements for each member as
        send has, in order of their ranks. The root's send may be its part of recv. The other arguments: as for
        broadcast."""
        return self._do("gather", operation, AsyncReduceHandle)

    @takes(Gather)
    def gather_async(self, operation: Gather) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("gather_async", operation, AsyncReduceHandle)

    @takes(Scatter)
    def scatter(self, operation: Scatter) -> OperationInfo:
        """Gives each member its part of the root's send, which has as many elements for each member as recv has, in
        order of their ranks. The others may pass None. The root's recv may be its part of send. The other arguments:
        as for broadcast."""
        return self._do("scatter", operation, AsyncReduceHandle)

    @takes(Scatter)
    def scatter_async(self, operation: Scatter) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("scatter_async", operation, AsyncReduceHandle)

    @takes(AllToAll)
    def all_to_all(self, operation: AllToAll) -> OperationInfo:
        """Brings a part of each member to each: send is in equal parts for the members in order of their ranks, and so
        is recv, with what each of them has for this peer. The two must not overlap. The other arguments: as for
        broadcast."""
        return self._do("all_to_all", operation, AsyncReduceHandle)

    @takes(AllToAll)
    def all_to_all_async(self, operation: AllToAll) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("all_to_all_async", operation, AsyncReduceHandle)

    @takes(Send)
    def send(self, operation: Send) -> OperationInfo:
        """Sends a buffer to one peer, a rank or an id, which calls recv with one of as many elements of the same type.

        The n-th send of a tag to a peer meets its n-th recv of that tag from this one, so any number may be under way
        at once (send_async). Both succeed, or both fail, and it returns when the other one has all of it. Nobody else
        takes part: the death of a third peer disturbs neither. In a group, peer is a rank of the group, its tags are
        separate from the tags of the communicator and of other groups, and the end of the group ends its transfers."""
        return self._do("send", operation, AsyncReduceHandle)

    @takes(Send)
    def send_async(self, operation: Send) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("send_async", operation, AsyncReduceHandle)

    @takes(Recv)
    def recv(self, operation: Recv) -> OperationInfo:
        """Receives into a buffer what the peer, a rank or an id, sends to this one.

        None: receives from any member that sends this tag in this group, unless another receive matches its send. The
        sender is the first of the info's participants. Several senders take turns."""
        return self._do("recv", operation, AsyncReduceHandle)

    @takes(Recv)
    def recv_async(self, operation: Recv) -> AsyncReduceHandle:
        """The same without waiting."""
        return self._begin("recv_async", operation, AsyncReduceHandle)

    @takes(Barrier)
    def barrier(self, operation: Barrier) -> OperationInfo:
        """Returns when all members have called it. Without `members` it counts on nobody in particular."""
        return self._do("barrier", operation, AsyncReduceHandle)

    @takes(Barrier)
    def barrier_async(self, operation: Barrier) -> AsyncReduceHandle:
        """The same without waiting."""
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
        at a time, and repeats those that fail because a peer was lost; the infos are in the order of the list. Tags
        must be distinct.

        All that counts on members counts on those of members() when run is called. If they change, rebuild(members) is
        called on this thread: it returns operations with the tags of those that are to be made anew, which are all that
        count on members and whose `info` is still None. Others that it returns are not used, so it may return a whole
        list. It is called as often as the members change, but one peer may miss a list that another one is shown: make
        operations from `members` alone. Without it, or if it raises, the list ends for all: MembersChangedError or what
        it raised. It must not wait for other peers. Other failures, and Ctrl-C: as for all_reduce_multiple_with_retry.
        """
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
        """Asks for the drain of this peer: it takes part in everything until the next update_topology() of all peers,
        which raises DrainedError here; no operation of the others fails. Without an update within `drain_ms` (20 s) it
        leaves, and its calls raise DrainedError. A drain cannot be taken back: connect() raises DrainedError from now
        on. No effect if repeated, or on a closed communicator. Any thread, and a signal's handler; does not block."""
        error = self._core.attempt("pcclDrain")
        if error is not None and not self._core.closed:
            raise error

    @property
    def closed(self) -> bool:
        return self._core.closed

    def close(self) -> None:
        """Leaves the run and tells the others; calls of other threads return. In place, an operation that is not
        awaited leaves the whole input or, only after a success, the whole result. May be called any number of times."""
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
    """What Communicator.group() has founded: a communicator whose operations are among its members
    only, with tags of its own. members() never change, and rank is this peer's place among them.
    What concerns the whole run (connect, update_topology, sync_shared_state ...) is InvalidUsage.

    The group ends for all members when one of them closes it, leaves or dies: its operations then
    raise PeerLostError and say why. Those who are left may found another one.
    """

    def __init__(self, core: _core.Core, whole: Optional[Communicator] = None) -> None:
        self._core = core
        self._launching = None
        self._whole = whole  # a group ends with its communicator, so that must stay

    @property
    def address(self) -> str:  # type: ignore[override]
        return self._whole.address if self._whole is not None else ""

    def close(self) -> None:
        """Ends the group for all members; operations in progress fail. May be called any number of times."""
        super().close()
