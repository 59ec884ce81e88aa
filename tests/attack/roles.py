"""The attackers. They use the protocol of docs/WIRE.md and the messages of the master. Like strangers, they have
separate addresses."""

import contextlib
import json
import os
import pathlib
import selectors
import socket
import ssl
import subprocess
import sys
import threading
import time

import harness
import messages
import wire
from messages import ZERO
from proxy import Proxy

AWAY = "127.0.0.2"
KNOCK = 20  # bytes before a greeting


class Connection(wire.Connection):
    """A connection that is fast also with a long input."""

    def __init__(self, sock):
        super().__init__(sock=sock)
        self.buffer = bytearray()

    def next(self):
        self.receive()
        if len(self.buffer) < wire.HEADER:
            return None
        length, kind, _, sequence, acknowledged, *_ = messages.HEADER.unpack_from(self.buffer)
        end = wire.HEADER + length
        if len(self.buffer) < end:
            return None
        body = bytes(self.buffer[wire.HEADER : end])
        del self.buffer[:end]
        return kind, sequence, acknowledged, body


def dial(port, source=AWAY):
    return Connection(socket.create_connection(("127.0.0.1", port), 5, (source, 0)))


def say_hello(connection, **values):
    """Sends only a hello, by default like a waiting newcomer."""
    new = {"peer": messages.identity(), "token": messages.identity(), "name": "stranger"}
    values = {"port": 1, "candidates": [messages.address(1)], **new, **values}
    return connection.send(messages.frame("hello", **values))


def pour(connection, data, seconds=1):
    """Sends as many of the bytes as the other side accepts before it stops reading or closes. Returns their number."""
    connection.socket.settimeout(seconds)
    poured = 0
    try:
        while poured < len(data):
            poured += connection.socket.send(data[poured : poured + 262144])
    except OSError:
        pass
    connection.socket.setblocking(False)
    return poured


class Outsider(threading.Thread):
    """A peer that asks for admission, and never becomes eligible, because it opens no link. It receives the messages
    for a newcomer."""

    def __init__(self, run, source=AWAY, **hello):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("", 0))
        self.listener.setblocking(False)
        self.source, self.lineage, self.heard, self.out, self.admitted = source, ZERO, {}, None, None
        self.asked = {}  # id -> the fields of the master's request to open a link to this peer
        self.links = []  # (id of the dialing peer, connection)
        self.view = self.votes = None
        self.sent = self.received = self.acknowledged = 0
        self.lock = threading.RLock()
        self.selector = selectors.DefaultSelector()
        self.connection = dial(run.port, source)
        self.selector.register(self.listener, selectors.EVENT_READ, self.accept)
        self.selector.register(self.connection.socket, selectors.EVENT_READ, self.listen)
        port = self.listener.getsockname()[1]
        self.identity = {"peer": messages.identity(), "token": messages.identity(), **hello}
        self.id = self.identity["peer"]
        say_hello(self.connection, **{"port": port, "candidates": [messages.address(port)], **self.identity})
        self.start()

    def say(self, layout, numbered=True, **values):
        with self.lock:
            self.sent += numbered
            frame = messages.frame(layout, self.sent if numbered else 0, self.received, **values)
            return self.connection.send(frame)

    def say_each(self, layout, tags, **values):
        """Sends the message once with each of these tags."""
        number = messages.NUMBERS[layout]
        for raw in messages.bodies(layout, tags, **values):
            with self.lock:
                self.sent += 1
                if not self.connection.send(messages.seal(number, raw, self.sent, self.received)):
                    break

    def run(self):
        while not self.connection.closed:
            for key, _ in self.selector.select():
                key.data()

    def accept(self):
        try:
            link = Connection(self.listener.accept()[0])
        except OSError:  # it has vanished
            self.selector.unregister(self.listener)
            return
        self.selector.register(link.socket, selectors.EVENT_READ, lambda: self.answer(link))

    def answer(self, link):
        while frame := link.next():
            if messages.NAMES.get(frame[0]) == "link_hello":
                self.links.append((messages.parse("link_hello", frame[3])["from"], link))
                link.send(messages.frame("link_ok", peer=self.id))
        if link.closed:
            self.selector.unregister(link.socket)

    def listen(self):
        while frame := self.connection.next():
            with self.lock:
                self.received = max(self.received, frame[1])
                self.acknowledged = max(self.acknowledged, frame[2])
            name = messages.NAMES[frame[0]]
            if name == "outcome":
                continue  # for long floods
            fields = messages.parse(name, frame[3])
            getattr(self, "on_" + name, lambda fields: None)(fields)
            self.heard[name] = fields
        if self.connection.closed and not self.out:
            self.out = "closed"

    def on_hello_ok(self, fields):
        self.lineage = fields["lineage"]

    def on_warm_up(self, fields):
        self.asked[fields["peer"]] = fields

    def on_heartbeat(self, fields):
        if fields["answer"]:
            self.say("heartbeat", numbered=False)

    def on_refused(self, fields):
        self.out = fields["reason"]

    on_expelled = on_refused

    def told(self, name):
        """Waits for this message, and returns its fields, or None if this peer was removed before."""
        harness.poll(lambda: name in self.heard or self.out, f"{name} to be told")
        return self.heard.get(name)

    def flush(self):
        """Waits until the master has handled all messages, or has removed this peer."""
        self.say("heartbeat", numbered=False, answer=1)
        harness.poll(lambda: self.acknowledged >= self.sent or self.out, "the master to have heard all")

    def link(self, port, peer, **values):
        """Opens a link to a peer's port, with the identity in the values. If it has no right to one, the peer may
        refuse or close it."""
        connection = dial(port, self.source)
        connection.send(self.link_hello(peer, **values))
        return connection

    def link_hello(self, peer, **values):
        ticket = {"authentication": value for key, value in self.asked.get(peer, {}).items() if "ticket" in key}
        values = {"lineage": self.lineage, "from": self.id, "to": peer, **ticket, **values}
        return messages.frame("link_hello", **values)

    def learn(self, count):
        """Returns [(id, port)] of these members, which the master names to a newcomer of their group."""
        harness.poll(lambda: len(self.asked) >= count or self.out, "the members to be named")
        return [(peer, messages.port_of(fields["candidates"][0])) for peer, fields in self.asked.copy().items()]

    def peer_at(self, port):
        """Returns the id of the member that listens on this port."""
        return harness.poll(lambda: {number: peer for peer, number in self.learn(1)}.get(port), "a member to be named")

    def vanish(self):
        """Ends all connections and refuses new ones, like a process that exits."""
        for sock in [self.listener, self.connection.socket, *(link.socket for _, link in self.links)]:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended
                pass

    def leave(self):
        self.say("leave", reason="done with it")
        self.flush()
        if not self.out:
            self.connection.socket.shutdown(socket.SHUT_RDWR)


