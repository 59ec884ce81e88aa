"""Ctrl-C in every call that waits: seen at once, and the process can be ended in order afterwards."""

import signal
import time

import pytest
from support import TWO, figure

import pccl

# The awaited events never happen. The second peer, in the same process, makes the calls wait; without it connect would
# not wait.
PEER = """
import sys, threading, time, asyncio
import pccl
from pccl import ReduceOp
address, kind = sys.argv[1:]
memory = [bytearray(400000) for _ in range(4)]
ABORTED = ("all_reduce", "multiple", "run")

""" + TWO + """
def is_waiting():
    if kind in ABORTED:  # launched, or there would be nothing to abort
        return first.flight_recorder()["operations"]
    return any(comm._core._inside for comm in (first, second) if comm)

def tell():
    while not is_waiting():
        time.sleep(0.001)
    print("waiting", flush=True)

def interrupted(call):
    threading.Thread(target=tell, daemon=True).start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    else:
        print("returned", flush=True)

def a_list():
    operand = pccl.ReduceOperandDescriptor(pccl.DataType.UINT8)
    return [pccl.ReduceOpDescriptor.from_buffers(m, m, pccl.ReduceDescriptor(len(m), ReduceOp.SUM, k, operand))
            for k, m in enumerate(memory)]

def state():
    return pccl.SharedState([pccl.TensorInfo.from_buffer(memory[0], "x")])

async def wake_up():
    while True:
        await asyncio.sleep(0.05)

async def wait_for(handle):
    waking = asyncio.create_task(wake_up())  # a signal that comes just before its loop sleeps is seen when it wakes up
    await handle

if kind == "connect":
    first, second = pccl.Communicator(address), pccl.Communicator(address)
    first.connect()
    interrupted(second.connect)
elif kind == "attempts":
    first, second = pccl.Communicator("127.0.0.1:1"), None
    interrupted(lambda: first.connect(100))
else:
    first, second = two()
    if kind in ("wait", "result", "future", "await"):
        handle = first.all_reduce_async(memory[0], memory[0], op=ReduceOp.SUM)
    calls = {
        "update_topology": lambda: first.update_topology(),
        "are_peers_pending": lambda: first.are_peers_pending(),
        "optimize_topology": lambda: first.optimize_topology(),
        "sync_shared_state": lambda: first.sync_shared_state(state()),
        "all_reduce": lambda: first.all_reduce(memory[0], memory[1], op=ReduceOp.SUM),
        "multiple": lambda: first.all_reduce_multiple_with_retry(a_list()),
        "run": lambda: first.run([pccl.AllReduce(memory[0], memory[1], op=ReduceOp.SUM)], rebuild=lambda _: []),
        "wait": lambda: handle.wait(),
        "result": lambda: handle.result(1000),
        "future": lambda: handle.future().result(),
        "await": lambda: asyncio.run(wait_for(handle)),
    }
    interrupted(calls[kind])
    if kind in ("wait", "result", "future", "await"):
        thread = threading.Thread(target=second.all_reduce, args=(memory[1], memory[1]), kwargs={"op": ReduceOp.SUM})
        thread.start()
        assert handle.wait()[0], "the operation went on"
        thread.join()
    if kind in ABORTED:
        try:
            second.all_reduce(memory[1], memory[1], op=ReduceOp.SUM)
        except pccl.PCCLError as error:
            print(f"the other: {error.words}", flush=True)
begin = time.monotonic()
first.close()
print(f"closed after {time.monotonic() - begin:.3f} s", flush=True)
"""
CALLS = ["connect", "attempts", "update_topology", "optimize_topology", "are_peers_pending", "sync_shared_state",
         "all_reduce", "multiple", "run", "wait", "result", "future", "await"]


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c(script, address, call):
    peer = script(PEER, address, call, env={"PCCL_LOG_LEVEL": "NONE"})
    peer.line("waiting")  # inside the library
    begin = time.monotonic()
    peer.kill(signal.SIGINT)
    peer.line("interrupted")
    figure("seconds until Ctrl-C ended the call", time.monotonic() - begin, "s")
    if call in ("all_reduce", "multiple", "run"):
        assert "aborted the operation" in peer.line("the other")
    figure("seconds to close after Ctrl-C", float(peer.line("closed").split()[2]), "s")
    assert peer.end() == 0


