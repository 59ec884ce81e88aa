"""The flight recorder: the peers' records of a stalled operation and of a finished one."""

import json
import os
import pathlib
import stat
import tempfile

import harness
from harness import INVALID_ARGUMENT, LOST, SUCCESS
from harness import LARGE, check, equal
from phases import PATIENT, agree, look
from proxy import PROXIED, join_behind_proxies

MIB = 1 << 20
BULK = 300000  # elements that pass from peer to peer
SMALL = 100  # through the master


def operation(peer, tag):
    """Returns the latest operation with this tag."""
    return next(found for found in reversed(look(peer)["operations"]) if found["tag"] == tag)


def waits(peer, tag):
    """Returns the peers for which it waits in this operation: (id, what)."""
    return {(wait["peer"], wait["what"]) for wait in operation(peer, tag)["waits_for"]}


def leads_to(gone, peers, tag):
    """Returns true if each of the peers waits for the missing one, directly or through others."""
    graph = {look(peer)["peer"]: {name for name, _ in waits(peer, tag)} for peer in peers}
    reached = {gone}
    while True:
        more = {peer for peer, names in graph.items() if names & reached} - reached
        if not more:
            return set(graph) <= reached
        reached |= more


def reduce(peers, tag, count, *options):
    calls = [
        peer.start("reduce", tag, count, "f32", "sum", f"mark:{bit}", "launched", *options)
        for bit, peer in enumerate(peers)
    ]
    for call in calls:
        call.begun()
    return calls


def ids(peers):
    return [look(peer)["peer"] for peer in peers]


def start(run, count=3):
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**PATIENT)
    return run.join(count)


def test_what_has_ended(run):
    """Times, bytes, members and outcome of successful operations, through the master and from peer to peer."""
    run.start_master(**PATIENT)
    peers = []
    for i in range(3):
        peer = run.peer()
        peer.create(run.address, name=f"peer{i}")
        run.admit(peer, peers)
        peers.append(peer)
    members = ids(peers)
    agree(reduce(peers, 7, SMALL), SUCCESS)
    agree(reduce(peers, 8, BULK), SUCCESS)
    agree(reduce(peers, 8, BULK), SUCCESS)
    for rank, peer in enumerate(peers):
        dump = look(peer)
        equal([member["peer"] for member in dump["members"]], members, "the members")
        equal([member["name"] for member in dump["members"]], [f"peer{i}" for i in range(3)], "their names")
        small, first, second = dump["operations"]
        for found in dump["operations"]:
            equal((found["state"], found["outcome"], found["cause"]), ("ended", "committed", None), "the outcome")
            equal((found["members"], found["rank"], found["world"]), (members, rank, 3), "who took part")
            equal((found["kind"], found["type"], found["reduction"]), ("all-reduce", "f32", "sum"), "what it was")
            equal((found["waits_for"], found["attempt"], found["restarts"]), ([], 1, 0), "done at once")
        equal((small["path"], small["bytes"], small["neighbors"]), ("master", 400, []), "a small one")
        equal((first["tag"], first["sequence"], second["sequence"]), (8, 0, 1), "the names")
        for found in (first, second):
            equal((found["path"], found["bytes"]), ("peers", 4 * BULK), "a large one")
            check(0 <= found["first_byte_us"] <= found["last_byte_us"] <= found["ended_us"], f"times in order: {found}")
            for neighbor in found["neighbors"]:
                moved = neighbor["sent" if neighbor["direction"] == "to" else "received"]
                equal((neighbor["begun"], neighbor["expected"]), (moved, moved), "messages")
                check(neighbor["bytes"] > 0 and neighbor["granted"] == neighbor["open"], f"{neighbor}")
            for way, bytes_ in (("to", "sent_bytes"), ("from", "received_bytes")):
                told = sum(found["bytes"] for found in found["neighbors"] if found["direction"] == way)
                equal(told, found[bytes_], bytes_)
        for connection in dump["connections"]:
            check(connection["peer"] in members and connection.get("rtt_us", 1) > 0, f"{connection}")


def test_one_is_stopped(run):
    """One of three peers is stopped during an operation: the peer that receives its data names it, with the duration of
    the wait; all waits lead to it."""
    run.start_master(**PROXIED)
    peers, proxies = join_behind_proxies(run, 3)
    for proxy in proxies:
        proxy.room = MIB
    calls = reduce(peers, 1, LARGE)
    harness.poll(lambda: all(proxy.is_held() for proxy in proxies), "the middle of the transfer")
    *others, victim = peers
    gone = look(victim)["peer"]
    victim.stop()
    for proxy in proxies:
        proxy.hold(False)
    harness.poll(lambda: any((gone, "data") in waits(other, 1) for other in others), "one to wait for its data")
    harness.poll(lambda: leads_to(gone, others, 1), "both to wait for it, or for who does")
    for other in others:
        found = operation(other, 1)
        equal((found["state"], found["outcome"], found["ended_us"]), ("moving", None, None), "it is under way")
        check(all(wait["for_us"] <= found["entered_us_ago"] for wait in found["waits_for"]), f"{found['waits_for']}")
        check(found["sent_bytes"] > 0, "something was sent before")
    victim.resume()
    agree(calls, SUCCESS)
    equal({operation(peer, 1)["outcome"] for peer in peers}, {"committed"}, "the outcome")