class Repeated(threading.Thread):
    """A call that is repeated until the end of the `with` block, the first time at once."""

    def __init__(self, begin, pause_s=0.1):
        super().__init__(daemon=True)
        self.begin, self.pause_s, self.ended = begin, pause_s, threading.Event()

    def run(self):
        while not self.ended.wait(self.pause_s):
            self.begin()

    def __enter__(self):
        self.begin()
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


class Crowd(Repeated):
    """Newcomers with many addresses, which wait for their admission and send keepalives."""

    def __init__(self, run, count, group_of):
        super().__init__(self.keep_alive, 1)
        self.connections = []
        for i in range(count):
            connection = dial(run.port, f"127.0.0.{2 + i % 16}")
            say_hello(connection, group=group_of(i))
            self.connections.append(connection)
        for connection in self.connections[-16:]:
            harness.poll(lambda connection=connection: connection.next() or connection.is_closed(), "an answer")

    def keep_alive(self):
        heartbeat = messages.frame("heartbeat")
        for connection in self.connections:
            if not connection.is_closed():
                connection.send(heartbeat)

    def __exit__(self, *_):
        super().__exit__()
        for connection in self.connections:
            connection.close()


class HalfHellos(Repeated):
    """Connections at this rate, each from another address, which send half of a knock and greeting and stay open."""

    half = b"pckc" + bytes(16) + wire.tls_greeting()[:80]

    def __init__(self, run, per_s):
        super().__init__(self.go_on, 0.005)
        self.port, self.per_s, self.begun_us, self.count, self.connections = run.port, per_s, None, 0, []

    def go_on(self):
        self.begun_us = self.begun_us or harness.now_us()
        due = (harness.now_us() - self.begun_us) * self.per_s / 1e6  # due now; a busy machine never catches up
        while self.count < due and not self.ended.is_set():
            self.count += 1
            place = self.count % 60000
            try:
                self.connections.append(dial(self.port, f"127.{1 + place // 250}.{1 + place % 250}.1"))
            except OSError:
                continue
            self.connections[-1].send(self.half)
            if len(self.connections) > 6000:
                self.connections.pop(0).close()

    def __exit__(self, *_):
        super().__exit__()
        for connection in self.connections:
            connection.close()


