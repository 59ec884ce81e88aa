"""End, fork, kill and output of processes: finalizers, forks, kills, logs."""

import logging
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import support
from support import DEADLINE, TWO

import pccl
from pccl import ReduceOp

START = """
import os, sys, threading, time
import pccl
from pccl import ReduceOp
address = sys.argv[1]
memory = bytearray(400000)

""" + TWO
ENDS = {
    "nothing": "pass",
    "unconnected": "c = pccl.Communicator(address)",
    "connected": "c = pccl.Communicator(address); c.connect()",
    "dropped": "c = pccl.Communicator(address); c.connect(); del c",
    "cycle": "c = pccl.Communicator(address); c.connect(); x = [c]; x.append(x); del x, c",
    "operations open": "a, b = two(); h = a.all_reduce_async(memory, memory, op=ReduceOp.SUM)",
    "handle dropped": "a, b = two(); a.all_reduce_async(memory, memory, op=ReduceOp.SUM)",
    "future open": "a, b = two(); f = a.all_reduce_async(memory, memory, op=ReduceOp.SUM).future()",
    "all dropped": "a, b = two(); a.all_reduce_async(memory, memory, op=ReduceOp.SUM); del a, b",
    "daemon thread waits": "a, b = two(); threading.Thread(target=a.update_topology, daemon=True).start()\n"
    "while not a._core._inside: pass",
    "master interrupted": "m = pccl.MasterNode('127.0.0.1:0'); m.run(); m.interrupt()",
    "master never run": "m = pccl.MasterNode('127.0.0.1:0')",
    "own master": "m = pccl.MasterNode('127.0.0.1:0'); m.run(); c = pccl.Communicator(f'127.0.0.1:{m.port}'); "
    "c.connect(); m.interrupt()",
    "error": "a, b = two(); 1 / 0",
    "exit": "a, b = two(); sys.exit(0)",
    "many lines": "import logging; logging.basicConfig(level=1); pccl.set_log_level(logging.DEBUG); a, b = two()",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_the_interpreter(script, address, end):
    peer = script(START + ENDS[end], address, env={"PCCL_LOG_LEVEL": "NONE"})
    assert peer.end() == (1 if end == "error" else 0), peer.lines
    unwanted = [line for line in peer.lines if "Exception ignored" in line or "Fatal" in line]
    assert not unwanted
    with pccl.Communicator(address) as comm:
        comm.connect(1)  # at once: it has left
        assert comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) == 1


FORKS = START + """
import multiprocessing
a, b = two()
handle = a.all_reduce_async(memory, memory, op=ReduceOp.SUM)
master = pccl.MasterNode("127.0.0.1:0")
master.run()
child = os.fork()
if child == 0:
    calls = {"update": a.update_topology, "pending": a.are_peers_pending, "abort": a.abort,
             "reduce": lambda: b.all_reduce(memory, memory, op=ReduceOp.SUM), "result": handle.result,
             "sync": lambda: b.sync_shared_state(pccl.SharedState([pccl.TensorInfo.from_buffer(bytearray(4), "x")]))}
    for name, call in calls.items():
        try:
            call()
            print("child:", name, "returned", flush=True)
        except pccl.InvalidUsage as error:
            print("child:", name, "fork" in error.words, flush=True)
    print("child: wait", handle.wait()[0], flush=True)
    del handle
    own = pccl.Communicator(f"127.0.0.1:{master.port}")
    own.connect()
    print("child: own", own.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE), flush=True)
    a.close()
    del b
    sys.exit(0)
print("parent:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
other = bytearray(400000)
b.all_reduce(other, other, op=ReduceOp.SUM)
print("parent: reduced", handle.wait()[0], flush=True)
master.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork(script, address):
    """Calls in the child are refused with a reason; it may create a communicator; the parent continues."""
    peer = script(FORKS, address, env={"PYTHONWARNINGS": "ignore"})
    assert peer.end() == 0, peer.lines
    for name in ("update", "pending", "abort", "reduce", "result", "sync"):
        assert f"child: {name} True" in peer.lines, peer.lines
    assert "child: wait False" in peer.lines and "child: own 1" in peer.lines
    assert "parent: 0" in peer.lines and "parent: reduced True" in peer.lines


VICTIM = START + """
comm = pccl.Communicator(address)
comm.connect()
print("in", flush=True)
while True:
    comm.update_topology()
    if comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) == 3:
        break
