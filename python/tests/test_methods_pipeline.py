"""Pipeline: the plan, the results of a pipeline, lost peers, newcomers, states; and its learning."""

import itertools
import json
import logging
import random
import re
import signal
import statistics
import threading
import time
import types

import pytest
import support
from test_diloco import refusal
from test_methods import start

import pccl

np = pytest.importorskip("numpy")

from lab import launch, pipelines  # noqa: E402
from pccl.methods import Pipeline  # noqa: E402
from pccl.methods._pipeline_plan import WHOLE, Seat, assign, complete, counting  # noqa: E402
from pccl.methods._pipeline_plan import handovers, missing, schedule  # noqa: E402

# ---- the schedule


def run_of(stages, micro_batches, ahead):
    """Returns the turns that all stages need, if each action takes one and its result is available in the next; and the
    maximum number of micro-batches that a stage holds at once."""
    plans = [schedule(stage, stages, micro_batches, ahead) for stage in range(stages)]
    for plan in plans:
        assert sorted(plan) == sorted(itertools.product(("forward", "backward"), range(micro_batches)))
    ended, held, turns = set(), [0] * stages, 0
    while any(plans):
        ready = []
        for stage, plan in enumerate(plans):
            if plan:
                kind, number = plan[0]
                beside = stage - 1 if kind == "forward" else stage + 1
                needs = (stage, "forward", number) if kind == "backward" else None
                if (not 0 <= beside < stages or (beside, kind, number) in ended) and (not needs or needs in ended):
                    ready.append(stage)
        assert ready, "they wait for each other"
        ended |= {(stage, *plans[stage].pop(0)) for stage in ready}
        counts = [
            sum((stage, "forward", n) in ended and (stage, "backward", n) not in ended for n in range(micro_batches))
            for stage in range(stages)
        ]
        held, turns = list(map(max, held, counts)), turns + 1
    return turns, held


@pytest.mark.parametrize("stages, micro_batches", list(itertools.product((1, 2, 3, 5), (1, 2, 3, 8))))
def test_a_schedule_waits_for_the_first_and_the_last_only(stages, micro_batches):
    turns, held = run_of(stages, micro_batches, 0)
    assert turns == 2 * (micro_batches + stages - 1)
    assert held == [min(micro_batches, stages - stage) for stage in range(stages)]
    assert run_of(stages, micro_batches, 2)[1] == [min(micro_batches, 3 * (stages - 1 - s) + 1) for s in range(stages)]


# ---- seats


def test_seats_by_hand():
    assert assign([("a", WHOLE), ("b", None), ("c", None), ("d", WHOLE), ("e", None)], 2) == {
        "a": Seat(0, WHOLE), "d": Seat(1, WHOLE), "b": Seat(2, 0), "c": Seat(2, 1), "e": Seat(3, 0),
    }
    # The first stage of one replica and the second of another have left: the remaining peers are one.
    assert assign([("b", 1), ("c", 0)], 2) == {"b": Seat(0, 1), "c": Seat(0, 0)}
    # Two of one stage are no replica: the last one moves.
    assert assign([("b", 1), ("c", 1)], 2) == {"b": Seat(0, 1), "c": Seat(0, 0)}
    assert assign([("b", 1), ("c", 1), ("d", 0)], 2)["c"] == Seat(1, 1)  # nothing gained


