"""The library's messages about missing peers."""

import logging
import threading
import time

import numpy as np
import pytest
from support import DEADLINE, world

import pccl
from pccl import ReduceOp, Result, _native

SIZES = pytest.mark.parametrize("count", [16, 100_000], ids=["tiny", "bulk"])


def named(group, names, **options):
    """Returns members with these names."""
    run = group(0)
    run.names = names.split()
    for name in run.names:
        run.admit(options={"name": name, **options})
    return run


def numbers(run):
    """Returns each member's id as in messages."""
    lines = [line.split() for line in run.members[0].get_topology().splitlines() if line.startswith("peer ")]
    by_name = {line[-1]: line[2][:8] for line in lines}
    return [by_name[name] for name in run.names]


def expect_timeout(call):
    with pytest.raises(pccl.TimeoutError_) as caught:
        call()
    error = caught.value
    assert isinstance(error, TimeoutError) and not isinstance(error, pccl.PeerLostError)
    assert error.ext is Result.TIMEOUT and error.peers == ()
    return error


@SIZES
@pytest.mark.parametrize("way", ["blocking", "handle", "future", "list"])
def test_a_reduction_s_deadline_names_who_is_missing(group, way, count):
    run = named(group, "two three", where_ms=50)
    run.names.insert(0, "one")
    run.members.insert(0, run.admit(options={"name": "one", "op_timeout_ms": 300}))
    del run.members[-1]
    one, two, three = numbers(run)

    def launch(comm):
        data = np.ones(count, np.float32)
        if way == "blocking":
            comm.all_reduce(data, data, op=ReduceOp.SUM, tag=7)
        elif way == "list":
            operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
            descriptor = pccl.ReduceDescriptor(count, ReduceOp.SUM, 7, operand)
            entry = pccl.ReduceOpDescriptor.from_numpy(data, data, descriptor)
            comm.all_reduce_multiple_with_retry([entry])
        else:
            handle = comm.all_reduce_async(data, data, op=ReduceOp.SUM, tag=7)
            (handle if way == "handle" else handle.future()).result(DEADLINE)

    errors = [None, None]

    def wait(i):
        errors[i] = expect_timeout(lambda: launch(run.members[i]))

    threads = [threading.Thread(target=wait, args=(i,)) for i in (0, 1)]
    threads[1].start()
    until(run.members[1].describe_waits)  # the master knows of it before the deadline begins
    threads[0].start()
    for thread in threads:
        thread.join()
    assert errors[0].words == errors[1].words
    words = errors[0].words
    assert errors[0].result is Result.RANK_CONNECTION_LOST and "op_timeout_ms" in words
    _, missing = words.split("waited for ")
    assert three in missing and one not in missing and two not in missing, words


@SIZES
def test_names_are_in_words(group, count):
    """A mismatch, which peers find themselves, and a departure, which the master reports, name the peer."""
    run = named(group, "one two three")

    def differ(comm, i):
        data = np.ones(count + i, np.float32)
        with pytest.raises(pccl.StateMismatch) as caught:
            comm.all_reduce(data, data, op=ReduceOp.SUM)
        return caught.value.words

    for words in run.all(differ):
        names = [name for name, digits in zip(run.names, numbers(run)) if f"peer {digits} '{name}'" in words]
        assert len(names) >= 2, words


def test_names_and_ids(group):
    run = named(group, "one two three", where_ms=50)
    ids = [comm.id for comm in run.members]
    assert [peer[:8] for peer in ids] == numbers(run)
    for comm in run.members:
        assert [comm.name_of(peer) for peer in ids] == run.names
        assert comm.name_of("0" * 32) == ""
        with pytest.raises(pccl.InvalidArgument, match="32 lower-case hexadecimal digits"):
            comm.name_of("three")
    with pytest.raises(pccl.InvalidUsage, match="pcclConnect"):
        _ = pccl.Communicator(run.address).id
    three = run.members.pop()

    def lose(comm, i):
        with pytest.raises(pccl.PeerLostError) as caught:
            comm.all_reduce(np.ones(16, np.float32), np.ones(16, np.float32), op=ReduceOp.SUM)
        return caught.value

    def leave_when_they_wait():
        until(lambda: all(comm.describe_waits() for comm in run.members))
        three.close()

    leaving = threading.Thread(target=leave_when_they_wait)
    leaving.start()
    errors = run.all(lose)
    leaving.join()
    for error in errors:
        assert error.peers == (ids[2],) and error.names == ("three",)
        assert f"peer {ids[2][:8]} 'three': " in error.words
    assert [comm.name_of(ids[2]) for comm in run.members] == ["three", "three"]


def test_describe_waits_says_names(group):
    run = named(group, "one two", where_ms=50)
    one, two = run.members
    thread = threading.Thread(target=one.update_topology)
    thread.start()
    assert f"peer {two.id[:8]} 'two'" in until(one.describe_waits)
    two.update_topology()
    thread.join()


