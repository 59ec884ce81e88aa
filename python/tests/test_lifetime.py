"""Lifetimes: of memory while the library uses it, of the communicator during calls, and of both after a fork or at the
end of the interpreter. Exceptions that may occur at any time are tested at each."""

import array
import ctypes
import gc
import itertools
import os
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import DEADLINE, TWO, parallel

import pccl
from pccl import Attribute, ReduceOp, _core, _native, _threads

np = pytest.importorskip("numpy")

LARGE = 50000


def until(condition):
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


# ---- interrupts


class Interrupt(BaseException):
    pass


def interrupted(call, number):
    """Makes the call and raises after this number of its Python instructions, as a signal handler does. Returns true if
    the call got so far. Omits finalizers: Python drops their exceptions."""
    left = [number]

    def in_finalizer(frame):
        return frame is not None and (frame.f_code.co_name == "__del__" or in_finalizer(frame.f_back))

    def trace(frame, event, _):
        if event == "call":
            if in_finalizer(frame):
                return None
            frame.f_trace_opcodes = True
        elif event == "opcode":
            left[0] -= 1
            if left[0] == -1:
                sys.settrace(None)
                raise Interrupt
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    except Interrupt:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


def test_a_short_call_interrupted_anywhere(group, monkeypatch):
    comm = group(1).members[0]
    for number in itertools.count():
        if not interrupted(lambda: comm.get_attribute(Attribute.GLOBAL_WORLD_SIZE), number):
            break
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(comm.get_attribute, Attribute.GLOBAL_WORLD_SIZE).result(DEADLINE) == 1
        assert comm._core._inside == 0
    assert number > 50
    monkeypatch.setattr(_core, "_LEAVING_S", 10 * DEADLINE)  # no call waits for it
    comm.close()


def test_a_launch_interrupted_anywhere(group):
    """Either nothing was launched, or it is awaited."""
    comm = group(2).members[0]
    memory = bytearray(100)
    for number in itertools.count():
        if not interrupted(lambda: comm.all_reduce_async(memory, memory, op=ReduceOp.SUM, tag=number), number):
            break
        comm.abort()
        until(lambda: not comm._core._dependents)
    assert number > 100
    comm.abort()


@pytest.mark.parametrize("is_over", [False, True])
def test_a_wait_interrupted_anywhere(group, is_over):
    """Other waiting threads get the turn: it is awaited when it has ended."""
    comm = group(2).members[0]
    memory = bytearray(100)
    for number in itertools.count():
        handle = comm.all_reduce_async(memory, memory, op=ReduceOp.SUM, tag=number)
        if is_over:
            comm.abort()
        was_interrupted = interrupted(lambda: handle._operation.wait_here(0), number)
        del handle
        comm.abort()
        until(lambda: not comm._core._dependents)
        if not was_interrupted:
            break
    assert number > 50


# ---- turns


def test_turns_come_in_order():
    turns, had = _threads.Turns(), []
    claims = [turns.claim() for _ in range(4)]

    def wait(name):
        claim = claims[name]
        assert turns.wait_for_turn(claim, DEADLINE)
        had.append(name)
        turns.leave(claim)

    assert turns.wait_for_turn(claims[0], 0) and not turns.wait_for_turn(claims[1], 0)
    assert not turns.wait_for_turn(claims[3], 0.01)
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(wait, name) for name in (3, 2, 1)]
        assert not had
        claims[0] = None  # abandoned
        for other in others:
            other.result(DEADLINE)
    assert had == [1, 2, 3]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_turn_interrupted_anywhere(is_first):
    turns = _threads.Turns()

    def take():
        claim = turns.claim()
        try:
            assert turns.wait_for_turn(claim, 0.01) is is_first
        finally:
            turns.leave(claim)

    for number in itertools.count():
        first = None if is_first else turns.claim()
        was_interrupted = interrupted(take, number)
        del first
        last = turns.claim()
        assert turns.wait_for_turn(last, 0)
        turns.leave(last)
        if not was_interrupted:
            break
    assert number > 30


# ---- close


class Library:
    """The library, with a record of the calls of one function."""

    def __init__(self, library, noted):
        self.library = library
        self.noted = noted
        self.calls = []

    def __getattr__(self, name):
        if name == self.noted:
            self.calls.append(name)
        return getattr(self.library, name)


