"""Newcomers of a streaming run, which receive its state fragment by fragment while the others continue to train: first
the plan of the transfers against a plain second implementation; then runs whose peers join and leave. Processes that
are killed: test_diloco_streaming_churn."""

import functools
import hashlib
import itertools
import random
import threading
import time
import types

import pytest
import support
from test_diloco import end, flat, train
from test_diloco_streaming import FRAGMENTS, params, part_of

import pccl
from pccl.diloco import DiLoCo
from pccl.diloco._catch_up import Attendance, CatchUp, Transfer, carry, transfers_of
from pccl.diloco._reduction import _TAGS_OF_A_FRAGMENT, FIRST_TAG
from pccl.diloco._schedule import Schedule

np = pytest.importorskip("numpy")


# ---- the plan of the transfers


def attendance_of(catch_ups, lacks):
    """Returns the attendance that all read; lacks: for each present peer, whether it lacks the fragment, and the number
    that it lacks."""
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


@pytest.mark.parametrize("holders", range(6))
@pytest.mark.parametrize("lacking", range(4))
def test_each_newcomer_gets_it_from_one_and_holders_take_turns(holders, lacking):
    given = []
    for turn in range(12 if holders < 5 else 10):
        attendance = Attendance(tuple(range(holders)), tuple(range(100, 100 + lacking)), False)
        found = transfers_of(attendance, turn)
        assert [transfer.receiver for transfer in found] == list(attendance.lacking if holders else ())
        assert len({transfer.sender for transfer in found}) == min(holders, lacking)
        given += [transfer.sender for transfer in found]
    assert len({given.count(sender) for sender in range(holders)}) <= 1


def test_a_giver_has_few_takers_at_a_time():
    """Each newcomer has it after some slots. The transfers of one sender use links and operations in flight."""
    lacking, slots = list(range(100, 200)), 0
    while lacking:
        found = transfers_of(Attendance((1, 2), tuple(lacking), False), slots)
        assert max(sum(transfer.sender == sender for transfer in found) for sender in (1, 2)) <= 16
        lacking = [peer for peer in lacking if peer not in {transfer.receiver for transfer in found}]
        slots += 1
    assert slots == 4


class World:
    """Peers in a schedule, with a separate record of the holders."""

    def __init__(self, dice, holders, newcomers, count):
        self.dice, self.count = dice, count
        self.alive = [f"h{i}" for i in range(holders)] + [f"n{i}" for i in range(newcomers)]
        dice.shuffle(self.alive)
        self.held = {peer: set(range(count)) if peer[0] == "h" else set() for peer in self.alive}
        self.catch_ups = {peer: CatchUp(self.alive, peer) for peer in self.alive}
        self.is_over = False

    def lands(self, fragment, turn, fail):
        told = {peer: (fragment not in self.held[peer], self.count - len(self.held[peer])) for peer in self.alive}
        attendance = attendance_of(self.catch_ups, told)
        assert set(attendance.holders) == {peer for peer in self.alive if fragment in self.held[peer]}
        assert set(attendance.lacking) == set(self.alive) - set(attendance.holders)
        self.is_over = attendance.is_over
        assert self.is_over == all(len(self.held[peer]) == self.count for peer in self.alive)
        self._send(fragment, transfers_of(attendance, turn), fail)

    def _send(self, fragment, given, fail):
        """Sends fragments; some peers fail in between."""
        gone = {peer for peer in self.alive if self.dice.random() < fail} - {"h0"}
        self.alive = [peer for peer in self.alive if peer not in gone]
        for transfer in given:
            if not gone & set(transfer):
                self.held[transfer.receiver].add(fragment)


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
            if step >= calm or dice.random() > 0.2:  # otherwise all give up the reduction
                world.lands(fragment, schedule.turn(fragment, step), 0.1 if step < calm else 0.0)
    assert world.is_over and all(len(world.held[peer]) == count for peer in world.alive)