def test_seats_of_all_that_may_be():
    for stages in (1, 2, 3):
        for count in range(1, 5):
            for had in itertools.product([None, WHOLE, *range(stages)], repeat=count):
                peers = [(str(number), stage) for number, stage in enumerate(had)]
                seats = assign(peers, stages)
                assert set(seats) == {peer for peer, _ in peers} and len(set(seats.values())) == count
                whole = had.count(WHOLE)
                assert len(complete(seats, stages)) == whole + (count - whole) // stages
                known = sum(stage not in (None, WHOLE) for stage in had)
                kept = sum(seats[peer].stage == stage for peer, stage in peers if stage not in (None, WHOLE))
                counts = [had.count(stage) for stage in range(stages)]
                assert kept >= known - sum(max(0, one - (count - whole) // stages) for one in counts)
                again = assign([(peer, seats[peer].stage) for peer, _ in peers], stages)
                assert again == seats


def test_handovers():
    seats = {"a": Seat(0, WHOLE), "b": Seat(1, 0), "c": Seat(1, 1)}
    whole = {0: (7, "x"), 1: (7, "y")}
    assert handovers(seats, {"a": whole, "b": {0: (7, "x")}, "c": {1: (7, "y")}}, 2, 7) == {}
    assert handovers(seats, {"a": whole, "b": {}, "c": {1: (6, "y")}}, 2, 7) == {0: ("a", ("b",)), 1: ("a", ("c",))}
    assert handovers(seats, {"a": whole, "b": {0: (7, "z")}}, 2, 7) == {0: ("a", ("b",)), 1: ("a", ("c",))}
    assert handovers(seats, {"a": {0: (7, "x"), 1: (3, "")}, "b": {}, "c": {1: (7, "y")}}, 2, 7)[1] == ("c", ("a",))
    # "a" has the right one, too, but drops it.
    moves = {"w": Seat(0, WHOLE), "b": Seat(1, 0), "a": Seat(1, 1)}
    of = {"a": {0: (7, "x")}, "b": {0: (7, "z")}, "w": {0: (7, "x"), 1: (7, "y")}}
    assert handovers(moves, of, 2, 7) == {0: ("w", ("b",)), 1: ("w", ("a",))}
    del seats["a"]
    assert handovers(seats, {"b": {}, "c": {}}, 2, 0) == {0: (None, ("b",)), 1: (None, ("c",))}
    assert handovers(seats, {"b": {0: (7, "x")}, "c": {}}, 2, 7) == {}
    assert missing({"b": {0: (7, "x")}, "c": {1: (6, "y")}}, 2, 7) == [1] and missing({}, 2, 0) == []


def test_a_replica_counts_if_all_of_it_is_ready():
    whole, first, second = Seat(0, WHOLE), Seat(1, 0), Seat(1, 1)
    assert counting({"a": (whole, True), "b": (first, True), "c": (second, True)}, 2) == {0, 1}
    assert counting({"a": (whole, True), "b": (first, True), "c": (second, False)}, 2) == {0}
    assert counting({"a": (whole, False), "b": (first, True)}, 2) == set()


# ---- the parts of the lab's model


WIDTH, SMALL = 16, {"width": 16, "hidden": 8, "steps": 100}


def test_gradients_are_those_of_the_loss():
    (part,) = [make() for make in pipelines.makers(1, **SMALL)]
    part.params["meaning"][:] = 0.01
    micro = pipelines.batches_of(0, 1, 8, 1)(0, 0)[0]
    _, kept = part.forward(micro, None)
    part.backward(kept, None)
    dice = np.random.default_rng(0)
    way = dice.standard_normal(part.flat.shape).astype(np.float32)
    wanted, losses, start_at = float(part.gradient @ way), [], part.flat.copy()
    for sign in (1, -1):
        part.flat[:] = start_at + np.float32(sign * 1e-3) * way
        losses.append(part.forward(micro, None)[0])
    assert abs((losses[0] - losses[1]) / 2e-3 - wanted) <= 2e-2 * abs(wanted)


# ---- peers


def make(comm, whole=False, stages=2, **given):
    common = {"width": WIDTH, "inner_steps": 2, "kept": 512, "micro": 2, "batch": 8, "replicas": 2, **given}
    batch = pipelines.batches_of(0, common.pop("replicas"), common.pop("batch"), common.pop("micro"))
    return Pipeline(
        comm, pipelines.makers(stages, **SMALL), batch, pipelines.known_of(0, WIDTH), whole=whole, **common
    )


def bits(method):
    return {number: stage.flat.tobytes() for number, stage in method.stages.items()}


def steps(made, count=1):
    for _ in range(count):
        infos = support.parallel([one.step for one in made])
    return infos


def agree(made):
    """Checks that all peers with a stage have the same bits of it."""
    for number in range(len(made[0]._makers)):
        assert len({one.digests()[number] for one in made if number in one.digests()}) == 1


def close(made):
    for one in made:
        one.close()


@pytest.mark.parametrize("stages, compress, ahead", [(2, "all", 0), (3, "all", 1), (2, "none", 0), (4, "none", 3)])
def test_a_pipeline_computes_what_one_peer_does(address, stages, compress, ahead):
    """In steps and in the outer step; links carry an eighth."""
    given = {"stages": stages, "compress": compress, "ahead": ahead, "micro": 4, "batch": 16}
    with pccl.MasterNode("127.0.0.1:0") as master:
        (alone,) = start(f"127.0.0.1:{master.port}", 1, lambda i, comm: make(comm, True, **given))
        alone_infos = [steps([alone])[0] for _ in range(4)]
        pipe = start(address, stages, lambda i, comm: make(comm, min_peers=stages, **given))
        infos = [steps(pipe) for _ in range(4)]
        last = [max(told, key=lambda info: info.stage) for told in infos]
        assert [info.loss for info in last] == pytest.approx([info.loss for info in alone_infos], rel=1e-4)
        assert all(info.participants == 1 and info.committed for info in infos[-1])
        for one in pipe:
            for number, stage in one.stages.items():
                assert np.allclose(stage.flat, alone.stages[number].flat, atol=2e-4)
        sent = sum(info.activation_bytes for info in infos[0])
        assert sent == (stages - 1) * 2 * 16 * (2 if compress == "all" else WIDTH) * 4
        close([alone, *pipe])


def test_all_begin_a_round_with_the_same_parameters(address):
    """Also pipelines: they begin with the learned parameters of a whole model, also outside of the span of the basis.
    """
    made = start(address, 3, lambda i, comm: make(comm, i == 0, min_peers=3))
    steps(made, 3)
    assert all(one.stages[0].flat.tobytes() != made[0].stages[0].flat.tobytes() for one in made[1:] if 0 in one.stages)
    steps(made, 1)
    for number in (0, 1):
        assert len({one.stages[number].flat.tobytes() for one in made if number in one.stages}) == 1
    agree(made)
    close(made)


def test_kinds_of_replicas_train_together(address):
    """One whole, one pipeline. The change of a round is the mean of both."""
    made = start(address, 3, lambda i, comm: make(comm, i == 0, min_peers=3, kept=4096, clip=False, decay=0.0))
    assert sorted((one.replica, one._seat.stage) for one in made) == [(0, WHOLE), (1, 0), (1, 1)]
    infos = steps(made, 2)
    assert all(info.participants == 2 and info.committed and info.synced and not info.lost for info in infos)
    agree(made)
    assert len({one.digest() for one in made}) == 1  # counters and the basis
    steps(made, 6)
    agree(made)
    assert made[0].round == 4
    close(made)


def rounds(made, count=1):
    """Makes steps on each until a round has ended. Returns the infos of that round."""

    def round_of(one):
        while not (info := one.step()).synced:
            pass
        return info

    for _ in range(count):
        infos = support.parallel([lambda one=one: round_of(one) for one in made])
    return infos


def newcomer(address, made, **given):
    """Makes it join while the others make rounds. Returns its info."""
    late, told = make(pccl.Communicator(address), **given), []
    thread = threading.Thread(target=lambda: told.append(late.join()))
    thread.start()
    while thread.is_alive() and not any(support.parallel([one.comm.are_peers_pending for one in made])):
        pass
    while not rounds(made)[0].admitted:
        pass
    thread.join(support.DEADLINE)
    return late, told[0]


@pytest.mark.parametrize("stages, victim", [(2, 1), (2, 2), (3, 2), (3, 3)])
def test_a_stage_dies_and_another_peer_takes_it(address, stages, victim):
    made = start(address, 1 + stages, lambda i, comm: make(comm, i == 0, stages, min_peers=1, inner_steps=3))
    rounds(made)
    steps(made)  # it fails in the middle of a round
    gone = made.pop(victim)
    seat = gone._seat
    gone.close()
    infos = rounds(made)
    assert [info.lost for info in infos] == [False] + [True] * (stages - 1)
    assert all(info.participants == 1 and info.committed for info in infos)
    agree(made)
    infos = rounds(made, 2)
    assert [info.idle for info in infos] == [False] + [True] * (stages - 1) and not any(info.lost for info in infos)
    agree(made)
    late, info = newcomer(address, made, stages=stages, min_peers=1, inner_steps=3)
    assert info.joined and info.moved_bytes >= late.stages[seat.stage].flat.nbytes and info.stage == seat.stage
    made.append(late)
    agree(made)
    infos = rounds(made, 2)
    assert all(info.participants == 2 and not info.idle and not info.lost for info in infos)
    agree(made)
    close(made)


def test_the_one_with_the_whole_model_dies(address):
    """Two pipelines continue; then two peers of the same stage remain, of which one moves."""
    made = start(address, 5, lambda i, comm: make(comm, i == 0, min_peers=1, replicas=3))
    rounds(made)
    made.pop(0).close()
    assert all(info.participants == 2 for info in rounds(made, 2))
    agree(made)
    made.append(newcomer(address, made, whole=True, min_peers=1, replicas=3)[0])
    assert all(info.participants == 3 for info in rounds(made))
    firsts = [one for one in made if one._seat.stage == 1]
    for one in firsts:
        made.remove(one)
        one.close()
    rounds(made)  # in which it is detected
    infos = rounds(made, 2)
    assert sorted(info.stage for info in infos) == [WHOLE, 0, 1] and all(info.participants == 2 for info in infos)
    agree(made)
    close(made)


def test_a_stage_that_nobody_has_any_more(address, caplog):
    """The other one waits for a peer with that stage, which a peer without stages is not."""
    made = start(address, 2, lambda i, comm: make(comm, min_peers=1))
    rounds(made, 2)
    gone, left = made[1], made[0]
    gone.close()
    number, told = gone._seat.stage, []
    late = make(pccl.Communicator(address), min_peers=1)
    threads = [threading.Thread(target=lambda: told.extend(rounds([left]))), threading.Thread(target=late.join)]
    with caplog.at_level(logging.WARNING, "pccl.methods"):
        for thread in threads:
            thread.start()
        while f"waiting for a peer that has the parameters of stage {number} of round 2" not in caplog.text:
            time.sleep(0.01)
    assert gone.rejoin(pccl.Communicator(address)).stage == number
    for thread in threads:
        thread.join(support.DEADLINE)
    assert told[0].lost and told[0].participants == 0 and not told[0].committed
    made = [left, late, gone]
    assert all(info.participants == 1 and info.committed for info in rounds(made))
    agree(made)
    state = gone.state_dict()
    close(made)
    with pytest.raises(pccl.InvalidArgument, match="only one of them has round"):
        late.load_state_dict({name: value for name, value in state.items() if name != "round"})


def drop_out_when_all_are_ready(monkeypatch, one):
    """Closes its communicator when all have reported that they are ready for the end of a round."""
    hear = one._exchange_changes

    def close_and_exchange(*given):
        monkeypatch.undo()
        one.comm.close()
        return hear(*given)

    monkeypatch.setattr(one, "_exchange_changes", close_and_exchange)
    with pytest.raises(pccl.PCCLError):
        rounds([one])


def test_a_round_is_made_again_from_its_beginning(address, monkeypatch):
    """The only complete replica loses a stage when the other stage has received everything: that changes nothing."""
    made = start(address, 3, lambda i, comm: make(comm, min_peers=1))
    rounds(made)
    before = [one.digests() for one in made]
    (gone,) = [one for one in made if one._seat == Seat(0, 0)]
    left = [one for one in made if one is not gone]
    dropping = threading.Thread(target=drop_out_when_all_are_ready, args=(monkeypatch, gone))
    dropping.start()
    infos = rounds(left)
    dropping.join(support.DEADLINE)
    assert all(info.participants == 0 and not info.committed and info.round == 1 for info in infos)
    assert [one.digests() for one in made] == before
    assert all(info.participants == 1 and info.committed and info.round == 2 for info in rounds(left))
    close(made)


def test_a_stage_that_is_lost_at_the_end_of_a_round_comes_back(address, monkeypatch):
    """It has received everything, and drops out before it reports so: the round does not count, and both begin it
    again."""
    made = start(address, 2, lambda i, comm: make(comm, min_peers=1))
    rounds(made)
    before = [one.digests() for one in made]
    gone, left = made
    told = []
    going_on = threading.Thread(target=lambda: told.extend(rounds([left])))
    going_on.start()
    drop_out_when_all_are_ready(monkeypatch, gone)
    assert gone.rejoin(pccl.Communicator(address)).round == 1
    going_on.join(support.DEADLINE)
    assert told[0].participants == 0 and not told[0].committed and told[0].round == 1
    assert [one.digests() for one in made] == before
    assert all(info.participants == 1 and info.committed and info.round == 2 for info in rounds(made))
    close(made)


def test_a_state_goes_on(address):
    made = start(address, 3, lambda i, comm: make(comm, i == 0, min_peers=3))
    rounds(made, 2)
    states = [one.state_dict() for one in made]
    rounds(made, 2)
    wanted = {number: digest for one in made for number, digest in one.digests().items()}
    close(made)
    # In another order, and with other initial parameters.
    again = [make(pccl.Communicator(address), i == 2, min_peers=3) for i in range(3)]
    for one, state in zip(again, (states[2], states[1], states[0])):
        one.load_state_dict(state)
        assert one.round == 2
    support.parallel([one.join for one in again])
    assert sorted(one._seat.stage for one in again) == [WHOLE, 0, 1]
    agree(again)
    rounds(again, 2)
    agree(again)
    assert wanted.keys() == {0, 1}
    close(again)


def test_what_is_not_finite_takes_the_replica_out(address):
    made = start(address, 3, lambda i, comm: make(comm, i == 0, min_peers=3))
    rounds(made)
    made[1].stages[made[1]._seat.stage].flat[:] = np.nan
    infos = rounds(made)
    assert [info.lost for info in infos] == [False, True, True] and all(info.participants == 1 for info in infos)
    assert all(np.isfinite(stage.flat).all() for one in made for stage in one.stages.values())
    infos = rounds(made)
    assert all(info.participants == 2 and not info.lost for info in infos)
    agree(made)
    close(made)


def test_what_is_noticed_too_late_in_a_step_takes_the_replica_out(address, monkeypatch):
    """The last gradient is not finite: the next stage has completed that step, and gets the report in the next one."""
    made = start(address, 4, lambda i, comm: make(comm, i == 0, 3, min_peers=4, inner_steps=3))
    rounds(made)
    (stage,) = [one.stages[1] for one in made if one._seat.stage == 1]
    backward, calls = stage.backward, itertools.count(1)
    spoiled = lambda *given: backward(*given) * np.float32(np.nan if next(calls) == 2 else 1)
    monkeypatch.setattr(stage, "backward", spoiled)
    infos = rounds(made)
    assert [info.lost for info in infos] == [False, True, True, True] and next(calls) == 3
    assert all(info.participants == 1 for info in infos)
    infos = rounds(made)
    assert all(info.participants == 2 and not info.lost for info in infos)
    agree(made)
    close(made)


@pytest.mark.parametrize("said", [b"{", b"7", b'{"stage": 2, "ready": true, "done": [], "held": {}}',
                                  b'{"stage": null, "ready": true, "done": [], "held": {"0": [1, 2, 3]}}'])
def test_what_no_pipeline_says_ends_it_in_words(address, monkeypatch, said):
    made = start(address, 2, lambda i, comm: make(comm, True, min_peers=2))
    gather, liar = made[1]._gather, made[1].comm.id
    monkeypatch.setattr(made[1], "_gather", lambda _, tag: gather(said, tag))

    def told(one):
        with pytest.raises(pccl.InvalidArgument, match=f"{liar} sent an invalid description"):
            rounds([one])

    support.parallel([lambda one=one: told(one) for one in made])


def test_a_stage_whose_state_was_wrong_gets_it(address):
    made = start(address, 4, lambda i, comm: make(comm, i < 2, min_peers=4, verify_every=2))
    rounds(made)
    made[3]._held[made[3]._seat.stage].theta[0][5] += 1
    infos = rounds(made)
    assert [info.moved_bytes > 0 for info in infos] == [False, False, False, True]
    agree(made)
    close(made)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"rank": 17}, "rank: 17; expected at most width, 16"),
        ({"rank": 0}, "rank: 0; expected an integer of at least 1"),
        ({"compress": "some"}, "compress: 'some'; expected pipelines, all, none"),
        ({"whole": 1}, "whole: 1; expected True or False"),
        ({"ahead": -1}, "ahead: -1; expected an integer of at least 0"),
        ({"stages": 0}, "stages: expected one function per stage that creates it"),
        ({"kept": 5000}, "kept: 5000; expected at most 4096"),
        ({"inner_steps": 0}, "inner_steps: 0; expected an integer of at least 1"),
    ],
)
def test_bad_settings_are_told_in_words(address, given, words):
    with pccl.Communicator(address) as comm:
        with pytest.raises(pccl.InvalidArgument, match=words):
            make(comm, **given)


