"""A network between peers and their master, or between peers, that can be cut, stopped, and slowed down to single
bytes."""

import selectors
import socket
import struct
import threading

import harness
import ports
from phases import PATIENT

# A peer counts as reachable until the master has dialed it for this time, which a busy machine may need.
PROXIED = {**PATIENT, "settle_ms": 20000}


def behind_proxy(run, kind=None, **parameters):
    """Returns a peer that other peers reach only through a proxy (of this kind), and the proxy. The proxy has the
    port of the peer at the source address of its connection to the master, which the master dials first: as soon as
    a dial has failed, other links may be reversed, and bypass the proxy. Masters have the parameters PROXIED."""
    port = ports.free_port()
    proxy = (kind or Proxy)(port, "127.0.0.2")
    peer = run.peer(local="tcp", **parameters)
    addresses = {"bind_address": "127.0.0.2", "advertise_addresses": f"127.0.0.1:{proxy.port}"}
    peer.create(run.address, port=port, port_range=1, **addresses)
    return peer, proxy


def join_behind_proxies(run, count, **parameters):
    """Returns members that others reach only through proxies, and the proxies."""
    members, proxies = [], []
    for _ in range(count):
        peer, proxy = behind_proxy(run, **parameters)
        run.admit(peer, members)
        members.append(peer)
        proxies.append(proxy)
    return members, proxies


def join_over_proxies(run):
    """Returns three members that reach their master through separate proxies, and the proxies."""
    members, proxies = [], []
    for _ in range(3):
        proxy = Proxy(run.port)
        peer = run.peer(dial_max_ms=50)
        peer.create(f"127.0.0.1:{proxy.port}")
        run.admit(peer, members)
        members.append(peer)
        proxies.append(proxy)
    return members, proxies


class Proxy:
    """Listens on `port` and forwards to `target`. Its methods may be called from any thread."""

    def __init__(self, target, host="127.0.0.1"):
        self.target = (host, target)
        self.listener = socket.create_server(("127.0.0.1", 0 if host == "127.0.0.1" else target))
        self.port = self.listener.getsockname()[1]
        self.chunk = 65536  # maximum bytes in one step
        self.room = None  # bytes that pass before it holds automatically
        self.count = 0  # all connections, including closed ones
        self._pairs = {}  # socket -> the opposite socket
        self._sent = {}  # socket of a side that dialed, the oldest first -> bytes received there
        self._orphans = []  # remain open
        self._held = False
        self._orders = []
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._selector.register(self.listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _order(self, order):
        done = threading.Event()
        self._orders.append((order, done))
        self._wake_out.send(b"x")
        harness.check(done.wait(harness.DEADLINE), "the proxy does not obey")

    def pairs(self):
        """Returns the number of open connections."""
        return len(self._sent)

    def least_sent(self):
        """Returns the smallest number of bytes that a side that dialed has sent on an open connection."""
        return min(list(self._sent.values()), default=0)

    def cut_one(self, number, reset=False, only_outer=False):
        """Breaks this open connection, counted from the oldest. only_outer: as for `cut`."""

        def close_one():
            sock = list(self._sent)[number]
            if only_outer:
                self._close_one_side(sock, inner=False)
            else:
                self._close(sock, reset)

        self._order(close_one)

    def cut(self, reset=False, only_inner=False, only_outer=False):
        """Breaks all connections; new ones work. only_inner: the target does not notice. only_outer: the side that
        dialed does not notice, and its bytes are acknowledged."""

        def close_all():
            for sock in list(self._sent):
                if only_inner or only_outer:
                    self._close_one_side(sock, inner=only_inner)
                else:
                    self._close(sock, reset)

        self._order(close_all)

    def hold(self, on):
        """No bytes pass and no connection is closed, as with an unplugged cable."""

        def change():
            self.room = None
            if self._held != on:
                self._set_held(on)

        self._order(change)

    def is_held(self):
        return self._held

    def _set_held(self, on):
        self._held = on
        for sock in self._pairs:
            if on:
                self._selector.unregister(sock)
            else:
                self._selector.register(sock, selectors.EVENT_READ)

    def _close_one_side(self, sock, inner):
        other = self._pairs.pop(sock)
        self._pairs.pop(other)
        self._sent.pop(sock)
        for end in (sock, other) if not self._held else ():
            self._selector.unregister(end)
        self._orphans.append(other if inner else sock)
        (sock if inner else other).close()

    def _close(self, sock, reset=False):
        other = self._pairs.pop(sock, None)
        for end in (sock, other):
            if end is None:
                continue
            self._pairs.pop(end, None)
            self._sent.pop(end, None)
            if not self._held:
                self._selector.unregister(end)
            if reset:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.close()

    def _accept(self):
        inner, _ = self.listener.accept()
        try:
            outer = socket.create_connection(self.target, 5)
        except OSError:
            inner.close()
            return
        self.count += 1
        for sock in (inner, outer):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pairs[inner], self._pairs[outer] = outer, inner
        self._sent[inner] = 0
        if not self._held:
            self._selector.register(inner, selectors.EVENT_READ)
            self._selector.register(outer, selectors.EVENT_READ)

    def passes(self, sock, data):  # pylint: disable=unused-argument
        """Returns the bytes to forward instead of these. Empty bytes cut the connection; None forwards nothing for now.
        """
        return data

    def _forward(self, sock):
        if self._held:  # since this was selected
            return
        try:
            data = sock.recv(65536)
            if sock in self._sent:
                self._sent[sock] += len(data)
            data = self.passes(sock, data)
            if data is None:
                return
            for at in range(0, len(data), self.chunk):
                self._pairs[sock].sendall(data[at : at + self.chunk])
        except OSError:
            data = b""
        if not data:
            self._close(sock)
        elif self.room is not None:
            self.room -= len(data)
            if self.room <= 0:
                self._set_held(True)

    def _serve(self):
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self._wake_in:
                    self._wake_in.recv(100)
                    while self._orders:
                        order, done = self._orders.pop(0)
                        order()
                        done.set()
                elif key.fileobj in self._pairs:
                    self._forward(key.fileobj)