class Wire:
    """Transfers with prescribed ends."""

    def __init__(self, *ends):
        self._ends, self.waited = list(ends), 0

    def send_async(self, array, peer, tag):
        end = self._ends.pop(0)
        if isinstance(end, pccl.InvalidArgument):
            raise end

        def wait():
            self.waited += 1

        def result():
            if isinstance(end, Exception):
                raise end
            return types.SimpleNamespace(rx_bytes=end)

        return types.SimpleNamespace(wait=wait, result=result)

    recv_async = send_async


def test_what_becomes_of_a_transfer():
    """Failed transfers are awaited, so that none writes into arrays that are used again."""
    arrays, transfer = [np.zeros(3), np.zeros(2)], Transfer("here", "me")
    error = lambda kind: kind("", result=pccl.Result.RANK_CONNECTION_LOST)
    assert carry(Wire(7, 5), "me", [transfer], arrays, 1) == 12
    for kind in (pccl.PeerLostError, pccl.MembersChangedError, pccl.TooFewPeersError, pccl.TimeoutError_):
        for ends in ((error(kind), 5), (7, error(kind))):
            wire = Wire(*ends)
            assert carry(wire, "me", [transfer], arrays, 1) is None and wire.waited == 2
    for kind in (pccl.InvalidArgument, pccl.NotConnected):
        wire = Wire(7, error(kind))
        with pytest.raises(kind):
            carry(wire, "me", [transfer], arrays, 1)
        assert wire.waited >= 1


# ---- a run


SETTINGS = dict(inner_steps=6, fragments=FRAGMENTS, delay=1, alpha=0.5, min_peers=2, verify_every=0)


class Gate:
    """Keeps a newcomer's communicator from receiving these fragments before it is open."""

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
    """Peers that this thread makes step together, and newcomers, each on a separate thread that joins and then trains
    like the others. After each slot of a fragment all that have it hold the same."""

    def __init__(self, address, count=2, **more):
        self.address, self.settings, self.number = address, {**SETTINGS, **more}, count
        self.values = [params() for _ in range(count)]
        comms = support.Group(address, count).members
        self.made = [record(DiLoCo(comm, own, **self.settings)) for comm, own in zip(comms, self.values)]
        support.parallel([one.join for one in self.made])
        self.came, self.last = [], None

    def newcomer(self, prepare=None):
        """Starts a newcomer. prepare: called before it joins."""
        values = params(self.number)
        late = record(DiLoCo(pccl.Communicator(self.address), values, **self.settings))
        if prepare is not None:
            prepare(late)
        late.values, late.outcome = values, None
        late.thread = threading.Thread(target=self._live, args=(late, self.number), daemon=True)
        self.number += 1
        late.thread.start()
        return late

    def _live(self, late, number):
        try:
            info = late.join()
            late.began, late.outcome = late.inner_step, info
            self.came.append(late)
            while not late.finished and (self.last is None or late.inner_step < self.last):
                train(late.values, number, late.inner_step + 1)
                late.step()
        except pccl.PCCLError as error:
            late.outcome = error

    def step(self):
        for i, own in enumerate(self.values):
            train(own, i, self.made[0].inner_step + 1)
        infos = support.parallel([one.step for one in self.made])
        assert len({one.digest() for one in self.made}) == 1
        return infos[0]

    def until(self, condition):
        until = time.monotonic() + support.DEADLINE
        while not condition():
            assert time.monotonic() < until
            self.step()

    def until_lands(self, fragment):
        """Continues until this fragment has landed for a newcomer, the first time after its admission. With a delay of
        1 the next one is not launched yet, so the newcomer gets this one and no other; and these peers do not reach the
        fragment's next slot, which waits for it."""
        slot = 2 * fragment + 1  # of SETTINGS: three fragments in six steps
        self.until(lambda: self.made[0]._catch_up is not None and self.made[0].inner_step % 6 == slot)

    def take(self, late):
        """Continues until it has joined."""
        self.until(lambda: late.outcome is not None)
        assert not isinstance(late.outcome, Exception), late.outcome
        return late.outcome

    def go(self, index):
        """Removes one of the established peers."""
        self.values.pop(index)
        self.made.pop(index).close()

    def end(self):
        """Stops all after the same step, which none has reached yet."""
        self.last = self.made[0].inner_step + 24
        self.until(lambda: self.made[0].inner_step == self.last)
        for late in self.came:
            late.thread.join(support.DEADLINE)
            assert late.inner_step == self.last, late.outcome
        everybody = [*self.made, *self.came]
        assert len({one.digest() for one in everybody}) == 1 and all(one._catch_up is None for one in everybody)
        for one, other in itertools.combinations(everybody, 2):
            assert all(one.slots[slot] == other.slots[slot] for slot in one.slots.keys() & other.slots.keys())
        end(everybody)


