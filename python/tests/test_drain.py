"""Drains: a peer requests its departure, works until the update in which all have voted, and no operation of the others
fails."""

import os
import random
import signal
import threading

import numpy as np
import pytest
from support import DEADLINE, parallel

import pccl
from pccl.diloco import DiLoCo

# The step does not repeat its operations, so that it reports each failure, and the peers that left during it.
WORKER = """
import os, random, signal, sys
import numpy as np
import pccl

loop = pccl.loop(sys.argv[1], {"total": np.zeros(1)})
signal.signal(signal.SIGTERM, lambda *_: loop.drain())
total = np.zeros(1)
for step in loop:
    print("id", loop.comm.id, flush=True)
    with step:
        sizes = random.Random(step.index)
        for tag in range(4):
            try:
                step.comm.all_reduce(np.ones(sizes.choice([10, 1000, 300_000])), op="sum", tag=tag)
            except pccl.PCCLError as error:
                print("failed", type(error).__name__, *error.peers, flush=True)
                raise
        print(f"step {step.index} of {step.size}", flush=True)
print("end", loop.drained, flush=True)
"""


def ids_of(worker):
    return {line.split()[1] for line in worker.lines if line.startswith("id ")}


def drain_at_random(script, address, drains):
    """Drains one or two peers at a time; every third time also kills a peer, perhaps one of these. Returns the number
    of kills."""
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    print("seed", seed)
    dice = random.Random(seed)
    present, drained, killed, asked = [script(WORKER, address) for _ in range(5)], [], [], 0

    def take():
        return present.pop(dice.randrange(len(present)))

    for worker in present:
        worker.line("of 5")
    while asked < drains:
        going = [take() for _ in range(dice.choice([1, 1, 2]))]
        threading.Event().wait(dice.uniform(0, 0.05))  # a moment at random
        for worker in going:
            worker.kill(signal.SIGTERM)
            asked += 1
        if dice.random() < 0.2:
            going[0].kill(signal.SIGTERM)
        if asked % 3 == 0:
            threading.Event().wait(dice.uniform(0, 0.02))
            victim = dice.choice([going[0], None]) or take()
            victim.kill()
            killed.append(victim)
        drained += [worker for worker in going if worker not in killed]
        for worker in going:
            if worker not in killed:
                assert worker.end() == 0, worker.lines[-20:]
        newcomers = [script(WORKER, address) for _ in range(5 - len(present))]
        for worker in newcomers:
            worker.line("step ")
        present += newcomers
    for worker in present:
        worker.kill(signal.SIGTERM)
    for worker in present:
        assert worker.end() == 0, worker.lines[-20:]
    everybody, dead = drained + present, set().union(*map(ids_of, killed)) if killed else set()
    for worker in everybody:
        assert worker.last("end ") == "end the master drained this peer: it requested its drain", worker.lines[-20:]
        assert len(ids_of(worker)) == 1  # no peer left the run and joined again
        for words in (line.split() for line in worker.lines if line.startswith("failed ")):
            assert words[1] == "PeerLostError" and dead & set(words[2:]), (seed, words, dead)
    return len(killed)


def test_drains(script, address):
    drain_at_random(script, address, 4)


@pytest.mark.nightly
def test_two_hundred_drains(script, address):
    assert drain_at_random(script, address, 200) > 20


# ---- within one process


def test_wrong_moments(address, monkeypatch):
    """It does no harm; and without a run, the message has the reason why there will be none."""
    monkeypatch.setattr("pccl._calls._RETRY_PAUSE_S", None)  # connect does not try again
    comm = pccl.Communicator(address)
    for _ in range(2):
        comm.drain()
    for _ in range(2):
        with pytest.raises(pccl.DrainedError, match="cannot connect again") as caught:
            comm.connect()
    assert isinstance(caught.value, pccl.ExpelledError) and caught.value.ext is pccl.Result.DRAINED
    with pytest.raises(pccl.InvalidUsage, match="not connected"):
        comm.update_topology()
    comm.close()
    comm.drain()
    with pccl.loop(address) as loop:
        loop.drain()
        assert not list(loop) and "before it joined the run" in loop.drained and not list(loop)
    loop.drain()
    with pccl.Communicator(address) as comm:
        comm.connect()
        with comm.group([comm.id]) as group, pytest.raises(pccl.InvalidUsage, match="not supported on a group"):
            group.drain()
        if os.fork() == 0:
            comm.drain()  # as in a handler that a child has inherited
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
        comm.update_topology()


