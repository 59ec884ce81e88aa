"""Several tensors of several types in one all-reduce."""

import pytest

import pccl
from pccl import QuantizationOptions

np = pytest.importorskip("numpy")

KINDS = ("float32", "int64", "bool", "float16", "uint8")
FEW = [3, 1, 7, 2, 5, 1]  # through the master
MANY = [40000, 1, 9, 70000, 3, 1234, 5, 250000]  # from peer to peer, borders within segments
COUNTS = pytest.mark.parametrize("counts", [FEW, MANY], ids=["few", "many"])


def tensors(counts, i):
    """Returns values with exact sums in every type."""
    made = np.random.default_rng(i)
    return [made.integers(0, 9, count).astype(KINDS[k % len(KINDS)]) for k, count in enumerate(counts)]


def sums(counts, world):
    each = zip(*[tensors(counts, i) for i in range(world)])
    return [np.logical_or.reduce(one) if one[0].dtype == bool else sum(one[1:], one[0].copy()) for one in each]


def bits(arrays):
    return [(one.dtype, one.tobytes()) for one in arrays]


@COUNTS
def test_several_types(group, counts):
    """In place and not, at once and later; memory that is not a target is unchanged."""
    three = group(3)
    expected = bits(sums(counts, 3))

    def reduce(comm, i):
        given, results = tensors(counts, i), [np.empty_like(one) for one in tensors(counts, i)]
        info = comm.coalesced(given, results, op="sum", tag=4)
        assert bits(given) == bits(tensors(counts, i)) and bits(results) == expected
        assert info.local_world_size == 3 and info.tag == 4 and info.tx_bytes > 0
        handle = comm.coalesced_async(given, op="sum", tag=5)
        handle.wait()
        assert bits(given) == expected
        one = tensors(counts, i)[0]
        comm.coalesced([one], op="sum")
        assert bits([one]) == expected[:1]

    three.all(reduce)


@COUNTS
def test_a_reduction_of_each(group, counts):
    two = group(2)
    ops = ["avg", "min", "and", "premul_sum", "max", "sum", "prod", "or"][: len(counts)]

    def reduce(comm, i):
        together = tensors(counts, i)
        comm.coalesced(together, op=ops, factor=0.5 + i)
        for k, one in enumerate(tensors(counts, i)):
            comm.all_reduce(one, one, op=ops[k], factor=0.5 + i if ops[k] == "premul_sum" else None)
            assert one.tobytes() == together[k].tobytes(), (k, ops[k])

    two.all(reduce)


def test_quantized(group):
    """Floats are packed, with the same result on all peers; other types are exact. With one type: the same as one
    tensor."""
    three = group(3)
    counts = [5000, 300, 64 * 256]
    for quantization in (QuantizationOptions("int4"), QuantizationOptions("e4m3", feedback=True)):

        def reduce(comm, i):
            floats = [np.random.default_rng(10 * i + k).random(count, np.float32) for k, count in enumerate(counts)]
            whole = np.concatenate(floats)
            numbers = np.arange(9000) + i
            comm.coalesced([floats[0], numbers, *floats[1:]], op="sum", tag=1, quantization=quantization)
            comm.all_reduce(whole, whole, op="sum", tag=2, quantization_options=quantization)
            assert (numbers == 3 * np.arange(9000) + 3).all()
            exact = sum(np.random.default_rng(10 * k).random(counts[0], np.float32) for k in range(3))
            assert 0 < np.abs(floats[0] - exact).max() < 1
            comm.coalesced(floats, op="sum", tag=3, quantization=quantization)
            return np.concatenate(floats).tobytes()

        assert len(set(three.all(reduce))) == 1


def test_feedback_has_a_place_for_each_element(group):
    two = group(2)
    quantization = QuantizationOptions("int4", feedback=True)

    def reduce(comm, i):
        total = np.zeros(12000)
        for use in range(12):
            given = [np.full(5000, 0.1 + i, np.float32), np.full(7000, 0.37, np.float32)]
            comm.coalesced(given, op="sum", tag=8, quantization=quantization)
            total += np.concatenate(given)
        return total, comm.get_feedback(8)

    (total, one), (_, other) = two.all(reduce)
    meant = 12 * np.concatenate([np.full(5000, 1.2), np.full(7000, 0.74)])
    assert np.abs(total + one + other - meant).max() < 1e-3


def test_lists(group):
    """Among other operations, in a list that is repeated if a peer is lost."""
    two = group(2)

    def run(comm, i):
        given, single = tensors(MANY, i), np.full(9, i + 1.0)
        operations = [pccl.Coalesced(given, op="sum", tag=1), pccl.AllReduce(single, single, op="sum", tag=2)]
        comm.run(operations)
        assert bits(given) == bits(sums(MANY, 2)) and (single == 3).all() and operations[0].info.local_world_size == 2

    two.all(run)


def test_alone(group):
    only = group(1)

    def reduce(comm, i):
        given = [np.arange(4.0), np.arange(3), np.array([2, 0], np.uint8).view(bool)]
        comm.coalesced(given, op=["premul_sum", "sum", "sum"], factor=3, alone_ok=True)
        assert given[0].tolist() == [0, 3, 6, 9] and given[1].tolist() == [0, 1, 2]
        assert given[2].view(np.uint8).tolist() == [1, 0]
        with pytest.raises(pccl.TooFewPeersError):
            comm.coalesced(given, op="max")

    only.all(reduce)


@COUNTS
def test_peers_that_differ(group, counts):
    """Peers that differ in a count, a type or a reduction: all get the error, and keep their values."""
    two = group(2)

    def changed(comm, given):
        with pytest.raises(pccl.StateMismatch, match="coalesced all-reduce"):
            comm.coalesced(given, op="sum", tag=7)

    def reduce(comm, i):
        other = tensors(counts, i)
        other[-1] = other[-1][: -1 if i else None].copy() if counts is MANY else np.zeros(1 + i, other[-1].dtype)
        before = bits(other)
        changed(comm, other)
        assert bits(other) == before
        retyped = tensors(counts, i)
        retyped[0] = retyped[0].view(np.uint32 if i else np.float32)
        changed(comm, retyped)
        with pytest.raises(pccl.StateMismatch, match="max|sum|coalesced"):
            comm.coalesced(tensors(counts, i), op="sum" if i else "max", tag=9)

    two.all(reduce)


def test_what_is_wrong_with_one(group):
    two = group(2)
    a, b = np.zeros(10), np.zeros(10)
    both = np.zeros(15)
    bad = [
        ([a, b[:0]], {"op": "sum"}, "tensor 1: .*no elements"),
        ([a, b], {"op": ["sum"]}, "1 reductions for 2 tensors"),
        ([], {"op": "sum"}, "the tensor list is empty"),
        ([both[:10], both[5:]], {"op": "sum"}, "buffers of tensors 0 and 1 overlap"),
        ([a, b], {"op": "and"}, "tensor 0: "),
        ([a, b], {"op": "sum", "factor": 2}, "factor"),
        ([np.arange(3)], {"op": "sum", "quantization": QuantizationOptions("int4")}, "floats"),
    ]

    def refuse(comm, i):
        for given, arguments, words in bad:
            with pytest.raises(pccl.PCCLError, match=words):
                comm.coalesced(given, **arguments)
        with pytest.raises(pccl.PCCLError, match="send has 2 tensors and recv 1"):
            comm.coalesced([a, b], [both[:10]], op="sum")
        good = [np.ones(3), np.ones(3)]
        comm.coalesced(good, op="sum")
        assert good[1].tolist() == [2, 2, 2]

    two.all(refuse)