def held(one):
    return [fragment.index for fragment in one._fragments if fragment.is_held]


def record(one):
    """Records its content of a fragment after each of its slots."""
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
    """It counts for nothing before; then it trains like the others."""
    run = Run(address, delay=delay)
    late = run.newcomer()
    counts = {p: [] for p in range(3)}
    while late.outcome is None:
        for cost in run.step().fragments:
            counts[cost.fragment].append(cost.participants)
    assert {count for found in counts.values() for count in found} <= {2, 3}
    assert all(found == sorted(found) for found in counts.values()), counts
    info = run.take(late)
    assert info.joined and info.moved_bytes >= 8 * flat(late.values).size
    run.until(lambda: all(one._catch_up is None for one in run.made))
    for _ in range(12):
        assert all(cost.participants == 3 for cost in run.step().fragments)
    run.end()


def test_others_train_on_while_a_fragment_is_on_its_way(address):
    """The slots of the other fragments pass. Only the fragment's next slot waits for it."""
    run = Run(address)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm)))
    run.until_lands(0)
    await_that(late.gate.asked.is_set)
    seen = set()
    while not seen >= {1, 2}:
        seen |= {cost.fragment for cost in run.step().fragments}
    assert not held(late) and late.outcome is None
    late.gate.opened.set()
    run.take(late)
    run.end()


def test_every_fragment_that_a_newcomer_holds_is_that_of_the_others(address):
    """In all its slots, also before it trains."""
    run = Run(address)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm, [2])))
    run.until_lands(2)
    await_that(late.gate.asked.is_set)
    run.until(lambda: 0 in {p for p, _ in late.slots})
    late.gate.opened.set()
    run.take(late)
    run.end()
    assert late.slots.keys() <= run.made[0].slots.keys()


def test_who_comes_a_slot_later_waits_for_the_first(address):
    """It joins with the first one; no peer waits for it."""
    run = Run(address)
    first = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm)))
    run.until_lands(0)
    await_that(first.gate.asked.is_set)
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


def test_finish_leaves_a_newcomer_behind(address):
    """No peer that has everything returns: the run is lost for it."""
    run = Run(address)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm, [1])))
    run.until_lands(1)
    await_that(lambda: late.gate.asked.is_set() and held(late) == [0])  # 2 is not launched
    late.gate.opened.set()
    support.parallel([one.finish for one in run.made])
    end(run.made)
    late.thread.join(support.DEADLINE)
    assert isinstance(late.outcome, pccl.StateMismatch), late.outcome


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_finish_while_a_newcomer_catches_up(address, delay):
    """After each step: it continues through its steps in between, and all meet again."""
    run = Run(address, delay=delay)
    late, finished = run.newcomer(), 0
    while late.outcome is None or run.made[0]._catch_up is not None:
        run.step()
        if run.made[0]._catch_up is not None:
            support.parallel([one.finish for one in run.made])
            finished += 1
            assert not any(fragment.is_on_its_way for one in run.made for fragment in one._fragments)
            assert len({flat(own).tobytes() for own in run.values}) == len({one.digest() for one in run.made}) == 1
    run.take(late)
    assert finished > 6
    run.end()


