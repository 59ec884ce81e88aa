"""Lists of operations of all kinds among peers in threads of one process, some of which leave."""

import subprocess
import threading

import pytest
from support import DEADLINE, TWO, parallel

import pccl

np = pytest.importorskip("numpy")

LARGE = 50000  # elements: from peer to peer, not through the master
BASE = 10  # of the tags


def part(peer, count):
    return (np.arange(count) % 7 + 1 + 10 * peer).astype(np.float64)


class Mixed:
    """A list of all kinds on one peer. A peer's contribution follows from its id's place among all peers of the run."""

    def __init__(self, everybody, own, count, members, **more):
        self.everybody, self.own, self.count, self.more = everybody, own, count, more
        self.asked = []
        self.operations = []
        self.rebuild(members)
        self.asked.clear()

    def number(self, peer):
        return self.everybody.index(peer)

    def given(self, peer, count):
        return part(self.number(peer), count)

    def blob(self, peer):
        return self.given(peer, self.count + self.number(peer)).tobytes()

    def make(self, members):
        count, world, mine = self.count, len(members), self.given(self.own, self.count)
        return [
            pccl.AllReduce(mine.copy(), np.empty(count), op="sum", tag=BASE, **self.more),
            pccl.Broadcast(mine.copy(), root=members[-1], tag=BASE + 1, **self.more),
            pccl.AllGather(mine.copy(), np.empty((world, count)), tag=BASE + 2, **self.more),
            pccl.ReduceScatter(self.given(self.own, world * count), np.empty(count), op="max", tag=BASE + 3),
            pccl.Barrier(tag=BASE + 4),
            pccl.AllGatherV(self.blob(self.own), tag=BASE + 5),
            pccl.ReduceScatter(
                self.given(self.own, sum(range(1, world + 1))),
                np.empty(members.index(self.own) + 1),
                op="sum",
                counts=range(1, world + 1),
                tag=BASE + 6,
            ),
            pccl.Broadcast(mine.copy(), root=0, tag=BASE + 7),
        ]

    def rebuild(self, members):
        self.asked.append(members)
        fresh = self.make(members)
        old = self.operations or fresh
        alone = (pccl.AllReduce, pccl.Barrier, pccl.AllGatherV)
        self.operations = [was if was.info or isinstance(was, alone) else now for was, now in zip(old, fresh)]
        return fresh

    def check(self, infos):
        reduce, told, gather, scatter, barrier, blobs, shares, first = self.operations
        assert [operation.info for operation in self.operations] == infos
        assert [info.tag for info in infos] == [BASE + i for i in range(8)]
        for info in infos:
            assert info.participants[info.rank] == self.own and info.world_size == len(info.participants)
        sums = lambda info, count: sum(self.given(peer, count) for peer in info.participants)
        largest = lambda info, count: np.max([self.given(peer, count) for peer in info.participants], axis=0)
        assert (reduce.recv == sums(infos[0], self.count)).all()
        assert (told.t == self.given(infos[1].participants[-1], self.count)).all()
        assert (gather.recv == np.array([self.given(peer, self.count) for peer in infos[2].participants])).all()
        at = infos[3].rank * self.count
        whole = largest(infos[3], infos[3].world_size * self.count)
        assert (scatter.recv == whole[at : at + self.count]).all()
        assert blobs.blobs == [(peer, self.blob(peer)) for peer in infos[5].participants]
        own = infos[6].rank + 1
        at = sum(range(1, own))
        whole = sums(infos[6], sum(range(1, infos[6].world_size + 1)))
        assert (shares.recv == whole[at : at + own]).all()
        assert (first.t == self.given(infos[7].participants[0], self.count)).all()


def ids(group):
    return [comm.id for comm in group.members]


@pytest.mark.parametrize("count", [3, LARGE])
def test_all_kinds(group, count):
    three = group(3)
    everybody = ids(three)

    def run(comm, i):
        for max_in_flight in (1, 2 + i, 100):
            mixed = Mixed(everybody, comm.id, count, comm.members())
            mixed.check(comm.run(mixed.operations, max_in_flight=max_in_flight, rebuild=mixed.rebuild))
            assert mixed.asked == []
            mixed.check(comm.run(mixed.operations))  # the same ones again
            assert mixed.operations[0].info.sequence > 0

    three.all(run)


def leave_meanwhile(group, steps, rebuilds, max_in_flight=lambda i: 2 + 3 * i, count=LARGE):
    """Runs a list on four peers, of which one leaves after the first `steps` operations of the list."""
    four = group(4)
    everybody = ids(four)
    leaver = four.members[3]
    lists = [Mixed(everybody, comm.id, count, comm.members()) for comm in four.members]

    def leave():
        leaver.run(lists[3].operations[:steps]) if steps else None
        leaver.close()

    def run(comm, i):
        rebuild = lists[i].rebuild if rebuilds else None
        return comm.run(lists[i].operations, max_in_flight=max_in_flight(i), rebuild=rebuild)

    leaving = threading.Thread(target=leave)
    leaving.start()
    four.members.pop()
    outcomes = []
    for call in [lambda c=c, i=i: run(c, i) for i, c in enumerate(four.members)]:
        outcome = []
        thread = threading.Thread(target=lambda call=call, outcome=outcome: outcome.append(attempt(call)))
        thread.start()
        outcomes.append((thread, outcome))
    for thread, _ in outcomes:
        thread.join(DEADLINE)
    leaving.join(DEADLINE)
    return four, lists, [outcome[0] for _, outcome in outcomes], everybody[3]


