"""Collectives of peers in threads of one process: arguments, results, exceptions and groups in Python. The results for
every type, operator and size are checked in tests/unit/test_api_matrix.c."""

import array
import asyncio
import threading

import pytest
from support import DEADLINE, parallel

import pccl
from pccl import Result

np = pytest.importorskip("numpy")

LARGE = 50000  # elements: from peer to peer, not through the master


def part(dtype, count, peer):
    return (np.arange(count) % 7 + 1 + peer).astype(dtype)


def test_members_and_ranks(group):
    three = group(3)
    ids = tuple(comm.id for comm in three.members)
    assert all(comm.members() == ids for comm in three.members)
    assert [comm.rank for comm in three.members] == [0, 1, 2]
    three.admit()
    assert three.members[0].members() == (*ids, three.members[3].id) and three.members[3].rank == 3
    lonely = pccl.Communicator(three.address)
    for ask in (lonely.members, lambda: lonely.rank):
        with pytest.raises(pccl.InvalidUsage):
            ask()
    lonely.close()


def test_more_members_than_are_asked_for_at_first(group):
    many = group(17)
    assert many.members[16].members() == tuple(comm.id for comm in many.members)
    infos = many.all(lambda comm, i: comm.barrier())
    assert all(info.participants == comm.members() for info, comm in zip(infos, many.members))


N, ROOT = 4, 1  # elements of a part; a rank
COUNTS = [5, 0, 7]
FACTORS = [0.5, -2.0, 3.0]

# Input and output of each method: its list entry, whether it has parts for all, whether only the root has them, its
# parameters, and the result of rank i.
METHODS = {
    "all_reduce": (pccl.AllReduce, (1, 1), "", {"op": "min"}, lambda all, i: all[:, :N].min(0)),
    "reduce": (pccl.Reduce, (1, 1), "recv", {"op": "max"}, lambda all, i: all[:, :N].max(0)),
    "reduce_scatter": (pccl.ReduceScatter, (3, 1), "", {"op": "prod"}, lambda all, i: all.prod(0)[N * i : N * i + N]),
    "exclusive_scan": (pccl.ExclusiveScan, (1, 1), "", {"op": "sum"}, lambda all, i: all[:i, :N].sum(0)),
    "inclusive_scan": (pccl.InclusiveScan, (1, 1), "", {"op": "sum"}, lambda all, i: all[: i + 1, :N].sum(0)),
    "all_gather": (pccl.AllGather, (1, 3), "", {}, lambda all, i: all[:, :N].ravel()),
    "gather": (pccl.Gather, (1, 3), "recv", {}, lambda all, i: all[:, :N].ravel()),
    "scatter": (pccl.Scatter, (3, 1), "send", {}, lambda all, i: all[ROOT, N * i : N * i + N]),
    "all_to_all": (pccl.AllToAll, (3, 3), "", {}, lambda all, i: all[:, N * i : N * i + N].ravel()),
    "broadcast": (pccl.Broadcast, (1, 0), "", {}, lambda all, i: all[ROOT, :N]),
    "barrier": (pccl.Barrier, (0, 0), "", {}, None),
}


def sent(i):
    return ((np.arange(3 * N) * 7 + i * 5) % 11 + 1).astype(np.float64)


def perform(comm, form, method, entry, memory, parameters):
    if form == "now":
        return getattr(comm, method)(*memory, **parameters)
    if form == "later":
        return getattr(comm, method + "_async")(*memory, **parameters).result(DEADLINE)
    comm.run([one := entry(*memory, **parameters)])
    return one.info


