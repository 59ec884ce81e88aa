"""A training loop for programs whose peers join, leave and fail."""

from __future__ import annotations

import ctypes
import math
import weakref
from types import TracebackType
from typing import Any, Iterator, Mapping, Optional, Type, Union

from . import _core, _native, _threads
from ._buffers import Memory
from ._communicator import Communicator
from ._described import takes
from ._enums import Result, number
from ._errors import (
    LOSS_ERRORS,
    DrainedError,
    InvalidArgument,
    InvalidUsage,
    PCCLError,
    PeerLostError,
    TooFewPeersError,
)
from ._operations import AllReduce
from ._reduce import OperationInfo
from ._state import SharedState, TensorInfo

State = Union[SharedState, Mapping[str, Memory], None]
_STEPS = "pccl.loop.steps"  # name of the tensor that the loop adds to the state


class _Handle:
    """A loop in the C library, which an interrupted call may still be using."""

    def __init__(self, comm: Communicator, revision: int, options: _native.LoopOptionsC) -> None:
        self._made = ctypes.c_void_p()
        self.state = _native.SharedStateC(revision)
        state, made = ctypes.byref(self.state), ctypes.byref(self._made)
        comm._core.call("pcclLoopBegin", state, ctypes.byref(options), made)

    def next(self, outcome: int, step: _native.LoopStepC) -> int:
        code: int = _native.lib.pcclLoopNext(self._made, outcome, ctypes.byref(step))
        return code

    def __del__(self) -> None:
        _native.lib.pcclLoopEnd(self._made)


class Step:
    """One step of a loop. Enter it once as a context: `with step: ...`. The step is complete if no exception leaves the
    context and none of its all_reduce calls failed; otherwise the loop repeats it.

    index      number of steps that the run has completed before this one; the same on all peers of the group
    revision   revision of the shared state
    size       number of peers in the group when the step began
    rank       rank of this peer among them
    again      true if this peer has begun the step with this index before, without completing it
    joined     true if this peer has been admitted since its last step: its state is now the state of the run
    diverged   true if this peer was already in the run, but its state differed and was replaced
    comm       the communicator, for other operations; raises InvalidUsage after a failed all_reduce of this step
    """

    def __init__(self, loop: Loop, told: _native.LoopStepC) -> None:
        self._loop = weakref.ref(loop)  # weak: dropping the last other reference to the loop leaves the run
        self._has_succeeded = False
        self._is_inside = self._is_left = False  # `with step` has been entered, or left
        self._over: Optional[str] = None  # reason why the step accepts no further operations
        self._comm = loop.comm
        self._take(told)

    def _take(self, told: _native.LoopStepC) -> None:
        self.index: int = told.number
        self.revision: int = told.revision
        self.size: int = told.world
        self.rank: int = told.rank
        self.again: bool = told.again
        self.joined: bool = told.joined
        self.diverged: bool = told.diverged

    def __repr__(self) -> str:
        again = ", again" if self.again else ""
        return f"<pccl.Step {self.index}{again}: rank {self.rank} of {self.size}>"

    @property
    def comm(self) -> Communicator:
        if self._is_inside:
            self._refuse_if_over()
        return self._comm

    def _refuse_if_over(self) -> None:
        if self._over is not None:
            raise InvalidUsage(f"step {self.index} has ended: {self._over}")

    def _fail(self, error: BaseException, words: str) -> None:
        """Marks the step as failed, if it is the loop's current one."""
        loop = self._loop()
        if loop is None or loop._step is not self:
            return
        self._over = self._over or f"{words} {type(error).__name__}; the loop repeats it"
        if loop._outcome == Result.SUCCESS:
            loop._outcome = error.ext if isinstance(error, LOSS_ERRORS) else Result.ABORTED

    @takes(AllReduce)
    def all_reduce(self, operation: AllReduce) -> OperationInfo:
        """Does the same as Communicator.all_reduce, but repeats the operation if a peer was lost.

        If at least min_peers remain, repeats it with them. Otherwise, if it is the first operation of the step, waits
        for min_peers first. Raises the operation's error if it cannot be repeated, or if the others have continued
        without this peer. The loop then repeats the step, even if the program catches the error, and this step accepts
        no further operations. With min_peers=1, a peer that is alone succeeds."""
        self._refuse_if_over()
        try:
            return self._reduce(operation)
        except BaseException as error:
            if isinstance(error, LOSS_ERRORS) or not isinstance(error, PCCLError):
                self._fail(error, "its all_reduce failed with")
            raise

    def _reduce(self, operation: AllReduce) -> OperationInfo:
        arguments = {name: value for name, value in vars(operation).items() if name != "info"}
        while True:
            loop = self._loop()
            try:
                info = self._comm.all_reduce(**arguments)
            except LOSS_ERRORS as error:
                if loop is None:
                    raise
                if isinstance(error, TooFewPeersError) and loop._min_peers == 1:
                    info = self._reduce_alone(operation)
                elif loop._may_repeat(self, error):
                    continue
                else:
                    raise
            self._has_succeeded = True
            return info

    def _reduce_alone(self, given: AllReduce) -> OperationInfo:
        return self._comm.coalesced(
            [given.send], None if given.recv is None else [given.recv], op=given.op, tag=given.tag, label=given.label,
            factor=given.factor, alone_ok=True
        )

    # ---- as a context

    def __enter__(self) -> Step:
        self._refuse_if_over()
        if self._is_inside:
            raise InvalidUsage(f"step {self.index}: it was entered twice: expected one `with step` for each step")
        self._is_inside = True
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], _: Optional[TracebackType]
    ) -> bool:
        """Ends the step. The step fails if an exception leaves it. After a loss, aborts its operations and suppresses
        the exception."""
        if error is not None:
            self._fail(error, "it ended with")
        self._over = self._over or "`with step` ended"
        self._is_inside, self._is_left = False, True
        if self._loop() is None or not isinstance(error, LOSS_ERRORS):
            return False
        self._comm._core.give_up()
        return True


