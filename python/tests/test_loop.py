"""The loop object: peers join, leave, are killed and stopped, and the programs here contain no code for that."""

import os
import random
import signal
import subprocess
import threading
import time

import numpy as np
import pytest
from support import DEADLINE, free_port, parallel

import pccl
from pccl import _programs

# Every step adds its number to a sum and to an order-sensitive chain, both of which show a step that was lost or made
# twice; each peer's random contribution shows whether all hold the same bits.
WORKER = """
import hashlib, os, signal, sys
import numpy as np
import pccl

address, least = sys.argv[1], int(sys.argv[2])
stopping = []
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
total, chain, noise = np.zeros(1), np.ones(1, np.uint64), np.zeros(100_000, np.float32)
own = np.random.default_rng(os.getpid())

def expected(steps):
    value = 1
    for step in range(steps):
        value = (value * 6364136223846793005 + step + 1) % (1 << 64)
    return value

for step in pccl.loop(address, {"total": total, "chain": chain, "noise": noise}, min_peers=least):
    with step:
        n = step.index
        assert total[0] == n * (n + 1) / 2 and int(chain[0]) == expected(n), (n, total, chain)
        assert not step.diverged, n
        mean = np.array([n + 1.0, n + 1.0, bool(stopping)])
        drawn = own.normal(0, 1, noise.size).astype(np.float32)
        step.all_reduce(mean, op="avg", label=f"step {n}")
        step.all_reduce(drawn, op="avg", label=f"noise {n}")
        total += mean[0]
        chain *= np.uint64(6364136223846793005)
        chain += np.uint64(mean[1])
        noise += drawn
        digest = hashlib.sha256(noise).hexdigest()[:16]
        print(f"step {n} of {step.size} as {digest}", flush=True)
        if mean[2] > 0:
            break
print(f"end {digest}", flush=True)
"""


def steps_of(worker):
    """Returns the worker's (step, digest) pairs."""
    said = [line.split() for line in worker.lines if line.startswith("step ")]
    return [(int(words[1]), words[-1]) for words in said]


def judge(workers):
    digests = {}
    for worker in workers:
        told = steps_of(worker)
        numbers = [number for number, _ in told]
        assert numbers == sorted(set(numbers)), numbers
        for number, digest in told:
            assert digests.setdefault(number, digest) == digest, number
    return len(digests)


def end_all(workers):
    workers[0].kill(signal.SIGTERM)
    for worker in workers:
        assert worker.end() == 0, worker.lines[-20:]
    ends = [worker.last("end ") for worker in workers]
    assert len(set(ends)) == 1, ends
    last = {steps_of(worker)[-1] for worker in workers}
    assert len(last) == 1, last


def kill_at_random(script, address, kills):
    seed = int(os.environ.get("SEED", random.randrange(1 << 32)))
    print("seed", seed)
    dice = random.Random(seed)

    def start():
        return script(WORKER, address, 2)

    present, gone = [start() for _ in range(4)], []
    for worker in present:
        worker.line("step ")
    for _ in range(kills):
        threading.Event().wait(dice.uniform(0, 0.2))  # a moment at random
        victim = present.pop(dice.randrange(len(present)))
        victim.kill()
        gone.append(victim)
        newcomer = start()
        if dice.random() < 0.3:  # it fails too, at any point
            threading.Event().wait(dice.uniform(0, 1))
            newcomer.kill()
            gone.append(newcomer)
            newcomer = start()
        newcomer.line("step ")
        present.append(newcomer)
    end_all(present)
    return judge(present + gone)


def test_kills(script, address):
    assert kill_at_random(script, address, 2) > 2


@pytest.mark.nightly
def test_sixty_kills(script, address):
    assert kill_at_random(script, address, 60) > 60


@pytest.mark.master(silence_ms=1000, heartbeat_ms=200)
def test_a_stopped_peer_comes_back(script, address):
    workers = [script(WORKER, address, 2) for _ in range(3)]
    for worker in workers:
        worker.line("of 3")
    workers[0].kill(signal.SIGSTOP)
    workers[1].line("of 2")
    workers[0].kill(signal.SIGCONT)
    for worker in workers[1:]:
        worker.line("of 3")
    end_all(workers)
    judge(workers)