print("all", flush=True)
comm.all_reduce(memory, memory, op=ReduceOp.SUM, tag=1)
time.sleep(100)
"""


def test_a_peer_is_killed_during_a_reduction(group, script, address):
    """The others fail alike, inputs intact; a retry works, as does the list with retry."""
    two = group(2)
    victim = script(VICTIM, address, env={"PCCL_LOG_LEVEL": "NONE"})
    while support.world(two.members[0]) < 3:
        two.all(lambda comm, _: comm.update_topology())
    victim.line("in")
    two.all(lambda comm, _: comm.update_topology())
    victim.line("all")
    before = support.ids(two.members[0])
    memory = [bytearray([i + 1]) * 400000 for i in range(2)]
    two.all(lambda comm, i: comm.all_reduce(memory[i], bytearray(400000), op=ReduceOp.SUM, tag=1))
    handles = [comm.all_reduce_async(memory[i], memory[i], op=ReduceOp.SUM, tag=2)
               for i, comm in enumerate(two.members)]
    future = handles[0].future()
    victim.kill(signal.SIGKILL)
    for i, handle in enumerate(handles):
        success, status, _ = handle.wait()
        assert (success, status) == (False, pccl.Result.RANK_CONNECTION_LOST)
        error = handle.exception()
        assert isinstance(error, pccl.PeerLostError) and memory[i] == bytearray([i + 1]) * 400000
        assert set(error.peers) == before - support.ids(two.members[i]) and len(error.peers) == 1
        assert (error.operation, error.tag, error.sequence) == ("pcclAwaitAsyncReduce", 2, 0) and error.elapsed > 0
    assert isinstance(future.exception(DEADLINE), pccl.PeerLostError)
    assert future.exception().peers == error.peers
    infos = two.all(lambda comm, i: comm.all_reduce(memory[i], memory[i], op=ReduceOp.SUM, tag=2))
    assert [info.local_world_size for info in infos] == [2, 2] and memory[0] == memory[1] == bytearray([3]) * 400000


def test_a_small_reduction_and_a_list_name_the_dead(group, script, address):
    """Through the master, in a blocking call; and of a list whose caller remains alone."""
    one = group(1, options={"where_ms": 20}).members[0]
    victim = script(VICTIM.replace("== 3", "== 2"), address, env={"PCCL_LOG_LEVEL": "NONE"})
    while support.world(one) < 2:
        one.update_topology()
    victim.line("in")
    one.update_topology()
    victim.line("all")
    one.all_reduce(bytearray(400000), bytearray(400000), op=ReduceOp.SUM, tag=1)
    before = support.ids(one)
    small = bytearray(8)
    handle = one.all_reduce_async(small, small, op=ReduceOp.SUM, tag=3)
    descriptor = pccl.ReduceDescriptor(8, ReduceOp.SUM, 4, pccl.ReduceOperandDescriptor(pccl.DataType.UINT8))
    other = bytearray(8)
    entry = pccl.ReduceOpDescriptor.from_buffers(other, other, descriptor)
    with ThreadPoolExecutor(1) as pool:
        listed = pool.submit(one.all_reduce_multiple_with_retry, [entry])
        while not one.describe_waits():  # so the list has begun
            pass
        victim.kill(signal.SIGKILL)
        error = listed.exception(DEADLINE)
    gone = tuple(before - support.ids(one))
    assert isinstance(error, pccl.TooFewPeersError) and len(gone) == 1
    assert (error.peers, error.sequence) == (gone, None)
    error = handle.exception()
    assert isinstance(error, pccl.PeerLostError) and (error.peers, error.tag, error.sequence) == (gone, 3, 0)
    with pytest.raises(pccl.TooFewPeersError) as caught:
        one.all_reduce(small, small, op=ReduceOp.SUM, tag=3)
    assert (caught.value.peers, caught.value.sequence, caught.value.tag) == ((), None, 3)


def test_nobody_left(group):
    """Failures without a lost peer name none: wrong arguments, arguments that differ, an abort."""
    two = group(2)
    memory = [bytearray(100), bytearray(101)]
    handles = [comm.all_reduce_async(memory[i], memory[i], op=ReduceOp.SUM, tag=5)
               for i, comm in enumerate(two.members)]
    for handle in handles:
        error = handle.exception()
        assert isinstance(error, pccl.StateMismatch) and (error.peers, error.sequence) == ((), 0)
    handle = two.members[0].all_reduce_async(memory[0], memory[0], op=ReduceOp.SUM, tag=5)
    with pytest.raises(pccl.InvalidArgument) as caught:
        two.members[0].all_reduce_async(memory[0], memory[0], op=ReduceOp.SUM, tag=5)
    assert (caught.value.peers, caught.value.sequence, caught.value.tag) == ((), None, 5)
    two.members[0].abort()
    error = handle.exception()
    assert isinstance(error, pccl.AbortedError) and (error.peers, error.sequence) == ((), 1)
    two.all(lambda comm, _: comm.update_topology())  # counts from 0 again
    handle = two.members[0].all_reduce_async(memory[0], memory[0], op=ReduceOp.SUM, tag=5)
    two.members[0].abort()
    assert handle.exception().sequence == 0


def test_dropped_communicators_leave(group):
    two = group(2)
    two.members.pop()
    end = time.monotonic() + DEADLINE
    while support.world(two.members[0]) > 1:
        two.members[0].update_topology()
        assert time.monotonic() < end


@pytest.mark.parametrize("banner, words", [(b"SSH-2.0-somebody of this machine\r\n", "no PCCL master"),
                                           (b"", "is it a master's port?")])
def test_something_else_listens_at_the_address(banner, words):
    """The reason is given, and connecting is not tried again. A server that waits for a known message sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def serve():
            while True:
                connection, _ = server.accept()
                taken.append(connection)
                connection.sendall(banner)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(pccl.ConnectionError_) as caught:
            pccl.Communicator(f"127.0.0.1:{server.getsockname()[1]}").connect()
        assert words in caught.value.words and caught.value.result is pccl.Result.MASTER_CONNECTION_FAILED
        assert len(taken) == 1
        taken[0].close()