@pytest.mark.parametrize(
    "other, words",
    [
        ({"compress": "none"}, "compress: this peer has 'none', the run has 'pipelines'"),
        ({"rank": 4}, "params: this peer has basis: float32 \\(16, 4\\), the run has basis: float32 \\(16, 2\\)"),
        ({"stages": 3}, "stages: this peer has 3, the run has 2"),
    ],
)
def test_a_newcomer_with_other_settings_is_told(address, other, words):
    (one,) = start(address, 1, lambda i, comm: make(comm, True, min_peers=1, inner_steps=1))
    late = make(pccl.Communicator(address), True, min_peers=1, inner_steps=1, **other)
    assert re.search(words, refusal(types.SimpleNamespace(step=lambda samples: one.step()), late))
    one.close()


def test_a_newcomer_with_other_parameters_is_told(address):
    (one,) = start(address, 1, lambda i, comm: make(comm, True, min_peers=1, inner_steps=1))
    late = Pipeline(
        pccl.Communicator(address), pipelines.makers(2, width=16, hidden=9), one.batch, one.known, width=WIDTH,
        inner_steps=1, kept=512, whole=True,
    )
    words = "stages: the parameters of 0 have other names, shapes or types than the run's"
    assert re.search(words, refusal(types.SimpleNamespace(step=lambda samples: one.step()), late))
    one.close()