def test_a_pair_of_which_one_is_stopped(script):
    """The other one waits for it within its step."""
    with pccl.MasterNode("127.0.0.1:0", options={"silence_ms": 1000, "heartbeat_ms": 200}) as node:
        workers = [script(WORKER, f"127.0.0.1:{node.port}", 2) for _ in range(2)]
        for worker in workers:
            worker.line("of 2")
        workers[0].kill(signal.SIGSTOP)
        time.sleep(1.5)  # longer than the silence limit
        workers[0].kill(signal.SIGCONT)
        before = len(steps_of(workers[1]))
        while len(steps_of(workers[1])) < before + 3:
            workers[1].line("step ")
        end_all(workers)
        judge(workers)


def test_a_run_survives_a_master_that_is_gone_for_long(script):
    """Its peers stop waiting for it, and later create the run again with their state."""
    port = free_port()
    env = {"PCCL_MASTER_LOST_MS": "300", "PCCL_ALONE_MS": "200"}
    with pccl.MasterNode(f"127.0.0.1:{port}", options={"alone_ms": 200, "recover_ms": 100}):
        workers = [script(WORKER, f"127.0.0.1:{port}", 2, env=env) for _ in range(2)]
        for worker in workers:
            worker.line("of 2")
    for worker in workers:
        worker.line("not connected yet")
    before = max(steps_of(worker)[-1][0] for worker in workers)
    with pccl.MasterNode(f"127.0.0.1:{port}"):
        for worker in workers:
            worker.line(f"step {before + 3} ")
        end_all(workers)
        judge(workers)


# ---- within one process


def steps(address, count, body, state=None, **given):
    """Makes `count` steps."""
    for step in pccl.loop(address, state, **given):
        with step:
            body(step)
        if step.index >= count - 1:
            return step


def at_once(*calls):
    return parallel(list(calls))


def ones(step, count=10):
    data = np.ones(count)
    step.all_reduce(data)
    return data[0]


def test_min_peers_are_awaited(address):
    seen = []

    def run():
        steps(address, 2, lambda step: seen.append((step.index, step.size, ones(step))), min_peers=3)

    at_once(run, run, run)
    assert sorted(seen) == [(0, 3, 3.0)] * 3 + [(1, 3, 3.0)] * 3


def test_too_few_peers_have_words(address):
    begin = time.monotonic()
    with pytest.raises(pccl.TimeoutError_, match=r"1 of min_peers=2 peers joined within wait_ms=300") as caught:
        next(pccl.loop(address, timeout=0.3))
    assert time.monotonic() - begin >= 0.3 and caught.value.ext is pccl.Result.TIMEOUT


def test_a_master_that_is_not_there(caplog):
    with pytest.raises(pccl.ConnectionError_):
        next(pccl.loop(f"127.0.0.1:{free_port()}", connect_timeout=0.2))
    assert "retrying for up to 200 ms" in caplog.text


def manage_tokens(state, *arguments):
    """Runs `pccl token`, and returns its output."""
    command = [_programs.find(), "token", *arguments, "--state", str(state)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE).stdout.strip()


def test_a_rejected_token_ends_the_loop_at_once(tmp_path, caplog):
    """A revoked token, and one without uses left, stay invalid however often the loop repeats its attempt."""
    is_revoked, is_over = threading.Event(), threading.Event()

    def run(token, step_done):
        for step in pccl.loop(address, min_peers=1, connect_timeout=10, options={"token": token}):
            with step:
                ones(step)
            if step_done(step):
                break

    def revoke(step):
        if step.size == 2 and not is_revoked.is_set():
            is_revoked.set()
            manage_tokens(tmp_path, "revoke", "guest")

    def be_guest():
        try:
            with pytest.raises(pccl.ConnectionError_, match="does not accept the token: it was revoked"):
                run(tokens["guest"], revoke)
            with pytest.raises(pccl.RefusedError, match="has no uses left"):
                run(tokens["host"], lambda step: True)
        finally:
            is_over.set()

    with pccl.MasterNode("127.0.0.1:0", options={"master_state": str(tmp_path)}) as master:
        address = f"127.0.0.1:{master.port}"
        tokens = {name: manage_tokens(tmp_path, "create", "--uses", "1", "--label", name) for name in ("host", "guest")}
        at_once(be_guest, lambda: run(tokens["host"], lambda step: is_over.is_set()))
    assert "not connected yet" not in caplog.text