class Shaker:
    """A TLS client that makes its handshake step by step. token: the token for its knock; None: no knock."""

    def __init__(self, port, token, source=AWAY, **versions):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for name, version in versions.items():
            setattr(context, name, version)
        self.received, self.sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.received, self.sent)
        self.socket = socket.create_connection(("127.0.0.1", port), 5, (source, 0))
        self.token = token

    def begin(self):
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        greeting = self.sent.read()
        self.socket.sendall((wire.knock(self.token, greeting) if self.token else b"") + greeting)

    def go_on(self):
        """Reads. Returns true after the handshake; raises ConnectionError or ssl.SSLError if the handshake fails."""
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("closed")
        self.received.write(data)
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.socket.sendall(self.sent.read())
        return True


class Greeters(threading.Thread):
    """TLS clients that know the pin and have no key, from one address, which all begin at once. Counts the master's
    answers."""

    def __init__(self, run, count):
        super().__init__(daemon=True)
        self.answered, self.dropped, self.took_s = 0, 0, 0.0
        self.open, self.since = count, time.monotonic()
        self.selector = selectors.DefaultSelector()
        for client in [Shaker(run.port, run.token()) for _ in range(count)]:
            self.selector.register(client.socket, selectors.EVENT_READ, client)
        self.start()

    def go_on(self, client):
        try:
            if not client.go_on():
                return
            self.answered += 1
        except OSError:
            self.dropped += 1
        self.open -= 1
        self.selector.unregister(client.socket)
        client.socket.close()

    def run(self):
        for key in list(self.selector.get_map().values()):
            key.data.begin()
        while self.open:
            for key, _ in self.selector.select():
                self.go_on(key.data)
        self.took_s = time.monotonic() - self.since


class Member(Outsider):
    """An outsider that joins the run, and acknowledges updates and answers queries while `votes_on`; it does not
    reduce."""

    votes_on = True
    ended = ()  # operations that it names when it acknowledges a view

    def on_warm_up(self, fields):
        super().on_warm_up(fields)
        self.say("link_up", peer=fields["peer"])

    def on_welcome(self, fields):
        self.view, self.admitted = fields["view"], fields
        self.votes = {0: fields["update"], 1: fields["query"]}
        for kind, number in self.votes.items():
            self.say("vote", kind=kind, round=number)

    def on_round(self, fields):
        if self.votes and self.votes_on and fields["kind"] in self.votes:
            self.votes[fields["kind"]] = fields["round"] + 1
            self.say("vote", kind=fields["kind"], round=fields["round"] + 1)

    def on_epoch_change(self, fields):
        if fields["view_changed"]:
            self.view = fields["epoch"]
            self.say("view_ack", view=self.view, instances=self.ended)

    @property
    def others(self):
        return [member["peer"] for member in self.admitted["members"] if member["peer"] != self.id]

    def instance(self, tag=messages.TAG, use=0, pair=0):
        """Returns the name of an operation that its group may launch now."""
        joint, sync = self.votes[0] + self.admitted["optimize"], self.admitted["sync"]
        return {"subgroup": 0, "pair": pair, "joint": joint, "sync": sync, "tag": tag, "use": use}

    def pair(self, source, destination):
        """Returns the name of the pair in which `source` sends to `destination`."""
        numbers = {member["peer"]: member["admitted"] for member in self.admitted["members"]}
        return numbers[source] << 32 | numbers[destination]


class Passer:
    """A process that passes descriptors with a slow close() to these peers: passer.py. It closes its copies before the
    peers continue."""

    def __init__(self, user, peers, names, hello="-"):
        words = [sys.executable, str(pathlib.Path(__file__).with_name("passer.py")), str(user), hello, *names]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.connected = self.told()
        for peer in peers:
            peer.stop()
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        self.passed = self.told()
        harness.equal(self.told(), "closed", "the attacker's last word")
        for peer in peers:
            peer.resume()

    def told(self):
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


