"""`pccl top` shows the master's status, and an error if no master answers."""

import http.server
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time

import numpy
import pytest
from support import DEADLINE, Group, Script, environment, free_port

import pccl
from pccl import __main__ as program
from pccl import top

MASTER = "import pccl.master, sys; sys.exit(pccl.master.main(sys.argv[1:]))"


@pytest.fixture
def master():
    script = Script(MASTER, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    port = re.search(r"listening on port (\d+)", script.line("listening on port")).group(1)
    http = re.search(r"http on port (\d+)", script.line("http on port")).group(1)
    yield f"127.0.0.1:{port}", f"127.0.0.1:{http}"
    script.close()


def shown(http, capsys, wanted):
    """Returns the screen once it contains this."""
    end = time.monotonic() + DEADLINE
    while True:
        assert program.main(["top", http]) == 0
        text = capsys.readouterr().out
        if re.search(wanted, text):
            return text
        assert time.monotonic() < end, text


def test_shows_a_run(master, capsys):
    address, http = master
    shown(http, capsys, "no run")
    group = Group(address, 2)
    group.all(lambda comm, i: comm.all_reduce(numpy.ones(8, "f4"), numpy.ones(8, "f4"), op="sum"))
    group.all(lambda comm, i: comm.report(step=300, loss=2.0 + i))
    text = shown(http, capsys, "step 300: loss 2.5, reported by 2")
    assert "2 members, 0 newcomers" in text and "1 committed" in text
    assert len(re.findall(r"^.* works .* 300: [23]$", text, re.M)) == 2
    group.close()


def test_over_https(tmp_path, capsys):
    """It verifies the master's certificate, presents a token, and reports errors."""
    certificate, key, token = (str(tmp_path / name) for name in ("http.crt", "http.key", "admin.token"))
    make = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=master", "-days", "30")
    name = ("-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    subprocess.run(("openssl", "req", "-x509", *make, *name), check=True, capture_output=True, timeout=DEADLINE)
    with open(token, "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write("0123456789abcdef\n")
    files = ("--http-cert", certificate, "--http-key", key, "--admin-token-file", token)
    script = Script(MASTER, "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", *files)
    fingerprint = script.line("fingerprint").split()[-1]
    port = re.search(r"http on port (\d+)", script.line("http on port")).group(1)
    own = f"https://127.0.0.1:{port}"
    for trust in (["--ca", certificate], ["--fingerprint", fingerprint]):
        assert program.main(["top", own, "--token-file", token, *trust]) == 0
        assert "no run" in capsys.readouterr().out
    for arguments, words in (
        (["--token-file", token], "CERTIFICATE_VERIFY_FAILED"),
        (["--token-file", token, "--fingerprint", "0" * 64], "a different fingerprint"),
        (["--ca", certificate], f"{own[8:]} answered: Unauthorized: expected the header 'Authorization: Bearer"),
    ):
        assert program.main(["top", own, *arguments]) == 1
        assert words in capsys.readouterr().err
    for name, content in (("two", "first-secret\nsecond-secret\n"), ("none", "\n")):
        (tmp_path / name).write_text(content)
    bad_files = ([own, "--token-file", str(tmp_path / name)] for name in ("two", "none", "missing"))
    for arguments in ([own, "--fingerprint", "12"], [own, "--ca", token], [own[8:], "--ca", certificate], *bad_files):
        with pytest.raises(SystemExit, match="2"):
            program.main(["top", *arguments])
    assert "secret" not in capsys.readouterr().err
    script.close()


def test_reports_are_checked(master):
    group = Group(master[0], 1)
    comm = group.members[0]
    with pytest.raises(pccl.InvalidArgument, match="step"):
        comm.report(step=-1, loss=1)
    with pytest.raises(ValueError):
        comm.report(step=1, loss="little")
    comm.report(step=1 << 63, loss=float("nan"))
    group.close()
    with pytest.raises(pccl.PCCLError):
        comm.report(step=1, loss=1)


def test_fits_into_a_terminal(master):
    """It draws, and q ends it and restores the terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-B", "-m", "pccl", "top", master[1]]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment()) as process:
        seen = b""
        while b"pending calls" not in seen:
            seen += os.read(ours, 4096)
        os.write(ours, b"q")
        assert process.wait(DEADLINE) == 0
    while b"\x1b[?1049l" not in seen:
        seen += os.read(ours, 4096)
    os.close(theirs)
    os.close(ours)


def test_a_small_screen_has_the_worst_first():
    peer = {"name": "", "state": "member", "group": 0, "rank": 0, "connected": True, "silent": False, "in": None}
    peer.update(last_word_ms=5, rate_to_next=0)
    peers = [dict(peer, id=f"{i:032x}", rank=i) for i in range(100)]
    peers[70].update(silent=True, name="slow")
    status = {"version": "1", "uptime_ms": 1, "run": "f" * 32, "epoch": "1.1", "recovering": False, "optimizing": False}
    status.update(members=100, newcomers=0, operations_under_way=0, operations_committed=0, operations_aborted=0)
    status.update(spans={"ms": 1000, "newest_ms": 0, "bytes": [0, 1], "aborted": [0, 0]}, steps=[], gone=[], calls=[])
    verdict = {"class": "slow link", "peer": peers[70]["id"], "other": peers[7]["id"]}
    verdict.update(evidence="it is", action="none")
    status.update(peers=peers, more_calls=False, verdicts=[verdict])
    lines = top.screen(status, 80, 12)
    assert len(lines) == 12 and max(map(len, lines)) <= 80
    assert any(line.startswith("slow 00000000") and "SILENT" in line for line in lines)
    assert lines[-1].startswith("and ") and "VERDICT slow link: slow 00000000 -> 00000000: it is: none" in lines
    verdict["finding"] = True
    assert "FROM THE START slow link: slow 00000000 -> 00000000: it is: none" in top.screen(status, 80, 12)


def _odd_values(value):
    """Puts odd values into each place of a status, one at a time, and yields after each."""
    places = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for place in places:
        for odd in ("\ud800\x1b[2J\u202e", "", None, [], {}, -1, float("nan"), 1e308):
            kept, value[place] = value[place], odd
            yield
            value[place] = kept
        if isinstance(value[place], (dict, list)):
            yield from _odd_values(value[place])


def test_odd_values(master):
    """For any answer there is a screen, or an error message, and the cursor does not move."""
    address, http = master
    group = Group(address, 2)
    group.all(lambda comm, i: comm.report(step=1, loss=1.0))
    status = top._ask(top._Master(http))  # pylint: disable=protected-access
    group.close()
    assert len(status["peers"]) == 2
    for _ in _odd_values(status):
        try:
            lines = top.screen(status, 80, 24)
        except top._Unanswered as error:  # pylint: disable=protected-access
            lines = [str(error)]
        assert all(line.isprintable() for line in lines)


class Broken(http.server.BaseHTTPRequestHandler):
    """The answer of a master that fails while it sends it."""

    def do_GET(self):  # pylint: disable=invalid-name
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"{")

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def test_half_an_answer(capsys, monkeypatch):
    """It counts as none; and no proxy of the environment is used."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    with http.server.HTTPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.handle_request).start()
        assert program.main(["top", f"127.0.0.1:{server.server_port}"]) == 1
    assert "IncompleteRead" in capsys.readouterr().err


def test_errors(capsys):
    nobody = f"127.0.0.1:{free_port()}"
    assert program.main(["top", nobody]) == 1
    assert f"no master answers at {nobody}" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as server:
        other = f"127.0.0.1:{server.getsockname()[1]}"

        def answer(said):
            with server.accept()[0] as client:
                client.recv(4096)
                client.sendall(said)

        for said, words in (
            (b"SSH-2.0-other\r\n", f"no master answers at {other}"),
            (b"HTTP/1.1 404 No\r\nContent-Length: 5\r\n\r\n\x1b[2J!", f"{other} answered: ?[2J!"),
        ):
            thread = threading.Thread(target=answer, args=(said,))
            thread.start()
            assert program.main(["top", other]) == 1
            thread.join(DEADLINE)
            assert words in capsys.readouterr().err
    for bad in ("", "host:port", "a/b:1", "1.2.3.4:70000"):
        with pytest.raises(SystemExit, match="2"):
            program.main(["top", bad])
    known = {"x": "x:48180", "::1": "[::1]:48180", "[::1]": "[::1]:48180", "[::1]:9": "[::1]:9"}
    assert {text: top._address(text) for text in known} == known  # pylint: disable=protected-access