def test_who_is_about_to_call_when_it_is_closed(group, monkeypatch):
    """The call finds the communicator alive, and is refused; then it is freed."""
    comm = group(1).members[0]
    library = Library(_native.lib, "pcclDestroyCommunicator")
    monkeypatch.setattr(_native, "lib", library)
    monkeypatch.setattr(_core, "_LEAVING_S", 0.05)
    counted, closed = threading.Event(), threading.Event()

    def late(handle):
        counted.set()
        assert closed.wait(DEADLINE)
        assert not library.calls
        return library.pcclGetAttribute(handle, 1, ctypes.byref(ctypes.c_int()))

    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(comm._core.attempt_with, "pcclGetAttribute", late)
        assert counted.wait(DEADLINE)
        comm.close()
        closed.set()
        error = call.result(DEADLINE)
    assert isinstance(error, pccl.InvalidUsage) and "closed" in error.words
    assert library.calls == ["pcclDestroyCommunicator"]
    assert comm._core not in _core.open_cores


def test_a_handle_does_not_keep_the_communicator(group, caplog):
    """Dropping it leaves the run, so that no peer waits for it."""
    two = group(2)
    memory = np.full(LARGE, 1.0)
    handle = two.members[0].all_reduce_async(memory, memory, op=ReduceOp.SUM)
    other = two.members.pop()
    two.members.clear()
    gc.collect()
    assert isinstance(handle.exception(DEADLINE), pccl.AbortedError) and memory[0] == 1
    until(lambda: "a communicator was garbage-collected: 1 of its reductions fail" in caplog.text)
    other.update_topology()
    assert other.get_attribute(Attribute.GLOBAL_WORLD_SIZE) == 1
    other.close()


# ---- memory


def an_array(value):
    """Returns an array and a reference that ends with its memory."""
    memory = np.full(LARGE, float(value), np.float32)
    return memory, weakref.ref(memory)


def test_a_forgotten_reduction_keeps_its_memory(group):
    two = group(2)
    memory, alive = an_array(1)
    two.members[0].all_reduce_async(memory, memory, op=ReduceOp.SUM)
    del memory
    gc.collect()
    assert alive() is not None
    two.members[1].all_reduce(np.ones(LARGE, np.float32), np.ones(LARGE, np.float32), op=ReduceOp.SUM)
    until(lambda: alive() is None)


def test_a_failed_call_keeps_no_buffer(address):
    """The caller may resize its array after the error was handled. The garbage collector does not run."""
    comm = pccl.Communicator(address)
    comm.close()
    gc.disable()
    try:
        for call in comm.all_reduce, comm.all_reduce_async, lambda given: comm.broadcast(given, root=0):
            mine = array.array("d", [1.0, 2.0, 3.0])
            try:
                call(mine)
            except pccl.PCCLError:
                with pytest.raises(pccl.PCCLError):
                    comm.size  # noqa: B018
            mine.pop()
    finally:
        gc.enable()


def test_closing_while_somebody_asks_for_the_end(group, monkeypatch):
    """Memory is released when the library has ended, not when its end is requested."""
    comm = group(2).members[0]
    memory, alive = an_array(1)
    handle = comm.all_reduce_async(memory, memory, op=ReduceOp.SUM)
    del memory
    monkeypatch.setattr(comm._core, "_closing", True)
    success, _, _ = handle.wait()
    assert not success and alive() is not None
    monkeypatch.undo()
    comm.close()
    assert alive() is None


def describe_sum(thing):
    operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
    return pccl.ReduceOpDescriptor.from_buffers(thing, thing, pccl.ReduceDescriptor(LARGE, ReduceOp.SUM, 0, operand))


def test_a_descriptor_keeps_its_memory():
    memory, alive = an_array(1)
    made = describe_sum(memory)
    del memory
    gc.collect()
    assert alive() is not None and made.to_c().sendbuf == made.sendbuf_ptr
    del made
    assert alive() is None


# ---- ends of threads, processes and interpreters