def test_alone(address):
    data, taken = np.arange(3.0), np.zeros(3)
    for step in pccl.loop(address, min_peers=1):
        with step:
            info = step.all_reduce(data, taken, op="avg")
            assert info.local_world_size == 1 and list(taken) == [0, 1, 2]
            step.all_reduce(data)
        if step.index == 2:
            break
    assert list(data) == [0, 1, 2]


def leaving(leave):
    """Returns a test in which one peer leaves in a step, and the other one continues alone."""

    def test(address):
        sizes = []

        def other():
            for step in pccl.loop(address, min_peers=1):
                with step:
                    ones(step)
                    sizes.append(step.size)
                if step.size == 1 and 2 in sizes:
                    return

        thread = threading.Thread(target=other)
        thread.start()
        kept = leave(address)
        thread.join(DEADLINE)
        assert not thread.is_alive() and sizes[-1] == 1
        del kept

    return test


def leave_by_break(address):
    for step in pccl.loop(address):
        with step:
            ones(step)
            break
    return step


def leave_by_raising(address):
    with pytest.raises(ZeroDivisionError):
        for step in pccl.loop(address):
            with step:
                ones(step)
                1 / 0
    return step


def leave_by_interrupt(address):
    with pytest.raises(KeyboardInterrupt):
        for step in pccl.loop(address):
            with step:
                ones(step)
                raise KeyboardInterrupt
    return step


def leave_a_generator(address):
    def numbers():
        for step in pccl.loop(address):
            with step:
                ones(step)
                yield step.index

    made = numbers()
    next(made)
    made.close()
    return made


def leave_by_close(address):
    with pccl.loop(address) as loop:
        step = next(loop)
        ones(step)
    assert step.comm.closed
    return loop, step


test_break_leaves = leaving(leave_by_break)
test_an_exception_leaves = leaving(leave_by_raising)
test_an_interrupt_leaves = leaving(leave_by_interrupt)
test_a_generator_leaves = leaving(leave_a_generator)
test_close_leaves = leaving(leave_by_close)


def test_ctrl_c_while_it_waits(script, address):
    process = script(
        "import pccl, sys\n"
        "print('begins', flush=True)\n"
        "try:\n"
        "    next(pccl.loop(sys.argv[1]))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n",
        address,
    )
    process.line("waiting for peers")
    process.kill(signal.SIGINT)
    process.line("interrupted")
    assert process.end() == 0


def wait_until(done):
    end = time.monotonic() + DEADLINE
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_operation_is_repeated_with_those_who_are_left(address):
    """The bodies of the survivors' steps are not repeated."""
    bodies = []

    def run(role):
        for step in pccl.loop(address):
            with step:
                bodies.append((role, step.index, step.size))
                if role == "leaves" and step.size == 3:
                    wait_until(lambda: sum(size == 3 for _, _, size in bodies) == 3)
                    break
                assert ones(step) <= step.size
            if step.size == 2 and any(size == 3 for _, _, size in bodies):
                break

    at_once(*[lambda role=role: run(role) for role in ("one", "two", "leaves")])
    in_three = [(role, index) for role, index, size in bodies if size == 3]
    assert len({index for _, index in in_three}) == 1 and len(in_three) == 3
    for role in ("one", "two"):
        made = [index for one, index, _ in bodies if one == role]
        assert made == sorted(set(made)), bodies


def pair_of_which_one_is_lost(address, stays, launched=None):
    """Leaves one peer alone in its operation, made by stays(step), until a newcomer joins. The other peer leaves when
    `launched` is not empty, or else when the first step has begun. Returns the steps of the peer that stays."""
    made, lost = [], threading.Event()

    def first():
        for step in pccl.loop(address):
            with step:
                made.append(step)
                stays(step)
            if lost.is_set() and step.index > 0:
                return

    def leaves():
        for _ in pccl.loop(address):
            wait_until(lambda: made if launched is None else launched)
            break

    def newcomer():
        for step in pccl.loop(address):
            with step:
                ones(step)
            if step.index > 0:
                return

    def both():
        leaves()
        lost.set()
        newcomer()

    at_once(first, both)
    return made


def test_a_first_operation_is_repeated_when_there_are_peers_again(address):
    made = pair_of_which_one_is_lost(address, ones)
    assert [(step.index, step.again) for step in made] == [(0, True), (1, False)]


