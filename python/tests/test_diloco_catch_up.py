"""Newcomers of a streaming run, which get its state fragment by fragment while the others train on: what follows from
what peers tell each other, beside a run that is written down plainly; then what becomes of it when peers come and go.
Processes that are killed: test_diloco_streaming_churn."""

import functools
import hashlib
import itertools
import random
import threading
import time

import pytest
import support
from test_diloco import end, flat, start, train
from test_diloco_streaming import FRAGMENTS, params, part_of

import pccl
from pccl.diloco import DiLoCo
from pccl.diloco._catch_up import Attendance, CatchUp, share_out
from pccl.diloco._reduction import _TAGS_OF_A_FRAGMENT, FIRST_TAG
from pccl.diloco._schedule import Schedule

np = pytest.importorskip("numpy")


# ---- what follows from what peers tell


def attendance_of(catch_ups, lacks):
    """What all read; lacks: of each peer that is there, whether it lacks the fragment, and how many it lacks."""
    told = [catch_ups[peer].entries(*said) for peer, said in lacks.items()]
    found = {catch_ups[peer].read([sum(column) for column in zip(*told)]) for peer in lacks}
    assert len(found) == 1
    return found.pop()


def test_who_lacks_a_fragment():
    catch_ups = {peer: CatchUp("abcd", peer) for peer in "abcd"}
    told = attendance_of(catch_ups, {"a": (False, 0), "b": (True, 3), "d": (False, 1)})
    assert told == Attendance(("a", "d"), ("b",), False)
    assert attendance_of(catch_ups, {"a": (False, 0), "b": (False, 0)}) == Attendance(("a", "b"), (), True)
    assert catch_ups["a"].read([]) == Attendance((), (), True)


@pytest.mark.parametrize("holders", range(1, 8))
@pytest.mark.parametrize("lacking", range(4))
def test_each_newcomer_gets_all_of_it_and_nobody_gives_much(holders, lacking):
    array, given = np.arange(1003), {}
    for turn in range(holders):
        attendance = Attendance(tuple(range(holders)), tuple(range(100, 100 + lacking)), False)
        shares = share_out(attendance, turn)
        for taker in attendance.lacking:
            parts = [share.of(array) for share in shares if share.taker == taker]
            assert np.array_equal(np.sort(np.concatenate(parts)), array)
            assert len(parts) == len({share.giver for share in shares if share.taker == taker}) <= 4
        for share in shares:
            given[share.giver] = given.get(share.giver, 0) + len(share.of(array))
    if lacking > 0:  # in as many slots as there are holders all have given about as much
        assert len(given) == holders and max(given.values()) <= min(given.values()) + 4 * holders


class World:
    """Peers that go through a schedule; who holds what is written down beside what they tell."""

    def __init__(self, dice, holders, newcomers, count):
        self.dice, self.count = dice, count
        self.alive = [f"h{i}" for i in range(holders)] + [f"n{i}" for i in range(newcomers)]
        dice.shuffle(self.alive)
        self.held = {peer: set(range(count)) if peer[0] == "h" else set() for peer in self.alive}
        self.catch_ups = {peer: CatchUp(self.alive, peer) for peer in self.alive}
        self.is_over = False

    def lands(self, fragment, turn, shares_fail):
        told = {peer: (fragment not in self.held[peer], self.count - len(self.held[peer])) for peer in self.alive}
        attendance = attendance_of(self.catch_ups, told)
        assert set(attendance.holders) == {peer for peer in self.alive if fragment in self.held[peer]}
        assert set(attendance.lacking) == set(self.alive) - set(attendance.holders)
        self.is_over = attendance.is_over
        assert self.is_over == all(len(self.held[peer]) == self.count for peer in self.alive)
        if attendance.holders:
            self._sends(fragment, share_out(attendance, turn), shares_fail)

    def _sends(self, fragment, shares, fail):
        """Some die meanwhile."""
        gone = {peer for peer in self.alive if self.dice.random() < fail} - {"h0"}
        self.alive = [peer for peer in self.alive if peer not in gone]
        for taker in {share.taker for share in shares} - gone:
            if not gone & {share.giver for share in shares if share.taker == taker}:
                self.held[taker].add(fragment)