class Recorder(threading.Thread):
    """Relays one connection to this port, and records the bytes sent to it."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target, self.data, self.lock = port, b"", threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def said(self):
        with self.lock:
            return self.data

    def records(self):
        """Returns the offsets and lengths of the TLS records that contain sealed or authenticated data."""
        said, at, found = self.said(), KNOCK, []
        while at < len(said):
            length = 5 + int.from_bytes(said[at + 3 : at + 5], "big")
            if said[at] != 20:  # its content is not authenticated
                found.append((at, length))
            at += length
        return found

    def run(self):
        near, _ = self.listener.accept()
        far = socket.create_connection(("127.0.0.1", self.target))
        back = threading.Thread(target=self.pass_on, args=(far, near, False), daemon=True)
        back.start()
        self.pass_on(near, far, True)

    def pass_on(self, source, sink, remembers):
        try:
            while data := source.recv(65536):
                with self.lock:
                    self.data += data if remembers else b""
                sink.sendall(data)
        except OSError:
            pass
        sink.close()


class Reporter(Proxy):
    """A relay between a correct member and the master. Changes the member's reports by `lie`."""

    def __init__(self, port):
        self.said, self.lie, self.lies = b"", None, 0
        super().__init__(port)

    def passes(self, sock, data):
        if sock.getsockname()[1] != self.port:
            return data
        self.said += data
        passed = b""
        while len(self.said) >= wire.HEADER:
            length, kind, _, sequence, acknowledged, *_ = messages.HEADER.unpack_from(self.said)
            frame = self.said[: wire.HEADER + length]
            if len(frame) < wire.HEADER + length:
                break
            self.said = self.said[len(frame) :]
            if messages.NAMES.get(kind) == "sight" and self.lie:
                body = messages.body("sight", **self.lie(messages.parse("sight", frame[wire.HEADER :])))
                frame = messages.seal(kind, body, sequence, acknowledged)
                self.lies += 1
            passed += frame
        return passed


class Tamperer(Proxy):
    """A relay between a peer and the master. In one direction, it flips a bit at this byte, or cuts the connection
    there; earlier bytes pass unchanged."""

    def __init__(self, port, at, of_peer=True, cuts=False):
        super().__init__(port)
        self.at, self.of_peer, self.cuts = at, of_peer, cuts
        self.done, self.said, self.cut_count = False, {}, 0

    def passes(self, sock, data):
        before = self.said.get(sock, 0)
        self.said[sock] = before + len(data)
        is_peer = sock.getsockname()[1] == self.port
        at = (self.at or 0) - before
        if self.at is None or is_peer != self.of_peer or not 0 <= at < len(data):
            return data
        self.done = True
        self.cut_count += self.cuts
        return b"" if self.cuts else data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


class Mutant(harness.Peer):
    """A peer with the token, whose frames are changed before they are sealed: mutant.c."""

    def __init__(self, run, seed, **more):
        self.calls, self.logs, self.others = {}, [], []
        environment = {**run.environment, "MUTANT_SEED": str(seed), **more}
        harness.Process.__init__(self, f"mutant {seed}", [os.environ["ATTACK_MUTANT"]], environment)
        run.processes.append(self)
        self.killed = True  # it may exit with any status
        self.create(run.address)
        self.joins = self.start("connect")

    def is_in(self):
        return self.joins.result and self.joins.result["rc"] == harness.SUCCESS

    def has_failed(self):
        """Returns true if it has not joined, or if a later call has failed."""
        return any(call.result and call.result["rc"] != harness.SUCCESS for call in self.calls.values())


class LyingDonor(Proxy):
    """A relay in front of a donor of shared state. `lie` receives the name and fields of each answer, may change the
    fields, and returns the number of bytes of content that follow and whether they are changed; or None: nothing passes
    from then on."""

    def __init__(self, port, host):
        self.lie, self.lies, self.kept, self.content = None, 0, {}, {}
        super().__init__(port, host)

    def passes(self, sock, data):
        if not data or sock.getsockname()[1] == self.port:
            return data
        kept, passed = self.kept.pop(sock, b"") + data, b""
        while kept:
            left, sent, flips = self.content.get(sock, (0, 0, False))
            if left:
                part, kept = kept[:left], kept[left:]
                self.content[sock] = (left - len(part), max(sent - len(part), 0), False)
                passed += (bytes([part[0] ^ 1]) + part[1:] if flips else part)[:sent]
                continue
            length = int.from_bytes(kept[:4], "little") + wire.HEADER
            if len(kept) < wire.HEADER or len(kept) < length:
                break
            frame, kept = kept[:length], kept[length:]
            frame = self.changed(sock, frame)
            if frame is None:
                return None
            passed += frame
        self.kept[sock] = kept
        return passed or None

    def changed(self, sock, frame):
        _, kind, _, sequence, acknowledged, *_ = messages.HEADER.unpack_from(frame)
        name = messages.NAMES.get(kind)
        if name not in ("state_proofs", "state_data"):
            return frame
        fields = messages.parse(name, frame[wire.HEADER :])
        content, sent, flips = fields.get("length", 0), fields.get("length", 0), False
        if self.lie:
            self.lies += 1
            said = self.lie(name, fields)
            if said is None:
                self.lies += 1
                return None
            sent, flips = said
        self.content[sock] = (content, sent, flips)
        return messages.seal(kind, messages.body(name, **fields), sequence, acknowledged)
