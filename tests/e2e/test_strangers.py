"""Connections of strangers: garbage, silence, other versions and malicious peers harm only themselves."""

import random
import re
import select
import socket
import struct
import threading

import harness
import wire
from harness import INVALID_USAGE, LOST, MASTER_FAILED, SLOW, SUCCESS, TOO_FEW, UPDATE_FAILED
from harness import check, equal, within
from loops import all_right, in_both_sizes, more_steps, start_loop

PATIENCE_MS = 600000  # for a hello, so that no connection of a test exceeds it on a busy machine
HELLO_MS = 3000  # if the test waits for the end of this time
GROWTH_KIB = 4096


def start_members(run, elements, hello_ms=PATIENCE_MS):
    """Starts members that loop. They are undisturbed if every step is correct and includes all of them."""
    run.environment.update(PCCL_LOG_LEVEL="WARN")
    run.start_master(hello_ms=hello_ms)
    peers, loops = [], []
    for bit in range(2):
        peer = run.peer(connect_timeout_ms=hello_ms)  # which is also the limit for strangers
        peer.create(run.address)
        peer.do("connect")
        loops.append(start_loop(peer, bit, count=elements))
        peers.append(peer)
    harness.wait_until(lambda: all(loop.steps and loop.steps[-1]["world"] == 2 for loop in loops), "steps of all")
    return peers, loops


def undisturbed(loops):
    more_steps(loops)
    all_right(loops)
    worlds = [step["world"] for step in loops[0].steps]
    first = worlds.index(len(loops))
    equal(set(worlds[first:]), {len(loops)}, "worlds of the steps")


def answer(connection, what):
    """Returns the first frame received. Fails if the connection is closed without one."""
    frame = harness.poll(lambda: connection.next() or connection.closed, what)
    check(frame is not True, f"closed without {what}")
    return frame


class Steady:
    """Memory and descriptors of the processes, before and after."""

    def __init__(self, processes):
        self.before = [(process, process.rss_kib(), process.descriptors()) for process in processes]

    def hold(self, what):
        for process, rss_kib, descriptors in self.before:
            harness.poll(
                lambda process=process, most=descriptors + 2: process.descriptors() <= most,
                f"{process.name} to close what {what} left open",
            )
            grown = process.rss_kib() - rss_kib
            if SLOW == 1:
                within(grown, -1 << 30, GROWTH_KIB, f"KiB that {process.name} has grown by {what}")


def doors(run, peers):
    """Returns (name, port) of every open port in this run."""
    found = [("master", run.port)]
    for peer in peers:
        found += [(peer.name, port) for port in peer.listening_ports()]
    check(len(found) == len(peers) + 1, f"ports: {found}")
    return found


def bad_openings(run):
    """Returns first messages of strangers that are refused at once."""
    noise = random.Random(1)
    forge = run.forge
    hello = wire.hello(wire.identity(), wire.identity())
    good = forge.frame(wire.HELLO, hello)
    return {
        "random bytes": noise.randbytes(4000),
        "HTTP": b"GET / HTTP/1.1\r\nHost: example\r\n\r\n" + bytes(32),
        "a length of 4 GiB": struct.pack("<IHHQQII", 0xFFFFFFFF, 1, 0, 0, 0, 0, 0),
        "a length beyond a hello's": struct.pack("<IHHQQII", 4097, 1, 0, 0, 0, 0, 0),
        "padding": struct.pack("<IHHQQII", 0, 1, 1, 0, 0, 0, 0),
        "zeros": bytes(64),
        "a wrong checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "a wrong magic": forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity(), magic=1)),
        "an empty body": forge.frame(wire.HELLO, b""),
        "a body that is too long": forge.frame(wire.HELLO, hello + b"x"),
        "an unknown type": forge.frame(99, b""),
        "another message": forge.frame(wire.VOTE, wire.vote(0, 0), 1),
        "a count that is too large": forge.frame(wire.HELLO, hello[: wire.BUILD + 102] + b"\xff" * 30),
        "no identity": forge.frame(wire.HELLO, wire.hello(bytes(16), wire.identity())),
    }


