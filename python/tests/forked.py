"""Runs pytest in a fork of a process that has imported pytest and other modules, which takes longer than many tests.

    forked.py MODULES ARGUMENTS...

MODULES are names with commas between them. The first call starts a server, which imports them. For each call it forks a
process, before any thread exists, with the descriptors, the environment and the folder of the caller. The server ends
after IDLE_S without a call. If a caller ends early, its process and the processes of that session are killed.
"""

import contextlib
import hashlib
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys

IDLE_S = 30
ATTEMPTS = 5
ACCEPTED = b"accepted"


def name_of(modules):
    """Returns the address of the server for callers with the same environment and folder."""
    same = [sys.executable, __file__, os.getcwd(), modules, sorted(os.environ.items())]
    return "\0pccl-tests-" + hashlib.sha256(json.dumps(same).encode()).hexdigest()


def start(modules):
    """Starts the server unless there is one. It may be called at once."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.suppress(OSError):
        listener.bind(name_of(modules))
        listener.listen(64)
        subprocess.Popen(
            [sys.executable, __file__, "--serve", str(listener.fileno()), modules],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            pass_fds=[listener.fileno()], start_new_session=True,
        )


def is_ours(connection):
    """Returns true if the other process has the same user: every user can use an abstract address."""
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid == os.getuid()


def call(modules, arguments):
    """Returns the wait status of the process."""
    for _ in range(ATTEMPTS):
        start(modules)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection, contextlib.suppress(ConnectionError):
            connection.connect(name_of(modules))
            assert is_ours(connection)
            socket.send_fds(connection, [json.dumps(arguments).encode()], [0, 1, 2])
            if connection.recv(16) == ACCEPTED:  # otherwise the server has just ended
                return int(connection.recv(16) or b"256")
    sys.exit(f"forked.py: the server of {modules} does not start")


def watch(connection, pid):
    """Waits for the end of the process or of its caller."""
    process = os.pidfd_open(pid)
    if process not in select.select([connection, process], [], [])[0]:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError):
                kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(ConnectionError):
        connection.send(str(status).encode())
    os._exit(0)


def serve(listener, modules):
    """Returns the arguments of a call, in its process, and None at the end of the server."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy starts the others when it is imported
    for module in modules.split(","):
        with contextlib.suppress(ImportError):  # the tests skip
            importlib.import_module(module)
    del os.environ["OPENBLAS_NUM_THREADS"]
    assert len(os.listdir("/proc/self/task")) == 1, f"{modules} start threads"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener.settimeout(IDLE_S)
    while True:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            return None
        if not is_ours(connection) or os.fork() != 0:
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        message, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        pid = os.fork()
        if pid != 0:
            connection.send(ACCEPTED)
            for descriptor in descriptors:
                os.close(descriptor)
            watch(connection, pid)
        os.setsid()
        connection.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        return json.loads(message)


def run(arguments):
    import pytest

    sys.argv = ["pytest", *arguments]
    sys.path[0] = os.getcwd()
    sys.exit(pytest.main(arguments))


def main():
    if sys.argv[1] == "--serve":
        arguments = serve(socket.socket(fileno=int(sys.argv[2])), sys.argv[3])
        if arguments is not None:
            run(arguments)
    elif not hasattr(os, "pidfd_open"):
        run(sys.argv[2:])
    else:
        status = call(sys.argv[1], sys.argv[2:])
        if os.WIFSIGNALED(status):
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
            os.kill(os.getpid(), os.WTERMSIG(status))
        sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