def test_a_thread_drains_the_waiting_one(address):
    """In a wait for peers, in which the loop updates by itself."""
    loop = pccl.loop(address)
    timer = threading.Timer(0.3, loop.drain)
    timer.start()
    assert not list(loop) and loop.drained == "the master drained this peer: it requested its drain"


def test_a_handler_in_a_blocking_call(script, address):
    program = script(
        """
import signal, sys, pccl
comm = pccl.Communicator(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: (comm.drain(), print("asked", flush=True)))
comm.connect()
print("is in", flush=True)
try:
    while True:
        comm.update_topology()  # for which the other one does not come at first
except pccl.DrainedError as error:
    print("end", error.reason, flush=True)
""",
        address,
    )
    with pccl.Communicator(address) as comm:
        comm.connect()
        while comm.size == 1:
            comm.update_topology()
        program.line("is in")
        program.kill(signal.SIGTERM)
        program.line("asked")
        comm.update_topology()
        while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE_NOW) == 2:  # it had not left before the decision
            comm.update_topology()
        program.line("end the master drained this peer: it requested its drain")
        assert program.end() == 0


def test_nobody_updates(address):
    """A step that is longer than drain_ms: the loop ends, in the middle of it."""
    loop = pccl.loop(address, min_peers=1, options={"drain_ms": 100})
    for step in loop:
        with step:
            loop.drain()
            while step.comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE_NOW) == 1:
                pass
    assert "no topology update within drain_ms (100 ms)" in loop.drained


def test_two_operations_learn_of_the_drain_at_once(address):
    """The second one finds the communicator closed; the loop ends nevertheless, with the reason."""
    loop, other = pccl.loop(address, options={"drain_ms": 100}), pccl.loop(address)
    may_repeat, both, is_over = loop._may_repeat, threading.Barrier(2), threading.Event()
    loop._may_repeat = lambda step, error: (both.wait(DEADLINE), may_repeat(step, error))[1]

    def reduce(step, tag):
        with pytest.raises((pccl.DrainedError, pccl.NotConnected)):
            step.all_reduce(np.ones(10), tag=tag)

    def drained():
        try:
            for step in loop:
                with step:
                    loop.drain()
                    parallel([lambda tag=tag: reduce(step, tag) for tag in range(2)])
        finally:
            is_over.set()

    def stays():
        with other, next(other):
            is_over.wait(DEADLINE)

    parallel([drained, stays])
    assert "no topology update within drain_ms (100 ms)" in loop.drained


def test_an_operator_ends_the_loop(operator):
    address, command = operator
    loop, indices = pccl.loop(address, min_peers=1), []
    for step in loop:
        with step:
            indices.append(step.index)
            if step.index == 2:
                command("drain", loop.comm)
    assert indices == [0, 1, 2] and loop.drained == "the master drained this peer: an operator drained it"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["sync", "delayed", "eager"])
def test_diloco(address, mode):
    """`with` ends for the drained trainer, with the shared parameters; the others continue to the end."""

    def train(number):
        params = {"w": np.zeros(1000, np.float32)}
        with DiLoCo(pccl.Communicator(address), params, inner_steps=2, min_peers=3, rounds=8, mode=mode) as diloco:
            diloco._membership._min_peers = 2  # the run had three at its start
            while not diloco.finished:
                if number == 0 and diloco.round == 3:
                    diloco.drain()
                params["w"] += number
                diloco.step()
        return diloco.drained, diloco.round, np.array_equal(params["w"], diloco._shared.theta[0])

    drained, *others = parallel([lambda number=number: train(number) for number in range(3)])
    assert drained[0] == "the master drained this peer: it requested its drain" and 4 <= drained[1] <= 5 and drained[2]
    assert others == [(None, 8, True)] * 2


def test_diloco_remembers_its_drain(address):
    """A later error does not change the reason of its departure; and after a request before the join it does not join.
    """
    diloco = DiLoCo(pccl.Communicator(address), {"w": np.zeros(10, np.float32)}, inner_steps=1, min_peers=1, rounds=8)
    with diloco:
        diloco.step()
        diloco.drain()
        with pytest.raises(pccl.DrainedError) as caught:
            while True:
                diloco.step()
        with pytest.raises(pccl.NotConnected):
            diloco.step()
        assert diloco.drained == caught.value.reason
        raise caught.value
    assert diloco.drained == "the master drained this peer: it requested its drain"
    comm = pccl.Communicator(address)
    comm.drain()
    with pytest.raises(pccl.DrainedError, match="cannot connect again"):
        diloco.rejoin(comm)
    assert "cannot connect again" in diloco.drained