# ---- learning and survival


def killed(address, dice, kills):
    """Runs one peer with the whole model, which survives, and four others with a stage each, which are killed at any
    moment, up to this number of kills. Then four remain. Returns each peer's reports of its rounds; the first ones are
    from the survivor."""
    about = {"stages": 2, "width": 16, "batch": 8, "micro_batches": 2, "inner_steps": 2, "min_peers": 1}
    about["steps"] = 1 << 30
    told, processes, running = [], [], []

    def begin(whole, dies_after_s):
        how = launch.options(whole=int(whole), dies_after_s=dies_after_s, **about)
        process = launch.start("pipelines", address, 0 if whole else 1, *how)
        lines = []
        told.append(lines)
        processes.append(process)

        def read():
            for line in process.stdout:
                lines.append(json.loads(line))

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return process, reader, lines

    try:
        first = begin(True, None)
        while not first[2]:  # so that it is in every round
            assert first[0].poll() is None, first[0].stderr.read()[-2000:]
            time.sleep(0.05)
        started = 0
        while started < kills + 4:
            while len(running) < 4 and started < kills + 4:
                running.append(begin(False, dice.uniform(0.0, 3.0) if started < kills else None))
                started += 1
            assert first[0].poll() is None, first[0].stderr.read()[-2000:]
            ended = [one for one in running if one[0].poll() is not None]
            for process, _, _ in ended:
                assert process.returncode == -signal.SIGKILL, process.stderr.read()[-2000:]
            running = [one for one in running if one not in ended]
            time.sleep(0.05)
        end = time.monotonic() + support.DEADLINE
        while not (first[2] and first[2][-1]["participants"] == 3):
            assert time.monotonic() < end and first[0].poll() is None, first[2][-3:]
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return told


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.nightly)])
def test_every_round_is_committed_by_who_lives(address, kills):
    told = killed(address, random.Random(5), kills)
    first = told[0]
    assert [line["round"] for line in first] == list(range(1, len(first) + 1))
    assert all(line["participants"] >= 1 and not line["lost"] and not line["idle"] for line in first)
    digests = {}
    for lines in told:
        for line in lines:
            for stage, digest in line["digests"].items():
                digests.setdefault((line["round"], stage), set()).add(digest)
    assert all(len(found) == 1 for found in digests.values())
    assert len({line["digests"]["0"] for line in first}) == len(first)
    support.figure(f"pipelines.rounds_with_{kills}_kills", len(first), "rounds")