class Loop(Iterator[Step]):
    """An iterator of steps, created by loop(). It ends only when this peer is drained. Leaves the run on close(), at
    the end of `with loop: ...`, or when the last reference to it is dropped.

    drained    reason for the drain that ended the loop; None if this peer was not drained
    """

    def __init__(
        self,
        address: Union[str, Communicator],
        state: State,
        min_peers: int,
        timeout: Optional[float],
        connect_timeout: float,
        first_step: int,
        options: Optional[Mapping[str, _core.Option]],
    ) -> None:
        self._is_owner = not isinstance(address, Communicator)
        self._min_peers = number("loop: min_peers", min_peers, 1, 1 << 31)
        self.state = _shared_state(state)
        given = _native.LoopOptionsC(
            ctypes.sizeof(_native.LoopOptionsC),
            self._min_peers,
            0 if timeout is None else max(1, _milliseconds("timeout", timeout)),
            _milliseconds("connect_timeout", connect_timeout),
            number("loop: first_step", first_step, 0, 1 << 64),
        )
        if isinstance(address, Communicator):
            if options is not None:
                raise InvalidArgument(
                    "loop: options cannot be combined with a communicator: set them on the communicator"
                )
            if address._has_loop:
                raise InvalidUsage(
                    "loop: this communicator already had a loop, and only one loop may count the steps of a run; use "
                    "a new communicator, or continue with that loop"
                )
            self.comm = address
        else:
            self.comm = Communicator(address, options=options)
        self.drained: Optional[str] = None
        self._outcome: int = Result.SUCCESS
        self._step: Optional[Step] = None  # the current step
        # A step that all_reduce has begun, to be returned by the next __next__()
        self._ahead: Optional[_native.LoopStepC] = None
        self._handle = _Handle(self.comm, 0 if self.state is None else self.state.revision, given)
        self.comm._has_loop = True

    def __next__(self) -> Step:
        """Ends the current step and begins the next one. Raises InvalidUsage if `with step` has not been left."""
        if self.drained is not None:
            raise StopIteration
        step = self._step
        if step is not None and not step._is_left and not self.comm.closed:
            self.close()
            raise InvalidUsage(
                f"loop: step {step.index} has not ended, but the next one was requested: use `with step:`, which "
                "tells the loop whether the step is complete"
            )
        if self._outcome != Result.SUCCESS and not self.comm.closed:
            self.comm._core.give_up()
        told, self._ahead = self._ahead, None
        if told is None:
            try:
                told = self._begin(self._outcome)
            except DrainedError:
                raise StopIteration from None
        self._outcome = Result.SUCCESS
        self._step = Step(self, told)
        return self._step

    def _begin(self, outcome: int) -> _native.LoopStepC:
        """Ends the step and begins the next one. Errors and Ctrl-C end the loop."""
        handle, state = self._handle, self.state
        told = _native.LoopStepC(ctypes.sizeof(_native.LoopStepC))
        given = None if state is None else state._prepare()
        if given is not None:
            handle.state.count, handle.state.infos = len(given.infos), given.infos

        def begin(_: Any) -> int:
            code = handle.next(outcome, told)
            if code == Result.SUCCESS and state is not None:
                state.revision = told.revision  # even if the caller has stopped waiting
            return code

        try:
            Communicator._await(self.comm._bound("pcclLoopNext", begin, (handle, given)))
        except BaseException as error:
            if isinstance(error, DrainedError):
                self.drained = error.reason
            self.close()
            raise
        if state is not None and given is not None:
            state._finish(given)
        return told

    def _may_repeat(self, step: Step, error: PCCLError) -> bool:
        """Returns true if the operation that failed with this error can be repeated within the step."""
        if isinstance(error, PeerLostError) and self._count() >= self._min_peers:
            return True
        if step._has_succeeded or self.comm._core.is_busy:
            return False
        told = self._begin(error.ext)
        if told.number != step.index or told.rx_bytes > 0:
            self._ahead = told
            return False
        step._take(told)
        return True

    def _count(self) -> int:
        try:
            return self.comm.size
        except PCCLError:
            return 0  # not in the run

    # ---- the end

    def drain(self) -> None:
        """Requests the drain of this peer, as Communicator.drain() does: it completes its step, and then the loop ends.
        May be called from signal handlers."""
        self.comm.drain()

    def close(self) -> None:
        """Leaves the run, unless the caller passed in the communicator. May be called repeatedly."""
        if self._is_owner:
            self.comm.close()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        comm = getattr(self, "comm", None)
        if comm is not None and self._is_owner and not comm.closed:
            _threads.janitor.put(comm._core.close)  # an active step also refers to the communicator

    def __repr__(self) -> str:
        return f"<pccl.Loop of {self.comm!r}>"