@SIZES
def test_the_documented_reaction_to_a_deadline_ends(group, count):
    """A peer that repeats the step only when a peer was lost does not wait forever for one that is alive."""
    run = named(group, "here away", op_timeout_ms=300)
    here, _ = run.members
    data = np.ones(count, np.float32)
    with pytest.raises(pccl.TimeoutError_):
        for _ in range(3):
            try:
                here.all_reduce(data, data, op=ReduceOp.SUM)
            except pccl.PeerLostError:
                continue
    assert (data == 1).all()


@pytest.mark.parametrize("call", ["update_topology", "are_peers_pending"])
def test_a_joint_call_s_deadline_names_who_is_missing(group, call):
    run = named(group, "here away", call_timeout_ms=5000)  # in which they also connect, on a busy machine, too
    here, away = numbers(run)
    words = expect_timeout(getattr(run.members[0], call)).words
    assert "call_timeout_ms" in words and away in words and here not in words


@SIZES
def test_stuck_calls_have_words_of_their_own(group, count):
    """One peer waits in this call and one in that: the peer with stuck_ms gets an error, which names the others' calls.
    """
    run = group(0)
    stuck = run.admit(options={"where_ms": 30, "stuck_ms": 200})
    patient = run.admit(options={"where_ms": 30})
    data, other = np.ones(count, np.float32), np.ones(count, np.float32)
    thread = threading.Thread(target=lambda: patient.update_topology())
    thread.start()
    words = expect_timeout(lambda: stuck.all_reduce(data, data, op=ReduceOp.SUM)).words
    assert "stuck_ms" in words and "update topology" in words and "op_timeout_ms" not in words
    stuck.update_topology()
    thread.join()
    handle = patient.all_reduce_async(other, other, op=ReduceOp.SUM)
    thread = threading.Thread(target=lambda: handle.wait())
    thread.start()
    words = expect_timeout(stuck.update_topology).words
    assert "stuck_ms" in words and "all-reduce tag 0" in words and "call_timeout_ms" not in words
    stuck.all_reduce(data, data, op=ReduceOp.SUM)
    thread.join()


ROUNDS = """
import sys
import numpy as np
import pccl
data = np.zeros(100_000, np.float32)
state = pccl.SharedState([pccl.TensorInfo.from_numpy(np.ones(8, np.float32), "data")])
with pccl.Communicator(sys.argv[1]) as comm:
    comm.connect()
    print("in", flush=True)
    while True:
        try:
            comm.update_topology()
            if comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 2:
                continue
            comm.sync_shared_state(state)
            if comm.all_reduce(data, data, op=pccl.ReduceOp.SUM).local_world_size == 2:
                break
            state.revision += 1
        except pccl.TimeoutError_ as error:
            print("ended:", error.words, flush=True)
print("met", flush=True)
"""


def test_a_newcomer_that_updates_in_its_first_round(script, address):
    """It never meets the member, which synchronizes: their calls end and report the call to leave out, and both
    continue by beginning the round again."""
    peers = []
    for _ in range(2):
        peers.append(script(ROUNDS, address, env={"PCCL_WHERE_MS": "30", "PCCL_STUCK_MS": "300"}))
        peers[-1].line("in")
    for peer in peers:
        peer.line("met")
        assert peer.end() == 0
    words = [line for peer in peers for line in peer.lines if "ended: " in line]
    assert words
    for line in words:
        assert "stuck_ms" in line and "can never meet" in line and "call comm.update_topology()" in line
        assert "a newcomer skips it after connect" in line