def attempt(call):
    try:
        return call()
    except Exception as error:
        return error


@pytest.mark.parametrize("steps", range(8))
def test_one_leaves(group, steps):
    """The remaining peers rebuild their unfinished operations, and finish them."""
    three, lists, outcomes, leaver = leave_meanwhile(group, steps, True)
    for mixed, infos in zip(lists, outcomes):
        assert isinstance(infos, list), infos
        mixed.check(infos)
        assert all(members == three.members[0].members() for members in mixed.asked)
        assert [len(info.participants) for info in infos] == [4] * steps + [3] * (8 - steps)
    # Some need no rebuilding; the last ones do.
    assert all(mixed.asked for mixed in lists[:3])
    three.all(lambda comm, _: comm.barrier())


@pytest.mark.parametrize("steps", [0, 2, 5])
def test_one_leaves_and_the_list_ends(group, steps):
    """Without rebuild it is the same error for all, and unfinished operations change nothing."""
    three, lists, outcomes, leaver = leave_meanwhile(group, steps, False, lambda i: 1 + 3 * i)
    for i, error in enumerate(outcomes):
        assert isinstance(error, pccl.MembersChangedError), error
        assert leaver in error.peers and leaver[:8] in str(error)
    finished = [[operation.info is not None for operation in mixed.operations] for mixed in lists[:3]]
    assert finished[0][:steps] == [True] * steps
    for mixed in lists[:3]:
        for operation in mixed.operations[2:4]:
            assert (operation.send == mixed.given(mixed.own, operation.send.size)).all()
    three.all(lambda comm, _: comm.update_topology())

    def again(comm, i):
        mixed = Mixed(lists[0].everybody, comm.id, LARGE, comm.members())
        mixed.check(comm.run(mixed.operations))

    three.all(again)


def test_a_dead_root(group):
    """No peer has the root's data: the list ends with the exception of rebuild."""
    three = group(3)
    root = three.members[2].id

    def run(comm, i):
        told = np.full(10, float(i))
        listed = [pccl.Broadcast(told, root=root, tag=1), pccl.AllReduce(told.copy(), told.copy(), op="sum", tag=2)]
        with pytest.raises(pccl.InvalidArgument, match="entry 0: root: .* is not a member"):
            comm.run(listed, max_in_flight=1 + i, rebuild=lambda members: listed)
        comm.update_topology()
        return comm.run([pccl.Broadcast(told, root=0, tag=1)])[0].world_size

    three.members.pop().close()
    assert three.all(run) == [2, 2]


def test_rebuild_that_raises_ends_the_list_for_all(group):
    three = group(3)
    three.members.pop().close()

    def run(comm, i):
        mixed = Mixed([*comm.members()], comm.id, 5, comm.members())

        def fail(members):
            raise KeyError("mine")

        with pytest.raises(KeyError if i == 0 else pccl.AbortedError) as caught:
            comm.run(mixed.operations, rebuild=fail if i == 0 else mixed.rebuild)
        comm.update_topology()
        return str(caught.value)

    words = three.all(run)
    assert words[0] == "'mine'" and "could not rebuild it for the 2 remaining members" in words[1]


def test_what_rebuild_returns(group):
    """Any other result ends the list with a message."""
    three = group(3)
    three.members.pop().close()
    stale = three.members[0].members()
    wrong = [
        (None, "expected operations, not None"),
        ([5], "expected operations, not 5"),
        ([], "rebuild did not return a Broadcast with tag 1"),
        ([pccl.Barrier(tag=1)], "rebuild did not return a Broadcast with tag 1"),
        ([pccl.Broadcast(np.zeros(3), root=5, tag=1)], "entry 0: root"),
        ([pccl.Broadcast(np.zeros(3), root=0, tag=1, members=stale)], "a different member list than"),
    ]
    for returned, words in wrong:

        def run(comm, i, returned=returned, words=words):
            listed = [pccl.Broadcast(np.zeros(3), root=0, tag=1, members=stale)]
            with pytest.raises(pccl.InvalidArgument, match=words):
                comm.run(listed, rebuild=lambda _: returned)
            comm.update_topology()

        three.all(run)


