"""Ports for programs that must know theirs before they listen, or listen on it again later."""

import itertools
import os
import pathlib
import socket

FIRST = 10000
APART = 8  # tests that run at the same time are processes with numbers near to each other
RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
_given = itertools.count()


def _first_ephemeral():
    return int(RANGE.read_text(encoding="ascii").split()[0]) if RANGE.exists() else 32768


def free_port():
    """One below those that the system gives to whoever asks for any: these may be anybody's at the
    next moment. Not one that was given to this process before, and hardly one that another test may
    have been given."""
    count = _first_ephemeral() - FIRST
    if count < 1000:  # a system with a range of its own
        with socket.socket() as probe:
            probe.bind(("", 0))
            return probe.getsockname()[1]
    for _ in range(count):
        port = FIRST + (os.getpid() * APART + next(_given)) % count
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue  # taken
        return port
    raise OSError("no port is free")
