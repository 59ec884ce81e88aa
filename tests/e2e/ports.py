"""Ports for programs that must know theirs before they listen, or reuse it later."""

import itertools
import os
import pathlib
import socket

FIRST = 10000
APART = 8  # concurrent tests have nearby process ids
RANGE = pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range")
_given = itertools.count()


def _first_ephemeral():
    return int(RANGE.read_text(encoding="ascii").split()[0]) if RANGE.exists() else 32768


def free_port():
    """Returns a port below the system's ephemeral ports, which any process may get at any time. It was not returned to
    this process before, and is unlikely to be used by another test."""
    count = _first_ephemeral() - FIRST
    if count < 1000:  # a system with a different range
        with socket.socket() as probe:
            probe.bind(("", 0))
            return probe.getsockname()[1]
    for _ in range(count):
        port = FIRST + (os.getpid() * APART + next(_given)) % count
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue  # in use
        return port
    raise OSError("no port is free")
