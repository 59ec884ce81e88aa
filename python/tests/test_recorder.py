"""The flight recorder: a peer's record of its operations, also on a signal, and the analysis of several."""

import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest
from support import DEADLINE, TWO

import pccl
from pccl import _programs, recorder

BULK = 400000  # bytes: from peer to peer
SMALL = 16  # through the master

# One peer waits on the main thread for another one, which never enters.
WAITING = """
import os, signal, sys, threading
import pccl
from pccl import recorder
address, folder = sys.argv[1:]
""" + TWO + """
first, second = two()
recorder.dump_on_signal(folder)
memory = bytearray(400000)
handle = first.all_reduce_async(memory, memory, op="sum", tag=9)
print("launched", flush=True)
handle.wait()
print("done", flush=True)
"""


def reduce(comm, size, tag=1):
    memory = bytearray(size)
    comm.all_reduce(memory, memory, op="sum", tag=tag)


def poll(condition):
    while not (found := condition()):
        time.sleep(0.002)
    return found


def last(comm):
    return comm.flight_recorder()["operations"][-1]


def enter(comms, size, tag):
    """Enters on threads; continues only when the recorder has the operation."""
    threads = [threading.Thread(target=reduce, args=(comm, size, tag), daemon=True) for comm in comms]
    for thread in threads:
        thread.start()
    for comm in comms:
        poll(lambda comm=comm: [found for found in comm.flight_recorder()["operations"] if found["tag"] == tag])
    return threads


def write(comms, folder):
    """Writes the peers' dumps, and returns the files."""
    files = [folder / f"{comm.id}.json" for comm in comms]
    for comm, file in zip(comms, files):
        file.write_text(json.dumps(comm.flight_recorder()))
    return files


