"""Exceptions. All derive from PCCLError and, where possible, from the corresponding built-in exception."""

from __future__ import annotations

import builtins
from typing import Any, Dict, Iterable, Optional, Tuple, Type, Union

from . import _native
from ._results import Result, result_name

# Result in PCCL 1.0 for a precise code that is not in _BASES, by function; RANK_CONNECTION_LOST for all others.
_LOSSES = {
    "pcclConnect": Result.MASTER_CONNECTION_FAILED,
    "pcclUpdateTopology": Result.UPDATE_TOPOLOGY_FAILED,
    "pcclOptimizeTopology": Result.TOPOLOGY_OPTIMIZATION_FAILED,
    "pcclArePeersPending": Result.INVALID_USAGE,
    "pcclSynchronizeSharedState": Result.INVALID_USAGE,
}
_BASES = {
    Result.VERSION_MISMATCH: Result.MASTER_CONNECTION_FAILED,
    Result.REFUSED: Result.MASTER_CONNECTION_FAILED,
    Result.PEER_MISMATCH: Result.INVALID_USAGE,
    Result.UNSUPPORTED: Result.INVALID_USAGE,
    Result.OUT_OF_MEMORY: Result.INTERNAL_ERROR,
}


def base_result(function: str, code: int) -> int:
    """Returns the result that PCCL 1.0 has for this code."""
    if code <= Result.TOPOLOGY_OPTIMIZATION_FAILED:
        return code
    try:
        known = Result(code)
    except ValueError:
        return code
    return int(_BASES.get(known, _LOSSES.get(function, Result.RANK_CONNECTION_LOST)))


class PCCLError(Exception):
    """A call failed.

    result     the code of PCCL 1.0
    ext        the precise code, or the same as result
    reason     the reason as a sentence, from the library or this package; `words` is an alias
    operation  name of the C function, or "" if it was not reached
    tag        tag of the operation, or None
    sequence   number of the operation within its tag, the same on all peers; None if it was not launched
    peers      ids (as in get_topology()) of up to 16 peers that left the group during the call or operation
    names      names of these peers, in the same order; "" if unknown
    elapsed    seconds since the call or operation began, or None
    """

    def __init__(
        self,
        message: Union[str, int] = "",
        func_name: str = "",
        *,
        result: int = Result.INVALID_ARGUMENT,
        ext: Optional[int] = None,
        reason: Optional[str] = None,
        operation: str = "",
        tag: Optional[int] = None,
        sequence: Optional[int] = None,
        peers: Iterable[str] = (),
        names: Iterable[str] = (),
        elapsed: Optional[float] = None,
    ) -> None:
        if isinstance(message, int):  # PCCL 1.0 called PCCLError(result, func_name)
            result, message = message, ""
        if func_name:
            message, operation = _headline(func_name, result), func_name
        super().__init__(message)
        self.message = message
        self.result = _as_result(result)
        self.ext = _as_result(result if ext is None else ext)
        self.reason = message if reason is None else reason
        self.operation = operation
        self.tag = tag
        self.sequence = sequence
        self.peers = tuple(peers)
        self.names = tuple(names)
        self.elapsed = elapsed

    @property
    def words(self) -> str:
        """Alias of reason."""
        return self.reason

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))

    @staticmethod
    def check(result: int, func_name: str) -> None:
        """Raises the exception for a C function's result, unless it is SUCCESS."""
        if result != Result.SUCCESS:
            raise failure(func_name, result, _native.Why(""))


def raise_if(error: Optional[BaseException]) -> None:
    """Raises the error unless it is None. Then drops this frame's reference to it: the error and its traceback would
    form a cycle that keeps the caller's buffers alive until the garbage collector runs."""
    if error is not None:
        try:
            raise error
        finally:
            del error


def _headline(function: str, code: int) -> str:
    return f"{function} failed with error: {result_name(code)}"


def _as_result(code: int) -> Result:
    try:
        return Result(code)
    except ValueError:
        return Result.INTERNAL_ERROR


def _rebuild(kind: Type[PCCLError], message: str, state: Dict[str, Any]) -> PCCLError:
    error = kind(message)
    error.__dict__.update(state)
    return error


class NotInitialized(PCCLError):
    """The library is not initialized. Cannot occur, because importing the package initializes it."""


class InternalError(PCCLError):
    """A resource is exhausted, or the library has a bug."""


class InvalidArgument(PCCLError, ValueError):
    """An argument is invalid regardless of the state; nothing was changed."""


class LayoutError(InvalidArgument, AssertionError):
    """A buffer is not contiguous, has the wrong size, is read-only, or is not in this process's memory. Also an
    AssertionError, for compatibility with PCCL 1.0."""


class DTypeError(InvalidArgument, TypeError, AssertionError):
    """A data type is not supported, or does not match another one."""


