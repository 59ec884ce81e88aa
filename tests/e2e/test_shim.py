"""System calls that sometimes fail: shim.c is loaded before the library, in master and peers."""

import os
import shutil
import tempfile

import harness
from harness import SUCCESS
from harness import check, equal, say
from loops import all_right, in_both_sizes, more_steps, start_loop, start_loops
from tokens import let_in, peer_with, refused, token


def shimmed(run, **how):
    shim = os.environ.get("E2E_SHIM", "")
    check(os.access(shim, os.R_OK), "E2E_SHIM names no library")
    run.environment.update(LD_PRELOAD=shim, **{name: str(value) for name, value in how.items()})


def faulty_calls(run, one_in, count):
    """Loops, killed peers and newcomers while system calls fail."""
    shimmed(run, SHIM_ONE_IN=one_in)
    run.environment["SHIM_SEED"] = "1"
    run.start_master(silence_ms=60000, heartbeat_ms=1000)
    peers = []
    for i in range(4):
        run.environment["SHIM_SEED"] = str(10 + i)
        peer = run.peer(dial_max_ms=50)
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    loops = start_loops(peers, count=count)
    more_steps(loops, 100, world=4)
    peers[1].kill()
    rest = [loop for loop in loops if loop.peer is not peers[1]]
    more_steps(rest, 50, world=3)
    newcomer = run.peer(dial_max_ms=50)
    newcomer.create(run.address)
    newcomer.do("connect", rc=SUCCESS)
    rest.append(start_loop(newcomer, 9, count=count))
    harness.wait_until(lambda: rest[-1].steps, "the newcomer's first step")
    more_steps(rest, 50, world=4)
    all_right(loops + rest[-1:])
    run.master.wait_line("departs")  # the death is logged before
    equal(sum("departs" in text for _, text in run.master.lines), 1, "how many departed")
    leaver = rest.pop(0)
    leaver.peer.do("stop")
    leaver.wait(rc=SUCCESS)
    leaver.peer.quit()
    for loop in rest:
        loop.peer.kill()
    run.master.signal(15)
    equal(run.master.end(harness.DEADLINE), 0, "exit code of the master")
    run.master.killed = True
    for process in (run.master, leaver.peer):
        line = process.wait_line("shim: ")
        say(f"{process.name}: {line}")
        check(int(line.split()[1]) > 0, f"no faults at {process.name}")


@in_both_sizes
def often(run, count):
    """One system call in five is interrupted, short, or finds no buffers."""
    faulty_calls(run, 5, count)


@in_both_sizes
def sometimes(run, count):
    """One in a hundred."""
    faulty_calls(run, 100, count)


def test_late_wakes(run):
    """The master is terminated; before its loop gets the wake-up, it has noticed this, and has ended."""
    shimmed(run, SHIM_LATE_WAKES_MS=500)
    run.start_master(silence_ms=60000, heartbeat_ms=1000)
    for name in ("LD_PRELOAD", "SHIM_LATE_WAKES_MS"):  # the peers run without it
        del run.environment[name]
    loops = start_loops(run.join(2))
    more_steps(loops, 20, world=2)
    run.master.signal(15)
    equal(run.master.end(harness.DEADLINE), 0, "exit code of the master")
    run.master.killed = True
    for loop in loops:
        loop.peer.kill()


def test_loss_of_power(run):
    """The single use of a token survives a loss of power once the peer has its answer, even if all data that is not on
    disk is lost."""
    run.secure()
    folder = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(folder))
    shimmed(run, SHIM_DISK=folder)
    run.start_master()
    del run.environment["LD_PRELOAD"]
    text = token(run, "create", "--uses", "1", "--label", "once")
    let_in(run, text, []).quit()
    harness.poll(lambda: not os.path.exists(f"{run.state}/run"), "the end of the run")
    run.master.kill()
    run.master.end(harness.DEADLINE)
    shutil.rmtree(run.state)
    shutil.copytree(folder, run.state)
    run.start_master(run.port)
    refused(peer_with(run, text), run.address, "has no uses left")


harness.main()
