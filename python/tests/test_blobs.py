"""Operations on blobs among peers in threads of one process."""

import asyncio
import gc
import threading
import weakref

import pytest
import support
from support import DEADLINE

import pccl

LENGTHS = [[0, 0, 0], [1, 0, 300], [3000, 2000, 100], [400000, 0, 5], [0, 1 << 20, 300000]]


def blob(peer, length):
    return bytes((peer * 37 + i * 11 + i // 256) % 256 for i in range(min(length, 4096))) + bytes(max(0, length - 4096))


def test_lengths(group):
    """Single and many at once; each with the id of its peer, in canonical order."""
    three = group(3)
    ids = three.members[0].members()

    def run(comm, i):
        for lengths in LENGTHS:
            got = comm.all_gather_v(blob(i, lengths[i]), max_bytes=1 << 24)
            assert [one for one, _ in got] == list(ids)
            assert all(data == blob(k, lengths[k]) for k, (_, data) in enumerate(got))
            assert all(isinstance(data, memoryview) and data.format == "B" for _, data in got)
        handles = [comm.all_gather_v_async(blob(i, lengths[i]), tag=9 + t) for t, lengths in enumerate(LENGTHS)]
        ends = [
            handles[4].result(DEADLINE),
            handles[3].wait()[2],
            handles[2].future().result(DEADLINE),
            asyncio.run(wait_for(handles[1])),
            handles[0].result(DEADLINE),
        ]
        for lengths, got in zip(reversed(LENGTHS), ends):
            assert [data.tobytes() for _, data in got] == [blob(k, lengths[k]) for k in range(3)]

    three.all(run)


async def wait_for(handle):
    return await handle


def test_the_memory_lives_as_long_as_any_view_of_it(group):
    two = group(2)
    got = two.all(lambda comm, i: comm.all_gather_v(blob(i, 50000)))[0]
    owner = weakref.ref(got[0][1].obj.owner)
    kept = got[1][1][10:20]
    del got
    gc.collect()
    assert owner() is not None and kept == blob(1, 50000)[10:20]
    del kept
    gc.collect()
    assert owner() is None


def test_what_it_takes(group):
    np = pytest.importorskip("numpy")
    two = group(2)
    for data in (np.arange(5, dtype="float32"), bytearray(20), memoryview(b"x" * 20), np.zeros((0, 3))):
        wanted = np.asarray(data).tobytes()
        got = two.all(lambda comm, _: comm.all_gather_v(data))
        assert all(one.tobytes() == wanted for pair in got for _, one in pair)
    comm = two.members[0]
    with pytest.raises(pccl.DTypeError):
        comm.all_gather_v("text")
    with pytest.raises(pccl.LayoutError):
        comm.all_gather_v(np.zeros((4, 4))[:, 1])
    for wrong in (0, -1, 1 << 64, "1"):
        with pytest.raises(pccl.InvalidArgument, match="max_bytes"):
            comm.all_gather_v(b"", max_bytes=wrong)
    with pytest.raises(pccl.InvalidArgument, match="members"):
        comm.all_gather_v(b"", members=["x"])
    two.all(lambda comm, _: comm.all_gather_v(b""))


@pytest.mark.parametrize("length", [10, 100000])
def test_limits(group, length):
    three = group(3)

    def run(comm, i):
        with pytest.raises(pccl.StateMismatch, match=f"the blobs have {3 * length} bytes in total") as caught:
            comm.all_gather_v(bytes(length), max_bytes=3 * length - 1)
        handle = comm.all_gather_v_async(bytes(length), max_bytes=10**6 + (i == 1))
        assert handle.wait()[0] is False and handle.wait()[2] == []
        with pytest.raises(pccl.StateMismatch, match="at most 1000001 bytes in all"):
            handle.result()
        assert len(comm.all_gather_v(bytes(length), max_bytes=3 * length)) == 3
        return str(caught.value)

    words = three.all(run)
    assert words == words[:1] * 3


def test_alone(group):
    comm = group(1).members[0]
    with pytest.raises(pccl.TooFewPeersError):
        comm.all_gather_v(b"abc")
    assert comm.all_gather_v(b"abc", alone_ok=True) == [(comm.id, b"abc")]
    with pytest.raises(pccl.StateMismatch):
        comm.all_gather_v(b"abc", alone_ok=True, max_bytes=2)


@pytest.mark.parametrize("length", [10, 100000])
def test_one_leaves_meanwhile(group, length):
    """It requires no particular members: the same call again is right among the remaining peers. With a member list it
    fails."""
    three = group(3)
    before = three.members[0].members()
    handles = [three.members[i].all_gather_v_async(blob(i, length)) for i in range(2)]
    three.members[2].close()
    assert all(isinstance(handle.exception(DEADLINE), pccl.PeerLostError) for handle in handles)
    left = three.members[:2]
    handles = [comm.all_gather_v_async(blob(i, length)) for i, comm in enumerate(left)]
    for handle in handles:
        assert handle.result(DEADLINE) == [(before[i], blob(i, length)) for i in range(2)]
    handles = [comm.all_gather_v_async(blob(i, length), members=before) for i, comm in enumerate(left)]
    assert all(isinstance(handle.exception(DEADLINE), pccl.MembersChangedError) for handle in handles)


def test_in_a_group(group):
    three = group(3)
    ids = three.members[0].members()

    def run(comm, i):
        if i == 0:
            return
        with comm.group(ids[:0:-1], timeout=DEADLINE) as pair:
            wanted = {length: [(ids[k], blob(k, length + k)) for k in (1, 2)] for length in (0, 10, 100000)}
            for length in wanted:
                assert pair.all_gather_v(blob(i, length + i)) == wanted[length]
            listed = [pccl.AllGatherV(blob(i, length + i), tag=length) for length in wanted]
            pair.run(listed)
            assert [operation.blobs for operation in listed] == list(wanted.values())

    three.all(run)


def test_in_a_list_that_fails(group):
    """Results that have arrived remain; nothing of the previous list remains."""
    two = group(2)

    def run(comm, i):
        good, bad = pccl.AllGatherV(blob(i, 50000), tag=1), pccl.AllGatherV(b"abc", max_bytes=5 + i, tag=2)
        with pytest.raises(pccl.StateMismatch):
            comm.run([good, bad], max_in_flight=1)
        assert [data for _, data in good.blobs] == [blob(k, 50000) for k in range(2)]
        assert good.info is not None and bad.info is None and bad.blobs == []
        owner = weakref.ref(good.blobs[0][1].obj.owner)
        comm.update_topology()
        bad.max_bytes = 6
        comm.run([good, bad])
        gc.collect()
        assert owner() is None and [data for _, data in bad.blobs] == [b"abc"] * 2

    two.all(run)


def test_a_dropped_handle(group):
    """Unused results are freed on arrival."""
    two = group(2)
    dropped = two.members[0].all_gather_v_async(bytes(300000))
    owner = weakref.ref(dropped._operation._work.blobs)
    del dropped
    assert len(two.members[1].all_gather_v(b"x")) == 2
    two.all(lambda comm, _: comm.barrier(tag=3))
    gc.collect()
    for _ in range(1000):
        if owner() is None:
            break
        two.all(lambda comm, _: comm.barrier(tag=3))
    assert owner() is None


# ---- with a root, and from all to all


def part(giver, taker, length):
    return blob(7 * giver + taker, length)


def matrix(lengths):
    """Returns nine of the lengths, for each of three by each."""
    return [[lengths[(5 * i + 3 * k) % len(lengths)] for k in range(3)] for i in range(3)]


MATRICES = [matrix([0]), matrix([0, 1, 300]), matrix([3000, 20, 0, 0]), matrix([0, 1 << 20, 5, 300000])]
MATRICES.append([[5 << 20, 0, 3], [9000, 1, 1], [0, 1, 0]])  # a long one that is not sent


def parts_of(lengths, i):
    return [part(i, k, lengths[i][k]) for k in range(3)]


def test_all_for_all(group):
    """Single and many at once; any buffers, each in separate memory."""
    three = group(3)
    ids = list(three.members[0].members())

    def run(comm, i):
        for lengths in MATRICES:
            wanted = [(ids[k], part(k, i, lengths[k][i])) for k in range(3)]
            assert comm.all_to_all_v(parts_of(lengths, i), max_bytes=1 << 24) == wanted
        handles = [comm.all_to_all_v_async(parts_of(lengths, i), tag=t) for t, lengths in enumerate(MATRICES)]
        ends = [
            handles[4].result(DEADLINE),
            handles[3].result(DEADLINE),
            handles[2].wait()[2],
            handles[1].future().result(DEADLINE),
            asyncio.run(wait_for(handles[0])),
        ]
        for lengths, got in zip(reversed(MATRICES), ends):
            assert got == [(ids[k], part(k, i, lengths[k][i])) for k in range(3)]

    three.all(run)


def test_with_a_root(group):
    three = group(3)
    ids = list(three.members[0].members())

    def run(comm, i):
        for root in (0, 1, ids[2]):
            own = root == i or root == ids[i]
            at = ids.index(root) if root in ids else root
            for lengths in MATRICES:
                wanted = [(ids[k], part(k, 0, lengths[k][0])) for k in range(3)] if own else []
                assert comm.gather_v(part(i, 0, lengths[i][0]), root=root) == wanted
                got = comm.scatter_v(parts_of(lengths, i) if own else None, root=root)
                assert got == part(at, i, lengths[at][i])
        gathered = comm.gather_v_async(b"abc", root=1, tag=1)
        scattered = comm.scatter_v_async([b"", b"abc", bytes(50000)] if i == 0 else None, root=0, tag=2)
        assert len(gathered.result(DEADLINE)) == (3 if i == 1 else 0)
        assert scattered.wait()[2] == [b"", b"abc", bytes(50000)][i]

    three.all(run)


@pytest.mark.parametrize("lengths", MATRICES)
def test_arrivals(group, lengths):
    """Shows each part once, before the end; on the thread that awaits the operation, for every kind of wait."""
    three = group(3)
    ids = list(three.members[0].members())

    def run(comm, i):
        here, seen = threading.current_thread(), []

        def see(peer, data):
            seen.append((peer, data.tobytes(), threading.current_thread() is here))

        def sees(result):
            assert sorted(seen) == sorted((peer, bytes(data), True) for peer, data in result)
            seen.clear()
            return [peer for peer, _ in result]

        parts = parts_of(lengths, i)
        assert sees(comm.all_to_all_v(parts, on_arrival=see)) == ids
        assert sees(comm.all_gather_v(parts[0], on_arrival=see)) == ids
        assert sees(comm.gather_v(parts[0], root=1, on_arrival=see)) == (ids if i == 1 else [])
        got = comm.scatter_v(parts if i == 2 else None, root=2, on_arrival=see)
        assert sees([(ids[2], got)]) == [ids[2]]
        handle = comm.all_to_all_v_async(parts, on_arrival=see)
        while True:
            try:
                result = handle.result(0.001)
                break
            except pccl.TimeoutError_:
                pass
        assert sees(result) == ids
        handle = comm.all_to_all_v_async(parts, on_arrival=lambda peer, _: seen.append(peer))
        handle.future().result(DEADLINE)  # another thread waits for it
        assert sorted(seen) == sorted(ids)

    three.all(run)


def test_on_the_main_thread(group):
    """On the main thread, which sees signals, a helper makes the call, and this thread sees the arrivals."""
    two = group(2)
    seen = []
    other = two.members[1].all_to_all_v_async([b"x" * 300000, b"y"])
    threads = lambda peer, data: seen.append((peer, len(data), threading.current_thread()))  # noqa: E731
    got = two.members[0].all_to_all_v([b"a", b"bc"], on_arrival=threads)
    assert sorted(seen, key=str) == sorted(((p, len(d), threading.main_thread()) for p, d in got), key=str)
    assert [bytes(data) for _, data in other.result(DEADLINE)] == [b"bc", b"y"]


def test_what_on_arrival_raises(group):
    """As with Ctrl-C, the call ends, and the operation is aborted for all if it is not over."""
    two = group(2)

    def run(comm, i):
        def fail(peer, data):
            raise ValueError(peer)

        parts = [bytes(1 << 22), b""]
        if i == 0:
            with pytest.raises(ValueError, match=comm.members()[1]):
                comm.all_to_all_v(parts, on_arrival=fail)  # the other's part is empty, so it arrives first
        else:
            handle = comm.all_to_all_v_async([b"", b"a" * (1 << 22)])
            assert handle.exception(DEADLINE) is None or isinstance(handle.exception(), pccl.AbortedError)

    two.all(run)
    assert two.all(lambda comm, _: len(comm.all_to_all_v([b"1", b"2"], tag=5))) == [2, 2]


def test_what_was_seen_outlives_a_failure(group):
    """A peer fails after another one's part has arrived: that part remains while anything refers to it."""
    three = group(3)
    seen = []
    handles = []
    for i, comm in enumerate(three.members[:2]):
        see = (lambda peer, data: seen.append(data)) if i == 0 else None
        handles.append(comm.all_to_all_v_async([b"q" * 70000 if k == 1 else b"" for k in range(3)], on_arrival=see))
    three.members[2].close()
    assert all(isinstance(handle.exception(DEADLINE), pccl.PeerLostError) for handle in handles)
    left = three.members[:2]
    group_of_two = [comm.all_to_all_v_async([b"p" * 90000] * 2, tag=1) for comm in left]
    assert all(isinstance(handle.result(DEADLINE), list) for handle in group_of_two)
    assert all(bytes(data) in (b"", b"q" * 70000) for data in seen)


def test_parts_are_what_they_should_be(group):
    np = pytest.importorskip("numpy")
    two = group(2)
    comm = two.members[0]
    with pytest.raises(pccl.LayoutError, match="1 parts for 2 members"):
        comm.all_to_all_v([b"a"])
    with pytest.raises(pccl.InvalidArgument, match="a part for each member"):
        comm.all_to_all_v(5)
    with pytest.raises(pccl.DTypeError, match=r"parts\[1\]"):
        comm.all_to_all_v([b"", "text"])
    with pytest.raises(pccl.LayoutError, match="0 parts for 2 members"):
        comm.scatter_v([], root=0)
    with pytest.raises(pccl.InvalidArgument, match="root"):
        comm.gather_v(b"", root=2)
    with pytest.raises(pccl.InvalidArgument, match="on_arrival: expected a function"):
        comm.all_to_all_v([b"", b""], on_arrival=3)
    got = two.all(lambda comm, i: comm.all_to_all_v([np.arange(3, dtype="float64"), bytearray(b"ab")]))
    assert [bytes(data) for _, data in got[0]] == [np.arange(3, dtype="float64").tobytes()] * 2
    assert [bytes(data) for _, data in got[1]] == [b"ab"] * 2


def test_too_much_for_one(group):
    three = group(3)

    def run(comm, i):
        with pytest.raises(pccl.StateMismatch, match="the blobs for peer .* have 300000 bytes in total"):
            comm.all_to_all_v([b"", bytes(100000), b""], max_bytes=299999)
        with pytest.raises(pccl.StateMismatch, match="the blobs have 30 bytes in total"):
            comm.gather_v(bytes(10), root=0, max_bytes=29)

    three.all(run)


def test_alone_for_all(group):
    comm = group(1).members[0]
    with pytest.raises(pccl.TooFewPeersError):
        comm.all_to_all_v([b"abc"])
    seen = []
    see = lambda peer, data: seen.append((peer, bytes(data)))  # noqa: E731
    assert comm.all_to_all_v([b"abc"], alone_ok=True, on_arrival=see) == [(comm.id, b"abc")] == seen
    assert comm.gather_v(b"abc", root=0, alone_ok=True) == [(comm.id, b"abc")]
    assert comm.scatter_v([b"abc"], root=comm.id, alone_ok=True) == b"abc"


def test_rebuilt_in_a_list(group):
    """One leaves before it has reached the list: the others repeat its entries, for each other."""
    three = group(3)
    before = three.members[0].members()

    def listed(ids, own):
        return [
            pccl.AllToAllV([own.encode() + one.encode() * 2000 for one in ids], tag=1),
            pccl.GatherV(own.encode(), root=ids[0], tag=2),
            pccl.ScatterV([one.encode() * 1000 for one in ids] if own == ids[0] else None, root=0, tag=3),
            pccl.AllGatherV(own.encode(), tag=4),
        ]

    def run(comm, i):
        if i == 2:
            comm.close()
            return
        current = listed(before, comm.id)

        def rebuild(ids):
            fresh = listed(ids, comm.id)
            current[:3] = [one if one.info else fresh[k] for k, one in enumerate(current[:3])]
            return current

        comm.run(current, rebuild=rebuild)
        ids = comm.members()
        assert [one.info.world_size for one in current] == [2] * 4
        assert current[0].blobs == [(one, one.encode() + comm.id.encode() * 2000) for one in ids]
        assert current[1].blobs == ([(one, one.encode()) for one in ids] if i == 0 else [])
        assert current[2].part == comm.id.encode() * 1000
        assert len(current[3].blobs) == 2

    three.all(run)


def test_blobs_of_a_group(group):
    three = group(3)
    ids = three.members[0].members()

    def run(comm, i):
        if i == 0:
            return
        with comm.group(ids[:0:-1], timeout=DEADLINE) as pair:
            for length in (0, 10, 100000):
                got = pair.all_to_all_v([part(i, k, length) for k in (1, 2)])
                assert got == [(ids[k], part(k, i, length)) for k in (1, 2)]
                assert pair.scatter_v([b"1", b"2" * length] if i == 1 else None, root=0) == [b"1", b"2" * length][i - 1]

    three.all(run)


def _peak_kib():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def _memory_for(group, length):
    """Measures the memory for one part of this length, with a tenth of the others empty: in addition to all parts it is
    a window."""
    three = group(3)
    lengths = [[1000, 0, 1000], [1000, 1000, 1000], [1000, 1000, length]]
    given = [[bytearray(n) for n in row] for row in lengths]
    given[2][2], given[2][0] = bytearray(1000), bytearray(length)
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")  # resets the peak to the present value
    before = _peak_kib()
    got = three.all(lambda comm, i: comm.all_to_all_v(given[i], max_bytes=2 * length))
    assert len(got[0][2][1]) == length
    support.figure("beside-the-parts", _peak_kib() - before - length // 1024, "KiB")
    assert _peak_kib() - before < length // 1024 + (128 << 10)


def test_memory_is_that_of_a_window(group):
    _memory_for(group, 300 << 20)


@pytest.mark.nightly
def test_memory_of_a_gib(group):
    _memory_for(group, 1 << 30)
