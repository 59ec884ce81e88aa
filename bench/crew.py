"""Peers on hosts of their own behind emulated links (tests/wan; needs root), which do what they are told."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORT = 48148


@contextlib.contextmanager
def crew(arguments, script, options, **links):
    """The emulator and the peers, each of which runs the script with --peer ADDRESS and the options, names of
    arguments. It has said "ready", and ends when there is nothing more to read. links: as of Wan."""
    sys.path.insert(0, str(ROOT / "tests" / "wan"))
    from wan import Wan  # pylint: disable=import-outside-toplevel

    os.environ.setdefault("E2E_WANEM", str(arguments.build / "tests" / "wan" / "wanem"))
    environment = dict(os.environ, PCCL_LIBRARY=str(arguments.build / "src" / "libpccl.so.1"))
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
    with Wan(1 + arguments.peers, **links) as wan:
        address = f"{wan.address(0)}:{PORT}"
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
    """What each answers."""
    for process in peers:
        process.stdin.write(f"{command}\n")
        process.stdin.flush()
    return [json.loads(process.stdout.readline()) for process in peers]
