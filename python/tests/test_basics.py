"""Tests with at most one peer: import, enumerations, addresses, options, errors, master."""

import contextlib
import pickle
import re
import socket
import threading
from pathlib import Path

import pytest
from support import DEADLINE, free_port

import pccl
from pccl import Result, _native


def test_version_is_that_of_the_header():
    header = Path(__file__).resolve().parents[2] / "include" / "pccl.h"
    if not header.exists():
        pytest.skip("not in the source tree")
    numbers = re.findall(r"^#define PCCL_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text(), re.MULTILINE)
    assert pccl.__version__ == ".".join(numbers)


def test_names_of_pccl_1_0():
    assert [member.value for member in pccl.DataType] == list(range(15))
    assert pccl.DataType.INT16 == 2 and pccl.DataType.UINT16 == 3 and pccl.DataType.FLOAT32 is pccl.DataType.FLOAT
    assert [op.name for op in pccl.ReduceOp] == "SUM AVG PROD MAX MIN AND OR XOR PREMUL_SUM".split()
    assert pccl.Attribute.LOCAL_WORLD_SIZE == 2 and pccl.DeviceType.CUDA == 1
    assert [s.name for s in pccl.SharedStateSyncStrategy] == ["ENFORCE_POPULAR", "RECEIVE_ONLY", "SEND_ONLY"]
    assert pccl.QuantizationOptions() == pccl.QuantizationOptions(
        pccl.DataType.UINT8, pccl.QuantizationAlgorithm.MIN_MAX
    )
    assert pccl.Result(8).name == "RANK_CONNECTION_LOST" and f"{pccl.Result.SUCCESS}" == "Result.SUCCESS"
    assert isinstance(pccl.cuda.is_available(), bool)


def test_master_run_interrupt():
    node = pccl.MasterNode("127.0.0.1:0")
    for call in (node.interrupt, node.reload):
        with pytest.raises(pccl.InvalidUsage):
            call()
    node.run()
    assert node.port > 0
    node.reload()
    with pytest.raises(pccl.InvalidUsage):
        node.run()
    assert node.wait(0) is False
    node.interrupt()
    node.interrupt()
    assert node.wait(DEADLINE)
    node.close()
    node.close()


def test_master_that_a_defect_has_ended(monkeypatch):
    await_termination = _native.lib.pcclMasterAwaitTermination

    def ended_by_a_defect(handle):
        await_termination(handle)
        return Result.INTERNAL_ERROR

    monkeypatch.setattr(_native.lib, "pcclMasterAwaitTermination", ended_by_a_defect)
    node = pccl.MasterNode("127.0.0.1:0")
    node.run()
    node.interrupt()
    for _ in range(2):
        with pytest.raises(pccl.InternalError):
            node.wait(DEADLINE)


def test_master_again_at_the_same_port():
    address = f"127.0.0.1:{free_port()}"
    node = pccl.MasterNode(address)
    node.run()
    for _ in range(5):
        node.interrupt()
        del node
        node = pccl.MasterNode(address)
        node.run()
    node.close()


def test_master_cannot_bind(master):
    second = pccl.MasterNode(f"127.0.0.1:{master.port}")
    with pytest.raises(pccl.PCCLError, match="pcclRunMaster failed with error: INVALID_USAGE: .*in use"):
        second.run()
    second.close()


@pytest.mark.parametrize("address", ["", "127.0.0.1:99999", "::1:x", "[::1", "a b:1", "127.0.0.1:-1"])
def test_bad_addresses(address):
    for kind in (pccl.Communicator, pccl.MasterNode):
        with pytest.raises(ValueError) as caught:
            kind(address)
        assert isinstance(caught.value, pccl.InvalidArgument) and caught.value.reason == caught.value.words != ""


def test_connect_and_destructor(address):
    comm = pccl.Communicator(address)
    assert comm.connect() is None
    assert comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) == 1
    comm.update_topology()
    assert comm.are_peers_pending() is False
    assert comm.describe_waits() == ""
    with pytest.raises(pccl.InvalidUsage):
        comm.connect()
    del comm


def test_destructor_without_connect(address):
    comm = pccl.Communicator(address)
    del comm


def test_addresses_in_many_forms(master):
    dead = free_port()
    for address in (f"localhost:{master.port}", f"127.0.0.1:{dead},127.0.0.1:{master.port}"):
        with pccl.Communicator(address, 3, 2) as comm:
            comm.connect(1)


def test_ipv6():
    try:
        node = pccl.MasterNode("[::1]:0")
        node.run()
    except pccl.PCCLError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with node_closer(node), pccl.Communicator(f"[::1]:{node.port}") as comm:
        comm.connect(1)
        assert comm.get_attribute(pccl.Attribute.LOCAL_WORLD_SIZE) == 1


class node_closer:
    def __init__(self, node):
        self.node = node

    def __enter__(self):
        return self.node

    def __exit__(self, *_):
        self.node.close()