def explain(*arguments, code=0):
    """Runs `pccl recorder`, and returns its output and its errors."""
    command = [_programs.find(), "recorder", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == code, done
    return done.stdout, done.stderr


def test_what_has_ended(group):
    peers = group(3)
    for size in (SMALL, BULK):
        peers.all(lambda comm, _, size=size: reduce(comm, size))
    ids = peers.members[0].members()
    for rank, comm in enumerate(peers.members):
        dump = comm.flight_recorder()
        assert (dump["peer"], dump["process"], dump["connected"]) == (comm.id, os.getpid(), True)
        small, large = dump["operations"]
        for found, size, path in ((small, SMALL, "master"), (large, BULK, "peers")):
            assert (found["bytes"], found["path"], found["type"], found["outcome"]) == (size, path, "u8", "committed")
            assert (found["members"], found["rank"], found["codec"]) == (list(ids), rank, "none")
        assert {flow["direction"] for flow in large["neighbors"]} == {"to", "from"} and not small["neighbors"]
        assert large["sent_bytes"] and large["received_bytes"]
        assert dump["time"].endswith("Z") and abs(dump["wall_us"] / 1e6 - time.time()) < 3600


def test_old_operations_are_forgotten(group):
    peers = group(2, options={"recorder_operations": 4})
    for _ in range(7):
        peers.all(lambda comm, _: reduce(comm, SMALL))
    for comm in peers.members:
        assert [(found["number"], found["sequence"]) for found in comm.flight_recorder()["operations"]] == [
            (number + 1, number) for number in range(3, 7)
        ]


def test_all_that_is_under_way_is_told(group):
    peers = group(2, options={"recorder_operations": 4})
    first, second = peers.members
    memory = [bytearray(SMALL if tag % 2 else BULK) for tag in range(20)]
    handles = [first.all_reduce_async(memory[tag], memory[tag], op="sum", tag=tag) for tag in range(20)]
    found = first.flight_recorder()["operations"]
    assert [(one["tag"], one["outcome"]) for one in found] == [(tag, None) for tag in range(20)]
    assert all(one["waits_for"] for one in found)
    others = [bytearray(len(one)) for one in memory]
    more = [second.all_reduce_async(others[tag], others[tag], op="sum", tag=tag) for tag in range(20)]
    for handle in handles + more:
        handle.wait()
    assert len(first.flight_recorder()["operations"]) == 4


def test_one_never_enters(group, tmp_path):
    peers = group(3)
    *others, absent = peers.members
    threads = enter(others, BULK, 5)
    poll(lambda: all(any(wait["peer"] == absent.id for wait in last(comm)["waits_for"]) for comm in others))
    poll(lambda: absent.flight_recorder()["announced"])
    files = write(peers.members, tmp_path)
    said, _ = explain(*files)
    assert "all-reduce tag 5 sequence 0" in said
    assert re.search(f"{absent.id[:8]} '.*' has not entered it", said), said
    assert re.search(f"look at {absent.id[:8]} '.*': others wait for it, and it is not waiting for any", said), said
    (found,) = json.loads(explain("--json", *files)[0])["operations"]
    assert (found["tag"], found["absent"], found["causes"]) == ("5", [absent.id], [absent.id])
    assert {wait["peer"] for wait in found["waits"]} == {comm.id for comm in others}
    reduce(absent, BULK, 5)
    for thread in threads:
        thread.join()
    assert explain(*write(others, tmp_path)) == ("no operation is running\n", "")


def test_texts_are_kept_as_they_are(group):
    peers = group(2, options={"name": 'a "name" \\ with /'})
    peers.all(lambda comm, _: comm.barrier(label='täg "7"\\'))
    dump = peers.members[0].flight_recorder()
    assert [member["name"] for member in dump["members"]] == ['a "name" \\ with /'] * 2
    assert (dump["operations"][0]["label"], dump["operations"][0]["kind"]) == ('täg "7"\\', "barrier")


def test_before_and_after_a_run(address):
    comm = pccl.Communicator(address)
    dump = comm.flight_recorder()
    assert (dump["operations"], dump["connected"], dump["members"]) == ([], False, [])
    comm.close()
    with pytest.raises(pccl.NotConnected):
        comm.flight_recorder()


def test_on_a_signal(script, address, tmp_path):
    peer = script(WAITING, address, tmp_path)
    peer.line("launched")
    peer.kill(signal.SIGUSR2)
    peer.line("flight recorder written to")
    peer.line("flight recorder written to")
    dumps = [json.loads(file.read_text()) for file in tmp_path.iterdir()]
    assert len(dumps) == 2
    (found,) = [operation for dump in dumps for operation in dump["operations"]]
    assert (found["tag"], found["outcome"], found["state"]) == (9, None, "moving") and found["waits_for"]
    peer.kill(signal.SIGUSR2)  # it continues, and accepts the signal again
    peer.line("flight recorder written to")


def test_a_missing_end(group, tmp_path):
    """A file that was copied in part is used up to there; any other one is refused."""
    peers = group(2)
    for tag in range(3):
        peers.all(lambda comm, _, tag=tag: reduce(comm, SMALL, tag))
    first, second = peers.members
    threads = enter([first], BULK, 7)
    file, other = write(peers.members, tmp_path)
    text, torn = file.read_text(), tmp_path / "torn"
    assert "all-reduce tag 7 " in explain(file, other)[0]
    for length in range(len(text) - 1, 0, -max(1, len(text) // 100)):
        torn.write_text(text[:length])
        if '"format": 1, ' not in text[:length]:
            assert "torn: " in explain(torn, code=1)[1]
            continue
        said, error = explain(torn)
        assert error.startswith(f"pccl recorder: {torn}: its end is missing: ")
        assert ("tag 7 " if length >= len(text) - 2 else "no operation is running\n") in said, said
    reduce(second, BULK, 7)
    threads[0].join()


def test_bad_arguments(address, tmp_path):
    with pytest.raises(ValueError, match="not a writable directory"):
        recorder.dump_on_signal(tmp_path / "none")
    with pytest.raises(pccl.InvalidArgument, match="recorder_dir"):
        pccl.Communicator(address, options={"recorder_dir": str(tmp_path / "none")})
    good = {"what": "flight recorder of a PCCL peer", "format": 1, "peer": "a", "waits": "\x1b[2J", "operations": []}
    for name, text, words in (
        ("empty", "", "not a file of"),
        ("broken", "{", "not a file of"),
        ("list", "[]", "not a file of"),
        ("other", '{"what": 1}', "not a file of"),
        ("later", json.dumps({**good, "format": 99}), "format 99, but this version reads format 1"),
    ):
        (tmp_path / name).write_text(text)
        assert f"pccl recorder: {tmp_path / name}: {words}" in explain(tmp_path / name, code=1)[1]
    assert "none: No such file or directory" in explain(tmp_path / "none", code=1)[1]
    (tmp_path / "good").write_text(json.dumps(good))
    assert explain(tmp_path / "good")[0] == "verdict of the master: ?[2J\n"
    assert "another file is of the same peer" in explain(tmp_path / "good", tmp_path / "good", code=1)[1]
    nowhere = tmp_path / "none" / "peer"
    assert f"{nowhere}0: No such file" in explain("--torch", nowhere, tmp_path / "good", code=1)[1]
    for arguments in ([], ["--torch"], ["--tosh", "x"]):
        assert "Try 'pccl recorder --help'" in explain(*arguments, code=2)[1]