@in_both_sizes
def garbage(run, count):
    """Garbage at the ports of master and peers: refused at once, with a reason if a frame was readable, and without
    effect."""
    peers, loops = start_members(run, count)
    steady = Steady([run.master] + peers)
    for name, port in doors(run, peers):
        for what, data in bad_openings(run).items():
            connection = wire.Connection(port)
            connection.send(data)
            harness.poll(connection.is_closed, f"{name} to close a connection that began with {what}")
            frame = connection.next()
            if frame is not None:
                equal(frame[0], wire.REFUSED, f"answer to {what}")
                version, code, words = wire.parse_refused(frame[3])
                check(version == wire.VERSION and code > 0 and words, f"refusal of {what}: {version} {code} {words}")
            connection.close()
    undisturbed(loops)
    steady.hold("garbage")


@in_both_sizes
def half_said(run, count):
    """Connections that close or reset during a hello, at every byte: each end is noticed immediately."""
    peers, loops = start_members(run, count)
    steady = Steady([run.master] + peers)
    hello = run.forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity()))
    for _, port in doors(run, peers):
        for cut in range(0, len(hello), 3):
            connection = wire.Connection(port)
            connection.send(hello[:cut])
            connection.close(reset=cut % 2 == 0)
    undisturbed(loops)
    steady.hold("half hellos")


def test_byte_by_byte(run):
    """A hello that arrives one byte at a time is valid: the newcomer is pending, then refused because it has no port.
    """
    run.start_master(hello_ms=PATIENCE_MS)
    a, b = run.join(2)
    token = wire.identity()
    connection = wire.Connection(run.port)
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in run.forge.frame(wire.HELLO, wire.hello(wire.identity(), token)):
        check(connection.send(bytes([byte])), "the master has closed the connection")
    frame = answer(connection, "the answer to the hello")
    equal(frame[0], wire.HELLO_OK, "answer")
    run.master.wait_line("stranger")
    connection.close()
    for call in [peer.start("reduce", 1, 4, "i32", "sum", "const:1") for peer in (a, b)]:
        call.wait(rc=SUCCESS)


@in_both_sizes
def silent(run, count):
    """50 silent connections to every port: the loops continue, a newcomer joins, and they are closed after hello_ms."""
    peers, loops = start_members(run, count, HELLO_MS)
    steady = Steady([run.master] + peers)
    connections = [wire.Connection(port) for _, port in doors(run, peers) for _ in range(50)]
    hello = run.forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity()))
    for i, connection in enumerate(connections):
        if i % 2:
            connection.send(hello[: i % len(hello)])  # half of them send a partial hello
    undisturbed(loops)
    newcomer = run.peer()
    newcomer.create(run.address)
    newcomer.do("connect")
    newcomer.quit()
    for i, connection in enumerate(connections):
        harness.poll(connection.is_closed, f"silent connection {i} to be closed")
        connection.close()
    harness.wait_until(lambda: loops[0].steps[-1]["world"] == 2, "the loops to go on")
    steady.hold("silent connections")


@in_both_sizes
def crowd(run, count):
    """More silent connections than the limit of strangers: a newcomer with a hello still joins."""
    peers, loops = start_members(run, count)
    connections = [wire.Connection(run.port) for _ in range(400)]
    newcomer = run.peer()
    newcomer.create(run.address)
    newcomer.do("connect")
    newcomer.quit()
    closed = sum(connection.is_closed() for connection in connections)
    within(closed, 100, 400, "connections that had to make room")
    for connection in connections:
        connection.close()
    harness.wait_until(lambda: loops[0].steps[-1]["world"] == 2, "the loops to go on")


def test_flood_from_one_address(run):
    """Hundreds of connections from one address while a hello from another is in flight, to the master and to a peer: it
    arrives, no matter how long its path is; the flood displaces only itself."""
    run.environment.update(PCCL_LOG_LEVEL="WARN")
    run.start_master(hello_ms=PATIENCE_MS)
    peer = run.join(1, connect_timeout_ms=PATIENCE_MS)
    hello = run.forge.frame(wire.HELLO, wire.hello(wire.identity(), wire.identity()))
    for name, port in doors(run, [peer]):
        slow = wire.Connection(port, source="127.0.0.2")
        flood = [wire.Connection(port) for _ in range(400)]
        harness.poll(lambda flood=flood: sum(i.is_closed() for i in flood) >= 100, f"{name} to make room")
        check(not slow.is_closed(), f"{name} has closed the connection from elsewhere")
        slow.send(hello)
        frame = answer(slow, f"the answer of {name}")
        equal(frame[0], wire.HELLO_OK if name == "master" else wire.REFUSED, f"answer of {name}")
        for connection in flood + [slow]:
            connection.close()