def test_an_error_names_the_call_that_failed(group):
    two = group(2)

    def differ(comm, i):
        memory = bytearray(i + 1)
        with pytest.raises(pccl.StateMismatch, match="^pcclAllReduce failed with error: "):
            comm.all_reduce(memory, memory, op=ReduceOp.SUM)
        with pytest.raises(pccl.StateMismatch, match="^pcclAwaitAsyncReduce failed with error: "):
            comm.all_reduce_async(memory, memory, op=ReduceOp.SUM).result(DEADLINE)

    two.all(differ)


LOGGING = {
    "": ["pccl.links: WARNING: 7 words"],
    "logging.basicConfig(format='configured %(message)s')": ["configured 7 words"],
    "logging.getLogger('pccl.links').addHandler(logging.NullHandler())": [],
    "logging.lastResort = None": [],
}


@pytest.mark.parametrize("configured", LOGGING)
def test_warnings_say_whose_they_are(script, configured):
    program = script(f"import logging, pccl; {configured or 0}; logging.getLogger('pccl.links').warning('%d words', 7)")
    assert program.end() == 0 and program.lines == LOGGING[configured]


def test_logs(caplog, address):
    pccl.set_log_level("DEBUG")
    try:
        with caplog.at_level(logging.DEBUG, "pccl"):
            with pccl.Communicator(address) as comm:
                comm.connect()
            end = time.monotonic() + DEADLINE
            while not [record for record in caplog.records if record.name.startswith("pccl")]:
                assert time.monotonic() < end
    finally:
        pccl.set_log_level(logging.WARNING)
    with pytest.raises(ValueError):
        pccl.set_log_level("nonsense")