def test_unconnected():
    comm = pccl.Communicator("127.0.0.1:1")
    for call in (comm.update_topology, comm.are_peers_pending, comm.optimize_topology, comm.abort):
        with pytest.raises(pccl.PCCLError) as caught:
            call()
        assert caught.value.result == pccl.Result.INVALID_USAGE
    with pytest.raises(pccl.PCCLError, match="^pcclUpdateTopology failed with error: INVALID_USAGE"):
        comm.update_topology()
    with pytest.raises(pccl.InvalidUsage):
        comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE)
    comm.close()


def test_no_master_there():
    port = free_port()
    with pccl.Communicator(f"127.0.0.1:{port}") as comm:
        with pytest.raises(Exception) as caught:
            comm.connect(n_attempts=1)
        error = caught.value
        assert isinstance(error, pccl.ConnectionError_) and isinstance(error, ConnectionError)
        assert error.result == pccl.Result.MASTER_CONNECTION_FAILED and str(port) in error.words
        assert error.operation == "pcclConnect" and error.elapsed >= 0


def test_attempts_that_are_closed_do_not_add_up(monkeypatch):
    monkeypatch.setattr("pccl._calls._ATTEMPT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=turn_away, args=(listener,), daemon=True).start()
        with pccl.Communicator(f"127.0.0.1:{listener.getsockname()[1]}", options={"connect_retry_ms": 400}) as comm:
            attempts, attempt = [], comm._joint
            monkeypatch.setattr(comm, "_joint", lambda call: attempts.append(call) or attempt(call))
            with pytest.raises(pccl.ConnectionError_, match="closed every connection"):
                comm.connect(n_attempts=3)
            assert attempts == ["pcclConnect"]  # it took the time of all three
        listener.shutdown(socket.SHUT_RDWR)


def turn_away(listener):
    with contextlib.suppress(OSError):
        while True:
            listener.accept()[0].close()


def test_alone_is_too_few(address):
    memory = bytearray(64)
    with pccl.Communicator(address) as comm:
        comm.connect()
        for reduce in (comm.all_reduce, comm.all_reduce_async):
            with pytest.raises(pccl.PCCLError) as caught:
                reduce(memory, memory, op=pccl.ReduceOp.SUM)
            assert caught.value.result == pccl.Result.TOO_FEW_PEERS
            assert isinstance(caught.value, pccl.TooFewPeersError)
        with pytest.raises(pccl.PCCLError):
            comm.optimize_topology()


def test_closed(address):
    comm = pccl.Communicator(address)
    comm.connect()
    comm.close()
    comm.close()
    assert comm.closed
    for call in (comm.connect, comm.update_topology, comm.abort, comm.describe_waits):
        with pytest.raises(pccl.NotConnected, match="closed"):
            call()
    with pytest.raises(pccl.NotConnected):
        comm.all_reduce(bytearray(1), bytearray(1), op=pccl.ReduceOp.SUM)


def test_options(address):
    with pccl.Communicator(address, options={"call_timeout_ms": 20000, "name": "seven"}) as first:
        first.connect()
        with pccl.Communicator(address, options={"call_timeout_ms": "100", "extended_results": False}) as second:
            with pytest.raises(pccl.TimeoutError_) as caught:  # no peer admits it
                second.connect()
            error = caught.value
            assert isinstance(error, TimeoutError)
            assert (error.result, error.ext) == (pccl.Result.MASTER_CONNECTION_FAILED, pccl.Result.TIMEOUT)
    with pytest.raises(pccl.InvalidArgument, match="call_timeout_ms"):
        pccl.Communicator(address, options={"call_timeout_ms": -1})
    with pytest.raises(ValueError, match="no_such_thing"):
        pccl.MasterNode("127.0.0.1:0", options={"no_such_thing": 1})


def test_parameters():
    found = {parameter.name: parameter for parameter in pccl.parameters()}
    assert found["op_timeout_ms"].scope == "communicator" and found["op_timeout_ms"].env == "PCCL_OP_TIMEOUT_MS"
    assert found["silence_ms"].scope == "master" and found["silence_ms"].default == "10000"
    assert all(parameter.help for parameter in found.values())


def test_errors_can_be_pickled():
    for kind in vars(pccl).values():
        if isinstance(kind, type) and issubclass(kind, pccl.PCCLError):
            error = kind("words", result=8, ext=13, operation="pcclX", tag=7, sequence=2, peers=["ab"], elapsed=0.5)
            again = pickle.loads(pickle.dumps(error))
            assert type(again) is kind and str(again) == "words"
            assert (again.result, again.ext, again.operation, again.tag, again.elapsed) == (
                pccl.Result.RANK_CONNECTION_LOST, pccl.Result.TIMEOUT, "pcclX", 7, 0.5
            )
            assert (again.sequence, again.peers) == (2, ("ab",))
            assert (kind("words").sequence, kind("words").peers) == (None, ())


def test_check():
    assert pccl.PCCLError.check(0, "pcclX") is None
    with pytest.raises(pccl.PeerLostError, match="^pcclX failed with error: RANK_CONNECTION_LOST"):
        pccl.PCCLError.check(8, "pcclX")
    with pytest.raises(pccl.PCCLError, match="^pcclX failed with error: UNKNOWN_99") as caught:
        pccl.PCCLError.check(99, "pcclX")
    assert caught.value.result is pccl.Result.INTERNAL_ERROR
