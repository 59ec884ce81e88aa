"""The pages of a master over HTTP, and its resistance to hostile visitors."""

import ctypes
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
from http.client import HTTPSConnection

import harness
import wire
from certificates import Authority
from changes import Client
from harness import LOST, SUCCESS, check, equal, poll
from phases import RESTARTED
from web import ask, get, start, status, until, values

HEAD_MAX = 8192
VISITORS_MAX = 32
SMALL = ("reduce", 1, 1024, "f32", "sum", "const:1")
LARGE = ("reduce", 2, 1 << 20, "f32", "sum", "const:1")


def exchange(run, request, close=True):
    """Sends these bytes, and returns the answer until the other side closes."""
    with socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE) as link:
        link.settimeout(harness.DEADLINE)
        try:
            link.sendall(request)
            if close:
                link.shutdown(socket.SHUT_WR)
            return receive(link)
        except ConnectionError:
            return b""


def receive(link):
    parts = []
    while True:
        try:
            part = link.recv(1 << 16)
        except ConnectionError:
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def test_pages(run):
    """Each page has its type; errors have a text."""
    start(run)
    for path, kind in {
        "/": "text/html; charset=utf-8",
        "/metrics": "text/plain; version=0.0.4; charset=utf-8",
        "/status": "text/plain; charset=utf-8",
        "/status.json": "application/json",
        "/healthz": "text/plain; charset=utf-8",
        "/status?x=y": "text/plain; charset=utf-8",
    }.items():
        answer = exchange(run, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head, body = answer.split(b"\r\n\r\n", 1)
        check(head.startswith(b"HTTP/1.1 200 OK\r\n"), f"{path}: {head!r}")
        check(f"\r\nContent-Type: {kind}\r\n".encode() in head, f"{path}: {head!r}")
        check(f"\r\nContent-Length: {len(body)}\r\n".encode() in head, f"{path}: {head!r}")
        check(b"\r\nConnection: close" in head and body, f"{path}: {head!r}")
        only = exchange(run, f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        check(only.endswith(b"\r\n\r\n") and only.startswith(b"HTTP/1.1 200 OK\r\n"), f"HEAD {path}: {only!r}")
    equal(get(run, "/healthz"), "ok\n", "/healthz")
    for request, code, words in (
        (b"GET /nowhere HTTP/1.1\r\n\r\n", 404, b"/metrics"),
        (b"POST /status HTTP/1.1\r\nContent-Length: 9\r\n\r\nx", 405, b"Commands over HTTP are disabled"),
        (b"GET /\r\n\r\n", 400, b"Not an HTTP/1.0 or HTTP/1.1 request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 400, b"Not an HTTP/1.0 or HTTP/1.1 request"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_MAX, 431, b"8192 bytes"),
        (b"GET /" + b"a" * 300 + b" HTTP/1.1\r\n\r\n", 414, b"255 bytes"),
        (b"GET / HTTP/3.0\r\n\r\n", 505, b"HTTP/1.1"),
    ):
        answer = exchange(run, request, close=False)
        check(answer.startswith(f"HTTP/1.1 {code} ".encode()) and words in answer, f"{request[:60]!r}: {answer!r}")
    until(run, pccl_http_refused_total=7)


def test_status_over_ipv6(run):
    """The request names the host as the master expects it: an IPv6 address in brackets."""
    start(run, "[::1]:0")
    code, out, error = ask(f"[::1]:{run.http}")
    equal((code, error), (0, ""), "status")
    check("no members" in out, out)


def test_counters(run):
    """Events of a run are counted: joins and departures, operations, rounds."""
    start(run)
    peers = run.join(3)
    calls = [peer.start(*SMALL) for peer in peers]
    for call in calls:
        call.wait(rc=SUCCESS)
    found = until(run, pccl_operation_seconds_count=1)
    equal(found["pccl_members"], 3, "members")
    equal(found["pccl_run_open"], 1, "run_open")
    equal(found["pccl_peers_joined_total"], 3, "joined")
    equal(found["pccl_newcomers_total"], 3, "newcomers")
    equal(found['pccl_operations_committed_total{kind="all-reduce"}'], 1, "committed")
    equal(found['pccl_operations_begun_total{kind="all-reduce"}'], 1, "begun")
    equal(found['pccl_operation_bytes_total{kind="all-reduce"}'], 4096, "bytes")
    equal(found["pccl_connections"], 3, "connections")
    check(found['pccl_rounds_total{kind="update",outcome="done"}'] >= 2, "updates")
    check(found["pccl_views_total"] >= 3, "views")
    check(len(found) < 200, f"{len(found)} series")
    peers[2].quit()
    peers[1].kill()
    found = until(run, pccl_members=1)
    equal(found['pccl_peers_gone_total{role="member",reason="left"}'], 1, "left")
    gone = sum(value for series, value in found.items() if series.startswith('pccl_peers_gone_total{role="member"'))
    equal(gone, 2, "members that went")


def test_missing(run):
    """The pages name a stopped peer for which others wait, in text and in JSON, with the duration of its silence."""
    start(run, silence_ms=600000, heartbeat_ms=100)
    peers = run.join(3, where_ms=50)
    slow = peers[2]
    slow_id = run.id_of(slow)
    slow.stop()
    calls = [peer.start(*SMALL) for peer in peers[:2]]
    peers[0].until_waiting()

    def named():
        now = status(run)
        for call in now["calls"]:
            if call["call"] != "operation" or call["come_count"] != 2 or call["missing_count"] != 1:
                continue
            missing = call["missing"][0]
            return (now, call) if missing["silent"] else None
        return None

    now, call = poll(named, "the stopped peer to be named")
    check(call["missing"][0]["peer"].startswith(slow_id), f"missing: {call}")
    equal((call["kind"], call["world"], call["finished"]), ("all-reduce", 3, 2), "the call")
    equal(len(call["come"]), 2, "who has come")
    (stopped,) = [peer for peer in now["peers"] if peer["id"].startswith(slow_id)]
    check(stopped["silent"] and stopped["last_word_ms"] > 0, f"peer: {stopped}")
    equal(now["operations_under_way"], 1, "operations under way")
    code, out, error = ask(f"127.0.0.1:{run.http}")
    equal((code, error), (0, ""), "status")
    check(re.search(rf"waiting for peer {slow_id}.*, SILENT for ", out), out)
    check("all-reduce" in out and "2 of 3 entered, 2 finished" in out, out)
    slow.resume()
    calls.append(slow.start(*SMALL))
    for call in calls:
        call.wait(rc=SUCCESS)
    poll(lambda: not status(run)["calls"], "the end of the pending calls")


def test_missing_bulk(run):
    """The same in an operation whose data the peers move: the waiting peer reports it to the master."""
    start(run, silence_ms=600000, heartbeat_ms=100)
    peers = run.join(2, where_ms=50)
    peers[1].stop()
    call = peers[0].start(*LARGE)

    def named():
        return [call for call in status(run)["calls"] if call["call"] == "operation" and call["missing_count"] == 1]

    (found,) = poll(named, "the stopped peer to be named")
    equal((found["kind"], found["finished"], found["come_count"]), ("all-reduce", 0, 1), "the call")
    check(found["missing"][0]["peer"].startswith(run.id_of(peers[1])), f"missing: {found}")
    peers[1].resume()
    peers[1].do(*LARGE)
    call.wait(rc=SUCCESS)


def test_update_waits(run):
    """A peer that has not called a topology update is named, too."""
    start(run)
    peers = run.join(2)
    vote = peers[0].start("update")
    peers[0].until_waiting()
    now = poll(lambda: next((now for now in [status(run)] if now["update_votes"] == 1), None), "the vote")
    (call,) = [call for call in now["calls"] if call["call"] == "update"]
    equal((call["world"], call["come_count"], call["missing_count"]), (2, 1, 1), "the update")
    check(call["missing"][0]["peer"].startswith(run.id_of(peers[1])), f"missing: {call}")
    peers[1].do("update")
    vote.wait(rc=SUCCESS)


def test_changes_since_anything(run):
    """Garbage is refused with a reason; a revision of the future, of the past before a restart, or of another master
    gets everything."""
    start(run)
    run.join(2)
    begin = json.loads(get(run, "/status.json?since=0"))
    equal(begin["since"], "0", "since")
    boot, number = begin["revision"].split(".")
    for since in (f"{boot}.{int(number) + 1000}", f"{int(boot) ^ 1}.1", "1.1", f"{boot}.0"):
        answer = json.loads(get(run, f"/status.json?x=1&since={since}&y"))
        equal(answer["since"], "0", since)
        equal(len(answer["peers"]["whole"]), 2, "peers")
    for since in ("", "x", "-1", "1", "1.", ".1", "1.1.1", "1.99999999999999999999", "%30", "0x0", "1" * 200):
        words = exchange(run, f"GET /status.json?since={since} HTTP/1.1\r\n\r\n".encode(), close=False)
        check(words.startswith(b"HTTP/1.1 400 ") and b"expected 0, or the value" in words, f"{since}: {words!r}")
    equal(status(run)["members"], 2, "members")


def normal(full):
    """Returns the status with times instead of ages, without the parts that change by themselves."""
    begin = full.pop("uptime_ms")
    full.pop("spans")
    for item in [*full["peers"], *full["calls"], *full["verdicts"], *full["gone"]]:
        for age in ("last_word_ms", "told_ms", "since_ms"):
            if age in item:
                item[age] = begin - item[age]
    return full


def test_changes_of_a_run(run):
    """The answers about changes add up to /status.json (test_changes.py has runs of any size)."""
    start(run, silence_ms=600000, heartbeat_ms=60000)
    peers = run.join(3, where_ms=50)
    client = Client()

    def agrees():
        before = normal(status(run))
        client.apply(json.loads(get(run, f"/status.json?since={client.revision}")))
        return before == normal(status(run)) == normal(client.status())

    for tag in range(3):
        calls = [peer.start("reduce", tag, 1024, "f32", "sum", "const:1") for peer in peers]
        for call in calls:
            call.wait(rc=SUCCESS)
        poll(agrees, "the same status")
    peers[2].kill()
    poll(lambda: agrees() and len(client.peers) == 2, "two peers")
    vote = peers[0].start("update")
    peers[0].until_waiting()
    poll(lambda: agrees() and len(client.lists["calls"]) == 1, "a call that waits")
    peers[1].do("update")
    vote.wait(rc=SUCCESS)


def test_changes_for_many(run):
    """Readers with different revisions at once receive all changes."""
    start(run)
    run.join(2)
    clients = [Client() for _ in range(8)]
    for turn in range(30):
        for client in clients[turn % 3 :: 3]:
            client.apply(json.loads(get(run, f"/status.json?since={client.revision}")))
    for client in clients:
        client.apply(json.loads(get(run, f"/status.json?since={client.revision}")))
        equal([peer["name"] for peer in client.peers.values()], [p["name"] for p in status(run)["peers"]], "names")


TOKEN = "0123456789abcdef-secret"


def token_file(run, token=TOKEN, mode=0o600):
    folder = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    path = os.path.join(folder, "admin.token")
    if token is not None:
        with open(path, "w", encoding="ascii") as file:
            file.write(token + "\n")
        os.chmod(path, mode)
    return path


def command(run, path, token=TOKEN, **headers):
    """Returns (status, text)."""
    lines = {"Host": f"127.0.0.1:{run.http}", "Content-Length": "0", **headers}
    if token:
        lines["Authorization"] = f"Bearer {token}"
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if value is not None)
    answer = exchange(run, f"POST {path} HTTP/1.1\r\n{head}\r\n".encode(), close=False).decode()
    return int(answer.split(" ", 2)[1]), answer.partition("\r\n\r\n")[2]


def test_commands(run):
    """With the token a visitor expels a peer at once, and drains one without a failure; without it the master refuses.
    """
    start(run, admin_token_file=token_file(run))
    peers = run.join(4, where_ms=50)
    check(status(run)["takes_commands"], "no commands")
    ids = [peer["id"] for peer in status(run)["peers"]]
    own = f"http://127.0.0.1:{run.http}"
    for path, arguments, code, words in (
        (f"/expel/{ids[3]}", {"token": None}, 401, "Bearer"),
        (f"/expel/{ids[3]}", {"token": TOKEN + "x"}, 401, "Bearer"),
        (f"/expel/{ids[3]}", {"Origin": "http://evil.example"}, 403, "own page"),
        (f"/expel/{ids[3]}", {"Host": "evil.example"}, 403, "own page"),
        (f"/expel/{ids[3]}", {"Host": None}, 403, "own page"),
        (f"/expel/{ids[3][:-1]}", {}, 404, "Unknown command"),
        ("/expel", {}, 404, "Unknown command"),
        ("/status", {}, 404, "Unknown command"),
        (f"/expel/{'0' * 31}1", {}, 409, "no such peer"),
        ("/optimize", {"Origin": own}, 409, "nothing to search"),
    ):
        got, said = command(run, path, **arguments)
        check(got == code and words in said, f"{path} {arguments}: {got} {said}")
    equal(status(run)["members"], 4, "members")

    got, said = command(run, f"/drain/{ids[2]}", Origin=own)
    check(got == 200 and "next topology update" in said, f"{got} {said}")
    calls = [peer.start(*SMALL) for peer in peers]
    for call in calls:
        equal(call.wait(rc=SUCCESS)["peers"], 4, "peers while one is drained")
    poll(lambda: [peer["draining"] for peer in status(run)["peers"]] == [False, False, True, False], "the draining one")
    votes = [peer.start("update") for peer in peers]
    for i, vote in enumerate(votes):
        vote.wait(rc=None if i == 2 else SUCCESS)
    check("an operator drained it" in votes[2].result["words"], f"{votes[2].result}")

    stay = peers[:2]
    calls = [peer.start(*LARGE) for peer in stay]
    for peer in stay:
        peer.until_waiting(part="all-reduce tag 2")
    got, said = command(run, f"/expel/{ids[3]}")
    check(got == 200 and " removed" in said, f"{got} {said}")
    for call in calls:
        call.wait(rc=harness.LOST)
    works(run, stay)
    found = until(run, pccl_members=2)
    for reason in ("operator", "drained"):
        equal(found[f'pccl_peers_gone_total{{role="member",reason="{reason}"}}'], 1, f"gone as {reason}")
    poll(
        lambda: [
            gone["reason"] for gone in status(run)["gone"]
        ] == ["an operator removed it", "an operator drained it"],
        "who was removed lately",
    )


def test_command_settings(run):
    """A token file that is not private or too short, or a token without HTTP, is refused with a reason."""
    for token, mode, http, words in (
        (None, 0, "127.0.0.1:0", "No such file"),
        (TOKEN, 0o644, "127.0.0.1:0", "other users can read"),
        ("short", 0o600, "127.0.0.1:0", "16 to 128"),
        ("a b" * 20, 0o600, "127.0.0.1:0", "16 to 128"),
        (TOKEN, 0o600, "", "commands are sent over HTTP"),
    ):
        arguments = ["--listen", "127.0.0.1:0", "--admin-token-file", token_file(run, token, mode)]
        done = subprocess.run(
            [harness.executable("master"), *arguments, *(["--http", http] if http else [])],
            capture_output=True,
            text=True,
            timeout=harness.DEADLINE,
            check=False,
        )
        check(done.returncode == 1 and words in done.stderr, f"{token} {mode:o}: {done.returncode} {done.stderr}")


def works(run, peers, visit=None):
    """Checks that the master serves peers and visitors."""
    calls = [peer.start(*SMALL) for peer in peers]
    for call in calls:
        call.wait(rc=SUCCESS)
    equal(visit() if visit else get(run, "/healthz"), "ok\n", "/healthz")


def test_hostile(run):
    """Visitors that send slowly, never read, arrive in large numbers or send garbage cost the master little."""
    master = start(run)
    peers = run.join(2)
    get(run, "/status.json")
    memory_kib, descriptors = master.rss_kib(), master.descriptors()
    slow = [socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE) for _ in range(VISITORS_MAX)]
    for link in slow:
        link.sendall(b"GET /status HTTP/1.1\r\nA: ")
    works(run, peers)  # one connection had to be closed for it
    check(master.descriptors() <= descriptors + VISITORS_MAX, "descriptors")
    check(b" 503 " in receive(slow[0]), "the oldest does not make room")
    for link in slow:
        link.close()
    deaf = []
    for _ in range(2 * VISITORS_MAX):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", run.http))
        link.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        deaf.append(link)
    works(run, peers)
    check(master.descriptors() <= descriptors + VISITORS_MAX, "descriptors")
    for link in deaf:
        link.close()
    for seed in range(50):
        exchange(run, bytes((seed * 37 + i * i) % 256 for i in range(40 * seed)) + b"\n\n")
    exchange(run, b"GET /healthz HTTP/1.1\r\n\r\n" + b"x" * (4 << 20), close=False)
    works(run, peers)
    poll(lambda: values(get(run, "/metrics"))["pccl_http_dropped_total"] > VISITORS_MAX, "dropped connections")
    check(master.rss_kib() < memory_kib + 16384, f"memory grew from {memory_kib} KiB to {master.rss_kib()} KiB")


def test_flood(run):
    """5,000 silent connections: the master closes the oldest ones, and still answers visitors."""
    master = start(run)
    peers = run.join(2)
    get(run, "/status.json")
    descriptors = master.descriptors()
    links = []
    for count in range(1, 5001):
        links.append(socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE))
        if len(links) > 200:
            links.pop(0).close()
        if count % 1000 == 0:
            works(run, peers)
            check(master.descriptors() <= descriptors + VISITORS_MAX, "descriptors")
    for link in links:
        link.close()
    works(run, peers)
    until(run, pccl_connections=2)
    poll(lambda: values(get(run, "/metrics"))["pccl_http_dropped_total"] > 1000, "dropped connections")