def lab(seed, count, **given):
    """Returns the losses of the whole model, also with compressed links, and the bytes between stages."""
    common = {"width": 256, "kept": 512, "batch": 64, "micro_batches": 2, "seed": seed, "seconds": 1800, **given}
    with pccl.MasterNode("127.0.0.1:0") as master:
        found = launch.peers(f"127.0.0.1:{master.port}", count, module="pipelines", **common)
    last = found[0][-1]
    return last["whole"], last["linked"], sum(lines[-1]["activations"] for lines in found)


@pytest.mark.nightly
def test_an_eighth_of_the_activations_is_enough():
    """In the laboratory, means of three seeds: a pipeline of two stages is within 0.1 of the same one with activations
    in float."""
    ends = {}
    for compress in ("pipelines", "none"):
        found = [lab(seed, 2, steps=600, inner_steps=1_000_000, compress=compress) for seed in range(3)]
        losses = [whole if compress == "none" else linked for whole, linked, _ in found]
        ends[compress] = statistics.mean(losses), found[0][2]
        support.figure(f"pipelines.{compress}", ends[compress][0], "nats")
    assert ends["pipelines"][0] <= ends["none"][0] + 0.1, ends
    assert 8 * ends["pipelines"][1] == ends["none"][1]


@pytest.mark.nightly
def test_a_pipeline_beside_a_whole_model_is_nearly_as_good_as_another_one():
    """In the laboratory, means of three seeds: within 0.1 of two replicas with the whole model."""
    ends = {}
    for whole, count in ((2, 2), (1, 3)):
        found = [lab(seed, count, whole=whole, replicas=2, steps=500) for seed in range(3)]
        ends[whole] = statistics.mean(loss for loss, _, _ in found)
        support.figure(f"pipelines.whole_{whole}", ends[whole], "nats")
    assert ends[1] <= ends[2] + 0.1, ends