def test_arguments(group):
    comm = group(2).members[0]
    five, ten = np.zeros(5), np.zeros(10)
    good = pccl.Broadcast(five, root=0, tag=1)
    wrong = [
        (lambda: comm.run([]), pccl.InvalidArgument, "the list is empty"),
        (lambda: comm.run(3), pccl.InvalidArgument, "expected operations"),
        (lambda: comm.run([good, "x"]), pccl.InvalidArgument, "not 'x'"),
        (lambda: comm.run([good], max_in_flight=0), pccl.InvalidArgument, "max_in_flight"),
        (lambda: comm.run([good, pccl.Barrier(tag=1)]), pccl.InvalidArgument, "entry 1: duplicate tag 1"),
        (lambda: comm.run([good, pccl.Barrier(tag=-1)]), pccl.InvalidArgument, "entry 1: tag"),
        (lambda: comm.run([good, pccl.Broadcast(five, root=2)]), pccl.InvalidArgument, "entry 1: root"),
        (lambda: comm.run([good, pccl.AllGather(five, five)]), pccl.LayoutError, "entry 1: recv has 5 elements"),
        (lambda: comm.run([good, pccl.AllGather(ten[1:6], ten)]), pccl.InvalidArgument, "entry 1: .*overlap"),
        (lambda: comm.run([good, pccl.AllReduce(ten[1:6], ten[:5], op="sum")]), pccl.InvalidArgument, "1: .*overlap"),
        (lambda: comm.run([good, pccl.AllGatherV("text")]), pccl.DTypeError, "entry 1: data"),
        (lambda: comm.run([good, pccl.AllGatherV(five, max_bytes=0)]), pccl.InvalidArgument, "entry 1: max_bytes"),
        (lambda: comm.run([good, pccl.ReduceScatter(ten, five, op="x")]), pccl.InvalidArgument, "op"),
        (lambda: comm.run([pccl.Barrier(label="x" * 33)]), pccl.InvalidArgument, "entry 0: .*at most 32"),
        (lambda: comm.run([pccl.Barrier(members=["x"])]), pccl.InvalidArgument, "entry 0: members"),
    ]
    for call, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call()
    handle = comm.barrier_async(tag=1)
    with pytest.raises(pccl.InvalidArgument, match="entry 0: tag 1 is in use"):
        comm.run([good])
    assert good.info is None and not handle.test()


def test_labels(group):
    two = group(2)

    def run(comm, i):
        with pytest.raises(pccl.StateMismatch, match="step 1"):
            comm.run([pccl.Barrier(tag=1, label="same"), pccl.Barrier(tag=2, label=f"step {i}")])
        comm.update_topology()

    two.all(run)


def test_alone(group):
    comm = group(1).members[0]
    received = np.zeros(4)
    with pytest.raises(pccl.TooFewPeersError):
        comm.run([pccl.Barrier()])
    gather = pccl.AllGather(np.arange(4.0), received, alone_ok=True)
    assert comm.run([gather, pccl.Barrier(tag=1, alone_ok=True)])[0].world_size == 1
    assert (received == np.arange(4.0)).all()


def test_a_list_counts_on_one_list_of_members(group):
    """A newcomer joins between two lists: each requires the members of its beginning."""
    two = group(2)

    def run(comm, i):
        both = np.zeros((len(comm.members()), 3))
        comm.run([pccl.AllGather(np.full(3, i + 1.0), both, tag=tag) for tag in range(5)], max_in_flight=1 + i)
        return both[:, 0].tolist()

    assert two.all(run) == [[1.0, 2.0]] * 2
    two.admit()
    assert two.all(run) == [[1.0, 2.0, 3.0]] * 3


def test_a_list_of_before(group):
    """Only the peer that requires former members rebuilds."""
    two = group(2)
    before = two.members[0].members()
    two.admit()

    def run(comm, i):
        asked = []

        def make(members):
            asked.append(members)
            return [pccl.AllGather(np.full(3, i + 1.0), np.zeros((len(members), 3)), tag=1, members=members)]

        listed = make(before if i == 0 else comm.members())
        info = comm.run(listed, rebuild=make)[0]
        return info.world_size, len(asked) - 1

    assert two.all(run) == [(3, 1), (3, 0), (3, 0)]


def test_abort(group):
    two = group(2)
    listed = [pccl.Barrier(tag=1)]
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(attempt(lambda: two.members[0].run(listed))))
    thread.start()
    while not two.members[0].describe_waits() and not waiting:
        two.members[0].abort()
    two.members[0].abort()
    thread.join(DEADLINE)
    assert isinstance(waiting[0], pccl.AbortedError)
    two.all(lambda comm, _: comm.update_topology())
    two.all(lambda comm, _: comm.run(listed))


ON_MAIN = (
    TWO
    + """
import numpy as np
first, second = two()
assert threading.current_thread() is threading.main_thread()
def rebuild(members):
    assert threading.current_thread() is threading.main_thread()
    print("rebuilds for", len(members), flush=True)
    return [pccl.AllGather(np.zeros(3), np.zeros((len(members), 3)), alone_ok=True)]
threading.Thread(target=second.close).start()
print(first.run([pccl.AllGather(np.zeros(3), np.zeros((2, 3)), alone_ok=True)], rebuild=rebuild)[0].world_size)
first.close()
"""
)


def test_rebuild_is_called_on_the_thread_of_the_caller(script, address):
    process = script("import pccl, sys, threading\naddress = sys.argv[1]\n" + ON_MAIN, address)
    process.line("rebuilds for 1")
    process.line("1")
    assert process.end() == 0