def until(found):
    """Repeats the call until the answer is not empty."""
    end = time.monotonic() + DEADLINE
    while not (answer := found()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return answer


def test_a_newcomer_whom_nobody_admits_is_told_of_by_all(group, address, caplog):
    run = group(2, options={"where_ms": 50})
    newcomer = pccl.Communicator(address, options={"where_ms": 50})
    caplog.set_level(logging.WARNING, "pccl")
    caplog.clear()
    thread = threading.Thread(target=lambda: newcomer.connect(1))
    thread.start()

    def said(by, words):
        return [record for record in caplog.records if record.name == by and words in record.getMessage()]

    waits = until(newcomer.describe_waits)
    assert waits.startswith("connect has waited") and "update_topology()" in waits
    for by, words in (("peer", "connect has waited"), ("peer", "for admission: members"),
                      ("master", "0 of 2 have called")):
        record = until(lambda: said(f"pccl.{by}", words))[0]
        assert record.levelno == logging.WARNING and "update_topology()" in record.getMessage()
    while world(run.members[0]) < 3:
        run.all(lambda comm, _: comm.update_topology())
    thread.join()
    assert newcomer.describe_waits() == ""
    newcomer.close()


def test_diloco_that_waits_for_peers_says_so(address, caplog):
    from pccl.diloco import DiLoCo

    caplog.set_level(logging.WARNING, "pccl")
    comm = pccl.Communicator(address)
    trainer = DiLoCo(comm, {"weights": np.ones(4, np.float32)}, inner_steps=1, min_peers=2)
    thread = threading.Thread(target=lambda: pytest.raises(pccl.PCCLError, trainer.join))
    thread.start()
    record = until(lambda: [r for r in caplog.records if "min_peers=2" in r.getMessage()])[0]
    assert record.name == "pccl.diloco" and "1 have joined" in record.getMessage() and "join()" in record.getMessage()
    comm.close()
    thread.join()


@SIZES
def test_who_left_out_a_step_is_told_by_its_label(group, count):
    """Third against second: without labels they would be added up."""
    run = named(group, "one two three")

    def train(comm, i):
        data = np.ones(count, np.float32)
        for step in (1, 2, 3):
            if (i, step) == (2, 2):
                continue  # left out
            try:
                info = comm.all_reduce(data, np.empty_like(data), op=ReduceOp.SUM, label=f"step {step}")
            except pccl.StateMismatch as error:
                return step, error.words
            assert info.local_world_size == 3
        return None

    *others, odd = run.all(train)
    assert [step for step, _ in others] == [2, 2] and odd[0] == 3
    for _, words in (*others, odd):
        assert "labeled 'step 2'" in words and "labeled 'step 3'" in words, words
        assert f"peer {run.members[2].id[:8]} 'three' called" in words, words


def test_labels_of_other_launches(group):
    two = group(2)

    def reduce(comm, i):
        data = np.ones(16, np.float32)
        descriptor = pccl.ReduceDescriptor(16, ReduceOp.SUM, 3, pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT))
        entry = pccl.ReduceOpDescriptor.from_numpy(data, data, descriptor)
        comm.all_reduce_async(data, data, op=ReduceOp.SUM, tag=2, label="a").wait()
        comm.all_reduce_multiple_with_retry([entry], label="list")
        comm.all_reduce(data, data, op=ReduceOp.SUM)  # the label was of the previous call
        with pytest.raises(pccl.StateMismatch) as caught:
            comm.all_reduce_multiple_with_retry([entry], label="list" if i else "")
        for label in "x" * 33, "\u202e", "ä" * 17:
            with pytest.raises(pccl.InvalidArgument, match="invalid label"):
                comm.all_reduce(data, data, op=ReduceOp.SUM, label=label)
        comm.all_reduce(data, data, op=ReduceOp.SUM, label="ä" * 16)
        return caught.value.words

    for words in two.all(reduce):
        assert "labeled 'list'" in words and "without a label" in words, words


class Between:
    """Calls that a thread makes between its next label and the launch for it, as a signal's handler may."""

    def __init__(self, monkeypatch):
        self._launch = _native.lib.pcclAllReduceWithOptionsAsync
        self._calls = threading.local()
        monkeypatch.setattr(_native.lib, "pcclAllReduceWithOptionsAsync", self._call_and_launch)

    def __call__(self, *calls):
        self._calls.due = list(calls)

    def _call_and_launch(self, *arguments):
        due, self._calls.due = getattr(self._calls, "due", []), []
        for call in due:
            call()
        return self._launch(*arguments)


def differ(call):
    with pytest.raises(pccl.StateMismatch) as caught:
        call()
    return caught.value.words


class Interrupted(Exception):
    pass


def interrupt():
    raise Interrupted


@SIZES
def test_labels_nest(group, monkeypatch, count):
    """Each launch has its label, for any launches in between."""
    between = Between(monkeypatch)

    def reduce(comm, i):
        data = np.ones(count, np.float32)
        inner = []

        def call(tag, label):
            return comm.all_reduce(data, np.empty_like(data), op=ReduceOp.SUM, tag=tag, label=label)

        def quietly():
            with pytest.raises(Interrupted):
                call(3, "lost")

        between(lambda: call(1, "inner"))
        info = call(2, "outer")
        assert info.local_world_size == 2
        between(lambda: call(1, ""))  # has none, although it is made within the other
        outer = differ(lambda: call(2, f"outer {i}"))
        between(lambda: inner.append(differ(lambda: call(1, f"inner {i}"))))
        again = differ(lambda: call(2, f"outer {i}"))
        between(lambda: between(interrupt), quietly)  # the inner one is left before its launch
        lost = differ(lambda: call(2, f"outer {i}"))
        if i:
            between(interrupt)
            quietly()
        call(4, "")  # and nothing of it remains
        return [inner[0], outer, again, lost]

    for words in group(2).all(reduce):
        inner, *outer = words
        assert "labeled 'inner 0'" in inner and "labeled 'inner 1'" in inner and "outer" not in inner, inner
        for one in outer:
            assert "labeled 'outer 0'" in one and "labeled 'outer 1'" in one and "inner" not in one, one
