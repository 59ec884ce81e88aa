"""The tokens of a master that has a state directory."""

import subprocess

import harness


def token(run, *arguments, rc=0):
    """What `pccl-master token` says."""
    command = [harness.executable("master"), "token", *arguments, "--state", run.state]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    harness.check(done.returncode == rc, f"{arguments}: {done.returncode}: {done.stdout}{done.stderr}")
    return (done.stderr if rc else done.stdout).strip()


def peer_with(run, text, **more):
    """A peer with that token alone."""
    return run.peer(token=text, token_file="", **more)


def refused(peer, address, *parts):
    """Connecting fails, and says why."""
    peer.create(address)
    words = peer.do("connect", rc=harness.MASTER_FAILED)["words"]
    for part in parts:
        harness.check(part in words, f"no '{part}' in: {words}")
    return words


def let_in(run, text, members):
    """It joins, and steps with the others."""
    peer = peer_with(run, text)
    peer.create(run.address)
    run.admit(peer, members)
    return peer