@pytest.mark.parametrize("seed", range(200))
def test_whoever_dies_all_agree_and_newcomers_get_everything(seed):
    dice = random.Random(seed)
    period = dice.randint(3, 12)
    count = dice.randint(1, min(4, period))
    schedule = Schedule.make(period, count, None, dice.randint(1, period - 1))
    world = World(dice, dice.randint(1, 5), dice.randint(1, 3), count)
    calm = 4 * period
    for step in range(1, calm + 3 * period + 1):
        for fragment in schedule.lands(step):
            if step >= calm or dice.random() > 0.2:  # else the reduction is given up by all
                world.lands(fragment, schedule.turn(fragment, step), 0.1 if step < calm else 0.0)
    assert world.is_over and all(len(world.held[peer]) == count for peer in world.alive)


# ---- a run


SETTINGS = dict(inner_steps=6, fragments=FRAGMENTS, delay=1, alpha=0.5, min_peers=2, verify_every=0)


class Gate:
    """A newcomer's communicator receives nothing of these fragments before it is open."""

    def __init__(self, comm, fragments=(0, 1, 2)):
        self._receive, self.opened, self.asked = comm.recv_async, threading.Event(), threading.Event()
        self._fragments = fragments
        comm.recv_async = self._recv_async

    def _recv_async(self, *about, tag):
        if (tag - FIRST_TAG) // _TAGS_OF_A_FRAGMENT - 1 in self._fragments:
            self.asked.set()
            assert self.opened.wait(support.DEADLINE)
        return self._receive(*about, tag=tag)


class Run:
    """Peers that train in step, and newcomers whose join() is under way. After each step all who are in hold the same,
    and whoever comes holds the fragments that it has."""

    def __init__(self, address, count=2, **more):
        self.address, self.settings, self.number = address, {**SETTINGS, **more}, count
        self.values = [params() for _ in range(count)]
        self.made = start(address, count, lambda i, comm: record(DiLoCo(comm, self.values[i], **self.settings)))
        self.infos = []

    def newcomer(self, prepare=None, then=lambda late: None):
        """prepare: before it joins. then: afterward."""
        values = params(self.number)
        self.number += 1
        late = record(DiLoCo(pccl.Communicator(self.address), values, **self.settings))
        if prepare is not None:
            prepare(late)
        late.values, late.outcome = values, None
        late.thread = threading.Thread(target=self._join, args=(late, then), daemon=True)
        late.thread.start()
        return late

    @staticmethod
    def _join(late, then):
        try:
            late.outcome = late.join()
            then(late)
        except pccl.PCCLError as error:
            late.outcome = error

    def step(self):
        """Of those that are the furthest behind: a newcomer may be ahead by the delay."""
        at = min(one.inner_step for one in self.made)
        now = [(one, own) for one, own in zip(self.made, self.values) if one.inner_step == at]
        for one, own in now:
            train(own, self.made.index(one), at + 1)
        self.infos = support.parallel([one.step for one, _ in now])
        assert len({one.digest() for one, _ in now}) == 1
        return self.infos[0]

    def until(self, condition):
        until = time.monotonic() + support.DEADLINE
        while not condition():
            assert time.monotonic() < until
            self.step()

    def take(self, late):
        """Goes on until it is in."""
        self.until(lambda: late.outcome is not None)
        late.thread.join(support.DEADLINE)
        assert not isinstance(late.outcome, Exception), late.outcome
        self.made.append(late)
        self.values.append(late.values)
        self.until(lambda: len({one.inner_step for one in self.made}) == 1)
        return late.outcome

    def end(self):
        for _ in range(14):
            self.step()
        assert len({one.inner_step for one in self.made}) == 1
        assert all(one._catch_up is None for one in self.made)
        for one, other in itertools.combinations(self.made, 2):
            assert all(one.slots[slot] == other.slots[slot] for slot in one.slots.keys() & other.slots.keys())
        end(self.made)