def test_garbage_in_the_log(run):
    """Hundreds of refused connections cause a hundred log lines per minute."""
    run.environment.update(PCCL_LOG_LEVEL="INFO")
    run.start_master()
    for _ in range(300):
        connection = wire.Connection(run.port)
        connection.send(bytes(64))
        harness.poll(connection.is_closed, "the master to refuse garbage")
        connection.close()
    lines = [text for _, text in run.master.lines if "refused 127.0.0.1" in text]
    within(len(lines), 100, 200, "lines about refused connections")  # two minutes at most, even on a busy machine


@in_both_sizes
def many_connections(run, count):
    """Quick connections one after another."""
    peers, loops = start_members(run, count)
    ports = [port for _, port in doors(run, peers)]
    for i in range(200):
        wire.Connection(ports[i % len(ports)]).close()
    steady = Steady([run.master] + peers)
    for i in range(2000):
        wire.Connection(ports[i % len(ports)]).close(reset=i % 3 == 0)
    undisturbed(loops)
    steady.hold("2000 connections")


@in_both_sizes
def other_version(run, count):
    """A peer of another version, or of another schema in the same version, gets a refusal from the master and from
    peers that names both builds and which one to upgrade."""
    peers, loops = start_members(run, count)
    for name, port in doors(run, peers):
        for other in {"version": 999}, {"digest": 1}:
            connection = wire.Connection(port)
            if name == "master":
                body = wire.hello(wire.identity(), wire.identity(), **other)
                connection.send(run.forge.frame(wire.HELLO, body))
            else:
                body = wire.link_hello(wire.identity(), wire.identity(), wire.identity(), **other)
                connection.send(run.forge.frame(wire.LINK_HELLO, body))
            frame = answer(connection, f"the refusal of {name}")
            equal(frame[0], wire.REFUSED, f"answer of {name}")
            version, code, words = wire.parse_refused(frame[3])
            equal((version, code), (wire.VERSION, 1), f"refusal of {name}")
            here, there = ("this master", "the peer") if name == "master" else ("this peer", "the caller")
            own = rf"{here} is PCCL \d+\.\d+\.\d+, commit .* \(protocol {wire.VERSION}, schema {wire.DIGEST:016x}\), "
            check(re.match(own, words), words)
            said = f"protocol {other.get('version', wire.VERSION)}, schema {other.get('digest', wire.DIGEST):016x}"
            check(f"{there} is PCCL 0.0.1, commit 000000000001 of 2026-01-01 ({said}): " in words, words)
            check(words.endswith(f": upgrade {here if 'version' in other else there}"), words)
            harness.poll(connection.is_closed, f"{name} to close")
    undisturbed(loops)


def test_other_hello(run):
    """A later version may have a longer hello: only its beginning is read, and the refusal names the version."""
    run.start_master()
    connection = wire.Connection(run.port)
    body = wire.hello(wire.identity(), wire.identity(), version=wire.VERSION + 1) + b"more that a later version says"
    connection.send(run.forge.frame(wire.HELLO, body))
    frame = answer(connection, "the refusal")
    equal(wire.parse_refused(frame[3])[:2], (wire.VERSION, 1), "refusal")


