"""Exceptions. All derive from PCCLError and, where there is one, from the matching exception of
Python."""

from __future__ import annotations

import builtins
from typing import Any, Dict, Iterable, Optional, Tuple, Type, Union

from . import _native
from ._results import Result, result_name

# What PCCL 1.0 returns where the library has a more precise code, by function; RANK_CONNECTION_LOST for reductions.
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
    """The code that PCCL 1.0 has for this one."""
    if code <= Result.TOPOLOGY_OPTIMIZATION_FAILED:
        return code
    try:
        known = Result(code)
    except ValueError:
        return code
    return int(_BASES.get(known, _LOSSES.get(function, Result.RANK_CONNECTION_LOST)))


class PCCLError(Exception):
    """A call failed.

    result     the code that PCCL 1.0 has for it
    ext        the more precise one, or the same
    reason     why, as a sentence of the library or this package; `words` is the same
    operation  the function of the C interface, or "" if it was not reached
    tag        the tag of the reduction, or None
    sequence   its number within the tag, the same on all peers; None if it was not launched
    peers      ids of those who left the group during the call or operation, at most 16, as get_topology() lists them
    names      their names, in the same order; "" if unknown
    elapsed    seconds from the beginning of the call or operation, or None
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
        if isinstance(message, int):  # PCCLError(result, func_name), as in PCCL 1.0
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
        """The reason."""
        return self.reason

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Tuple[Any, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))

    @staticmethod
    def check(result: int, func_name: str) -> None:
        """Raises the exception for the result of this C function unless it is SUCCESS."""
        if result != Result.SUCCESS:
            raise failure(func_name, result, _native.Why(""))


def raise_if(error: Optional[BaseException]) -> None:
    """Raises it, unless it is None. No frame keeps it: an error that its own traceback keeps would keep the caller's
    buffers with it, until Python looks for cycles."""
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
    """The library was not initialized. Does not occur, as importing the package initializes it."""


class InternalError(PCCLError):
    """A resource is short, or the library has a bug."""


class InvalidArgument(PCCLError, ValueError):
    """An argument is invalid in any state; nothing was changed."""


class LayoutError(InvalidArgument, AssertionError):
    """A buffer is not contiguous, has the wrong size, is read-only, or is not in the memory of this
    process.

    An AssertionError too, because that is what PCCL 1.0 raises.
    """


class DTypeError(InvalidArgument, TypeError, AssertionError):
    """A data type that cannot be sent, or does not match another one."""


class InvalidUsage(PCCLError):
    """The call is not allowed now, or contradicts the calls of other peers."""


class NotConnected(InvalidUsage):
    """The communicator is closed."""


class StateMismatch(InvalidUsage):
    """Peers called the same operation with different arguments; the reason says who and in what."""


class Unsupported(InvalidUsage, NotImplementedError):
    """Not supported by this version."""


class TooFewPeersError(PCCLError):
    """The group has fewer than two peers."""


class PendingAsyncOpsError(PCCLError):
    """Operations are launched and not yet awaited."""


class TopologyError(PCCLError):
    """The topology could not be updated or optimized."""


class PeerLostError(PCCLError):
    """A peer was lost and the operation failed on all peers of the group; usually a retry with the
    remaining ones succeeds."""


class AbortedError(PCCLError):
    """A caller aborted the operation."""


class TimeoutError_(PCCLError, builtins.TimeoutError):
    """A deadline passed: `op_timeout_ms` of a reduction, `call_timeout_ms` of a joint call, or
    `stuck_ms` of calls that can never meet; or only that of result(timeout). The reason names who was
    missing and, after `stuck_ms`, which call to add or to leave out. Perhaps nobody has left, so the
    same call may fail again."""


class ConnectionError_(PCCLError, builtins.ConnectionError):
    """The run could not be joined, or was lost."""


class MasterLostError(ConnectionError_):
    """The master did not come back in time."""


class ExpelledError(ConnectionError_):
    """The master removed this peer from the run; connect() makes it a newcomer."""


class DrainedError(ExpelledError):
    """This peer was drained, by drain() or an operator. After drain() the communicator does not connect again."""


class RefusedError(ConnectionError_):
    """The master refused this peer."""


class VersionMismatchError(ConnectionError_):
    """The address leads to a master of another version, or to no master."""


class MembersChangedError(PCCLError):
    """The members are not those that a caller counted on: begin again with the members that there are now."""


class OutOfMemory(InternalError, MemoryError):
    """Memory is short."""


# Failures of an operation through a loss, not through a mistake of the program.
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
    """The exception for a failed call of the C interface."""
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