def held(one):
    return [fragment.index for fragment in one._fragments if fragment.is_held]


def record(one):
    """What it holds of a fragment after each of its slots."""
    one.slots = {}
    for fragment in one._fragments:
        fragment.commit = functools.partial(_recorded, one, fragment, fragment.commit)
    return one


def _recorded(one, fragment, commit, *about):
    info = commit(*about)
    if fragment.is_held:
        content = b"".join(array.tobytes() for array in (*fragment._theta, *fragment._momentum))
        one.slots[fragment.index, one.inner_step] = hashlib.sha256(content).hexdigest()
    return info


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_newcomer_gets_one_fragment_after_another(address, delay):
    """And counts for nothing before; then it trains like the others."""
    run = Run(address, delay=delay)
    late = run.newcomer()
    counts = {p: [] for p in range(3)}
    while late.outcome is None:
        for cost in run.step().fragments:
            counts[cost.fragment].append(cost.participants)
        for p in held(late) if late._follows else ():
            late._fragments[p].handed_on()
    assert {count for found in counts.values() for count in found} <= {2, 3}
    assert all(found == sorted(found) for found in counts.values()), counts
    info = run.take(late)
    assert info.joined and info.moved_bytes >= 8 * flat(late.values).size
    assert late.digest() == run.made[0].digest()
    run.until(lambda: all(one._catch_up is None for one in run.made))
    for _ in range(12):
        assert all(cost.participants == 3 for cost in run.step().fragments)
    run.end()


def test_others_train_on_while_a_fragment_is_on_its_way(address):
    """Its other fragments' slots pass by. Only its own next one waits for it."""
    run = Run(address)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm)))
    run.until(late.gate.asked.is_set)
    at = run.made[0].inner_step  # it was applied at this step or the one before it, and is launched a period later
    p = next(fragment.index for fragment in late._fragments if fragment._handing_on is not None)
    seen = set()
    while run.made[0].inner_step < at + 4:
        seen |= {cost.fragment for cost in run.step().fragments}
    assert seen == {0, 1, 2} - {p} and not held(late) and late.outcome is None
    late.gate.opened.set()
    run.take(late)
    run.end()


def test_every_fragment_that_a_newcomer_holds_is_that_of_the_others(address):
    """In all its slots, those before it trains among them."""
    run = Run(address)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm, [2])))
    run.until(lambda: late.gate.asked.is_set() and {p for p, _ in late.slots} == {0})
    late.gate.opened.set()
    run.take(late)
    assert {p for p, step in late.slots if step <= late.inner_step} >= {0}
    run.end()
    assert late.slots.keys() <= run.made[0].slots.keys()


def test_who_comes_a_slot_later_waits_for_the_first(address):
    """Then it is taken in; nobody waits for it."""
    run = Run(address)
    first = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm)))
    run.until(first.gate.asked.is_set)
    second, passed = run.newcomer(), run.made[0].round
    while run.made[0].round == passed:
        assert not run.step().admitted
    first.gate.opened.set()
    run.take(first)
    assert second.outcome is None
    run.take(second)
    run.end()


def test_two_newcomers_at_once(address):
    run = Run(address)
    two = [run.newcomer() for _ in range(2)]
    for late in two:
        run.take(late)
    run.end()


# ---- who goes


