"""The all-gather of blobs among peers in threads of one process."""

import asyncio
import gc
import weakref

import pytest
from support import DEADLINE

import pccl

LENGTHS = [[0, 0, 0], [1, 0, 300], [3000, 2000, 100], [400000, 0, 5], [0, 1 << 20, 300000]]


def blob(peer, length):
    return bytes((peer * 37 + i * 11 + i // 256) % 256 for i in range(min(length, 4096))) + bytes(max(0, length - 4096))


def test_lengths(group):
    """Alone and many at once; each with the id of its peer, in canonical order."""
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


def test_torch(group):
    torch = pytest.importorskip("torch")
    two = group(2)
    got = two.all(lambda comm, i: comm.all_gather_v(torch.full((7,), i + 1.0)))
    assert [torch.frombuffer(data, dtype=torch.float32).tolist() for _, data in got[1]] == [[1.0] * 7, [2.0] * 7]


@pytest.mark.parametrize("length", [10, 100000])
def test_limits(group, length):
    three = group(3)

    def run(comm, i):
        with pytest.raises(pccl.StateMismatch, match=f"the blobs of all are {3 * length} bytes long") as caught:
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
    """It counts on nobody: the same call again is right among those who are left. With a list it is told."""
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
    """What has come stays; nothing is left of the last list."""
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
    """What nobody asks for is freed when it has come."""
    two = group(2)
    dropped = two.members[0].all_gather_v_async(bytes(300000))
    owner = weakref.ref(dropped._operation._blobs)
    del dropped
    assert len(two.members[1].all_gather_v(b"x")) == 2
    two.all(lambda comm, _: comm.barrier(tag=3))
    gc.collect()
    for _ in range(1000):
        if owner() is None:
            break
        two.all(lambda comm, _: comm.barrier(tag=3))
    assert owner() is None