def test_a_callback_ends_nothing(group, caplog):
    two = group(2)

    def leave(_):
        raise SystemExit

    handles = [two.members[0].all_reduce_async(bytearray(100), bytearray(100), op=ReduceOp.SUM, tag=t) for t in (1, 2)]
    handles[0].future().add_done_callback(leave)
    two.members[1].all_reduce(bytearray(100), bytearray(100), op=ReduceOp.SUM, tag=1)
    assert handles[0].future().result(DEADLINE).local_world_size == 2
    later = handles[1].future()
    two.members[1].all_reduce(bytearray(100), bytearray(100), op=ReduceOp.SUM, tag=2)
    assert later.result(DEADLINE).local_world_size == 2
    assert [record for record in caplog.records if "a callback of the operation with tag 1" in record.getMessage()]


def test_no_thread_can_be_started(group, monkeypatch):
    """At the interpreter's end, from Python 3.12 on: calls are made nevertheless."""

    def refuse():
        raise RuntimeError("can't create new thread at interpreter shutdown")

    comm, other = group(2).members
    monkeypatch.setattr(_threads, "_idle", [])
    monkeypatch.setattr(_threads, "_Helper", refuse)
    handle = comm.all_reduce_async(bytearray(100), bytearray(100), op=ReduceOp.SUM)
    parallel([lambda: other.all_reduce(bytearray(100), bytearray(100), op=ReduceOp.SUM)])
    assert handle.wait()[0]
    other.close()
    comm.update_topology()
    assert comm.get_attribute(Attribute.GLOBAL_WORLD_SIZE) == 1
    comm.close()


AT_EXIT = """
import atexit, sys
address = sys.argv[1]
comms = []
atexit.register(lambda: print("closed at the end:", [comm.closed for comm in comms], flush=True))
import pccl
made = pccl.Communicator(address)
comms += [made, pccl.Communicator(address)]
atexit.register(lambda: (made.connect(1), made.update_topology(), print("late calls", flush=True)))
"""


def test_the_end_of_the_interpreter(script, address):
    """Handlers that were registered later may make calls; then open objects are closed."""
    program = script(AT_EXIT, address)
    assert program.end() == 0, program.lines
    assert program.lines[-2:] == ["late calls", "closed at the end: [True, True]"]


FORK = """
import asyncio, logging, os, sys, threading
import pccl
address, early = sys.argv[1], sys.argv[2] == "early"
""" + TWO + """
first, second = two()
handle = first.all_reduce_async(bytearray(100), bytearray(100), op=pccl.ReduceOp.SUM)
future = handle.future() if early else None
logged = threading.Event()

class Handler(logging.Handler):
    def emit(self, record):
        logged.set()

logging.getLogger("pccl").addHandler(Handler())
logging.getLogger("pccl").setLevel(logging.DEBUG)
pccl.set_log_level("DEBUG")
master = pccl.MasterNode("127.0.0.1:0")
master.run()
pccl.Communicator(f"127.0.0.1:{master.port}").connect()
assert logged.wait()
handle._operation._mutex.acquire()  # as if a thread were there that is not in the child
child = os.fork()
if child == 0:
    print("child: test", handle.test(), flush=True)
    print("child: future", type(handle.future().exception()).__name__, flush=True)
    if early:
        print("child: early", type(future.exception()).__name__, flush=True)

    async def wait():
        await handle

    for name, call in (("await", lambda: asyncio.run(wait())), ("master", master.wait)):
        try:
            call()
        except pccl.InvalidUsage as error:
            print("child:", name, "fork" in error.words, flush=True)
    done, logged = threading.Event(), threading.Event()
    own = pccl.Communicator(f"127.0.0.1:{master.port}")
    own.connect()
    print("child: logs", logged.wait(), flush=True)
    pccl._threads.janitor.put(done.set)
    print("child: janitor", done.wait(), flush=True)
    os._exit(0)
handle._operation._mutex.release()
status = os.waitpid(child, 0)[1]
second.all_reduce(bytearray(100), bytearray(100), op=pccl.ReduceOp.SUM)
print("parent:", status, handle.wait()[0], flush=True)
master.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("when", ["early", "late"])
def test_fork(script, address, when):
    """In the child the parent's objects have ended, and the package's threads and locks are new."""
    peer = script(FORK, address, when, env={"PYTHONWARNINGS": "ignore"})
    assert peer.end() == 0, peer.lines
    wanted = ["test True", "future InvalidUsage", "await True", "master True", "logs True", "janitor True"]
    for line in wanted + ["early InvalidUsage"] * (when == "early"):
        assert f"child: {line}" in peer.lines, peer.lines
    assert "parent: 0 True" in peer.lines, peer.lines