def test_a_newcomer_goes_between_fragments(address):
    """The others are not disturbed, and the next one comes in."""
    run = Run(address)
    late = run.newcomer()
    run.until(lambda: late._follows and held(late))
    late.comm.close()
    late.thread.join(support.DEADLINE)
    assert isinstance(late.outcome, pccl.PCCLError)
    assert np.array_equal(flat(late.values), flat(params(2))) and np.array_equal(late._shared.theta[0], natural(2))
    run.until(lambda: run.made[0]._catch_up is None)
    run.take(run.newcomer())
    run.end()


def natural(seed):
    """Parameters in the order of the flat array."""
    return np.concatenate([part_of(params(seed), p) for p in range(3)])


def test_a_giver_goes_while_a_fragment_is_on_its_way(address):
    """The newcomer gets it a slot later."""
    run = Run(address, 3)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm)))
    run.until(late.gate.asked.is_set)
    p = next(fragment.index for fragment in late._fragments if fragment._handing_on is not None)
    run.made.pop().close()
    run.values.pop()
    late.gate.opened.set()
    late._fragments[p].handed_on()
    assert not late._fragments[p].is_held
    run.take(late)
    run.end()


def test_the_only_one_with_the_state_goes(address):
    """The newcomer is told, has what it came with, and may begin a run of its own with it."""
    run = Run(address, 1, min_peers=1)
    states = saved(address)
    late = run.newcomer(lambda late: late.load_state_dict(states))
    run.until(lambda: late._follows and 0 < len(held(late)) < 3)
    run.made[0].close()
    late.thread.join(support.DEADLINE)
    assert isinstance(late.outcome, pccl.StateMismatch) and "the run is lost" in str(late.outcome)
    assert late.round == states["round"] and np.array_equal(late._shared.theta[0], states["theta.float32"])
    with pccl.MasterNode("127.0.0.1:0") as master:
        assert late.rejoin(pccl.Communicator(f"127.0.0.1:{master.port}")).round == states["round"]
        late.step()
        late.close()


def saved(address):
    """A state of a boundary of another run."""
    with pccl.MasterNode("127.0.0.1:0") as master:
        one = DiLoCo(pccl.Communicator(f"127.0.0.1:{master.port}"), params(7), **{**SETTINGS, "min_peers": 1})
        with one:
            for step in range(18):
                train(one._layout._params, 0, step)
                one.step()
            return one.state_dict()


@pytest.mark.parametrize("ahead", [False, True])
def test_who_comes_from_a_checkpoint_gets_the_state_of_the_run(address, ahead):
    """Whoever has come further."""
    run = Run(address)
    state = saved(address)
    run.until(lambda: ahead or run.made[0].round > state["round"])
    late = run.newcomer(lambda late: late.load_state_dict(state))
    assert run.take(late).joined and late.round == run.made[0].round
    run.end()


def trains_to_the_end(late):
    while not late.finished:
        late.step()


def test_the_end_of_the_run(address):
    """Comes when a newcomer has just got its last fragment, or before: it has the final state."""
    run = Run(address, 3, min_peers=3, rounds=2)
    run.made.pop().close()
    run.values.pop()
    late = run.newcomer(then=trains_to_the_end)  # the first boundary waits for it
    run.until(lambda: run.made[0].finished)
    late.thread.join(support.DEADLINE)
    assert late.finished
    assert late.digest() == run.made[0].digest()
    assert np.array_equal(flat(late.values), flat(run.values[0]))
    end([*run.made, late])


@pytest.mark.parametrize(
    "settings", [dict(mode="delayed"), dict(), dict(fragments=2, extra={"cursor": np.zeros(1)})], ids=str
)
def test_what_it_does_not_go_with(address, settings):
    comm = pccl.Communicator(address)
    with pytest.raises(pccl.InvalidArgument, match="catch_up: .fragments. is for"):
        DiLoCo(comm, params(), inner_steps=4, catch_up="fragments", **settings)
    with pytest.raises(pccl.InvalidArgument, match="catch_up: 'some'; there are whole, fragments"):
        DiLoCo(comm, params(), inner_steps=4, catch_up="some", **settings)
