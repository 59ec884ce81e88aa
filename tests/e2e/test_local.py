"""Local sockets: the peers of one host that connect through a file, and the removal of the files."""

import os
import pathlib
import shutil
import sys
import time

import harness
from harness import check, equal
from namespaces import SKIPPED, Network, need_root
from phases import PATIENT, reduce_marked

ROOT = pathlib.Path(__file__).resolve().parents[2]

COUNT = 400000  # elements that pass from peer to peer
NOBODY = 65534  # the id of a user
AS_NOBODY = "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
ALONE, TOGETHER = 1, 2  # Unix sockets of a peer with one neighbor: the listening one, and a connection


def join(run, *settings):
    """Starts peers with these settings, and reduces once."""
    peers = []
    for setting in settings:
        peer = run.peer(**setting)
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    reduce(peers)
    return peers


def reduce(peers):
    for call in reduce_marked(peers, 5, COUNT):
        check(call.wait(rc=harness.SUCCESS)["right"], f"{call!r} is wrong")


def sockets(peers):
    return [len(peer.local_sockets()) for peer in peers]


def pipes(peer):
    """Returns the memory that it shares with other processes: one mapping for each link, in either direction."""
    with open(f"/proc/{peer.pid}/maps", encoding="ascii") as maps:
        return sum("memfd:pccl" in line for line in maps)


def files(folder):
    return len(os.listdir(folder)) if os.path.isdir(folder) else None


def warnings(peer):
    return [text for _, text in peer.logs if "local sockets unavailable" in text]


def test_files(run):
    """Each communicator has a file and removes it at its end; one set to TCP has none."""
    run.start_master()
    for peer in join(run, {"local": "tcp"}, {"local": "tcp"}):
        peer.quit()
    equal(files(run.local), None, "files of peers that use TCP only")
    both = run.peer()
    for slot in range(2):
        both.create(run.address, slot=slot)
    both.do("connect")
    second = both.start("connect", slot=1)
    both.do("admit")
    second.wait(rc=harness.SUCCESS)
    equal(files(run.local), 2, "files of two communicators")
    both.do("destroy", slot=0)
    equal(files(run.local), 1, "files after one was destroyed")
    both.quit()
    equal(files(run.local), 0, "files after both were destroyed")


def test_killed(run):
    """The file of a killed peer is removed when it is old; files of living peers remain."""
    run.start_master(**PATIENT)
    peers = join(run, {}, {})
    peers[0].kill()
    peers[1].do("update")  # its end has been noticed
    equal(files(run.local), 2, "files after a kill")
    for name in os.listdir(run.local):
        os.utime(os.path.join(run.local, name), (time.time() - 100,) * 2, follow_symlinks=False)
    third = run.join(1, peers[1:])
    equal(files(run.local), 2, "files of living peers")
    reduce([peers[1], third])
    equal(sockets([peers[1], third]), [TOGETHER, TOGETHER], "Unix sockets")
    equal([pipes(peers[1]), pipes(third)], [2, 2], "pipes")


def test_squatted(run):
    """If others can access the directory, peers use TCP and log one line."""
    os.mkdir(run.local)
    os.chmod(run.local, 0o777)
    run.start_master()
    peers = join(run, {}, {})
    equal(sockets(peers), [0, 0], "Unix sockets")
    equal([len(warnings(peer)) for peer in peers], [1, 1], "warnings")
    check("expected mode 700" in warnings(peers[0])[0], f"the reason: {warnings(peers[0])}")
    equal(files(run.local), 0, "files")


def test_another_user(run):
    """Peers of two users, one of them root, use TCP."""
    need_root()
    program = harness.executable("peer")
    if not all(os.stat(path).st_mode & 1 for path in parents(program)):
        harness.say("skipped: another user cannot run the program")
        sys.exit(SKIPPED)
    run.start_master()
    user = {"prefix": [sys.executable, "-c", AS_NOBODY]}
    peers = join(run, {}, {}, user)
    equal(sockets(peers), [TOGETHER, TOGETHER, 0], "Unix sockets")
    check(f"owned by user 0, expected {NOBODY}" in warnings(peers[2])[0], f"the reason: {warnings(peers[2])}")


def parents(path):
    while path != "/":
        path = os.path.dirname(path)
        yield path


def test_two_networks(run):
    """With one directory, peers in two network namespaces use TCP as on two hosts: a network filter still
    applies."""
    need_root()
    network = Network(2)
    run.at_exit.append(network.remove)
    network.build()
    run.host = network.address(0)
    run.start_master(prefix=network.prefix(0))
    peers = join(run, {"prefix": network.prefix(0)}, {"prefix": network.prefix(1)})
    equal(files(run.local), 2, "files in the directory of both")
    equal(sockets(peers), [ALONE, ALONE], "Unix sockets")


def test_two_containers(run):
    """Peers in one network namespace with separate /tmp connect in a shared directory, or use TCP."""
    need_root()
    # These files stay at their paths, also below /tmp.
    keep = f"mount --bind '{ROOT}' /mnt && mount -t tmpfs none /tmp && mkdir -p '{ROOT}' && mount --bind /mnt '{ROOT}'"
    container = ["unshare", "--mount", "sh", "-c", f'{keep} && exec "$0" "$@"']
    shared = os.path.join(os.getcwd(), f"local-{os.getpid()}")
    run.at_exit.append(lambda: shutil.rmtree(shared, ignore_errors=True))
    run.environment.pop("XDG_RUNTIME_DIR", None)
    run.start_master()
    for local_dir, count in (("", ALONE), (shared, TOGETHER)):
        peers = join(run, *2 * [{"prefix": container, "local_dir": local_dir}])
        equal(sockets(peers), [count, count], f"Unix sockets with the directory '{local_dir}'")
        for peer in peers:
            peer.quit()


harness.main()
