"""Send and receive among peers in threads of one process, and one that is killed."""

import asyncio
import time

import pytest
import support

import pccl

np = pytest.importorskip("numpy")

LARGE = 50000  # elements: from peer to peer, not through the master


@pytest.mark.parametrize("count", [3, LARGE])
def test_a_ring_of_sends(group, count):
    three = group(3)
    ids = three.members[0].members()

    def pass_on(comm, i, given):
        sent, got = np.full(count, float(i)), np.empty(count)
        handles = [comm.send_async(sent, given[(i + 1) % 3]), comm.recv_async(got, given[(i - 1) % 3])]
        infos = [handle.result() for handle in handles]
        assert (got == (i - 1) % 3).all() and (sent == i).all()
        assert infos[0].participants == (ids[i], ids[(i + 1) % 3]) and infos[0].rank == 0
        assert infos[1].participants == (ids[(i - 1) % 3], ids[i]) and infos[1].rank == 1
        assert (infos[0].world_size, infos[0].tag) == (2, 0)

    three.all(lambda comm, i: pass_on(comm, i, (0, 1, 2)))
    three.all(lambda comm, i: pass_on(comm, i, ids))


def test_many_of_one_tag_are_in_order(group):
    two = group(2)
    numbers = np.arange(500, dtype=np.int64)
    got = np.zeros_like(numbers)

    def stream(comm, i):
        buffer, act = (numbers, comm.send_async) if i == 0 else (got, comm.recv_async)
        handles = [act(buffer[k : k + 1], 1 - i, tag=7) for k in range(len(numbers))]
        for handle in reversed(handles):
            handle.result()

    two.all(stream)
    assert (got == numbers).all()


def test_more_than_may_be_under_way(group):
    """A peer that sends more awaits the oldest ones first, so memory stays bounded."""
    two = group(2)
    count, window = 10000, 4000

    def send(comm):
        handles = []
        for k in range(count):
            if len(handles) == window:
                handles.pop(0).result()
            handles.append(comm.send_async(np.array([k]), 1))
        for handle in handles:
            handle.result()

    def receive(comm):
        got = np.empty(1, np.int64)
        for k in range(count):
            comm.recv(got, 0)
            assert got[0] == k

    two.all(lambda comm, i: receive(comm) if i else send(comm))


@pytest.mark.parametrize("count", [3, LARGE])
@pytest.mark.parametrize("early", [False, True])
def test_from_anybody(group, count, early):
    """Each of two sends several, and the third sees the sender of each, in the order of each sender."""
    three = group(3)
    ids, each = three.members[0].members(), 5

    def receive(comm):
        got = [np.empty(count) for _ in range(2 * each)]
        handles = [comm.recv_async(place, tag=4) for place in got] if early else []
        comm.barrier()
        infos = [handle.result() for handle in handles] or [comm.recv(place, tag=4) for place in got]
        order = []
        for place, info in zip(got, infos):
            source = ids.index(info.participants[0])
            assert (place == 10 * source + order.count(source)).all()
            assert info.participants[1] == ids[2] and info.rank == 1 and info.sequence == order.count(source)
            order.append(source)
        assert sorted(order) == [0] * each + [1] * each

    def send(comm, i):
        if early:
            comm.barrier()
        handles = [comm.send_async(np.full(count, 10.0 * i + k), 2, tag=4) for k in range(each)]
        if not early:
            comm.barrier()
        for handle in handles:
            handle.result()

    three.all(lambda comm, i: receive(comm) if i == 2 else send(comm, i))


def test_from_anybody_in_a_group(group):
    """Receives from the group's members only, although another peer sends the same tag."""
    three = group(3)
    ids = three.members[0].members()

    def work(comm, i):
        if i == 0:
            comm.send(np.full(3, 7.0), 2)
            return
        with comm.group(ids[1:]) as pair:
            if i == 1:
                pair.send(np.full(3, 8.0), 1)
                return
            got = np.empty(3)
            assert pair.recv(got).participants == (ids[1], ids[2]) and got[0] == 8
            assert comm.recv(got).participants == (ids[0], ids[2]) and got[0] == 7

    three.all(work)


def test_from_anybody_when_nobody_sends(group):
    two = group(2)

    def wait(comm, i):
        if i == 0:
            return
        handle = comm.recv_async(np.empty(3))
        assert not handle.test()
        comm.abort()
        with pytest.raises(pccl.AbortedError, match="its caller aborted the operation"):
            handle.result()

    two.all(wait)
    two.all(lambda comm, i: comm.recv(np.zeros(3)) if i else comm.send(np.zeros(3), 1))


