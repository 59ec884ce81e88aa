"""Strangers at the ports of a run with tokens: without the right knock in front of its TLS greeting each gets the same
refusal, and OpenSSL does not see the greeting."""

import os
import pathlib
import shutil
import ssl
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

# pylint: disable=wrong-import-position
import harness
import messages
import wire
from harness import check, equal
from honest import Run
from roles import AWAY, KNOCK, Mutant, Shaker, dial
from tokens import refused

ALERT = bytes([21, 3, 3, 0, 2, 2, 49])  # access_denied
OTHER = "pccl1." + "A" * 22 + "." + "A" * 43  # a token of another master


def _secured(run, **master):
    run.secure()
    return Run(run, count=2, **master)


def _heard(connections):
    """Returns the bytes that each connection receives until the other side closes it."""
    harness.poll(lambda: all([connection.is_closed() for connection in connections]), "the end of all")
    return [bytes(connection.buffer) for connection in connections]


def _knocked(token, record):
    return wire.knock(token, record) + record


def test_strangers_without_a_knock(run):
    """No knock, one of another token, one that is flipped, cut or for another greeting, and one of a link: each gets
    the same seven bytes. A client without encryption gets a text."""
    honest = _secured(run, hello_ms=1000)
    token, greeting = run.token(), wire.tls_greeting()
    good = wire.secure_greeting(token)
    link = wire.link_knock(bytes(16), messages.identity(), messages.identity(), greeting)
    long = b"\x16\x03\x01\x10\x01" + bytes(4097)
    refused_ones = {
        "no knock": greeting,
        "half a greeting without a knock": greeting[:40],
        "a knock of another token": _knocked(OTHER, greeting),
        "a knock for another greeting": wire.knock(token, greeting) + greeting[:-1] + b"\x07",
        "a knock with one wrong bit": good[:19] + bytes([good[19] ^ 1]) + good[20:],
        "half a knock": good[:10] + greeting + greeting,
        "two knocks": wire.knock(token, greeting) + good,
        "a knock in front of a frame": _knocked(token, messages.frame("hello")),
        "a knock in front of a long record": _knocked(token, long),
        "the knock of a link": link + greeting,
        "another kind": b"pckx" + good[4:],
    }
    for what, said in refused_ones.items():
        connection = dial(run.port)
        connection.send(said)
        equal(_heard([connection]), [ALERT], f"answer to {what}")
    for said in (messages.frame("hello"), b"GET / HTTP/1.1\r\n\r\n", bytes(100)):
        connection = dial(run.port)
        connection.send(said)
        (words,) = _heard([connection])
        check(words[4] == wire.REFUSED and b"requires encrypted connections" in words, f"answer to {said}: {words}")
    early = [dial(run.port) for _ in range(3)]
    for connection, said in zip(early, (good[:3], good[:100], b"")):
        connection.send(said)
    equal(_heard(early), [b""] * 3, "answers to pieces")
    honest.go_on()


def test_holders_of_the_pin(run):
    """With the pin alone, as after revocation: slowly byte by byte, with garbage after it, and with the same bytes
    repeatedly. Each starts one handshake, and gets no further."""
    honest = _secured(run, hello_ms=20000)  # longer than the bytes take on a busy machine
    token, good = run.token(), wire.secure_greeting(run.token())
    slow = dial(run.port)
    for at in range(len(good)):
        slow.send(good[at : at + 1])
        harness.wait_ms(2)
    again = [dial(run.port) for _ in range(3)]
    for connection in again:
        connection.send(good)
    for connection in (slow, *again):
        harness.poll(lambda connection=connection: connection.receive() or connection.buffer, "an answer")
        equal(bytes(connection.buffer[:2]), b"\x16\x03", "OpenSSL's answer")
        connection.send(messages.frame("hello"))
    garbage = dial(run.port)
    garbage.send(_knocked(token, b"\x16\x03\x01\x01\x00" + os.urandom(256)))
    (heard,) = _heard([garbage])
    check(heard[:1] == b"\x15" and heard != ALERT, f"OpenSSL refuses the garbage: {heard}")
    _heard([slow, *again])
    honest.go_on()