class InvalidUsage(PCCLError):
    """The call is not allowed in this state, or contradicts the calls of other peers."""


class NotConnected(InvalidUsage):
    """The communicator is closed."""


class StateMismatch(InvalidUsage):
    """Peers called the same operation with different arguments. The reason names the peers and the arguments."""


class Unsupported(InvalidUsage, NotImplementedError):
    """Not supported by this version."""


class TooFewPeersError(PCCLError):
    """The group has fewer than two peers."""


class PendingAsyncOpsError(PCCLError):
    """Launched operations have not been awaited yet."""


class TopologyError(PCCLError):
    """The topology could not be updated or optimized."""


class PeerLostError(PCCLError):
    """A peer was lost, and the operation failed on all peers of the group. A retry with the remaining peers usually
    succeeds."""


class AbortedError(PCCLError):
    """A caller aborted the operation."""


class TimeoutError_(PCCLError, builtins.TimeoutError):
    """A deadline passed: `op_timeout_ms` of a reduction, `call_timeout_ms` of a call that all peers make together,
    `stuck_ms` of calls that wait for each other, or the timeout passed to result(). The reason names the missing peers
    and, after `stuck_ms`, the call to add or remove. All peers may still be in the group, so the same call may fail
    again."""


class ConnectionError_(PCCLError, builtins.ConnectionError):
    """The run could not be joined, or was lost."""


class MasterLostError(ConnectionError_):
    """The master did not return in time."""


class ExpelledError(ConnectionError_):
    """The master removed this peer from the run. After connect() this peer is a newcomer."""


class DrainedError(ExpelledError):
    """This peer was drained, by drain() or by an operator. After drain() the communicator does not connect again."""


class RefusedError(ConnectionError_):
    """The master refused this peer."""


class VersionMismatchError(ConnectionError_):
    """The master at this address has an incompatible version, or the address belongs to another service."""


class MembersChangedError(PCCLError):
    """The group's members differ from those that the caller required. Start over with the current members."""


class OutOfMemory(InternalError, MemoryError):
    """The system is out of memory."""


# Failures caused by the loss of a peer or of the master, rather than by an error in the program.
LOSS_ERRORS = (
    PeerLostError,
    TooFewPeersError,
    MembersChangedError,
    AbortedError,
    TimeoutError_,
    ExpelledError,
    MasterLostError,
)

_KINDS: Dict[int, Type[PCCLError]] = {
    Result.NOT_INITIALIZED: NotInitialized,
    Result.INTERNAL_ERROR: InternalError,
    Result.INVALID_ARGUMENT: InvalidArgument,
    Result.INVALID_USAGE: InvalidUsage,
    Result.TOO_FEW_PEERS: TooFewPeersError,
    Result.MASTER_CONNECTION_FAILED: ConnectionError_,
    Result.RANK_CONNECTION_FAILED: PeerLostError,
    Result.RANK_CONNECTION_LOST: PeerLostError,
    Result.PENDING_ASYNC_OPS: PendingAsyncOpsError,
    Result.UPDATE_TOPOLOGY_FAILED: TopologyError,
    Result.TOPOLOGY_OPTIMIZATION_FAILED: TopologyError,
    Result.TIMEOUT: TimeoutError_,
    Result.ABORTED: AbortedError,
    Result.VERSION_MISMATCH: VersionMismatchError,
    Result.PEER_MISMATCH: StateMismatch,
    Result.EXPELLED: ExpelledError,
    Result.DRAINED: DrainedError,
    Result.MASTER_LOST: MasterLostError,
    Result.OUT_OF_MEMORY: OutOfMemory,
    Result.UNSUPPORTED: Unsupported,
    Result.REFUSED: RefusedError,
    Result.MEMBERS_CHANGED: MembersChangedError,
}


def failure(
    function: str, code: int, why: _native.Why, *, tag: Optional[int] = None, elapsed: Optional[float] = None
) -> PCCLError:
    """Returns the exception for a failed call of the C interface."""
    code = why.precise or code
    base = base_result(function, code)
    reason = why.reason
    if not reason and code != Result.SUCCESS:
        reason = _native.lib.pcclGetErrorString(code).decode()
    message = _headline(function, base)
    if reason:
        message += f": {reason}"
    return _KINDS.get(code, PCCLError)(
        message,
        result=base,
        ext=code,
        reason=reason,
        operation=function,
        tag=tag,
        sequence=why.sequence,
        peers=why.peers,
        names=why.names,
        elapsed=elapsed,
    )


def not_connected(what: str, advice: str = "", tag: Optional[int] = None) -> NotConnected:
    reason = f"{what}: the communicator is closed" + (f"; {advice}" if advice else "")
    return NotConnected(reason, result=Result.INVALID_USAGE, tag=tag)
