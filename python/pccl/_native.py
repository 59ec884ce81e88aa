"""Finds and loads the C library and declares its functions. Does not depend on their semantics.

For development, the environment variable PCCL_LIBRARY selects a library other than the bundled one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import warnings
from ctypes import POINTER, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_size_t, c_uint16, c_uint32, c_uint64
from ctypes import c_void_p
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

_HERE = Path(__file__).resolve().parent
_FILE = {"darwin": "libpccl.1.dylib", "win32": "pccl.dll"}.get(sys.platform, "libpccl.so.1")


class ReduceOperandDescriptorC(ctypes.Structure):
    _fields_ = [("datatype", c_int), ("distribution_hint", c_int)]


class QuantizationOptionsC(ctypes.Structure):
    _fields_ = [("quantized_datatype", c_int), ("algorithm", c_int)]


class CodecParamsC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("format", c_int),
        ("block", c_uint32),
        ("scale", c_int),
        ("rounding", c_int),
        ("feedback", c_bool),
        ("budget_ms", c_uint32),
        ("budget_percent", c_uint32),
    ]


class CodecErrorC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("largest", c_double),
        ("rms", c_double),
        ("not_finite", c_uint64),
        ("packed_bytes", c_uint64),
    ]


class ProgressC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("call", c_int),
        ("elapsed_ms", c_uint64),
        ("done", c_uint64),
        ("total", c_uint64),
        ("rate", c_uint64),
        ("remaining_ms", c_uint64),
    ]


class ReduceDescriptorC(ctypes.Structure):
    _fields_ = [
        ("count", c_size_t),
        ("op", c_int),
        ("tag", c_uint64),
        ("src_descriptor", ReduceOperandDescriptorC),
        ("quantization_options", QuantizationOptionsC),
    ]


class ReduceOpDescriptorC(ctypes.Structure):
    _fields_ = [("sendbuf", c_void_p), ("recvbuf", c_void_p), ("descriptor", ReduceDescriptorC)]


class ReduceInfoC(ctypes.Structure):
    _fields_ = [("local_world_size", c_uint32), ("tx_bytes", c_uint64), ("rx_bytes", c_uint64)]


class PeerIdC(ctypes.Structure):
    _fields_ = [("digits", c_char * 33)]


@functools.lru_cache(maxsize=None)
def ids_type(count: int) -> Any:
    """Returns the type of an array of ids. The result is cached, because ctypes takes long to create array types and
    frees them when unused."""
    return PeerIdC * count


class CollectiveOptionsC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tag", c_uint64),
        ("label", c_char_p),
        ("members", c_void_p),
        ("member_count", c_uint32),
        ("alone_ok", c_bool),
        ("quantization", QuantizationOptionsC),
        ("counts", c_void_p),
        ("counts_length", c_uint32),
        ("max_bytes", c_uint64),
        ("factor", c_double),
        ("on_arrival", c_void_p),
        ("user_data", c_void_p),
    ]


class VerdictC(ctypes.Structure):
    _fields_ = [
        ("verdict_class", c_uint32),
        ("for_ms", c_uint32),
        ("number", c_uint64),
        ("peer", PeerIdC),
        ("other", PeerIdC),
        ("name", c_char * 32),
        ("evidence", c_char * 512),
        ("action", c_char * 512),
    ]


class CoalescedTensorC(ctypes.Structure):
    _fields_ = [("sendbuf", c_void_p), ("recvbuf", c_void_p), ("count", c_size_t), ("datatype", c_int), ("op", c_int)]


class BlobC(ctypes.Structure):
    _fields_ = [("peer", PeerIdC), ("data", c_void_p), ("length", c_size_t)]


ArrivalCallback = ctypes.CFUNCTYPE(None, POINTER(BlobC), c_void_p)


class PartC(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("length", c_size_t)]


class BlobsC(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("count", c_size_t), ("blobs", POINTER(BlobC)), ("bytes", c_size_t)]


class GroupOptionsC(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("label", c_char_p), ("timeout_ms", c_uint32)]


class OperationInfoC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tag", c_uint64),
        ("sequence", c_uint64),
        ("tx_bytes", c_uint64),
        ("rx_bytes", c_uint64),
        ("world", c_uint32),
        ("rank", c_uint32),
        ("participants", c_void_p),
        ("participants_max", c_size_t),
        ("codec", c_int),
        ("why", c_char * 128),
    ]


class OperationC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("collective", c_int),
        ("sendbuf", c_void_p),
        ("recvbuf", c_void_p),
        ("count", c_size_t),
        ("datatype", c_int),
        ("op", c_int),
        ("root", c_uint32),
        ("options", c_void_p),
        ("info", c_void_p),
        ("blobs", c_void_p),
    ]


class RebuildC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("members", POINTER(PeerIdC)),
        ("member_count", c_uint32),
        ("rank", c_uint32),
        ("operations", POINTER(OperationC)),
        ("entries", POINTER(c_size_t)),
        ("entry_count", c_size_t),
    ]


RebuildCallback = ctypes.CFUNCTYPE(c_bool, POINTER(RebuildC), c_void_p)


class RunOptionsC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("max_in_flight", c_uint32),
        ("rebuild", RebuildCallback),
        ("user_data", c_void_p),
    ]


class AsyncReduceOpC(ctypes.Structure):
    _fields_ = [("comm", c_void_p), ("tag", c_uint64)]


class TensorInfoC(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("data", c_void_p),
        ("count", c_size_t),
        ("datatype", c_int),
        ("device_type", c_int),
        ("allow_content_inequality", c_bool),
    ]


class SharedStateC(ctypes.Structure):
    _fields_ = [("revision", c_uint64), ("count", c_size_t), ("infos", POINTER(TensorInfoC))]


class SharedStateSyncInfoC(ctypes.Structure):
    _fields_ = [("tx_bytes", c_uint64), ("rx_bytes", c_uint64)]


class LoopOptionsC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("min_peers", c_uint32),
        ("wait_ms", c_uint32),
        ("connect_ms", c_uint32),
        ("first_step", c_uint64),
    ]


class LoopStepC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("number", c_uint64),
        ("revision", c_uint64),
        ("tx_bytes", c_uint64),
        ("rx_bytes", c_uint64),
        ("world", c_uint32),
        ("rank", c_uint32),
        ("again", c_bool),
        ("joined", c_bool),
        ("diverged", c_bool),
    ]


class BuildInfoC(ctypes.Structure):
    _fields_ = [("has_cuda_support", c_bool)]


class ParameterInfoC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("name", c_char_p),
        ("env", c_char_p),
        ("default_value", c_char_p),
        ("min_value", c_char_p),
        ("max_value", c_char_p),
        ("help", c_char_p),
        ("scope", c_int),
    ]


class FailureC(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("result", c_int),
        ("launched", c_bool),
        ("tag", c_uint64),
        ("sequence", c_uint64),
        ("peer_count", c_uint32),
        ("peers", c_char * 33 * 16),
        ("precise", c_uint32),
    ]


LogCallback = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_char_p, c_void_p)

ANY_PEER = 0xFFFFFFFF  # for pcclRecv: receives from any sender
_LAUNCH = c_void_p, c_void_p, POINTER(AsyncReduceOpC)  # options, communicator, handle
_LAUNCH_OF_BLOBS = c_void_p, c_void_p, c_void_p, c_void_p

# Functions not listed in _RETURNS return a pcclResult_t.
_ARGUMENTS: Dict[str, List[Any]] = {
    "pcclInit": [],
    "pcclGetBuildInfo": [POINTER(BuildInfoC)],
    "pcclGetVersion": [],
    "pcclGetErrorString": [c_int],
    "pcclGetLastError": [c_void_p],
    "pcclGetLastFailure": [c_void_p, POINTER(FailureC)],
    "pcclGetPeerId": [c_void_p, c_char_p, c_size_t],
    "pcclGetPeerName": [c_void_p, c_char_p, c_char_p, c_size_t],
    "pcclDescribeWaits": [c_void_p, c_char_p, c_size_t],
    "pcclDumpFlightRecorder": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "pcclGetVerdicts": [c_void_p, POINTER(VerdictC), c_size_t, POINTER(c_size_t)],
    "pcclSetLogCallback": [LogCallback, c_void_p],
    "pcclSetLogLevel": [c_int],
    "pcclGetParameterCount": [],
    "pcclGetParameterInfo": [c_size_t, POINTER(ParameterInfoC)],
    "pcclCreateOptions": [POINTER(c_void_p)],
    "pcclSetOption": [c_void_p, c_char_p, c_char_p],
    "pcclGetOption": [c_void_p, c_char_p, c_char_p, c_size_t],
    "pcclDestroyOptions": [c_void_p],
    "pcclCreateCommunicatorWithOptions": [c_char_p, c_void_p, POINTER(c_void_p)],
    "pcclCreateCodec": [POINTER(CodecParamsC), POINTER(QuantizationOptionsC)],
    "pcclGetFeedback": [c_void_p, c_uint64, c_void_p, POINTER(c_size_t)],
    "pcclSetFeedback": [c_void_p, c_uint64, c_void_p, c_size_t],
    "pcclMeasureCodec": [POINTER(QuantizationOptionsC), c_void_p, c_size_t, c_int, POINTER(CodecErrorC)],
    "pcclGetSparseBytes": [c_size_t, c_uint32, POINTER(c_size_t)],
    "pcclPackSparse": [c_void_p, c_size_t, c_uint32, c_void_p, c_size_t],
    "pcclCheckSparse": [c_void_p, c_size_t, c_size_t, c_uint32, POINTER(c_double)],
    "pcclAddSparse": [c_void_p, c_size_t, c_size_t, c_uint32, c_float, c_void_p],
    "pcclConnect": [c_void_p],
    "pcclCloseCommunicator": [c_void_p],
    "pcclDrain": [c_void_p],
    "pcclDestroyCommunicator": [c_void_p],
    "pcclGetAttribute": [c_void_p, c_int, POINTER(c_int)],
    "pcclUpdateTopology": [c_void_p],
    "pcclArePeersPending": [c_void_p, POINTER(c_bool)],
    "pcclOptimizeTopology": [c_void_p],
    "pcclGetProgress": [c_void_p, POINTER(ProgressC)],
    "pcclReportTraining": [c_void_p, c_uint64, c_double],
    "pcclGetTopology": [c_void_p, c_char_p, c_size_t, POINTER(c_size_t)],
    "pcclAwaitOperation": [POINTER(AsyncReduceOpC), c_uint32, POINTER(OperationInfoC)],
    "pcclTestAsyncReduce": [POINTER(AsyncReduceOpC), POINTER(c_bool)],
    "pcclSetOperationLabel": [c_char_p],
    "pcclAbortOperations": [c_void_p],
    "pcclAllReduceMultipleWithRetry": [POINTER(ReduceOpDescriptorC), c_size_t, c_void_p, POINTER(ReduceInfoC), c_int],
    "pcclGetMembers": [c_void_p, c_void_p, c_size_t, POINTER(c_size_t), POINTER(c_uint32)],
    "pcclCreateGroup": [c_void_p, c_void_p, c_uint32, POINTER(GroupOptionsC), POINTER(c_void_p)],
    "pcclAllReduceWithOptionsAsync": [c_void_p, c_void_p, c_size_t, c_int, c_int, *_LAUNCH],
    "pcclAllReduceWithOptionsFor": [
        *[c_void_p, c_void_p, c_size_t, c_int, c_int],
        *[POINTER(CollectiveOptionsC), c_void_p, c_uint32, POINTER(AsyncReduceOpC)],
    ],
    "pcclAllReduceCoalescedAsync": [c_void_p, c_size_t, *_LAUNCH],
    "pcclBroadcastAsync": [c_void_p, c_size_t, c_int, c_uint32, *_LAUNCH],
    "pcclAllGatherAsync": [c_void_p, c_void_p, c_size_t, c_int, *_LAUNCH],
    "pcclAllGatherVAsync": [c_void_p, c_size_t, *_LAUNCH_OF_BLOBS],
    "pcclGatherVAsync": [c_void_p, c_size_t, c_uint32, *_LAUNCH_OF_BLOBS],
    "pcclScatterVAsync": [c_void_p, c_size_t, c_uint32, *_LAUNCH_OF_BLOBS],
    "pcclAllToAllVAsync": [c_void_p, c_size_t, *_LAUNCH_OF_BLOBS],
    "pcclFreeBlobs": [POINTER(BlobsC)],
    "pcclReduceScatterAsync": [c_void_p, c_void_p, c_size_t, c_int, c_int, *_LAUNCH],
    "pcclReduceAsync": [c_void_p, c_void_p, c_size_t, c_int, c_int, c_uint32, *_LAUNCH],
    "pcclExclusiveScanAsync": [c_void_p, c_void_p, c_size_t, c_int, c_int, *_LAUNCH],
    "pcclInclusiveScanAsync": [c_void_p, c_void_p, c_size_t, c_int, c_int, *_LAUNCH],
    "pcclGatherAsync": [c_void_p, c_void_p, c_size_t, c_int, c_uint32, *_LAUNCH],
    "pcclScatterAsync": [c_void_p, c_void_p, c_size_t, c_int, c_uint32, *_LAUNCH],
    "pcclAllToAllAsync": [c_void_p, c_void_p, c_size_t, c_int, *_LAUNCH],
    "pcclSendAsync": [c_void_p, c_size_t, c_int, c_uint32, *_LAUNCH],
    "pcclRecvAsync": [c_void_p, c_size_t, c_int, c_uint32, *_LAUNCH],
    "pcclBarrierAsync": [*_LAUNCH],
    "pcclRunOperations": [POINTER(OperationC), c_size_t, POINTER(RunOptionsC), c_void_p],
    "pcclSynchronizeSharedState": [c_void_p, POINTER(SharedStateC), c_int, POINTER(SharedStateSyncInfoC)],
    "pcclLoopBegin": [c_void_p, POINTER(SharedStateC), POINTER(LoopOptionsC), POINTER(c_void_p)],
    "pcclLoopNext": [c_void_p, c_int, POINTER(LoopStepC)],
    "pcclLoopEnd": [c_void_p],
    "pcclCreateMasterWithOptions": [c_char_p, c_void_p, POINTER(c_void_p)],
    "pcclRunMaster": [c_void_p],
    "pcclMasterGetPort": [c_void_p, POINTER(c_uint16)],
    "pcclInterruptMaster": [c_void_p],
    "pcclReloadMaster": [c_void_p],
    "pcclMasterAwaitTermination": [c_void_p],
    "pcclDestroyMaster": [c_void_p],
}
_RETURNS: Dict[str, Any] = {
    "pcclGetVersion": c_uint32,
    "pcclGetErrorString": c_char_p,
    "pcclGetLastError": c_char_p,
    "pcclGetParameterCount": c_size_t,
}


def _candidates() -> Tuple[str, ...]:
    chosen = os.environ.get("PCCL_LIBRARY")
    if chosen:
        return (chosen,)
    bundled = _HERE / _FILE
    # A package without a library uses an installed one, which the system's loader finds.
    return (str(bundled),) if bundled.exists() else (_FILE,)


def _load() -> ctypes.CDLL:
    problems = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)  # also on Windows: the functions have C's calling convention
            for name, arguments in _ARGUMENTS.items():
                function = getattr(library, name)
                function.argtypes = arguments
                function.restype = _RETURNS.get(name, c_int)
            return library
        except (OSError, AttributeError) as error:
            problems.append(f"{path}: {error}")
    raise ImportError(
        f"cannot find the C library of pccl beside the package ({_HERE}) or at PCCL_LIBRARY: "
        + "; ".join(problems)
    )


def _warn_of_namesakes(folder: Path) -> None:
    """Warns of other distributions in the folder whose package is also called pccl: pip overwrites files that both
    contain."""
    for name in ("pccl", "pypccl"):
        if any(folder.glob(f"{name}-*.dist-info")):
            warnings.warn(
                f"the distribution {name} is installed beside pccl-peers and has files of the same names: "
                f"uninstall {name} and pccl-peers, then install pccl-peers again",
                RuntimeWarning,
                stacklevel=2,
            )


_warn_of_namesakes(Path(__file__).parent.parent)
lib = _load()


class Why(NamedTuple):
    """The reason why a call failed, with details. precise: a code that is more specific than the call's result."""

    reason: str
    sequence: Optional[int] = None
    peers: Tuple[str, ...] = ()
    names: Tuple[str, ...] = ()
    precise: Optional[int] = None