def test_too_slow(run):
    """A request that is never complete is ended, with a reason."""
    start(run)
    with socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE) as link:
        link.settimeout(harness.DEADLINE)
        link.sendall(b"GET / HTTP/1.1\r\n")
        answer = receive(link)
    check(answer.startswith(b"HTTP/1.1 408 ") and b"in time" in answer, f"answer: {answer!r}")


def test_status_errors(run):
    """Without a master at the address, the command reports this."""
    start(run)
    own = f"127.0.0.1:{run.http}"
    code, out, error = ask("--json", own)
    equal((code, error), (0, ""), "--json")
    equal(json.loads(out)["program"], "pccl-master", "program")
    equal(json.loads(out)["members"], 0, "members")
    code, out, error = ask("--help")
    check(code == 0 and "--watch" in out, "--help")
    for arguments, code, words in (
        ((f"127.0.0.1:{harness.ports.free_port()}",), 1, "no master answers at"),
        ((run.address,), 1, "not the HTTP address of a master"),
        (("--frobnicate",), 2, "unknown argument"),
        (("--json", "--watch"), 2, "cannot be combined"),
        ((own, own), 2, "one address"),
        (("127.0.0.1:x",), 2, ""),
        (("",), 2, "not an address"),
        (("nowhere.invalid",), 1, "cannot resolve"),
    ):
        got, out, error = ask(*arguments)
        equal((got, out), (code, ""), f"{arguments}: exit code and output ({error})")
        check(words in error and error.startswith("pccl-master status: "), f"{arguments}: {error!r}")
    for answer, words in (
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 200 OK\r\nServer: other\r\nContent-Length: 2\r\n\r\nhi", "not the HTTP address of a master"),
        (b"HTTP/1.1 200 OK\r\nServer: pccl-master\r\nContent-Length: 9\r\n\r\nhi", "was cut off"),
        (b"HTTP/1.1 503 X\r\nServer: pccl-master\r\nContent-Length: 5\r\n\r\nbus\x1by", "answered: bus?y"),
        (os.urandom(1000), "not the HTTP address of a master"),
    ):
        with socket.create_server(("127.0.0.1", 0)) as server:
            asker = subprocess.Popen(
                [harness.executable("master"), "status", f"127.0.0.1:{server.getsockname()[1]}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            server.settimeout(harness.DEADLINE)
            link, _ = server.accept()
            with link:
                link.recv(4096)
                link.sendall(answer)
            out, error = asker.communicate(timeout=harness.DEADLINE)
            check(asker.returncode == 1 and out == "" and words in error, f"{answer[:60]!r}: {error!r}")


def test_watch(run):
    """--watch repeats its requests, and continues while the master is absent."""
    master = start(run)
    watcher = run._add(  # pylint: disable=protected-access
        harness.Process(
            "watcher", [harness.executable("master"), "status", "--watch", f"127.0.0.1:{run.http}"], run.environment
        )
    )
    watcher.wait_line("idle: no members")
    run.join(1)
    watcher.wait_line("1 members")
    master.killed = True
    master.signal(15)
    master.end(harness.DEADLINE)
    watcher.wait_line("no master answers at")
    watcher.kill()
    for process in run.processes:
        process.killed = True


def events(run, query="since=0&most=1000"):
    return json.loads(get(run, "/events.json?" + query))


def kinds(run):
    return [event["kind"] for event in events(run)["events"]]


def saved(run):
    """Returns the events in the file; its last line may be incomplete."""
    with open(f"{run.state}/events.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def test_events(run):
    """Joins, a death, a drain, and a master that is killed and restarted: the log has all of them, in order."""
    run.secure()
    start(run, **RESTARTED)
    peers = run.join(4, dial_max_ms=50)
    ids = [run.id_of(peer) for peer in peers]
    calls = [peer.start("reduce", 1, 4, "i32", "sum", "const:1") for peer in peers[:3]]
    peers[3].kill()
    for call in calls:
        check(call.wait()["rc"] in (SUCCESS, LOST), f"{call!r}: {call.result}")  # SUCCESS if the death was before it
    peers[2].do("leave")
    for call in [peer.start("update") for peer in peers[:3]]:
        call.wait()
    poll(lambda: "drained" in kinds(run), "the drain is in the log")
    poll(lambda: saved(run) == events(run)["events"], "the file has all events")
    before = events(run)

    run.master.kill()
    start(run, port=run.port, **RESTARTED)
    for call in [peer.start("reduce", 2, 4, "i32", "sum", "const:1") for peer in peers[:2]]:
        call.wait(rc=SUCCESS)
    after = events(run)
    equal(after["events"][: len(before["events"])], before["events"], "events before the restart")
    check(after["boot"] != before["boot"], "the boot is the same")
    numbers = [event["number"] for event in after["events"]]
    equal(numbers, list(range(1, len(numbers) + 1)), "numbers")
    times = [event["ms"] for event in after["events"]]
    equal(times, sorted(times), "times")

    def peers_of(kind):
        return [event["peer"][:8] for event in after["events"] if event["kind"] == kind]

    equal(peers_of("joined"), ids, "peers that joined")
    equal(peers_of("lost"), [ids[3]], "peers that died")
    equal(peers_of("drained"), [ids[2]], "drained peers")
    equal(sorted(peers_of("resumed")), sorted(ids[:2]), "peers that resumed")
    starts = [event["text"].partition("; ")[2] for event in after["events"] if event["kind"] == "master_started"]
    equal(starts, ["", "the previous one did not end normally"], "starts")
    check("recovery_ended" in [event["kind"] for event in after["events"][len(before["events"]) :]], "recovery")


def test_events_of_status(run):
    """`pccl-master status --events` prints the log as a table or as JSON. Invalid queries fail."""
    start(run)
    own = f"127.0.0.1:{run.http}"
    with socket.create_connection(("127.0.0.1", run.port), harness.DEADLINE) as stranger:
        stranger.sendall(b"x" * 64)
        receive(stranger)
    poll(lambda: "refused" in kinds(run), "the refusal is in the log")
    known = events(run)["events"]
    code, out, error = ask("--events", own)
    equal((code, error), (0, ""), "--events")
    rows = out.splitlines()[1:]
    equal(len(rows), len(known), "rows")
    for row, event in zip(rows, known):
        check(row.startswith(f"{event['number']} ") and row.endswith(event["text"]), f"{row!r}: {event}")
        check(f"  {event['kind'].replace('_', ' ')} " in row, f"{row!r}: {event}")
    equal(ask("--events", "1", own)[1].splitlines()[1:], rows[-1:], "the newest event")
    code, out, error = ask("--json", "--events", "1", own)
    equal((code, json.loads(out)["events"]), (0, known[-1:]), "--json --events")
    code, out, error = ask("--events", "1001", own)
    check((code, out) == (1, "") and "most: 1 to 1000" in error, f"{code} {out} {error}")
    for query in ("since=x", "most=0", "since=-1", "number=1", "since=1&since=1", "since=" + "9" * 30):
        answer = exchange(run, f"GET /events.json?{query} HTTP/1.1\r\nHost: {own}\r\n\r\n".encode(), close=False)
        check(b" 400 " in answer and b"expected since=NUMBER" in answer, f"{query}: {answer!r}")


def start_https(run, **parameters):
    """Starts a master with tokens and a certificate, at a public address. Returns the authority."""
    folder = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    authority = Authority(folder)
    run.secure()
    run.certificate, run.key = authority.make("web")
    start(run, "0.0.0.0:0", http_cert=run.certificate, http_key=run.key, **parameters)
    run.fingerprint = run.master.wait_line("fingerprint").split()[-1]
    return authority


def make_token(run, *arguments):
    command = [harness.executable("master"), "token", *arguments, "--state", run.state]
    return subprocess.run(command, check=True, text=True, capture_output=True, timeout=60).stdout.strip()


def over_https(run, authority, path, token=None, post=False, **headers):
    """Returns (status, text)."""
    context = ssl.create_default_context(cafile=authority.ca)
    link = HTTPSConnection("127.0.0.1", run.http, context=context, timeout=harness.DEADLINE)
    if token:
        headers["Authorization"] = f"Bearer {token}"
    link.request("POST" if post else "GET", path, headers=headers)
    answer = link.getresponse()
    found = answer.status, answer.read().decode()
    link.close()
    return found


def test_https(run):
    """Beyond this machine HTTP is encrypted; tokens of the role observe may read, tokens of admin may also act, and a
    revoked token may do neither."""
    authority = start_https(run, admin_token_file=token_file(run))
    tokens = {role: make_token(run, "create", "--role", role, "--label", role) for role in ("observe", "admin")}
    own = f"https://127.0.0.1:{run.http}"
    for path in ("/", "/healthz"):
        equal(over_https(run, authority, path)[0], 200, path)
    for token, reads, acts in (
        (None, 401, 401),
        ("pccl1." + "A" * 22 + "." + "A" * 43, 401, 401),
        ("x" * 5000, 401, 401),
        (run.token(), 401, 401),
        (tokens["observe"], 200, 401),
        (tokens["admin"], 200, 409),
        (TOKEN, 200, 409),
    ):
        for path in ("/status", "/status.json", "/metrics", "/events", "/events.json?since=0"):
            code, words = over_https(run, authority, path, token)
            check(code == reads and (code == 200 or "Bearer" in words), f"{path}: {code} {words}")
        code, words = over_https(run, authority, "/optimize", token, post=True, Origin=own)
        check(code == acts and words, f"acting: {code} {words}")
    for origin in ("https://evil.example", own.replace("https", "http")):
        code, words = over_https(run, authority, "/optimize", tokens["admin"], post=True, Origin=origin)
        check(code == 403 and "own page" in words, f"{origin}: {code} {words}")
    make_token(run, "revoke", "observe")
    code, words = over_https(run, authority, "/status", tokens["observe"])
    check(code == 401 and "was revoked" in words, words)
    answer = exchange(run, b"GET /status HTTP/1.1\r\n\r\n", close=False)
    check(b" 400 " in answer and b"begins with https://" in answer, f"in the clear: {answer!r}")
    for process in run.processes:
        for secret in (*tokens.values(), TOKEN):
            check(all(secret not in text for _, text in process.lines), "a token is told")


def test_https_certificate_is_read_again(run):
    """After SIGHUP the next visitor gets the new certificate; the log has its fingerprint."""
    authority = start_https(run)
    equal(authority.make("web")[0], run.certificate, "the same file")
    at = len(run.master.lines)
    run.master.signal(signal.SIGHUP)
    new = run.master.wait_line("fingerprint", start=at).split()[-1]

    def shown():
        with socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE) as link:
            with ssl.create_default_context(cafile=authority.ca).wrap_socket(link, server_hostname="127.0.0.1") as tls:
                return hashlib.sha256(tls.getpeercert(True)).hexdigest()

    check(new != run.fingerprint, "the fingerprint is the former one")
    equal(shown(), new, "the certificate that is shown")


def test_status_over_https(run):
    """pccl-master status trusts an authority or a fingerprint, sends a token, and reports errors."""
    authority = start_https(run)
    file = token_file(run, make_token(run, "create", "--role", "observe"))
    free = harness.ports.free_port()
    own = f"https://127.0.0.1:{run.http}"
    for trust in (("--ca", authority.ca), ("--fingerprint", run.fingerprint)):
        code, out, error = ask("--json", "--token-file", file, *trust, own)
        equal((code, error), (0, ""), f"{trust}")
        equal(json.loads(out)["program"], "pccl-master", "program")
        code, out, error = ask("--token-file", file, *trust, own, command="top")
        check(code == 0 and error == "" and ": no run\n" in out, f"pccl top {trust}: {code} {out} {error}")
    for arguments, code, words in (
        (("--token-file", file, own), 1, "unable to get local issuer certificate"),
        (("--token-file", file, "--fingerprint", "00" * 32, own), 1, "fingerprint differs"),
        (("--fingerprint", run.fingerprint, own), 1, "Bearer"),
        (("--ca", authority.ca, own.replace("127.0.0.1", "localhost")), 1, "ostname mismatch"),
        (("--ca", authority.ca, f"https://{run.address}"), 1, "alert access denied"),  # the port for peers
        (("--fingerprint", "12:34", own), 2, "64 hexadecimal digits"),
        (("--ca", file, own), 1, "cannot use"),
        (("--ca", authority.ca, own[8:]), 2, "begins with https://"),
        ((own[8:],), 1, "begins with https://"),
        ((f"https://127.0.0.1:{free}",), 1, f"Start the master with --http 127.0.0.1:{free};"),
    ):
        got, out, error = ask(*arguments)
        equal((got, out), (code, ""), f"{arguments}: exit code and output ({error})")
        check(words in error, f"{arguments}: {error!r}")
    port = reset_after_request(run)
    code, _, error = ask("--ca", authority.ca, f"https://127.0.0.1:{port}")
    lost = f"pccl-master status: lost the connection to 127.0.0.1:{port}: connection reset by peer\n"
    check(code == 1 and error == lost, f"a reset: {code} {error!r}")


def reset_after_request(run):
    """Returns the port of a server that completes the handshake, reads, and resets the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(run.certificate, run.key)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with context.wrap_socket(listener.accept()[0], server_side=True) as link:
            link.recv(100)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def test_hostile_https(run):
    """Hundreds of incomplete handshakes cost the master little; peers and other visitors are served."""
    authority = start_https(run)
    peers = run.join(2)
    token = make_token(run, "create", "--role", "observe")
    equal(over_https(run, authority, "/status", token)[0], 200, "/status")
    memory_kib, descriptors = run.master.rss_kib(), run.master.descriptors()
    strangers = []
    for i in range(600):
        strangers.append(socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE, ("127.0.0.2", 0)))
        strangers[-1].sendall(wire.tls_greeting()[: None if i % 2 else 40])
        if i % 150 == 149:
            equal(over_https(run, authority, "/status", token)[0], 200, "/status among strangers")
            check(run.master.descriptors() <= descriptors + VISITORS_MAX, "descriptors")
    works(run, peers, lambda: over_https(run, authority, "/healthz")[1])
    if harness.SLOW == 1:  # sanitizers keep freed memory
        check(run.master.rss_kib() <= memory_kib + (8 << 10), "memory")
    for stranger in strangers:
        stranger.close()


class KeyUpdates(threading.Thread):
    """A TLS client that repeatedly requests a new key, as fast as the other side reads, and reads nothing. It
    reconnects when its connection ends."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.count, self.ended = port, 0, False
        self.library = ctypes.CDLL("libssl.so.3")  # the ssl module cannot request a key
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(self.library.SSL_CTX_new(ctypes.c_void_p(self.library.TLS_client_method())))
        self.start()

    def run(self):
        requested = 1
        while not self.ended:
            with socket.create_connection(("127.0.0.1", self.port), harness.DEADLINE, ("127.0.0.2", 0)) as link:
                link.setblocking(True)
                tls = ctypes.c_void_p(self.library.SSL_new(self.context))
                self.library.SSL_set_fd(tls, link.fileno())
                good = self.library.SSL_connect(tls) == 1
                while good and not self.ended:
                    self.library.SSL_key_update(tls, requested)
                    good = self.library.SSL_do_handshake(tls) == 1
                    self.count += good
                self.library.SSL_free(tls)


def test_key_updates_over_https(run):
    """Strangers request new keys without end, and others send their greeting byte by byte: the page is answered, peers
    continue, and the master does not grow."""
    authority = start_https(run)
    peers = run.join(2)
    token = make_token(run, "create", "--role", "observe")
    equal(over_https(run, authority, "/status", token)[0], 200, "/status")
    memory_kib, cpu_s, begun_us = run.master.rss_kib(), run.master.cpu_s(), harness.now_us()
    flood = [KeyUpdates(run.http) for _ in range(4)]
    slow = [socket.create_connection(("127.0.0.1", run.http), harness.DEADLINE, ("127.0.0.3", 0)) for _ in range(16)]
    poll(lambda: all(stranger.count > 100 for stranger in flood), "changes of keys")
    for at in range(10):
        for link in slow:
            try:
                link.sendall(wire.tls_greeting()[at : at + 1])
            except ConnectionError:  # it has timed out
                pass
        equal(over_https(run, authority, "/status", token)[0], 200, "/status beside the flood")
    works(run, peers, lambda: over_https(run, authority, "/healthz")[1])
    length_s = (harness.now_us() - begun_us) / 1e6
    harness.figure("changes of keys a second", sum(stranger.count for stranger in flood) / length_s, "1/s")
    harness.figure("processor share of the master", (run.master.cpu_s() - cpu_s) / length_s, "")
    if harness.SLOW == 1:
        check(run.master.rss_kib() <= memory_kib + (8 << 10), "memory")
    for stranger in flood:
        stranger.ended = True


def refuses(words, *arguments):
    """A master does not start with these arguments, and reports the reason."""
    done = subprocess.run(
        [harness.executable("master"), "--listen", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        timeout=harness.DEADLINE,
        check=False,
    )
    check(done.returncode == 1 and words in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")


def test_settings(run):
    """Nothing listens by default; beyond loopback HTTP is encrypted unless the setting permits otherwise; the error
    names a port in use."""
    run.start_master()
    equal(run.master.listening_ports(), [run.port], "ports by default")
    busy = run.port
    refuses("another port with --http", "--http", f"127.0.0.1:{busy}")
    refuses("--http-cert FILE and --http-key FILE", "--http", "0.0.0.0:0")
    folder = tempfile.mkdtemp()
    run.at_exit.append(lambda: shutil.rmtree(folder, ignore_errors=True))
    certificate, key = Authority(folder).make("web")
    refuses("without tokens: add --state", "--http", "0.0.0.0:0", "--http-cert", certificate, "--http-key", key)
    refuses("http_cert and http_key must be set together", "--http", "127.0.0.1:0", "--http-cert", certificate)
    public = run._add(  # pylint: disable=protected-access
        harness.Process(
            "public",
            [harness.executable("master"), "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0", "--insecure"],
            run.environment,
        )
    )
    public.wait_line("is unencrypted and readable by any host")
    run.http = int(re.search(r"http on port (\d+)", public.wait_line("http on port")).group(1))
    equal(get(run, "/healthz"), "ok\n", "/healthz")


harness.main()