def test_finish_before_a_boundary_after_a_death(address):
    """The decision to meet at the boundary depends on reductions that a newcomer, too, has applied by then."""
    run = Run(address, 3, delay=3)
    late = run.newcomer()
    run.until(lambda: run.made[0]._catch_up is not None and run.made[0].inner_step % 6 == 3)
    for one in run.made:
        assert one._fragments[1]._job.wait(support.DEADLINE)  # of all four; the next one lands after the boundary
    for one in (*run.made, late):
        one._min_peers = 4
    run.go(2)
    run.step()
    support.parallel([one.finish for one in run.made])
    run.until(lambda: run.made[0].inner_step % 6 == 1)
    for one in (*run.made, late):
        one._min_peers = 2  # so that no boundary waits
    run.take(late)
    run.end()


def test_a_group_without_links_between_all(address):
    """More peers than a group with links between all pairs has (16): the link of a transfer is opened for it."""
    run = Run(address, 17)
    late = run.newcomer()
    run.take(late)
    assert late.began % SETTINGS["inner_steps"] != 0
    run.end()


# ---- departures


def test_a_newcomer_goes_between_fragments(address):
    """The others are not disturbed, and the next one joins."""
    run = Run(address)
    late = run.newcomer()
    run.until_lands(0)
    await_that(lambda: held(late))
    late.comm.close()
    late.thread.join(support.DEADLINE)
    assert isinstance(late.outcome, pccl.PCCLError)
    assert np.array_equal(flat(late.values), flat(params(2))) and np.array_equal(late._shared.theta[0], natural(2))
    run.until(lambda: run.made[0]._catch_up is None)
    run.take(run.newcomer())
    run.end()


def natural(seed):
    """Returns parameters in the order of the flat array."""
    return np.concatenate([part_of(params(seed), p) for p in range(3)])


def test_a_giver_goes_while_a_fragment_is_on_its_way(address):
    """The newcomer gets it a slot later."""
    run = Run(address, 3)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm)))
    gives = lambda one: any(fragment._transfer is not None for fragment in one._fragments)
    run.until_lands(0)
    await_that(lambda: late.gate.asked.is_set() and any(map(gives, run.made)))
    giver = list(map(gives, run.made)).index(True)
    p = next(fragment.index for fragment in late._fragments if fragment._transfer is not None)
    run.go(giver)
    late.gate.opened.set()
    late._fragments[p].wait_for_transfer()
    assert not late._fragments[p].is_held
    run.take(late)
    run.end()


def test_the_only_one_with_the_state_goes(address):
    """The newcomer gets the error, has its initial state, and may start a run with it."""
    run = Run(address, 1, min_peers=1)
    states = saved(address)

    def prepare(late):
        late.load_state_dict(states)
        late.gate = Gate(late.comm, [1])

    late = run.newcomer(prepare)
    run.until_lands(1)
    await_that(lambda: late.gate.asked.is_set() and held(late) == [0])
    run.go(0)
    late.gate.opened.set()
    late.thread.join(support.DEADLINE)
    assert isinstance(late.outcome, pccl.StateMismatch) and "the run is lost" in str(late.outcome)
    assert late.round == states["round"] and np.array_equal(late._shared.theta[0], states["theta.float32"])
    with pccl.MasterNode("127.0.0.1:0") as master:
        assert late.rejoin(pccl.Communicator(f"127.0.0.1:{master.port}")).round == states["round"]
        late.step()
        late.close()


def test_the_only_one_with_the_state_goes_and_the_next_slot_is_of_what_the_newcomer_has(address):
    """The newcomer does not count as having the state then."""
    run = Run(address, 1, min_peers=1)
    late = run.newcomer(lambda late: setattr(late, "gate", Gate(late.comm, [2])))
    run.until_lands(2)
    await_that(lambda: late.gate.asked.is_set() and held(late) == [0, 1])
    run.go(0)
    late.gate.opened.set()
    late.thread.join(support.DEADLINE)
    assert isinstance(late.outcome, pccl.StateMismatch) and "the run is lost" in str(late.outcome)