def test_operations_by_hand_begin_the_step_again(address):
    """Operations that are in progress are aborted."""
    first = []

    def stays(step):
        data, other = np.ones(10), np.ones(10)
        if not first:
            first.append(step.comm.all_reduce_async(other, other, op="sum", tag=7))
        step.comm.all_reduce(data)

    made = pair_of_which_one_is_lost(address, stays, first)
    assert [(step.index, step.again) for step in made] == [(0, False), (0, True), (1, False)]
    assert first[0].exception() is not None


def test_a_later_operation_begins_the_step_again(address):
    """Because a newcomer begins with the first one. The state is unchanged."""
    seconds = []

    def run(role):
        state = {"sum": np.zeros(1)}
        for step in pccl.loop(address, state):
            with step:
                first = ones(step)
                if role == "leaves":
                    wait_until(lambda: len(seconds) == 1)
                    return None
                if role == "stays":
                    seconds.append((step.index, step.again))
                second = ones(step)
                state["sum"] += first + second
            if step.index == 1:
                return float(state["sum"][0])

    def come_and_come():
        run("leaves")
        return run("newcomer")

    assert at_once(lambda: run("stays"), come_and_come) == [8, 8]
    assert seconds == [(0, False), (0, True), (1, False)]


def test_who_holds_something_else_is_told(address, caplog):
    def run(i):
        state = {"data": np.zeros(100)}
        for step in pccl.loop(address, state, min_peers=3):
            with step:
                ones(step)
                state["data"] += 2 if i == 0 and step.index == 1 else 1
            if step.index == 2:
                return step.diverged, state["data"][0]

    assert at_once(*[lambda i=i: run(i) for i in range(3)]) == [(True, 3), (False, 3), (False, 3)]
    wait_until(lambda: "this peer's state differed" in caplog.text)


def test_other_tensors_end_the_loop(address):
    """Two agree; the third one is removed, and joins again, three times. The two go on until then."""
    over = threading.Event()

    def agree():
        for step in pccl.loop(address, {"a": np.zeros(3)}):
            with step:
                votes = np.array([1, over.is_set()], np.float32)
                step.all_reduce(votes)
            if votes[1]:
                return

    def differ():
        try:
            with pytest.raises(pccl.ExpelledError):
                steps(address, 50, ones, {"b": np.zeros(3)}, min_peers=3)
        finally:
            over.set()

    at_once(agree, agree, differ)


def test_where_it_begins(address):
    state = pccl.SharedState([pccl.TensorInfo.from_buffer(np.zeros(1), "x")])
    state.revision = 7
    comm = pccl.Communicator(address)
    comm.connect()
    step = next(pccl.loop(comm, state, min_peers=1, first_step=40))
    assert (step.index, step.revision, step.size, step.rank) == (40, 7, 1, 0) and step.joined
    assert repr(step) == "<pccl.Step 40: rank 0 of 1>" and not comm.closed
    comm.close()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"min_peers": 0}, "min_peers 0"),
        ({"state": 5}, "expected a SharedState, or a dictionary"),
        ({"state": {"x": "text"}}, "is not a buffer"),
        ({"state": {"pccl.loop.steps": np.zeros(1)}}, "'pccl.loop.steps' is reserved"),
        ({"timeout": -1}, "expected a number of seconds"),
        ({"connect_timeout": None}, "expected a number of seconds"),
        ({"first_step": -1}, "first_step"),
        ({"options": {"no_such": 1}}, "no_such"),
    ],
)
def test_wrong_use(address, given, words):
    with pytest.raises(pccl.InvalidArgument, match=words):
        pccl.loop(address, **given)


def test_options_of_a_communicator_that_is_there(address):
    with pytest.raises(pccl.InvalidArgument, match="options"):
        pccl.loop(pccl.Communicator(address), options={})


def test_operations_that_were_not_awaited(address):
    loop = pccl.loop(address, min_peers=1)
    with next(loop) as step:
        handle = step.comm.coalesced_async([np.ones(3)], op="sum", alone_ok=True)
    with pytest.raises(pccl.PendingAsyncOpsError):
        next(loop)
    handle.wait()


# ---- a program's handling of incomplete steps and of loops


def test_an_exception_that_is_caught_begins_the_step_again(address):
    """For an exception other than a loss: the step has not been applied."""

    def run(role):
        state, has_failed = {"sum": np.zeros(1)}, False
        for step in pccl.loop(address, state):
            try:
                with step:
                    mean = ones(step) / step.size
                    if role == "fails" and step.index == 2 and not has_failed:
                        has_failed = True
                        raise KeyError("no such file")
                    state["sum"] += mean
            except KeyError:
                continue
            if step.index == 5:
                return state["sum"][0]

    assert at_once(lambda: run("fails"), lambda: run("other")) == [6, 6]


