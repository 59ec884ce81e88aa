"""Peers that are controlled by lines of text, on this host or on separate hosts behind emulated links (tests/wan; needs
root)."""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORT = 48148


class Loopback:
    """Replaces a Wan: all peers run on this host."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @staticmethod
    def prefix(_host):
        return []

    @staticmethod
    def address(_host):
        return "127.0.0.1"

    @staticmethod
    def port():
        with socket.create_server(("127.0.0.1", 0)) as free:
            return free.getsockname()[1]


def _hosts(arguments, links):
    if not links:
        return Loopback()
    sys.path.insert(0, str(ROOT / "tests" / "wan"))
    from wan import Wan  # pylint: disable=import-outside-toplevel

    os.environ.setdefault("E2E_WANEM", str(arguments.build / "tests" / "wan" / "wanem"))
    return Wan(1 + arguments.peers, **links)


@contextlib.contextmanager
def crew(arguments, script, options, **links):
    """Yields the emulator and the peers. Each peer runs the script with --peer ADDRESS and the options, which are names
    of arguments; it has printed "ready", and ends at the end of its input. links: arguments of Wan; without them all
    peers run on this host."""
    environment = dict(os.environ, PCCL_LIBRARY=str(arguments.build / "src" / "libpccl.so.1"))
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    with _hosts(arguments, links) as wan:
        address = f"{wan.address(0)}:{PORT if links else wan.port()}"
        command = [sys.executable, str(pathlib.Path(script).resolve()), "--peer", address]
        for name in options:
            command += ["--" + name.replace("_", "-"), str(getattr(arguments, name))]
        master = [str(arguments.build / "tools" / "pccl-master"), "--listen", address]
        processes = [subprocess.Popen(wan.prefix(0) + master, stderr=subprocess.DEVNULL)]
        time.sleep(0.5)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        peers = [
            subprocess.Popen(wan.prefix(1 + i) + command, env=environment, **pipes) for i in range(arguments.peers)
        ]
        processes += peers
        try:
            if any(process.stdout.readline() != "ready\n" for process in peers):
                raise SystemExit("the peers did not come together")
            yield wan, peers
            for process in peers:
                process.stdin.close()
        finally:
            for process in processes:
                process.terminate()
                process.wait()


def ask(peers, command):
    """Sends the command to all peers, and returns their answers."""
    for process in peers:
        process.stdin.write(f"{command}\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in peers]
