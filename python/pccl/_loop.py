"""The training loop of a program whose peers join, leave and fail."""

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
    """A loop of the library. A call may still use it after Ctrl-C has ended the wait for it."""

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
    """A step of a loop. Enter it once as a context: `with step: ...`. It is completed if no exception leaves this
    context and none of its all_reduce calls has failed; otherwise the loop begins it again.

    index      number of steps that the run has completed before this one; the same on all peers of the group
    revision   revision of the shared state
    size       number of peers of the group when the step began
    rank       rank of this peer among them
    again      true if this peer has begun the step of this index before, without completing it
    joined     true if this peer has been admitted since its last step: its state is now the state of the run
    diverged   true if this peer was in the run since its last step, but its state differed and was replaced
    comm       the communicator, for operations of all kinds; InvalidUsage after a failed all_reduce of this step
    """

    def __init__(self, loop: Loop, told: _native.LoopStepC) -> None:
        self._loop = weakref.ref(loop)  # a loop without other references leaves the run
        self._has_succeeded = False
        self._is_inside = self._is_left = False  # `with step` has been entered, or left
        self._over: Optional[str] = None  # the reason why it accepts no further operations
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
        """Marks the step as not completed, unless it is not the loop's current one."""
        loop = self._loop()
        if loop is None or loop._step is not self:
            return
        self._over = self._over or f"{words} {type(error).__name__}; the loop repeats it"
        if loop._outcome == Result.SUCCESS:
            loop._outcome = error.ext if isinstance(error, LOSS_ERRORS) else Result.ABORTED

    @takes(AllReduce)
    def all_reduce(self, operation: AllReduce) -> OperationInfo:
        """Does the same as Communicator.all_reduce, and repeats it when a peer was lost: with the remaining peers, if
        they are at least min_peers; otherwise, if it is the first operation of the step, after waiting for min_peers.
        Raises the operation's error if it cannot be repeated, or if the others have continued without this peer. Then
        `with step` makes the loop begin the step again, even if the program catches the error: the step accepts no
        further operations. With min_peers=1 a peer that is alone carries it out by itself."""
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
            raise InvalidUsage(f"step {self.index}: `with step` is used twice")
        self._is_inside = True
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], _: Optional[TracebackType]
    ) -> bool:
        """Ends the step. After any exception it is not completed; after a loss, aborts its operations and continues."""
        if error is not None:
            self._fail(error, "it ended with")
        self._over = self._over or "`with step` ended"
        self._is_inside, self._is_left = False, True
        if self._loop() is None or not isinstance(error, LOSS_ERRORS):
            return False
        self._comm._core.give_up()
        return True


class Loop(Iterator[Step]):
    """An iterator of steps, made by loop(). It ends only when this peer was drained. close() leaves the run, as do the
    end of `with loop: ...` and the loss of the last reference.

    drained    the reason of the drain that ended the loop; None if this peer was not drained
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
        self._ahead: Optional[_native.LoopStepC] = None  # a step that all_reduce has begun, for the next __next__()
        self._handle = _Handle(self.comm, 0 if self.state is None else self.state.revision, given)
        self.comm._has_loop = True

    def __next__(self) -> Step:
        """Ends the current step and begins the next one. Raises InvalidUsage if the program has not left the current
        step."""
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
        """Ends the step and begins the next one. An error, and Ctrl-C, end the loop."""
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
        """Returns true if the operation that failed with this error can be repeated within this step."""
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
        """Requests the drain of this peer, as Communicator.drain(): it completes its step, and then the loop ends. A
        signal handler may call it."""
        self.comm.drain()

    def close(self) -> None:
        """Leaves the run, unless the communicator was given. May be called any number of times."""
        if self._is_owner:
            self.comm.close()

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        comm = getattr(self, "comm", None)
        if comm is not None and self._is_owner and not comm.closed:
            _threads.janitor.put(comm._core.close)  # a live step has a reference to it too

    def __repr__(self) -> str:
        return f"<pccl.Loop of {self.comm!r}>"


def _milliseconds(what: str, seconds: float) -> int:
    try:
        given = math.ceil(float(seconds) * 1000)
    except (TypeError, ValueError, OverflowError):
        given = -1
    if not 0 <= given < 1 << 32:
        raise InvalidArgument(f"loop: {what} is {seconds!r}, expected seconds")
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
    """Returns the steps of a run: `for step in pccl.loop(address, state): with step: ...`. The iteration ends only when
    this peer was drained, by drain() or an operator: after a step that is completed for all, unless no step ends in
    time.

    Before each step the loop admits newcomers, waits until the group has min_peers, and synchronizes the state, so that
    all peers hold the same bits. It joins the run when it begins, and again after the master removed this peer or was
    lost. If an operation fails through a loss, all peers begin the step again: change the state after the step's last
    operation. All peers of the group must use a loop, and make the same operations in each step: they wait for a peer
    that omits one. Leaving the `for` by break or an exception leaves the run; but if the loop is in a variable, only
    `with` and close() do: `with pccl.loop(...) as loop: for step in loop: ...`.

    address: of the master, or a Communicator, which the loop does not close. state: a SharedState, a dictionary of
    buffers by name, or None. A communicator has one loop at most. timeout: seconds to wait for min_peers before
    TimeoutError_. min_peers=1: a peer that is alone continues. connect_timeout: seconds for attempts to join the run;
    one attempt lasts up to connect_retry_ms of them, if the other side accepts connections and closes them. first_step:
    the index of the first step of a new run. options: of the communicator.
    """
    return Loop(address, state, min_peers, timeout, connect_timeout, first_step, options)