def test_ctrl_c_without_a_handler(script, address):
    """The usual case: the program ends, with Python's status for it, and the other peers are notified."""
    peer = script(PEER.replace("except KeyboardInterrupt", "except ZeroDivisionError"), address, "all_reduce")
    peer.line("waiting")
    peer.kill(signal.SIGINT)
    assert peer.end() in (-signal.SIGINT, 130, 1)
    with pccl.Communicator(address) as comm:
        comm.connect()  # at once: no peer is left
        assert comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) == 1


def test_a_handler_that_does_not_raise(script, address):
    """Other signals are handled while a call waits, and the call continues."""
    text = """
import signal
signal.signal(signal.SIGUSR1, lambda *_: print("handled", flush=True))
""" + PEER
    peer = script(text, address, "wait", env={"PCCL_LOG_LEVEL": "NONE"})
    peer.line("waiting")
    for _ in range(3):
        peer.kill(signal.SIGUSR1)
        peer.line("handled")
    peer.kill(signal.SIGINT)
    peer.line("interrupted")
    assert peer.end() == 0


OFTEN = """
import random, signal

class Interrupt(Exception):
    pass

armed = False

def interrupt(*_):
    global armed
    if armed:
        armed = False
        raise Interrupt

first, second = two()
steps = 400
other = [bytearray([2]) * (100 if k % 2 else 60000) for k in range(steps)]

def follow():
    for one in other:
        second.all_reduce(one, one, op=ReduceOp.SUM)

thread = threading.Thread(target=follow)
thread.start()
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
interrupts = 0
for k in range(steps):
    mine = bytearray([1]) * len(other[k])
    handle = first.all_reduce_async(mine, mine, op=ReduceOp.SUM)
    while True:
        try:
            armed = True
            outcome = handle.wait()
            armed = False
            break
        except Interrupt:
            interrupts += 1
    assert outcome[0] and outcome[2].local_world_size == 2, (k, outcome)
    assert mine == bytearray([3]) * len(mine), k
signal.setitimer(signal.ITIMER_REAL, 0, 0)
thread.join()
assert all(one == bytearray([3]) * len(one) for one in other)
print(f"interrupts: {interrupts}", flush=True)
"""


def test_interrupted_often(script, address):
    """If a handler raises while a reduction is awaited, at any moment, its outcome is not lost."""
    peer = script(PEER[: PEER.index("if kind ==")] + OFTEN, address, "often")
    assert int(peer.line("interrupts").split()[1]) > 0
    assert peer.end() == 0


MASTER = """
import sys, pccl
master = pccl.MasterNode("127.0.0.1:0")
master.run()
print("port", master.port, flush=True)
"""


@pytest.mark.parametrize("more", ["", "input_that_never_comes()", "1 / 0"])
def test_a_master_keeps_the_interpreter_alive(script, more):
    """As in PCCL 1.0; Ctrl-C ends it, in the program or at its end."""
    never = "def input_that_never_comes():\n    import time\n    while True: time.sleep(1)\n"
    master = script(never + MASTER + more)
    port = int(master.line("port").split()[1])
    for _ in range(3):
        with pccl.Communicator(f"127.0.0.1:{port}") as comm:
            comm.connect(1)
    if more == "1 / 0":
        master.line("ZeroDivisionError")  # Python ignores an interrupt while it prints the traceback
    master.kill(signal.SIGINT)
    assert master.end() in (0, 1, 130, -signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_master_program(script, number):
    master = script("import pccl.master, sys; sys.exit(pccl.master.main(sys.argv[1:]))", "--listen-address",
                    "127.0.0.1:0", "--option", "silence_ms=6000")
    port = int(master.line("listening").split()[-1])
    with pccl.Communicator(f"127.0.0.1:{port}") as comm:
        comm.connect(1)
        master.kill(number)
        assert master.end() == 0


def test_master_program_says_what_is_wrong(script, address):
    command = "import pccl.master, sys; sys.exit(pccl.master.main(sys.argv[1:]))"
    assert script(command, "--option", "silence_ms").end() == 2
    for wrong in (["--option", "silence_ms=x"], ["--listen", "no:such"], ["--set", "x=1"], ["--log-format", "x"]):
        program = script(command, *wrong)
        program.line("pccl-master: ")
        assert program.end() == 2
    program = script(command, "--listen-address", address, "--log-format", "json")
    program.line('"message":"cannot listen on ')
    assert program.end() == 1
