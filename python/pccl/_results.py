"""Result codes of the C interface, with the names of PCCL 1.0's Python package."""

from __future__ import annotations

import enum


class _Code(enum.IntEnum):
    """An integer enumeration that prints by name in every version of Python."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class Result(_Code):
    SUCCESS = 0
    NOT_INITIALIZED = 1
    INTERNAL_ERROR = 2
    INVALID_ARGUMENT = 3
    INVALID_USAGE = 4
    TOO_FEW_PEERS = 5
    MASTER_CONNECTION_FAILED = 6
    RANK_CONNECTION_FAILED = 7
    RANK_CONNECTION_LOST = 8
    NO_SHARED_STATE_AVAILABLE = 9
    PENDING_ASYNC_OPS = 10
    UPDATE_TOPOLOGY_FAILED = 11
    TOPOLOGY_OPTIMIZATION_FAILED = 12
    # Not in PCCL 1.0. Found in PCCLError.ext; PCCLError.result has PCCL 1.0's code instead.
    TIMEOUT = 13
    ABORTED = 14
    VERSION_MISMATCH = 15
    PEER_MISMATCH = 16
    EXPELLED = 17
    MASTER_LOST = 18
    OUT_OF_MEMORY = 19
    UNSUPPORTED = 20
    REFUSED = 21
    MEMBERS_CHANGED = 22
    DRAINED = 23


def result_name(code: int) -> str:
    try:
        return Result(code).name
    except ValueError:
        return f"UNKNOWN_{code}"