@pytest.mark.parametrize("form", ["now", "later", "listed"])
def test_every_method(group, form):
    """Each method reaches the collective of its name, with all of its arguments."""
    three = group(3)
    ids = three.members[0].members()
    all_sent = np.array([sent(i) for i in range(3)])

    def check(comm, i, tag, method, parameters, receives=None):
        entry, (parts, parts_received), only_root, own, expected = METHODS[method]
        given = {**own, **parameters, "tag": tag}
        if only_root or method == "broadcast":
            given["root"] = ids[ROOT] if form == "later" else ROOT
        send = sent(i)[: N * parts] if i == ROOT or only_root != "send" else None
        recv = np.zeros(N * parts_received) if i == ROOT or only_root != "recv" else None
        if receives is not None:
            recv, expected = np.zeros(len(receives)), lambda *_: receives
        memory = [one for one, size in ((send, parts), (recv, parts_received)) if size]
        info = perform(comm, form, method, entry, memory, given)
        assert (info.tag, info.rank, info.world_size, info.participants, info.sequence) == (tag, i, 3, ids, 0)
        result = send if method == "broadcast" else recv
        assert result is None or expected is None or (result == expected(all_sent, i)).all(), method
        assert send is None or method == "broadcast" or (send == sent(i)[: len(send)]).all()
        return info

    def run(comm, i):
        for tag, method in enumerate(METHODS):
            has_more = form != "listed" and method != "all_reduce"
            check(comm, i, tag, method, {"members": ids, "label": method} if has_more else {})
        first = sum(COUNTS[:i])
        shares = all_sent.prod(0)[first : first + COUNTS[i]]
        check(comm, i, 20, "reduce_scatter", {"counts": COUNTS}, receives=shares)
        scaled = (all_sent * np.array(FACTORS)[:, None]).sum(0)
        for tag, (method, part) in enumerate((("all_reduce", 0), ("reduce_scatter", i), ("reduce", 0)), 30):
            receives = scaled[N * part : N * part + N] if method != "reduce" or i == ROOT else np.zeros(N)
            check(comm, i, tag, method, {"op": "premul_sum", "factor": FACTORS[i]}, receives=receives)

    three.all(run)


def test_quantization_reaches_every_method(group):
    three = group(3)

    def run(comm, i):
        for method in ("all_reduce", "reduce", "reduce_scatter", "all_gather", "gather", "scatter", "all_to_all"):
            entry, (parts, parts_received), only_root, own, _ = METHODS[method]
            memory = [np.ones(LARGE * parts, np.float32), np.ones(LARGE * parts_received, np.float32)]
            root = {"root": ROOT} if only_root else {}
            packed = pccl.QuantizationOptions("int4", block=64)
            info = getattr(comm, method)(*memory, quantization=packed, **own, **root)
            assert info.codec is (pccl.QuantizationAlgorithm.INT4), method
        info = comm.broadcast(np.ones(LARGE, np.float32), root=0, quantization=pccl.QuantizationOptions())
        assert info.codec is pccl.QuantizationAlgorithm.MIN_MAX

    three.all(run)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "int4", "e3m0", "e2m1"])