def fake_master(answers):
    """A listener that answers the first frame of each connection with the next of `answers`.
    Returns (port, thread)."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(harness.DEADLINE)

    def serve():
        for answer in answers:
            try:
                connection = wire.Connection(sock=listener.accept()[0])
                if harness.poll(lambda: connection.next() or connection.closed or None, "a hello") is not True:
                    connection.send(answer)
                    harness.poll(connection.is_closed, "the peer to close")
                connection.close()
            except (OSError, harness.Failure):
                break
        listener.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener.getsockname()[1], thread


def test_master_of_another_version(run):
    """connect fails with a reason if the master refuses this version, or answers in its version."""
    run.environment["PCCL_EXTENDED_RESULTS"] = "1"
    answers = [
        run.forge.frame(wire.REFUSED, wire.refused(999, 1, "come back with version 999")),
        run.forge.frame(wire.HELLO_OK, wire.hello_ok(version=999)),
        run.forge.frame(wire.HELLO_OK, wire.hello_ok(digest=1)),
    ]
    port, thread = fake_master(answers)
    peer = run.peer(call_timeout_ms=60000)
    peer.create(f"127.0.0.1:{port}")
    words = peer.do("connect", rc=harness.VERSION)["words"]
    check("999" in words and "come back with" in words, f"words: {words}")
    for advice in ": upgrade this peer", ": upgrade the master":
        words = peer.do("connect", rc=harness.VERSION)["words"]
        check(words.endswith(advice), f"words: {words}")
    thread.join(harness.DEADLINE)


def test_master_of_another_version_in_between(run):
    """A member reaches a master of another version in place of its master: it waits, and continues after the return of
    the latter."""
    master, peer = admitted_alone(run)
    call = peer.start("update")
    master.hear(wire.VOTE)
    for refusal in (wire.VERSION, "another one"), (7, "too old"):
        master.connection.close()
        master.connection = wire.Connection(sock=master.listener.accept()[0])
        master.hear(wire.HELLO)
        master.say(wire.REFUSED, wire.refused(refusal[0], 1, refusal[1]), False)
        harness.poll(master.connection.is_closed, "the member to close")
    check(call.result is None, f"result: {call.result}")
    master.greet()
    master.hear(wire.VOTE)
    master.say(wire.ROUND, struct.pack("<BQB", 0, 0, 0) + wire.epoch(1, 1) + struct.pack("<IIIIQI", 1, 1, 1, 1, 0, 0))
    call.wait(rc=SUCCESS)
    logged = [text for _, text in peer.lines if "; reconnecting until the run's master is back" in text]
    check(len(logged) == 2 and "another one" in logged[0], f"log: {logged}")
    check("the master is PCCL of unknown version (protocol 7): upgrade the master" in logged[1], f"log: {logged}")
    master.close()


def test_lying_master(run):
    """A master that sends nonsense after a valid hello: connect fails with a reason, the process survives."""
    answers = []
    for kind in wire.MASTER_SAYS:
        for seed in range(3):
            body = run.forge.random_body(kind, seed)
            answers.append(
                run.forge.frame(wire.HELLO_OK, wire.hello_ok()) + run.forge.frame(kind, body, 0 if kind < 32 else 1)
            )
        answers.append(run.forge.frame(kind, b"\xff" * 100, 1))
    answers += [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" + bytes(64), bytes(1000), random.Random(2).randbytes(5000)]
    port, thread = fake_master(answers)
    peer = run.peer(call_timeout_ms=200, master_lost_ms=150, alone_ms=100, dial_max_ms=20, log_level="NONE")
    peer.create(f"127.0.0.1:{port}")
    harness.poll(lambda: not thread.is_alive() or _try_connect(peer), "the fake master to have said all")
    peer.do("ping")


def _try_connect(peer):
    result = peer.do("connect", rc=None)
    check(result["rc"] in (MASTER_FAILED, SUCCESS), f"connect: {result}")
    check(result["rc"] == SUCCESS or result["words"], "words")
    if result["rc"] == SUCCESS:  # a welcome that happened to be valid; the connection fails soon
        harness.poll(lambda: peer.do("attr", rc=None)["rc"] == INVALID_USAGE, "the loss of the fake master")
    return None


class FakeMaster:
    """The master of one peer, which sends the messages of the test, in a run with only this peer."""

    def __init__(self, run):
        self.run, self.sent, self.received = run, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.run_key = wire.identity()

    def say(self, kind, body, numbered=True):
        self.sent += numbered
        self.connection.send(self.run.forge.frame(kind, body, self.sent if numbered else 0, self.received))

    def hear(self, wanted):
        def heard():
            while frame := self.connection.next():
                self.received = max(self.received, frame[1])
                if frame[0] == wanted:
                    return frame[3]
            check(not self.connection.closed, f"the peer has gone, message {wanted} was awaited")
            return None

        return harness.poll(heard, f"message {wanted}")

    def admit(self):
        self.connection = wire.Connection(sock=self.listener.accept()[0])
        hello = self.hear(wire.HELLO)
        self.peer = hello[wire.BUILD + 32 : wire.BUILD + 48]
        self.say(wire.HELLO_OK, wire.hello_ok(), False)
        one = struct.pack("<I", 1)
        members = one + self.peer + struct.pack("<IQ", 0, 1) + bytes(16) + one + self.peer
        self.say(wire.WELCOME, wire.epoch(1, 1) * 2 + bytes(40) + self.run_key + members + bytes(wire.COST))

    def greet(self):
        """Accepts the returned peer, and continues its session."""
        self.connection = wire.Connection(sock=self.listener.accept()[0])
        self.hear(wire.HELLO)
        self.say(wire.HELLO_OK, wire.hello_ok(mode=2), False)

    def close(self):
        self.connection.close()
        self.listener.close()


def test_master_counts_wrongly(run):
    """A master answers for an epoch that it never announces, with an additional peer: the operation waits for its view,
    and the process survives, for any size."""
    for elements in (10, 1000000):
        master = FakeMaster(run)
        peer = run.peer(where_ms=100)
        peer.create(master.address)
        connect = peer.start("connect")
        master.admit()
        connect.wait(rc=SUCCESS)
        update = peer.start("update")
        master.hear(wire.VOTE)
        later = wire.epoch(2**32 - 1, 1)
        master.say(wire.ROUND, struct.pack("<BQB", 0, 0, 0) + later + struct.pack("<IIIIQI", 2, 2, 1, 2, 0, 0))
        update.wait(rc=SUCCESS)
        call = peer.start("reduce", 1, elements, "f32", "sum", "const:1", "inplace")
        master.hear(wire.WHERE)  # it has been launched
        master.say(
            wire.EPOCH_CHANGE,
            wire.epoch(2**32 - 1, 2) + bytes(9) + b"\1" + struct.pack("<I", 1) + master.peer + bytes(wire.COST + 5),
        )
        check(call.wait(rc=LOST)["intact"], "input changed")
        peer.do("reduce", 1, elements, "f32", "sum", "const:1", "inplace", rc=TOO_FEW)
        master.close()


def admitted_alone(run, **parameters):
    """Returns (FakeMaster, peer), in a run with only this peer."""
    master = FakeMaster(run)
    peer = run.peer(**parameters)
    peer.create(master.address)
    connect = peer.start("connect")
    master.admit()
    connect.wait(rc=SUCCESS)
    return master, peer


def test_master_greets_alone(run):
    """A master accepts a returning member each time, but cannot continue: the member dials at growing intervals, and
    its call ends."""
    master, peer = admitted_alone(run, master_lost_ms=800, alone_ms=500, dial_max_ms=100)
    call = peer.start("update")
    dials = 0
    while dials < 40 and not call.result:
        master.connection.close()
        if not select.select([master.listener], [], [], 1)[0]:
            break
        master.greet()
        dials += 1
    check(dials <= 20, f"{dials} dials")  # after 10, 20, 40, 80, 100, 100 ... ms, in 0.8 s; fewer on a busy machine
    words = call.wait(rc=UPDATE_FAILED)["words"]
    check("the master did not come back within" in words, words)
    master.close()


def test_master_repeats_an_invalid_message(run):
    """The next message of the master's session cannot be decoded: the member ends at the second one, with the reason.
    """
    master, peer = admitted_alone(run)
    call = peer.start("update")
    master.hear(wire.VOTE)
    master.say(wire.ROUND, b"\xff" * 10)
    harness.poll(master.connection.is_closed, "the peer to close the connection")
    check(call.result is None, f"after the first one: {call.result}")
    master.greet()
    master.sent -= 1
    master.say(wire.ROUND, b"\xff" * 10)
    reason = master.hear(wire.LEAVE)[4:].decode()
    check("the master sent an invalid message for the second time: round.kind is 255" in reason, reason)
    equal(call.wait(rc=UPDATE_FAILED)["words"], reason, "words of the call")
    master.close()


class Liar:
    """Implements enough of the protocol to become a member, with a valid port."""

    def __init__(self, run, group=0):
        self.run = run
        self.id, self.token = wire.identity(), wire.identity()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.links = []
        self.sent = self.received = 0
        self.rounds = [0, 0]
        self.added = 0  # members since it joined
        self.tickets = {}  # (peer, its port): the ticket to it, as the master says
        self.says_up = True
        self.state = "pending"
        self.connection = wire.Connection(run.port)
        self.lineage = None
        self.say(wire.HELLO, wire.hello(self.id, self.token, group=group, port=self.listener.getsockname()[1]), False)

    def say(self, kind, body, numbered=True):
        self.sent += numbered
        return self.connection.send(self.run.forge.frame(kind, body, self.sent if numbered else 0, self.received))

    def turn(self):
        """Answers received messages, like a correct peer. Returns None until the connection has ended."""
        while True:
            try:
                self.links.append(wire.Connection(sock=self.listener.accept()[0]))
            except BlockingIOError:
                break
        for link in self.links:
            frame = link.next()
            if frame and frame[0] == wire.LINK_HELLO:
                link.send(self.run.forge.frame(wire.LINK_OK, wire.link_ok(self.id)))
        frame = self.connection.next()
        if frame is None:
            return True if self.connection.closed else None
        kind, sequence, _, body = frame
        self.received = max(self.received, sequence)
        if kind == wire.HELLO_OK:
            self.lineage = body[wire.BUILD : wire.BUILD + 16]
        elif kind == wire.WELCOME:
            self.state = "member"
            self.rounds = [struct.unpack_from("<Q", body, 24)[0], struct.unpack_from("<Q", body, 40)[0]]
        elif kind == wire.EPOCH_CHANGE:
            self.added += struct.unpack_from("<I", body, 13)[0]
        elif kind == wire.WARM_UP:
            self.tickets[body[16:32], struct.unpack_from("<H", body, 71)[0]] = body[32:48]
            if self.says_up:
                self.say(wire.LINK_UP, body[16:32] + bytes(14))
        elif kind == wire.ROUND:
            self.rounds[body[0]] = struct.unpack_from("<Q", body, 1)[0] + 1
        elif kind == wire.HEARTBEAT and body[0]:
            self.say(wire.HEARTBEAT, bytes(9), False)
        elif kind in (wire.EXPELLED, wire.REFUSED):
            self.state = "out"
        return None

    def until(self, condition, what):
        def turned():
            while self.connection.buffer or not self.connection.closed:
                before = len(self.connection.buffer)
                self.turn()
                if condition():
                    return True
                if len(self.connection.buffer) == before:
                    break
            return condition() or None

        harness.poll(turned, what)

    def close(self):
        self.connection.close()
        self.listener.close()
        for link in self.links:
            link.close()


@in_both_sizes
def liar_before_admission(run, count):
    """A valid hello, then each message that a peer can send, with random valid contents, and trailing bytes: the loops
    continue."""
    peers, loops = start_members(run, count)
    steady = Steady([run.master] + peers)
    for kind in wire.PEER_SAYS + wire.MASTER_SAYS + [0, 77, 127]:
        for seed in range(2):
            liar = Liar(run)
            liar.until(lambda liar=liar: liar.lineage, "the answer to the hello")
            body = run.forge.random_body(kind, seed) or b""
            liar.say(kind, body)
            liar.say(kind, body + b"\0")
            liar.say(kind, body, numbered=False)
            liar.close()
    undisturbed(loops)
    steady.hold("liars")


@in_both_sizes
def liar_is_a_member(run, count):
    """A member that breaks the protocol is removed, and the others reduce without it."""
    run.environment.update(PCCL_LOG_LEVEL="WARN")
    run.start_master()
    noise = random.Random(3)
    for kind in wire.PEER_SAYS:
        liar = Liar(run)
        liar.until(lambda liar=liar: liar.state == "member", "the liar to found a run")
        peers = []
        for _ in range(2):
            peer = run.peer()
            peer.create(run.address)
            connect = peer.start("connect")
            liar.added = 0
            while liar.added == 0:  # the liar votes whenever the members do
                number = liar.rounds[0]
                votes = [member.start("update") for member in peers]
                liar.say(wire.VOTE, wire.vote(0, number))
                liar.until(lambda number=number: liar.rounds[0] > number, "the round")
                for vote in votes:
                    vote.wait(rc=SUCCESS)
            connect.wait(rc=SUCCESS)
            peers.append(peer)
        for peer in peers:
            equal(peer.do("attr")["world"], 3, "world with the liar")
        calls = [peer.start("reduce", 1, count, "i32", "sum", "const:2", "inplace") for peer in peers]
        body = run.forge.random_body(kind, noise.randrange(1000))
        for _ in range(3):
            liar.say(kind, body)
        liar.say(wire.WELCOME, b"\0")  # this message is never allowed
        liar.close()  # otherwise it could return within the silence limit
        results = [call.wait() for call in calls]
        codes = {result["rc"] for result in results}  # success if the liar was removed before the launch
        check(codes in ({LOST}, {SUCCESS}), f"results after {kind}: {codes}")
        check(all(result["intact"] for result in results), "input changed")
        for call in [peer.start("multi", 2, 1, 5, count, "i32", "sum", "const:2") for peer in peers]:
            equal(call.wait(rc=SUCCESS)["peers"], 2, "peers without the liar")
        for peer in peers:
            peer.quit()
    run.master.wait_line("departs")



class Caller:
    """A stranger at a member's port."""

    def __init__(self, run, lineage, source, member, ticket=b"", kind=1):
        peer, port = member
        self.connection = wire.Connection(port)
        hello = wire.link_hello(lineage, source, peer, kind=kind, ticket=ticket)
        self.connection.send(run.forge.frame(wire.LINK_HELLO, hello))

    def is_refused(self, why):
        frame = answer(self.connection, "the answer to link_hello")
        equal(frame[0], wire.REFUSED, "answer to link_hello")
        _, code, words = wire.parse_refused(frame[3])
        check(code == 2 and why in words, f"refusal: {code} {words}")
        harness.poll(self.connection.is_closed, "the connection to be closed")
        self.connection.close()

    def is_taken(self):
        equal(answer(self.connection, "the answer to link_hello")[0], wire.LINK_OK, "answer to link_hello")