def test_from_anybody_while_the_master_hears_what_peers_wait_for(group):
    """Other peers cannot know this operation: this peer's reports, one each second, do not name it."""
    two = group(2)
    got = np.empty(3)

    def work(comm, i):
        if i == 0:
            return comm.recv(got).participants[0]
        time.sleep(2.5)
        comm.send(np.full(3, 4.0), 0)
        return comm.members()[1]

    assert len(set(two.all(work))) == 1 and got[0] == 4


def test_ends_that_differ(group):
    two = group(2)

    def differ(comm, i):
        with pytest.raises(pccl.StateMismatch, match="called receive of 4 f64 from peer"):
            comm.send(np.zeros(3), 1) if i == 0 else comm.recv(np.zeros(4), 0)

    two.all(differ)
    two.all(lambda comm, i: comm.recv(np.zeros(3), 0) if i else comm.send(np.zeros(3), 1))


def test_bad_arguments(group):
    comm = group(2).members[0]
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for call in (
        lambda: comm.send(np.zeros(3), 0),
        lambda: comm.send(np.zeros(3), 2),
        lambda: comm.send(np.zeros(3), "nobody"),
        lambda: comm.send(np.zeros(0), 1),
        lambda: comm.recv(frozen, 1),
        lambda: comm.recv(np.zeros((4, 4))[:, 1], 1),
    ):
        with pytest.raises(pccl.InvalidArgument):
            call()
    with pytest.raises(pccl.InvalidArgument, match="send: peer: 'x' is not a peer id: expected 32 hexadecimal digits"):
        comm.send(np.zeros(3), "x")


def test_alone(group):
    comm = group(1).members[0]
    for call in (comm.send, comm.recv):
        with pytest.raises(pccl.TooFewPeersError, match="alone in its group"):
            call(np.zeros(3), 1)
    with pytest.raises(pccl.TooFewPeersError, match="alone in its group"):
        comm.recv(np.zeros(3))


VICTIM = """
import sys, pccl
comm = pccl.Communicator(sys.argv[1])
comm.connect()
while True:
    comm.send(bytearray(400000), 0)
"""


def test_the_other_peer_is_killed(group, script, address):
    """A peer that waits for it gets the error; two others are not disturbed."""
    two = group(2)
    victim = script(VICTIM, address, env={"PCCL_LOG_LEVEL": "NONE"})
    while support.world(two.members[0]) < 3:
        two.all(lambda comm, _: comm.update_topology())
    first, second = two.members
    gone = first.members()[2]
    first.recv(bytearray(400000), gone)
    beside, x = first.recv_async(np.zeros(LARGE), 1), np.ones(LARGE)
    handles = [first.recv_async(bytearray(count), gone, tag=1) for count in (8, 400000)]
    handles.append(second.send_async(x, gone))
    victim.kill()
    for handle in handles:
        with pytest.raises(pccl.PeerLostError, match=gone[:8]) as caught:
            handle.result()
        assert caught.value.peers == (gone,)
    two.all(lambda comm, i: comm.send(x, 0) if i else beside.result())
    for call in (first.send, first.recv):
        with pytest.raises(pccl.PeerLostError, match=f"{gone[:8]}.* is no longer a member of the group"):
            call(x, gone)
    ids = first.members()
    with first.group(ids[:1]) as alone, pytest.raises(pccl.InvalidArgument, match="whose membership is fixed"):
        alone.send(x, gone)
    with pytest.raises(pccl.MembersChangedError, match=f"not a current member: peer {gone[:8]}"):
        first.group([*ids, gone])


def test_of_a_group(group):
    three = group(3)
    ids = three.members[0].members()

    def work(comm, i):
        if i == 0:
            return None
        with comm.group(ids[1:]) as pair:
            x = np.array([float(i)])
            if i == 1:
                pair.send(x, 1)
            else:
                pair.recv(x, 0)
            pair.barrier()
            return x[0]

    assert three.all(work) == [None, 1.0, 1.0]


def test_awaitable(group):
    two = group(2)

    async def swap(comm, i):
        got = np.empty(2)
        await asyncio.gather(comm.send_async(np.full(2, float(i)), 1 - i), comm.recv_async(got, 1 - i))
        return got[0]

    assert two.all(lambda comm, i: asyncio.run(swap(comm, i))) == [1.0, 0.0]