def test_a_handler_of_logs_that_is_stuck(script, address):
    """It delays neither calls nor the end."""
    text = START + """
import logging
class Stuck(logging.Handler):
    def handle(self, record):  # without its lock, for which logging itself would wait at the end
        print("stuck", flush=True)
        time.sleep(1000)
logging.getLogger("pccl").addHandler(Stuck())
logging.getLogger("pccl").setLevel(logging.DEBUG)
pccl.set_log_level(logging.DEBUG)
a, b = two()
print("done", flush=True)
"""
    peer = script(text, address)
    peer.line("done")
    assert peer.end() == 0


HOLDER = START + """
import ctypes, logging
logging.basicConfig(level=logging.INFO)
pccl.set_log_level("INFO")
comm = pccl.Communicator(address)
comm.connect()
comm.update_topology()
sys.setswitchinterval(1000)
libc = ctypes.PyDLL(None)  # whose calls do not release the interpreter's lock
libc.write(1, b"holding\\n", 8)
libc.sleep(15)
print("let go", flush=True)
comm.update_topology()
comm.all_reduce(memory, memory, op=ReduceOp.SUM)
print("reduced", comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE), flush=True)
"""


@pytest.mark.nightly
@pytest.mark.master(silence_ms=10000, heartbeat_ms=500)
def test_the_interpreters_lock_is_held_while_lines_are_made(group, script, address):
    """For longer than silence_ms: the peer is not removed, because none of its threads waits for the lock."""
    two = group(2)
    holder = script(HOLDER, address, env={"PCCL_LOG_LEVEL": ""})
    while support.world(two.members[0]) < 3:
        two.all(lambda comm, _: comm.update_topology())
    two.all(lambda comm, _: comm.update_topology())
    holder.line("holding")
    two.members.pop().close()
    holder.line("let go")
    here = two.members[0]
    here.update_topology()
    memory = bytearray(400000)
    assert here.all_reduce(memory, memory, op=ReduceOp.SUM).local_world_size == 2
    holder.line("reduced 2")
    assert holder.end() == 0
    assert [line for line in holder.lines if "peers in the group now" in line], holder.lines


def test_lines_that_do_not_fit(script):
    """Handlers that are too slow lose lines, and get their number."""
    text = """
import logging, threading
from pccl import _logging
gate = threading.Event()
class Slow(logging.Handler):
    def handle(self, record):
        gate.wait()
        print(record.getMessage(), flush=True)
logging.getLogger("pccl").addHandler(Slow())
_logging._LINES_MAX = 10
for number in range(20):
    _logging._take(3, b"x", b"line %d" % number, None)
gate.set()
while _logging._relay.lines.qsize():
    pass
_logging._take(3, b"x", b"the next", None)
"""
    program = script(text)
    assert program.end() == 0
    lost = int(program.line("dropped here").split()[0])
    taken = [line for line in program.lines if line.startswith("line ")]
    assert lost + len(taken) == 20 and taken == [f"line {number}" for number in range(len(taken))]
    assert program.lines.index("the next") == len(program.lines) - 1


def test_who_is_waited_for(group):
    """describe_waits, called while another thread is blocked."""
    two = group(2, options={"where_ms": 20})
    thread = threading.Thread(target=two.members[0].update_topology)
    thread.start()
    end = time.monotonic() + DEADLINE
    while not two.members[0].describe_waits():
        assert time.monotonic() < end
    two.members[1].update_topology()
    thread.join(DEADLINE)
    assert not thread.is_alive()
