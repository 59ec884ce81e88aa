"""System calls that fail now and then: shim.c is loaded before the library, in master and peers."""

import os

import harness
from harness import SUCCESS
from harness import check, equal, say, within
from loops import all_right, more_steps, start_loops


def shimmed(run, one_in):
    shim = os.environ.get("E2E_SHIM", "")
    check(os.access(shim, os.R_OK), "E2E_SHIM names no library")
    run.environment.update(LD_PRELOAD=shim, SHIM_ONE_IN=str(one_in))


def faulty_calls(run, one_in):
    """Loops, deaths, newcomers while system calls fail."""
    shimmed(run, one_in)
    run.environment["SHIM_SEED"] = "1"
    run.start_master(silence_ms=60000, heartbeat_ms=1000)
    peers = []
    for i in range(4):
        run.environment["SHIM_SEED"] = str(10 + i)
        peer = run.peer(dial_max_ms=50)
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    loops = start_loops(peers)
    more_steps(loops, 100, world=4)
    peers[1].kill()
    rest = [loop for loop in loops if loop.peer is not peers[1]]
    more_steps(rest, 50, world=3)
    newcomer = run.peer(dial_max_ms=50)
    newcomer.create(run.address)
    newcomer.do("connect", rc=SUCCESS)
    rest.append(newcomer.start("loop", 9, 4, 100, 2))
    harness.wait_until(lambda: rest[-1].steps, "the newcomer's first step")
    more_steps(rest, 50, world=4)
    all_right(loops + rest[-1:])
    equal(sum("departs" in text for _, text in run.master.lines), 1, "how many departed")
    for loop in rest:
        loop.peer.kill()
    run.master.signal(15)
    equal(run.master.end(harness.DEADLINE), 0, "exit code of the master")
    run.master.killed = True
    line = run.master.wait_line("shim: ")
    within(int(line.split()[1]), 20, 10**9, "faults at the master")
    say(f"master: {line}")


def test_often(run):
    """One system call in five is interrupted, short, or finds no buffers."""
    faulty_calls(run, 5)


def test_sometimes(run):
    """One in a hundred."""
    faulty_calls(run, 100)


harness.main()