def test_one_never_enters(run):
    """Two of three peers have entered an operation: they name the peer that has not reported ready, or has sent
    nothing; the third one knows the others' wait; for a small operation the master names it."""
    peers = start(run)
    *others, absent = peers
    missing = look(absent)["peer"]
    calls = reduce(others, 5, BULK)
    harness.poll(
        lambda: all(any(peer == missing for peer, _ in waits(other, 5)) for other in others), "both to name it"
    )
    for other in others:
        found = operation(other, 5)
        check((missing, "ready") in waits(other, 5) or (missing, "data") in waits(other, 5), f"{found['waits_for']}")
        flow = [flow for flow in found["neighbors"] if flow["peer"] == missing]
        check(flow and all(flow["bytes"] == 0 or flow["direction"] == "to" for flow in flow), f"{flow}")
    told = {entry["peer"] for entry in look(absent)["announced"] if entry["tag"] == 5}
    check(told and told <= set(ids(others)), f"told by {told}")
    equal([found for found in look(absent)["operations"] if found["tag"] == 5], [], "it has not entered")
    agree(calls + reduce([absent], 5, BULK), SUCCESS)
    small = reduce(others, 6, SMALL)
    for other in others:
        other.until_waiting()
        equal(waits(other, 6), {(None, "outcome")}, "of a small one it waits for the master's word")
        check(missing[:8] in look(other)["waits"], "who is missing, as the master says")
    agree(small + reduce([absent], 6, SMALL), SUCCESS)


def test_one_is_killed(run):
    """The outcome is an abort, with the cause and the reason; the retry is the second attempt. The requested file
    contains both, and is replaced as a whole."""
    with tempfile.TemporaryDirectory() as folder:
        run.environment["PCCL_RECORDER_DIR"] = folder
        peers = start(run)
        *others, victim = peers
        gone = look(victim)["peer"]
        agree(reduce(peers, 3, BULK), SUCCESS)
        equal(os.listdir(folder), [], "nothing has failed")
        calls = reduce(others, 3, BULK)
        victim.kill()
        agree(calls, LOST)
        agree([other.start("update") for other in others], SUCCESS)
        agree(reduce(others, 3, BULK), SUCCESS)
        equal(sorted(os.listdir(folder)), sorted(f"pccl-{name}.json" for name in ids(others)), "a file for each")
        for other in others:
            first, failed, again = look(other)["operations"]
            equal((failed["outcome"], failed["cause"]), ("aborted", "a peer was lost"), "the outcome")
            check(gone[:8] in failed["reason"], f"the reason: {failed['reason']}")
            equal((first["attempt"], failed["attempt"], again["attempt"]), (1, 1, 2), "attempts")
            equal((again["outcome"], again["world"]), ("committed", 2), "the retry")
            file = pathlib.Path(folder, f"pccl-{look(other)['peer']}.json")
            written = json.loads(file.read_text(encoding="utf-8"))["operations"]
            equal(written[-1]["outcome"], "aborted", "what the file ends with")


def test_bad_arguments(run):
    """An invalid folder is refused when the communicator is created; a file that cannot be written is an error; neither
    has other effects."""
    run.start_master(**PATIENT)
    peer = run.peer()
    with tempfile.TemporaryDirectory() as folder:
        for bad in (folder + "/none", "/dev/null"):
            result = peer.start("create", run.address, f"recorder_dir={bad}").wait(rc=INVALID_ARGUMENT)
            check("recorder_dir" in result["words"] and bad in result["words"], result["words"])
        result = peer.start("create", run.address, "recorder_operations=0").wait(rc=INVALID_ARGUMENT)
        check("recorder_operations" in result["words"], result["words"])
        peer.create(run.address, recorder_dir=folder)
        equal(look(peer)["operations"], [], "it has done nothing")
        check(not look(peer)["connected"], "it is not connected")
        result = peer.start("record", folder + "/none/dump.json").wait()
        check(result["rc"] != SUCCESS and "none/dump.json" in result["words"], f"{result}")
        if os.geteuid() != 0:
            os.chmod(folder, stat.S_IRUSR)
            peer.start("create", run.address, f"recorder_dir={folder}", slot=1).wait(rc=INVALID_ARGUMENT)
            os.chmod(folder, stat.S_IRWXU)


harness.main()