def second_operation_fails(address, stays, seen):
    """Makes one peer leave between two operations of step 0: stays(step) is the other one's action then."""
    begun = threading.Event()

    def first():
        for step in pccl.loop(address):
            with step:
                ones(step)
                if step.index == 0 and not step.again:
                    begun.set()
                    stays(step)
                seen.append((step.index, step.again))
            if step.index == 1:
                return

    def leaves_and_comes_again():
        for step in pccl.loop(address):
            with step:
                ones(step)
                wait_until(begun.is_set)
                break
        steps(address, 2, ones)

    at_once(first, leaves_and_comes_again)


def test_a_failed_step_has_no_more_operations(address):
    """A program that catches the loss and repeats the operation itself would apply the step twice."""
    reasons, seen = [], []

    def stays(step):
        with pytest.raises(pccl.PeerLostError):
            ones(step)
        for more in (lambda: ones(step), lambda: step.comm):
            with pytest.raises(pccl.InvalidUsage) as caught:
                more()
            reasons.append(str(caught.value))

    second_operation_fails(address, stays, seen)
    assert reasons == ["step 0 has ended: its all_reduce failed with PeerLostError; the loop repeats it"] * 2
    assert seen == [(0, False), (0, True), (1, False)]


def test_a_step_that_is_past(address):
    with pccl.loop(address, min_peers=1) as loop:
        with next(loop) as past:
            ones(past)
        with next(loop) as step:
            for use in (lambda: ones(past), past.__enter__):
                with pytest.raises(pccl.InvalidUsage, match="step 0 has ended: `with step` ended"):
                    use()
            past.__exit__(pccl.AbortedError, pccl.AbortedError("x", result=0, ext=pccl.Result.ABORTED), None)
            with pytest.raises(pccl.InvalidUsage, match="entered twice"):
                step.__enter__()
        assert past.comm is step.comm and next(loop).index == 2


@pytest.mark.parametrize("is_entered", [False, True])
def test_a_step_that_was_not_left(address, is_entered):
    loop = pccl.loop(address, min_peers=1)
    step = next(loop)
    if is_entered:
        step.__enter__()
    with pytest.raises(pccl.InvalidUsage, match="use `with step:`"):
        next(loop)
    assert loop.comm.closed


def test_a_second_loop_of_a_communicator(address):
    with pccl.Communicator(address) as comm:
        first = pccl.loop(comm, min_peers=1)
        with pytest.raises(pccl.InvalidUsage, match="already had a loop"):
            pccl.loop(comm)
        with next(first) as step:
            ones(step)


def test_a_step_that_one_peer_leaves_empty(address):
    """It requests the next step, which cannot meet the others' operation: it gets the error, and they continue."""
    options = {"stuck_ms": 300, "where_ms": 30}
    two, error, seen = threading.Event(), threading.Event(), []

    def go_on():
        for step in pccl.loop(address, min_peers=1, options=options):
            with step:
                ones(step)
            if step.size == 2:
                two.set()
            if error.is_set():
                return seen.append(step)

    def skip():
        assert two.wait(DEADLINE)  # it joins last, so the others do not wait for a third peer
        with pytest.raises(pccl.TimeoutError_, match="must have the same operations on all peers"):
            for step in pccl.loop(address, min_peers=3, options=options):
                with step:
                    pass
        error.set()

    at_once(skip, go_on, go_on)
    assert len(seen) == 2


# ---- a manual loop with the same parts


def test_wait_for(address):
    def run():
        with pccl.Communicator(address) as comm:
            comm.connect(min_peers=3)
            assert comm.size == 3 and comm.wait_for(2) == 3
            return ones(type("", (), {"all_reduce": comm.all_reduce}))

    assert at_once(run, run, run) == [3, 3, 3]


def test_wait_for_too_few(address):
    with pccl.Communicator(address) as comm:
        with pytest.raises(pccl.TimeoutError_, match="only 1 of 2 peers joined within 0.2 s"):
            comm.connect(min_peers=2, timeout=0.2)
        with pytest.raises(pccl.InvalidArgument, match="count"):
            comm.wait_for(0)