def test_all_others_go_when_a_newcomer_has_just_got_everything(address):
    """While a boundary waits for more: the run continues from its state."""
    run, may_go_on = Run(address, 3, min_peers=3), threading.Event()

    def prepare(late):
        late.gate, reach = Gate(late.comm, [2]), late._reach
        late._reach = lambda: late.inner_step == 10 and may_go_on.wait(support.DEADLINE) and None or reach()

    run.go(2)
    late = run.newcomer(prepare)  # the boundary waits for it
    for p, lands in enumerate((7, 9)):
        run.until(lambda: run.made[0].inner_step == lands)
        await_that(lambda: p in held(late))
    run.go(1)
    support.parallel([lambda one=one: one._membership.any(False) for one in (run.made[0], late)])  # both know it
    may_go_on.set()
    run.until(lambda: run.made[0].inner_step == 11)
    await_that(late.gate.asked.is_set)
    boundary = threading.Thread(target=step_until_it_leaves, args=(run.made[0],), daemon=True)
    boundary.start()
    late.gate.opened.set()
    await_that(lambda: held(late) == [0, 1, 2] and late._membership.established)
    run.made[0].comm.close()
    boundary.join(support.DEADLINE)
    others = [run.newcomer(), run.newcomer()]
    await_that(lambda: all(one.outcome is not None for one in (late, *others)))
    assert all(not isinstance(one.outcome, Exception) and one.round >= 2 for one in (late, *others))
    end([late, *others])


def step_until_it_leaves(one):
    with pytest.raises(pccl.PCCLError):
        one.step()


def await_that(condition):
    until = time.monotonic() + support.DEADLINE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def saved(address):
    """Returns a state of a boundary of another run."""
    with pccl.MasterNode("127.0.0.1:0") as master:
        one = DiLoCo(pccl.Communicator(f"127.0.0.1:{master.port}"), params(7), **{**SETTINGS, "min_peers": 1})
        with one:
            for step in range(18):
                train(one._layout._params, 0, step)
                one.step()
            return one.state_dict()


@pytest.mark.parametrize("ahead", [False, True])
def test_who_comes_from_a_checkpoint_gets_the_state_of_the_run(address, ahead):
    """The most advanced state counts."""
    run = Run(address)
    state = saved(address)
    run.until(lambda: ahead or run.made[0].round > state["round"])
    late = run.newcomer(lambda late: late.load_state_dict(state))
    assert run.take(late).joined
    run.end()


def test_the_end_of_the_run(address):
    """The end of the run arrives when a newcomer has just got its last fragment, or before: it has the final state."""
    run = Run(address, 3, min_peers=3, rounds=2)
    run.go(2)
    late = run.newcomer()  # the first boundary waits for it
    run.until(lambda: run.made[0].finished)
    late.thread.join(support.DEADLINE)
    assert late.finished and late.digest() == run.made[0].digest()
    assert np.array_equal(flat(late.values), flat(run.values[0]))
    end([*run.made, late])


@pytest.mark.parametrize(
    "settings",
    [dict(mode="delayed"), dict(), dict(fragments=2, extra={"cursor": np.zeros(1)})],
    ids=["delayed", "sync", "extra"],
)
def test_what_it_does_not_go_with(address, settings):
    comm = pccl.Communicator(address)
    with pytest.raises(pccl.InvalidArgument, match="catch_up: .fragments. requires"):
        DiLoCo(comm, params(), inner_steps=4, catch_up="fragments", **settings)
    with pytest.raises(pccl.InvalidArgument, match="catch_up: 'some'; expected whole, fragments"):
        DiLoCo(comm, params(), inner_steps=4, catch_up="some", **settings)
