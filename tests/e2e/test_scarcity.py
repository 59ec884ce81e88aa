"""What a machine has too little of: descriptors, disk, time, buffers. The group lives on, with the right results."""

import os
import resource
import socket

import harness
from harness import LOST, SLOW, SUCCESS
from harness import check, equal, now_us, say, within
from loops import all_right, more_steps, start_loops

PATIENT = {"silence_ms": 60000, "heartbeat_ms": 1000}


def wait_ms(length_ms):
    """For a length of time that is what the test is about."""
    since_us = now_us()
    harness.poll(lambda: now_us() - since_us > length_ms * 1000, "the time to pass", length_ms / 1000 + 5)


class NoMoreDescriptors:
    """The process has what it has, and gets no other. Whatever it closes can be opened again."""

    def __init__(self, process):
        self.process = process
        self.limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd"))
        used = {int(name) for name in os.listdir(f"/proc/{process.pid}/fd")}
        lowest_free = next(number for number in range(highest + 2) if number not in used)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (lowest_free, self.limits[1]))

    def over(self):
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, self.limits)


def test_descriptors_of_the_master(run):
    """The master has no descriptor left: the group goes on, deaths are noticed, it does not spin; a newcomer waits, and
    gets in when there are some again."""
    run.start_master(silence_ms=int(3000 * SLOW), heartbeat_ms=int(600 * SLOW), hello_ms=500)
    peers = run.join(4)
    full = NoMoreDescriptors(run.master)
    newcomer = run.peer(dial_max_ms=100)
    newcomer.create(run.address)
    connect = newcomer.start("connect").begun()
    strangers = [socket.create_connection(("127.0.0.1", run.port)) for _ in range(20)]
    cpu_s = run.master.cpu_s()
    wait_ms(1000)
    within(run.master.cpu_s() - cpu_s, 0, 0.3, "seconds of the master's time in a second of waiting")
    loops = start_loops(peers)
    more_steps(loops, 50, world=4)
    check(connect.result is None or connect.result["rc"] != SUCCESS, "the newcomer is in without a descriptor")
    peers[0].kill()
    rest = loops[1:]
    more_steps(rest, 50, world=3)
    full.over()
    for stranger in strangers:
        stranger.close()
    if connect.wait()["rc"] != SUCCESS:  # turned away for want of a descriptor: it asks again
        newcomer.do("connect", rc=SUCCESS)
    rest.append(newcomer.start("loop", 7, 4, 100, 2))
    harness.wait_until(lambda: rest[-1].steps, "the newcomer's first step")
    more_steps(rest, 20, world=4)
    all_right(rest)


def test_descriptors_of_a_peer(run):
    """A member has no descriptor left: the group goes on; a newcomer that needs a link to it is refused in words, and
    gets in when there are some again; strangers at its port do not keep it busy."""
    run.start_master(warm_up_ms=int(1000 * SLOW), **PATIENT)
    peers = run.join(3, connect_timeout_ms=500)
    loops = start_loops(peers)
    starved = peers[2]
    full = NoMoreDescriptors(starved)
    port = starved.listening_ports()[0]
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    more_steps(loops, 20, world=3)
    newcomer = run.peer(connect_timeout_ms=500, dial_max_ms=100)
    newcomer.create(run.address)
    words = newcomer.do("connect", rc=harness.MASTER_FAILED)["words"]
    check("neighbour" in words, f"words: {words}")
    more_steps(loops, 20, world=3)
    full.over()
    for stranger in strangers:
        stranger.close()
    newcomer.do("connect", rc=SUCCESS)
    loops += [newcomer.start("loop", 7, 4, 100, 2)]
    harness.wait_until(lambda: loops[-1].steps, "the newcomer's first step")
    more_steps(loops, 20, world=4)
    all_right(loops)


def test_no_descriptors_for_a_newcomer(run):
    """A process without descriptors cannot make a communicator, and hears why."""
    run.start_master()
    peer = run.peer()
    peer.do("attr", rc=None)  # it has answered, so it has loaded what it needs
    full = NoMoreDescriptors(peer)
    result = peer.do("create", run.address, rc=None)
    if result["rc"] == SUCCESS:
        result = peer.do("connect", rc=None)
    check(result["rc"] != SUCCESS and len(result["words"]) > 10, f"{result}")
    say(result["words"])
    full.over()
    peer.do("destroy", rc=None)
    peer.create(run.address)
    peer.do("connect", rc=SUCCESS)


def test_full_disk(run):
    """The master's log goes to a disk that is full: it does not matter."""
    run.port = harness.free_port()
    environment = dict(run.environment, PCCL_LOG_LEVEL="TRACE")
    command = ["sh", "-c", 'exec "$@" >/dev/full 2>/dev/full', "sh", harness.executable("master")]
    run.master = run._add(harness.Process("master", command + ["--listen", run.address], environment))

    def listens():
        try:
            socket.create_connection(("127.0.0.1", run.port), 1).close()
            return True
        except OSError:
            return None

    harness.poll(listens, "the master to listen")
    peers = run.join(3)
    loops = start_loops(peers)
    more_steps(loops, 50, world=3)
    peers[0].kill()
    more_steps(loops[1:], 50, world=2)
    all_right(loops)
    cpu_s = run.master.cpu_s()
    for loop in loops[1:]:
        loop.peer.do("stop")
    wait_ms(300)
    say(f"{run.master.cpu_s() - cpu_s:.2f} s of the master's time in 0.3 s of waiting")


def suspended_master(run, act):
    silence_ms = int(1000 * SLOW)
    run.start_master(silence_ms=silence_ms, heartbeat_ms=silence_ms // 5)
    peers = run.join(4, dial_max_ms=100)
    loops = start_loops(peers)
    run.master.stop()
    act(peers)
    wait_ms(5 * silence_ms)
    run.master.resume()
    return loops


def test_suspended_master(run):
    """The master stands still for five times the silence limit: it expels nobody, and no operation fails."""
    loops = suspended_master(run, lambda peers: None)
    more_steps(loops, 20, world=4)
    all_right(loops)
    for loop in loops:
        check(not loop.failures, f"failures: {loop.failures}")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was expelled")


def test_suspended_master_and_a_death(run):
    """Somebody dies meanwhile: that one is removed, and nobody else."""
    loops = suspended_master(run, lambda peers: peers[1].kill())
    rest = [loop for loop in loops if not loop.peer.killed]
    more_steps(rest, 20, world=3)
    all_right(loops)


harness.main()