def spy(run, count):
    """Returns a newcomer that never becomes a member: it knows the run, the members with their ports, and its tickets.
    """
    newcomer = Liar(run)
    newcomer.says_up = False
    newcomer.until(lambda: len(newcomer.tickets) == count, "the newcomer to be told of all members")
    return newcomer


@in_both_sizes
def without_ticket(run, count):
    """A stranger that knows the run, all ids and its tickets cannot pose as another peer: its links are refused with a
    reason, for any purpose, and the members' links are not affected."""
    peers, loops = start_members(run, count)
    newcomer = spy(run, len(peers))
    members = list(newcomer.tickets)
    steady = Steady(peers)
    for _ in range(3):
        for member in members:
            for source in [other[0] for other in members if other != member] + [wire.identity()]:
                for ticket in (b"", wire.identity(), newcomer.tickets[member]):
                    for kind in (1, 3, 4):  # for data, for shared state, for tests
                        Caller(run, newcomer.lineage, source, member, ticket, kind).is_refused("no valid ticket")
    undisturbed(loops)
    steady.hold("links without a ticket")
    newcomer.close()


@in_both_sizes
def ahead_of_the_view(run, count):
    """A peer that the master has announced may connect before the members know it, and send early: a limited amount is
    held, then it is removed, without effect on the members' operations."""
    peers, loops = start_members(run, count)
    newcomer = spy(run, len(peers))
    steady = Steady(peers)
    for one in (True, False):  # in one operation, in many
        bodies = [wire.data(7 if one else i, i if one else 0, 1) for i in range(1025)]
        segments = b"".join(run.forge.frame(wire.DATA, body) + b"x" for body in bodies)
        for member, ticket in newcomer.tickets.items():
            caller = Caller(run, newcomer.lineage, newcomer.id, member, ticket)
            caller.is_taken()
            caller.connection.send(segments)
            harness.poll(caller.connection.is_closed, "one who sends ever more ahead to be closed")
            caller.connection.close()
    undisturbed(loops)
    steady.hold("what is sent ahead")
    newcomer.close()


harness.main()