def _milliseconds(what: str, seconds: float) -> int:
    try:
        given = math.ceil(float(seconds) * 1000)
    except (TypeError, ValueError, OverflowError):
        given = -1
    if not 0 <= given < 1 << 32:
        raise InvalidArgument(f"loop: {what}: {seconds!r}; expected a number of seconds")
    return given


def _shared_state(state: State) -> Optional[SharedState]:
    if isinstance(state, Mapping):
        state = SharedState([TensorInfo.from_buffer(tensor, name) for name, tensor in state.items()])
    if state is None:
        return None
    if not isinstance(state, SharedState):
        raise InvalidArgument(f"loop: state: expected a SharedState, or a dictionary of buffers, not {state!r}")
    if any(info.name == _STEPS for info in state._infos):
        raise InvalidArgument(f"loop: state: the name {_STEPS!r} is reserved for the tensor that the loop adds")
    return state


def loop(
    address: Union[str, Communicator],
    state: State = None,
    *,
    min_peers: int = 2,
    timeout: Optional[float] = None,
    connect_timeout: float = 60,
    first_step: int = 0,
    options: Optional[Mapping[str, _core.Option]] = None,
) -> Loop:
    """Returns an iterator of training steps: `for step in pccl.loop(address, state): with step: ...`. It ends only when
    this peer is drained, by drain() or by an operator: after a step that all peers have completed, unless no step ends
    in time.

    Before each step, the loop admits newcomers, waits until the group has min_peers, and synchronizes the state, so
    that it is bitwise identical on all peers. It joins the run when it begins, and again if the master removed this
    peer or was lost. If an operation fails because of a loss, all peers repeat the step, so change the state only after
    the step's last operation. All peers of the group must use a loop and perform the same operations in each step,
    because they wait for a peer that omits one. Leaving the `for` statement by break or an exception leaves the run,
    unless a variable refers to the loop; in that case use `with` or close(): `with pccl.loop(...) as loop: for step in
    loop: ...`.

    address: the master's address, or a Communicator, which the loop does not close and which can have only one loop.
    state: a SharedState, a dictionary of buffers by name, or None. min_peers: with 1, a peer that is alone continues.
    timeout: seconds to wait for min_peers; then raises TimeoutError_. connect_timeout: seconds in which to begin
    attempts to join; one attempt can last up to connect_retry_ms if the other side accepts connections and then closes
    them. A token that the master does not accept ends the loop at once. first_step: the index of the first step of a
    new run. options: options of the communicator.
    """
    return Loop(address, state, min_peers, timeout, connect_timeout, first_step, options)
