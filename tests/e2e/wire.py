"""The few messages that tests encode themselves, from docs/WIRE.md and not with the library, as an independent check.
"""

import base64
import hmac
import os
import pathlib
import re
import select
import socket
import struct

MAGIC = 0x31306C636370AB89
HELLO, HELLO_OK, REFUSED, HEARTBEAT, LEAVE, VOTE, LINK_UP, WHERE = 1, 2, 3, 4, 5, 6, 13, 14
WELCOME, EXPELLED, EPOCH_CHANGE, ROUND, WARM_UP = 32, 33, 34, 36, 37
LINK_HELLO, LINK_OK, DATA = 64, 65, 68
MASTER_SAYS = [2, 3, 4] + list(range(32, 41))
PEER_SAYS = list(range(1, 19))
HEADER = 32
PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "WIRE.md").read_text(encoding="utf-8")


def bytes_of(structure):
    """Returns the size of a structure of integers, as on the page."""
    fields = re.search(rf"^### {structure}\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[1]
    return sum(int(bits) // 8 for bits in re.findall(r"^\| \w+ \| u(\d+) \|", fields, re.MULTILINE))


COST = bytes_of("cost")
VERSION = int(re.search(r"protocol version (\d+)", PAGE)[1])
DIGEST = int(re.search(r"^\| digest \| u64 \| (0x[0-9a-f]+) \|$", PAGE, re.MULTILINE)[1], 16)
BUILD = 40  # bytes


def build(version=VERSION, digest=DIGEST):
    """Returns the beginning of a greeting, after its magic: release 0.0.1, of commit 1."""
    return struct.pack("<IQQIQQ", version, digest, 0, 1, 1 << 16, 20260101000000)


def identity():
    return os.urandom(15) + b"\x01"


def text(words):
    return struct.pack("<I", len(words)) + words.encode()


def address(port):
    return bytes(10) + b"\xff\xff" + bytes([127, 0, 0, 1]) + struct.pack("<H", port)


def epoch(inc, number):
    return struct.pack("<IQ", inc, number)


def hello(peer, token, version=VERSION, group=0, port=1, run_key=bytes(16), boot=0, magic=MAGIC, digest=DIGEST):
    candidates = struct.pack("<I", 1) + address(port)
    link_key = identity()
    return (
        struct.pack("<Q", magic)
        + build(version, digest)
        + struct.pack("<16sQ16s16s16sIQH", run_key, boot, peer, token, link_key, group, 0, port)
        + candidates
        + text("stranger")
        + struct.pack("<IB", 0, 0)
    )


def hello_ok(version=VERSION, lineage=None, mode=1, boot=7, digest=DIGEST):
    tail = struct.pack("<16sQBQIIIB", lineage or identity(), boot, mode, 0, 2000, 400, 8192, 0)
    return build(version, digest) + tail + address(1) + struct.pack("<I", 0)


def refused(version, code, words):
    return struct.pack("<IH", version, code) + text(words)


def link_hello(lineage, source, target, kind=1, version=VERSION, slot=0, ticket=b"", digest=DIGEST):
    head = struct.pack("<Q", MAGIC) + build(version, digest)
    head += struct.pack("<16s16s16sBBBQ", lineage, source, target, kind, slot, 0, 1)
    return head + struct.pack("<I", len(ticket)) + ticket


def link_ok(peer):
    return struct.pack("<IQ16s", VERSION, 0, peer)


def data(tag, stripe, length, view=(1 << 31, 1)):
    """Returns the first step of an operation of the whole group; the payload follows. Its era and view are still
    unknown."""
    return struct.pack("<QQQQQI", 0, 0, 1 << 40, 0, tag, 0) + epoch(*view) + struct.pack("<QII", stripe, 0, length)


def vote(kind, number, drain=0):
    return struct.pack("<BQB", kind, number, drain) + text("")


def parse_refused(body):
    version, code, length = struct.unpack_from("<IHI", body)
    return version, code, body[10 : 10 + length].decode()


class Connection:
    """A socket that reads whole frames and records whether the other side has closed it."""

    def __init__(self, port=None, sock=None, host="127.0.0.1", source=None):
        self.socket = sock or socket.create_connection((host, port), 5, source and (source, 0))
        self.socket.setblocking(False)
        self.buffer = b""
        self.closed = False

    def send(self, data):
        """Returns false if the other side has closed it, whose last bytes can still be received."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                select.select([], [self.socket], [], 5)
            except OSError:
                return False
        return True

    def receive(self):
        """Reads all bytes that have arrived."""
        while not self.closed:
            try:
                data = self.socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                self.closed = True
                return
            self.closed = not data
            self.buffer += data

    def next(self):
        """Returns (type, sequence, acknowledged, body) of the next received frame, or None."""
        self.receive()
        if len(self.buffer) < HEADER:
            return None
        length, kind, _, sequence, acknowledged = struct.unpack_from("<IHHQQ", self.buffer)
        if len(self.buffer) < HEADER + length:
            return None
        body = self.buffer[HEADER : HEADER + length]
        self.buffer = self.buffer[HEADER + length :]
        return kind, sequence, acknowledged, body

    def is_closed(self):
        self.receive()
        return self.closed

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def tls_greeting():
    """Returns the beginning of a TLS handshake, without its end."""
    hello = bytes.fromhex("0303") + bytes(32) + b"\0" + bytes.fromhex("00021301") + b"\x01\x00"
    extensions = bytes.fromhex("002b0003020304") + bytes.fromhex("000a00040002001d")
    extensions += bytes.fromhex("000d0004000208 07".replace(" ", ""))
    extensions += bytes.fromhex("00330026002400 1d0020".replace(" ", "")) + bytes([9]) + bytes(31)
    hello += len(extensions).to_bytes(2, "big") + extensions
    message = b"\x01" + len(hello).to_bytes(3, "big") + hello
    return b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message


def _code(key, data):
    return hmac.digest(key, data, "sha256")


def knock(token, greeting):
    """Returns the knock of a peer with this token in front of its greeting (PROTOCOL 17.8)."""
    pin = base64.urlsafe_b64decode(token.split(".")[1] + "==")
    return b"pckc" + _code(_code(pin, b"pccl knock 1\0"), greeting)[:16]


def link_knock(ticket, source, target, greeting, kind="l", mode="s"):
    """Returns the knock of one end of a link at the port of the other."""
    name = f"pccl1 {kind}{mode}{source.hex()}-{target.hex()}".encode()
    return b"pckl" + _code(_code(ticket, b"pccl knock 1\0" + source + target), name + greeting)[:16] + name


def secure_greeting(token):
    """Returns the beginning of a handshake that the master continues."""
    return knock(token, tls_greeting()) + tls_greeting()