class _Label(threading.local):
    now = b""


_label = _Label()


def labeled(label: bytes, call: Callable[[], int]) -> int:
    """Runs call() with this label for the operations it launches; "" means none. A signal handler may launch operations
    between setting the label and the launch, so the previous label is restored."""
    outer = _label.now
    if not label and not outer:
        return call()
    _label.now = label
    try:
        return lib.pcclSetOperationLabel(label) or call()
    finally:
        _label.now = outer
        if outer != label:
            lib.pcclSetOperationLabel(outer)


def peer_name(comm: Any, peer: bytes) -> str:
    """Returns the name of the peer with this id; "" if it is unknown."""
    name = ctypes.create_string_buffer(65)
    lib.pcclGetPeerName(comm, peer, name, len(name))
    return name.value.decode("utf-8", "replace")


def member_count(comm: Any) -> int:
    """Returns the number of members of the group; 0 if the communicator is not connected."""
    count = c_size_t()
    lib.pcclGetMembers(comm, None, 0, ctypes.byref(count), None)
    return count.value


def last_failure(comm: Any = None) -> Why:
    """Returns the reason why the calling thread's last failed call on this communicator failed."""
    text: bytes = lib.pcclGetLastError(comm) or b""
    known = FailureC(size=ctypes.sizeof(FailureC))
    lib.pcclGetLastFailure(comm, ctypes.byref(known))
    peers = [known.peers[i].value for i in range(min(known.peer_count, len(known.peers)))]
    return Why(
        text.decode("utf-8", "replace"),
        known.sequence if known.launched else None,
        tuple(peer.decode() for peer in peers),
        tuple(peer_name(comm, peer) for peer in peers),
        known.precise or None,
    )


def version() -> str:
    number: int = lib.pcclGetVersion()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