def test_codecs_are_measured(name):
    given = np.random.default_rng(1).standard_normal(3 * LARGE, np.float32)
    error = pccl.measure_codec(given, pccl.QuantizationOptions(name, block=64, scale="bfloat16", rounding="stochastic"))
    assert 0 < error.rms < 0.5 and error.largest < 0.5 and error.not_finite == 0
    bits = 8 if name in ("e4m3", "e5m2") else 4
    assert error.packed_bytes == -(-3 * LARGE // 64) * 2 + 3 * LARGE * bits // 8
    given[7] = np.nan
    assert pccl.measure_codec(given, pccl.QuantizationOptions(name)).not_finite == 1


def test_wrong_arguments_of_scans(group):
    comm, four, codec = group(2).members[0], np.zeros(4), pccl.QuantizationOptions()
    for call, words in (
        (lambda: comm.exclusive_scan(four, np.zeros(2), op="sum"), "different numbers of elements: 4, 2"),
        (lambda: comm.inclusive_scan(four, four, op="avg"), "an average cannot be scanned"),
        (lambda: comm.exclusive_scan(four, four, op="premul_sum"), "a premultiplied sum requires one"),
        (lambda: comm.inclusive_scan(four, four, op="sum", quantization=codec), "a scan cannot be quantized"),
        (lambda: comm.broadcast(four, root=0, quantization="int4"), "expected a QuantizationOptions, not 'int4'"),
        (lambda: comm.all_reduce(four, quantization_options="int4"), "expected a QuantizationOptions, not 'int4'"),
    ):
        with pytest.raises(pccl.PCCLError, match=words):
            call()


def test_wrong_arguments_of_roots_and_all_to_all(group):
    two = group(2)
    comm, four, two_elements = two.members[0], np.zeros(4), np.zeros(2)
    for call, words in (
        (lambda: comm.reduce(four, two_elements, root=0, op="sum"), "different numbers of elements: 4, 2"),
        (lambda: comm.reduce(four, root=0, op="sum"), "recv"),
        (lambda: comm.gather(two_elements, two_elements, root=0), "expected 4, as "),
        (lambda: comm.scatter(two_elements, two_elements, root=0), "expected 4, as "),
        (lambda: comm.scatter(None, four, root="nobody"), "not a member"),
        (lambda: comm.all_to_all(np.zeros(3), np.zeros(3)), "cannot be divided into equal parts"),
        (lambda: comm.all_to_all(four, four), "overlap"),
    ):
        with pytest.raises(pccl.PCCLError, match=words):
            call()


def test_wrong_counts(group):
    two = group(2)
    ten, five = np.zeros(10), np.zeros(5)
    wrong = [
        ([5, 6], pccl.LayoutError, "the counts add up to 11"),
        ([6, 4], pccl.LayoutError, "recv has 5 elements, but this peer's count is 6"),
        ([5, 3, 2], pccl.LayoutError, "3 counts for 2 members"),
        ([11, -1], pccl.InvalidArgument, "counts"),
        (["5", 5], pccl.InvalidArgument, "counts"),
    ]
    for counts, kind, words in wrong:
        with pytest.raises(kind, match=words):
            two.members[0].reduce_scatter(ten, five, op="sum", counts=counts)

    def differ(comm, i):
        share = np.zeros(5 if i == 0 else 4)
        with pytest.raises(pccl.StateMismatch, match="in specified shares .* but .* in specified shares"):
            comm.reduce_scatter(np.ones(9 + (i == 0)), share, op="sum", counts=[5, 5] if i == 0 else [5, 4])
        comm.barrier()

    two.all(differ)


def test_in_place(group):
    three = group(3)

    def check(comm, i, count):
        gathered = np.zeros((3, count))
        gathered[i] = part("float64", count, i)
        comm.all_gather(gathered[i], gathered)
        assert all((gathered[k] == part("float64", count, k)).all() for k in range(3))
        comm.reduce_scatter(gathered, gathered[i], op="sum")
        assert (gathered[i] == 3 * part("float64", count, i)).all()
        others = [k for k in range(3) if k != i]
        assert all((gathered[k] == part("float64", count, k)).all() for k in others)

    for count in (3, LARGE):
        three.all(lambda comm, i: check(comm, i, count))


def test_roots(group):
    two = group(2)
    for root in (1, np.int64(1), two.members[1].id):
        memory = [array.array("d", [i + 1.0] * 9) for i in range(2)]
        two.all(lambda comm, i: comm.broadcast(memory[i], root=root))
        assert memory[0] == memory[1] == array.array("d", [2.0] * 9)
    given = np.full(3, 5.0)
    given.flags.writeable = False  # the root's is only read
    received = np.zeros(3)
    two.all(lambda comm, i: comm.broadcast(given if i == 0 else received, root=0))
    assert (received == 5).all()
    comm = two.members[0]
    for root, words in ((2, "root"), (-1, "root"), ("x", "not a member"), (1.5, "root")):
        with pytest.raises(pccl.InvalidArgument, match=words):
            comm.broadcast(received, root=root)
    with pytest.raises(pccl.LayoutError, match="read-only"):
        comm.broadcast(given, root=1)


def test_error_feedback_for_a_checkpoint(group):
    """Residuals that were saved and loaded give the same results; a failed operation changes nothing."""
    two = group(2)
    given = [np.random.default_rng(i).standard_normal(LARGE, np.float32) for i in range(2)]
    sums = [[np.empty(LARGE, np.float32) for _ in range(2)] for _ in range(3)]
    options = pccl.QuantizationOptions("int4", feedback=True)

    def reduce(comm, i, into):
        comm.all_reduce(given[i], into[i], op="sum", tag=3, quantization_options=options)

    def run(comm, i):
        assert len(comm.get_feedback(3)) == 0
        reduce(comm, i, sums[0])
        kept = comm.get_feedback(3)
        with pytest.raises(pccl.PCCLError):
            comm.all_reduce(given[i], sums[1][i], op=("sum", "avg")[i], tag=3, quantization_options=options)
        reduce(comm, i, sums[1])
        comm.set_feedback(3, kept)
        reduce(comm, i, sums[2])
        comm.set_feedback(3, None)
        assert len(comm.get_feedback(3)) == 0
        with pytest.raises(pccl.InvalidArgument, match="float32"):
            comm.set_feedback(3, np.zeros(LARGE))
        return np.frombuffer(kept, np.float32)

    kept = two.all(run)
    np.testing.assert_allclose(sums[0][0] + kept[0] + kept[1], given[0] + given[1], atol=1e-5)
    assert (sums[1][0] == sums[2][0]).all() and (sums[1][0] != sums[0][0]).any()


def test_peers_with_different_codecs(group):
    two = group(2)
    data = [np.ones(LARGE, np.float32) for _ in range(2)]

    def run(comm, i):
        options = pccl.QuantizationOptions("int4", block=64 << i)
        with pytest.raises(pccl.PCCLError, match="int4 in blocks of 64 .* int4 in blocks of 128|128 .* blocks of 64"):
            comm.all_reduce(data[i], data[i], op="sum", quantization_options=options)

    two.all(run)


def test_codecs_that_there_are_not():
    for wrong in ({"block": 100}, {"scale": "x"}, {"rounding": "x"}):
        with pytest.raises(pccl.InvalidArgument):
            pccl.QuantizationOptions("e3m0", **wrong).to_c()
    with pytest.raises(pccl.InvalidArgument, match="codec e4m3, e5m2, int4"):
        pccl.QuantizationOptions("uint8", feedback=True).to_c()
    with pytest.raises(pccl.PCCLError):
        pccl.measure_codec(np.ones(5), pccl.QuantizationOptions("e3m0"))


def test_quantized_copies_are_written_by_the_root(group):
    """Through the master they are exact. A read-only buffer of the root is refused."""
    three = group(3)
    tiny = [np.full(3, i + 0.1) for i in range(3)]
    options = pccl.QuantizationOptions()
    three.all(lambda comm, i: comm.broadcast(tiny[i], root=0, quantization=options))
    assert all((each == 0.1).all() for each in tiny)
    tiny[0].flags.writeable = False
    with pytest.raises(pccl.LayoutError, match="read-only"):
        three.members[0].broadcast(tiny[0], root=0, quantization=options)


def test_handles(group):
    """Several kinds in flight, awaited in another order and in every way."""
    two = group(2)

    def run(comm, i):
        told, mine, both = np.full(LARGE, i + 1.0), np.full(LARGE, i + 5.0), np.empty(2 * LARGE)
        share = np.empty(LARGE)
        handles = [
            comm.broadcast_async(told, root=0, tag=1),
            comm.all_gather_async(mine, both, tag=2),
            comm.reduce_scatter_async(np.full(2 * LARGE, 1.0), share, op="sum", tag=3),
            comm.barrier_async(tag=4),
        ]
        with pytest.raises(pccl.InvalidArgument, match="in use") as caught:
            comm.barrier(tag=3)
        assert caught.value.tag == 3 and caught.value.operation == "pcclBarrier"
        with pytest.raises(pccl.PendingAsyncOpsError):
            comm.update_topology()
        infos = [
            handles[3].wait()[2],
            handles[2].result(DEADLINE),
            handles[1].future().result(DEADLINE),
            asyncio.run(wait_for(handles[0])),
        ]
        assert [info.tag for info in infos] == [4, 3, 2, 1] and all(info.rank == i for info in infos)
        assert handles[0].test() and handles[1].exception() is None
        assert (told == 1).all() and (both[:LARGE] == 5).all() and (both[LARGE:] == 6).all() and (share == 2).all()

    two.all(run)


async def wait_for(handle):
    return await handle


def test_alone(group):
    comm = group(1).members[0]
    given, received = np.arange(4.0), np.zeros(4)
    for call in (
        lambda **more: comm.broadcast(given, root=0, **more),
        lambda **more: comm.all_gather(given, received, **more),
        lambda **more: comm.reduce_scatter(given, received, op="avg", **more),
        lambda **more: comm.barrier(**more),
    ):
        with pytest.raises(pccl.TooFewPeersError):
            call()
        info = call(alone_ok=True)
        assert (info.world_size, info.rank, info.participants, info.tx_bytes) == (1, 0, (comm.id,), 0)
    assert (received == given).all()


def test_other_members_than_counted_on(group):
    """A peer that requires former members gets the error, as do all others; their buffers are unchanged."""
    three = group(3)
    before = three.members[0].members()
    three.admit()

    def gather(comm, i, members):
        mine, all_of_them = part("float32", 100, i), np.zeros(100 * (3 if members else 4), np.float32)
        with pytest.raises(pccl.MembersChangedError) as caught:
            comm.all_gather(mine, all_of_them, members=members)
        assert caught.value.ext is Result.MEMBERS_CHANGED and caught.value.sequence == 0
        assert (mine == part("float32", 100, i)).all()
        return str(caught.value)

    words = three.all(lambda comm, i: gather(comm, i, before if i == 1 else None))
    assert all(three.members[3].id[:8] in said for said in words), words
    members = three.members[3].members()
    three.all(lambda comm, i: comm.barrier(members=members))


def test_arguments(group):
    comm = group(2).members[0]
    peer = comm.members()[1]
    five, ten, ints = np.zeros(5), np.zeros(10), np.zeros(10, np.int32)
    wrong = [
        (lambda: comm.all_gather(five, np.zeros(11)), pccl.LayoutError, "expected 10, as send has 5 and"),
        (lambda: comm.reduce_scatter(five, five, op="sum"), pccl.LayoutError, "expected 10, as "),
        (lambda: comm.all_gather(five, ints), pccl.DTypeError, "double"),
        (lambda: comm.all_gather(np.zeros(0), np.zeros(0)), pccl.InvalidArgument, "no elements"),
        (lambda: comm.broadcast(np.zeros(0), root=0), pccl.InvalidArgument, "no elements"),
        (lambda: comm.broadcast(ten[::2], root=0), pccl.LayoutError, "not contiguous"),
        (lambda: comm.all_gather(ten[1:6], ten), pccl.InvalidArgument, "overlap"),
        (lambda: comm.reduce_scatter(ten, five, op="median"), pccl.InvalidArgument, "op"),
        (lambda: comm.barrier(tag=-1), pccl.InvalidArgument, "tag"),
        (lambda: comm.barrier(members=[]), pccl.InvalidArgument, "empty"),
        (lambda: comm.barrier(members=["x"]), pccl.InvalidArgument, "not a peer id"),
        (lambda: comm.barrier(members=[comm.id, "X" * 32]), pccl.InvalidArgument, "is not an id"),
        (lambda: comm.barrier(members=[comm.id, comm.id]), pccl.InvalidArgument, "duplicate peer"),
        (lambda: comm.barrier(members=[peer]), pccl.InvalidArgument, "not in the member list"),
        (lambda: comm.broadcast(five, root=0, members=[peer]), pccl.InvalidArgument, "missing from the list"),
        (lambda: comm.barrier(label="x" * 33), pccl.InvalidArgument, "label"),
    ]
    for call, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call()


def test_peers_that_differ(group):
    two = group(2)

    def run(comm, i):
        mine = part("float32", 10, i)
        with pytest.raises(pccl.StateMismatch) as caught:
            if i == 0:
                comm.broadcast(mine, root=0)
            else:
                comm.all_gather(mine, np.zeros(20, np.float32))
        assert "broadcast" in str(caught.value) and "all-gather" in str(caught.value)
        assert (mine == part("float32", 10, i)).all()
        with pytest.raises(pccl.StateMismatch, match="step 1"):
            comm.barrier(label=f"step {i}")
        comm.barrier(label="step 2")

    two.all(run)


def test_one_leaves_meanwhile(group):
    """The others get an error; then they continue with the remaining peers."""
    three = group(3)
    inputs = [np.full(3 * LARGE, i + 1.0) for i in range(3)]
    share = [np.zeros(LARGE) for _ in range(2)]
    handles = [three.members[i].reduce_scatter_async(inputs[i], share[i], op="sum") for i in range(2)]
    leaver = three.members[2].id
    three.members.pop().close()
    for i, handle in enumerate(handles):
        error = handle.exception(DEADLINE)
        assert isinstance(error, pccl.PeerLostError) and error.peers == (leaver,)
        assert (inputs[i] == i + 1).all()

    def again(comm, i):
        assert leaver not in comm.members()
        comm.reduce_scatter(inputs[i][: 2 * LARGE], share[i], op="sum")
        assert (share[i] == 3).all()

    three.all(again)


def test_abort(group):
    two = group(2)
    recv = np.zeros(2 * LARGE)
    handle = two.members[0].all_gather_async(np.zeros(LARGE), recv)
    barrier = two.members[0].barrier_async(tag=1)
    two.members[0].abort()
    assert isinstance(handle.exception(DEADLINE), pccl.AbortedError)
    assert isinstance(barrier.exception(DEADLINE), pccl.AbortedError)
    two.all(lambda comm, _: comm.update_topology())
    two.all(lambda comm, _: comm.barrier())


def test_many_at_once(group):
    """More operations than slots, of all kinds, by several threads of each peer."""
    two = group(2)

    def run(comm, i, thread):
        for step in range(20):
            handles = []
            base = 1000 * thread + 10 * step
            told, both, share = np.full(300, i + 1.0), np.empty(600), np.empty(300)
            handles.append(comm.broadcast_async(told, root=step % 2, tag=base))
            handles.append(comm.all_gather_async(np.full(300, i + 7.0), both, tag=base + 1))
            handles.append(comm.reduce_scatter_async(np.full(600, 2.0), share, op="prod", tag=base + 2))
            handles.append(comm.barrier_async(tag=base + 3))
            for handle in reversed(handles):
                handle.result(DEADLINE)
            assert (told == step % 2 + 1).all() and (both[:300] == 7).all() and (both[300:] == 8).all()
            assert (share == 4).all()

    parallel(
        [lambda c=c, i=i, t=t: run(c, i, t) for i, c in enumerate(two.members) for t in range(3)]
    )


def test_an_interrupt_of_one_thread_s_wait_leaves_others_alone(group):
    two = group(2)
    handle = two.members[0].barrier_async()
    waiting = threading.Thread(target=handle.wait)
    waiting.start()
    with pytest.raises(pccl.TimeoutError_):
        handle.result(0.02)
    two.members[1].barrier()
    waiting.join(DEADLINE)
    assert handle.result(DEADLINE).world_size == 2


# ---- groups of some peers


def test_groups_overlap(group):
    four = group(4)
    ids = four.members[0].members()

    def check(comm, i):
        made = []
        for places in ((0, 1, 2), (3, 1, 2)):
            if i in places:
                made.append((sorted(places), comm.group([ids[k] for k in places], timeout=DEADLINE)))
        works = []
        for places, some in made:
            assert (some.members(), some.rank) == (tuple(ids[k] for k in places), places.index(i))
            total, parts = np.empty(LARGE), np.empty((3, 5))
            works.append((places, some.all_reduce_async(np.full(LARGE, float(i)), total, op="sum", tag=1), total))
            info = some.all_gather(np.full(5, float(i)), parts)
            assert (parts[:, 0] == places).all() and info.participants == some.members()
            counted = [np.empty(LARGE), np.empty(5)]
            some.run([pccl.AllReduce(np.ones_like(one), one, op="sum", tag=k) for k, one in enumerate(counted, 2)])
            assert all((one == 3).all() for one in counted)
        for places, work, total in works:
            work.result(DEADLINE)
            assert (total == sum(places)).all()
        comm.barrier()
        for _, some in made:
            with pytest.raises(pccl.InvalidUsage, match="not supported on a group"):
                some.update_topology()
            some.close()
            with pytest.raises(pccl.PCCLError):
                some.barrier()
        assert not comm.closed

    four.all(check)
    four.all(lambda comm, _: comm.update_topology())


def test_a_group_ends_for_all(group):
    three = group(3)
    ids = three.members[0].members()
    groups = three.all(lambda comm, _: comm.group(ids, label="all"))
    pending = [one.all_reduce_async(np.ones(LARGE), np.empty(LARGE), op="sum") for one in groups[1:]]
    three.members[0].close()
    for one, work in zip(groups[1:], pending):
        with pytest.raises(pccl.PeerLostError, match="left"):
            work.result(DEADLINE)
        with pytest.raises(pccl.PeerLostError, match="the group has ended"):
            one.barrier()
        one.close()
    with pytest.raises(pccl.InvalidUsage):
        groups[0].barrier()
    left = three.members[1:]
    again = parallel([lambda comm=comm: comm.group(ids[1:]) for comm in left])
    parallel([one.barrier for one in again])
    for one in (*again, groups[0]):
        one.close()


def test_foundings_that_fail(group):
    two = group(2)
    ids = two.members[0].members()
    comm = two.members[0]
    for wrong in ([], ids[1:], [ids[0], ids[0]], ["0" * 32, *ids[1:]], [ids[0], "x"]):
        with pytest.raises(pccl.InvalidArgument):
            comm.group(wrong)
    with pytest.raises(pccl.MembersChangedError, match="not a current member: peer 00000000"):
        comm.group([ids[0], "0" * 32])
    with pytest.raises(pccl.InvalidArgument):
        comm.group(ids, timeout=0)
    with pytest.raises(pccl.TimeoutError_):
        comm.group(ids, timeout=0.1)
    with comm.group(ids[:1]) as alone:
        assert alone.barrier(alone_ok=True).participants == ids[:1]
        with pytest.raises(pccl.TooFewPeersError):
            alone.barrier()


AUTOMATIC = 1 << 22  # elements: no link sends this number of floats in a millisecond


def automatic(budget_ms, **parameters):
    return pccl.QuantizationOptions("auto", budget_ms=budget_ms, **parameters)


def test_an_automatic_codec_is_the_same_on_all(group):
    """With enough time nothing is packed. Otherwise, from the second use on: bits and reasons are the same on all
    peers, a failure changes nothing, and another tag has a separate choice."""
    three = group(3)
    given = [np.random.default_rng(i).standard_normal(AUTOMATIC, np.float32) for i in range(3)]
    exact = given[0] + given[1] + given[2]

    def reduce(comm, i, budget_ms, **parameters):
        result = np.empty_like(given[i])
        info = comm.all_reduce(given[i], result, op="sum", quantization_options=automatic(budget_ms), **parameters)
        return info.codec, info.why, result.tobytes()

    def run(comm, i):
        seen = [reduce(comm, i, 100_000, tag=1) for _ in range(2)]
        seen += [reduce(comm, i, 1, tag=2) for _ in range(2)]
        with pytest.raises(pccl.PCCLError, match="automatic within [12] ms"):
            reduce(comm, i, 1 + i % 2, tag=2)
        seen += [reduce(comm, i, 1, tag=2), reduce(comm, i, 1, tag=3)]
        return seen

    ones, others, third = three.all(run)
    assert ones == others == third
    codecs, whys, results = zip(*ones)
    none = pccl.QuantizationAlgorithm.NONE
    assert [codec == none for codec in codecs] == [True, True, True, False, False, True]
    assert whys[0] == whys[2].replace("budget 1 ms", "budget 100000 ms") and whys[0].startswith("first use: ")
    assert whys[1].startswith("kept: budget 100000 ms") and whys[3].startswith("lowered: budget 1 ms")
    assert results[0] == results[2] and abs(np.frombuffer(results[0], np.float32) - exact).max() < 1e-4
    assert abs(np.frombuffer(results[3], np.float32) - exact).mean() < 0.5


def test_an_automatic_codec_with_a_share_of_the_time(group):
    """The time between uses is unknown before the second one; after it there is almost none. The same holds in a group,
    and in a list, which has a retry; a failure changes nothing."""
    two = group(2)
    option = pccl.QuantizationOptions("auto", budget_percent=1)
    other = pccl.QuantizationOptions("auto", budget_percent=2)

    def run(comm, i):
        given, result = np.full(AUTOMATIC, i + 1, np.float32), np.empty(AUTOMATIC, np.float32)
        sub = comm.group(comm.members())
        seen = []
        for place in (comm, sub):
            for use in range(4):
                info = place.all_reduce(given, result, op="sum", tag=1, quantization_options=option)
                seen.append((info.codec, info.why))
                if use == 2:
                    with pytest.raises(pccl.PCCLError, match="automatic within [12] % of the time between uses"):
                        place.all_reduce(given, result, op="sum", tag=1, quantization_options=(option, other)[i])
        for _ in range(3):
            entry = pccl.AllReduce(given, result, op="sum", tag=2, quantization_options=option)
            comm.run([entry])
            seen.append(result.tobytes())
        sub.close()
        return seen

    one, another = two.all(run)
    assert one == another
    none = pccl.QuantizationAlgorithm.NONE
    for uses in (one[:4], one[4:8]):
        assert [codec == none for codec, _ in uses] == [True, True, False, False]
        whys = [why for _, why in uses]
        assert whys[0] == "first use: budget 1 % of the time between uses (not known yet)"
        assert whys[1].startswith("kept: budget 1 % of the time between uses (not known yet), the previous use")
        assert whys[2].startswith("lowered: budget 1 % of the time between uses, gap ")
        assert whys[3].startswith("kept: budget 1 % of the time between uses, gap ")


def test_an_automatic_codec_of_other_sums(group):
    """Automatic codecs of shares, of lists, of halves, in a group, and through the master; error feedback adds nothing
    after an exact use."""
    two = group(2)
    none = pccl.QuantizationAlgorithm.NONE

    def run(comm, i):
        given, share = np.ones(2 * AUTOMATIC, np.float32), np.empty(AUTOMATIC, np.float32)
        halves, small = np.ones(2 * AUTOMATIC, np.float16), np.ones(5, np.float32)
        option, seen = automatic(1, feedback=True, block=64), []
        sub = comm.group(comm.members())
        for _ in range(2):
            seen.append(comm.reduce_scatter(given, share, op="avg", tag=1, quantization=option).codec)
            assert (share == 1).all()
            several = [given.copy(), halves.copy(), small]
            seen.append(comm.coalesced(several, op="avg", tag=2, quantization=option).codec)
            seen.append(sub.all_reduce(halves, halves, op="avg", tag=3, quantization_options=option).codec)
        info = comm.all_reduce(small, small, op="avg", tag=4, quantization_options=option)
        assert info.codec == none and info.why == "small: sent through the master, unquantized" and (small == 1).all()
        with pytest.raises(pccl.InvalidArgument, match="an all-reduce or a reduce-scatter"):
            comm.broadcast(given, root=0, quantization=option)
        with pytest.raises(pccl.InvalidArgument, match="a sum or an average"):
            comm.all_reduce(given, given, op="max", quantization_options=option)
        with pytest.raises(pccl.InvalidArgument, match="tensor 1: .*float16 or bfloat16"):
            comm.coalesced([given, np.ones(9)], op="sum", quantization=option)
        with pytest.raises(pccl.InvalidArgument, match="equal shares"):
            comm.reduce_scatter(given, share, op="sum", counts=[AUTOMATIC] * 2, quantization=option)
        sub.close()
        return seen

    one, other = two.all(run)
    assert one == other and [codec == none for codec in one] == [True] * 3 + [False] * 3


def test_automatic_codecs_that_there_are_not():
    with pytest.raises(pccl.InvalidArgument, match="needs budget_ms"):
        pccl.QuantizationOptions("auto").to_c()
    with pytest.raises(pccl.InvalidArgument, match="requires an automatic codec"):
        pccl.QuantizationOptions("int4", budget_ms=5).to_c()
    with pytest.raises(pccl.InvalidArgument, match="requires an automatic codec"):
        pccl.QuantizationOptions("uint8", budget_ms=5).to_c()
    with pytest.raises(pccl.InvalidArgument, match="requires an automatic codec"):
        pccl.QuantizationOptions("uint8", budget_percent=5).to_c()
    with pytest.raises(pccl.InvalidArgument, match="budget_ms or budget_percent, not both"):
        automatic(5, budget_percent=5).to_c()
    with pytest.raises(pccl.InvalidArgument, match="more than 100"):
        pccl.QuantizationOptions("auto", budget_percent=101).to_c()
    with pytest.raises(pccl.InvalidArgument, match="more than 131071"):
        automatic(131072).to_c()
    with pytest.raises(pccl.InvalidArgument, match="an automatic codec cannot be measured"):
        pccl.measure_codec(np.ones(5, np.float32), automatic(5))