def test_peers_of_another_version(run):
    """With the right token a peer of another protocol version gets its refusal in words. With a token
    of another master it gets only the fixed refusal, as all strangers do."""
    honest = _secured(run)
    known = Mutant(run, 1, MUTANT_VERSION="999")
    known.joins.wait()
    words = known.joins.result.get("words", "")
    check("(protocol 999, " in words and words.endswith(": upgrade this master"), f"{known.joins.result}")
    file = os.path.join(run.state, "other")
    with open(file, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        out.write(OTHER)
    stranger = Mutant(run, 2, MUTANT_VERSION="999", PCCL_TOKEN_FILE=file)
    stranger.joins.wait()
    words = stranger.joins.result.get("words", "")
    check("is not the one that issued the token" in words and "999" not in words, f"{stranger.joins.result}")
    honest.go_on()


def test_strangers_at_a_members_port(run):
    """The pin has no effect there, nor does an invented ticket in any name."""
    honest = _secured(run)
    first, second = (bytes.fromhex(peer) for peer in honest.peers[0].do("members")["members"][:2])
    greeting = wire.tls_greeting()
    lies = [(second, first, "l", "s"), (second, first, "l", "o"), (first, first, "l", "s")]
    lies.append((bytes(16), first, "p", "s"))
    said = [wire.link_knock(os.urandom(16), source, to, greeting, *kind) + greeting for source, to, *kind in lies]
    said += [wire.secure_greeting(run.token()), greeting, said[0][:KNOCK] + b"?" * 73 + greeting]
    connections = [dial(honest.port) for _ in said]
    for connection, data in zip(connections, said):
        connection.send(data)
    equal(_heard(connections), [ALERT] * len(said), "answers")
    plain = dial(honest.port)
    plain.send(messages.frame("link_hello", to=first))
    check(b"one side of the link encrypts" in _heard([plain])[0], "the answer to a link in the clear")
    honest.go_on()


def test_clients_of_tls(run):
    """Programs that speak TLS, as peers before version 12 do, get the alert "access denied" and no certificate."""
    honest = _secured(run)
    client = Shaker(run.port, None)
    client.begin()
    try:
        client.go_on()
        check(False, "the handshake goes on")
    except ssl.SSLError as error:
        check("ACCESS_DENIED" in str(error), str(error))
    programs = {
        "openssl": ["s_client", "-connect", f"127.0.0.1:{run.port}", "-bind", AWAY],
        "curl": ["-sSk", "--noproxy", "*", "--interface", AWAY, f"https://127.0.0.1:{run.port}/"],
    }
    for program, arguments in programs.items():
        if not shutil.which(program):
            continue
        done = subprocess.run(
            [program, *arguments], stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=harness.DEADLINE
        )
        check(done.returncode != 0 and "access denied" in done.stderr, f"{program}: {done.stderr}")
        check("BEGIN CERTIFICATE" not in done.stdout, done.stdout)
    run.master.wait_line(f"refused {AWAY}")
    honest.go_on()


def test_flood_without_knocks(run):
    """1,000 at once: some get a refusal, at a limited rate, and the others get no answer. A peer with another token
    gets the reason when it tries again, and one with the right token joins."""
    honest = _secured(run)
    began_us, heard = harness.now_us(), []
    for _ in range(10):
        connections = [dial(run.port) for _ in range(100)]
        for connection in connections:
            connection.send(wire.tls_greeting())
        heard += _heard(connections)
    most = 101 + (harness.now_us() - began_us) / 10000
    answered = heard.count(ALERT)
    equal(answered + heard.count(b""), len(heard), "refusals, and ends without an answer")
    check(100 <= answered <= most, f"{answered} refusals, and at most {most} may be")
    refused(run.peer(token=OTHER, token_file=""), run.address, "is not the one that issued the token")
    honest.go_on()


harness.main()
