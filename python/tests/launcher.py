"""Runs an example as peers in real processes: one is killed, another one joins, and all end with equal bits."""

import contextlib
import os
import signal

import support

EXAMPLES = support.PACKAGE / "examples"
CALM = ("--pause", 0.2)  # for peers that would otherwise keep the processor from others that still import torch

# As Python runs a file: modules in its folder can be imported.
_RUN = (
    "import os, runpy, sys; sys.argv = sys.argv[1:]; sys.path[0] = os.path.dirname(sys.argv[0]); "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def start(script, name, *arguments):
    """Starts an example. `script` is the fixture."""
    return script(_RUN, EXAMPLES / name, *arguments, env={"OMP_NUM_THREADS": "1"})


def make_way(peers):
    """Makes running peers yield the processor to a newcomer, which has much to import."""
    for peer in peers:
        for thread in os.listdir(f"/proc/{peer.pid}/task") if os.path.isdir("/proc/self/task") else [peer.pid]:
            with contextlib.suppress(ProcessLookupError):  # a thread may end in between
                os.setpriority(os.PRIO_PROCESS, int(thread), 10)


def wait_for(peers, part):
    for peer in peers:
        peer.line(part)


def end_with_equal_digests(peers):
    """Stops one of the peers, which ends all. Checks that their digests are equal."""
    peers[0].kill(signal.SIGTERM)
    digests = {peer.line("digest ").split()[1] for peer in peers}
    for peer in peers:
        peer.ends_after("digest ")
    assert len(digests) == 1, digests


def churn(make):
    """Runs three peers; one is killed; the others continue, and a newcomer catches up with them."""
    peers = [make() for _ in range(3)]
    wait_for(peers, ": 3 peers")
    peers.pop(1).kill()
    wait_for(peers, ": 2 peers")
    make_way(peers)
    peers.append(make())
    wait_for(peers, ": 3 peers")
    end_with_equal_digests(peers)
