"""bool, floats of 8 bits, bitwise reductions and premultiplied sums."""

import pytest

import pccl
from pccl import DataType, ReduceOp

np = pytest.importorskip("numpy")

LARGE = 50000  # elements: from peer to peer, not through the master
COUNTS = [5, LARGE]
BITWISE = {ReduceOp.AND: np.bitwise_and, ReduceOp.OR: np.bitwise_or, ReduceOp.XOR: np.bitwise_xor}
OF_BOOLS = {
    "sum": np.logical_or,
    "max": np.logical_or,
    "or": np.logical_or,
    "prod": np.logical_and,
    "min": np.logical_and,
    "and": np.logical_and,
    "xor": np.logical_xor,
}


def given(dtype, count, i):
    return np.random.default_rng(i).integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8).view(dtype)


@pytest.mark.parametrize("count", COUNTS)
def test_bits_of_integers(group, count):
    three = group(3)
    for dtype in ("uint8", "int16", "uint32", "int64"):
        for op, fold in BITWISE.items():
            results = [np.empty(count, dtype) for _ in range(3)]
            shares = [np.empty(count, dtype) for _ in range(3)]
            three.all(lambda comm, i: comm.all_reduce(given(dtype, count, i), results[i], op=op))
            three.all(lambda comm, i: comm.reduce_scatter(given(dtype, 3 * count, i), shares[i], op=op))
            all_shares = fold.reduce([given(dtype, 3 * count, i) for i in range(3)])
            for i in range(3):
                assert (results[i] == fold.reduce([given(dtype, count, k) for k in range(3)])).all()
                assert (shares[i] == all_shares[i * count : (i + 1) * count]).all()


@pytest.mark.parametrize("count", COUNTS)
def test_bools(group, count):
    """Any byte but 0 is true, and results are 0 or 1."""
    three = group(3)
    inputs = [given("uint8", count, i) % 3 * 7 for i in range(3)]
    for op, fold in OF_BOOLS.items():
        results = [np.empty(count, bool) for _ in range(3)]
        three.all(lambda comm, i: comm.all_reduce(inputs[i].view(bool), results[i], op=op))
        expected = fold.reduce([one != 0 for one in inputs])
        assert all(result.tobytes() == expected.tobytes() for result in results)
    moved = [np.full(count, i != 1) for i in range(3)]
    three.all(lambda comm, i: comm.broadcast(moved[i], root=1))
    assert not any(one.any() for one in moved)


def test_memory_with_bools(group):
    two = group(2)

    def reduce(comm, i):
        mine = memoryview(bytearray([i, 1, 0])).cast("?")
        comm.all_reduce(mine, mine, op="xor")
        return mine.tolist()

    assert two.all(reduce) == [[True, False, False]] * 2
    assert DataType.from_numpy_dtype(bool) is DataType.BOOL and DataType.BOOL.to_numpy_dtype() == bool
    assert DataType.BOOL.itemsize == 1


def float8(torch, name):
    return getattr(torch, name, None) or pytest.skip(f"this torch has no {name}")


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_all_pairs_of_8_bits(group, name):
    """As torch converts; every NaN is the same one."""
    torch = pytest.importorskip("torch")
    dtype = float8(torch, name)
    assert DataType.from_torch_dtype(dtype).to_torch_dtype() == dtype and DataType.from_torch_dtype(dtype).itemsize == 1
    codes = torch.arange(256, dtype=torch.uint8)
    sides = [codes.repeat_interleave(256).view(dtype), codes.repeat(256).view(dtype)]
    a, b = (side.float() for side in sides)
    folds = {
        "sum": a + b,
        "avg": (a + b) / 2,
        "prod": a * b,
        "max": torch.maximum(a, b),
        "min": torch.minimum(a, b),
        "premul_sum": (a * 3).to(dtype).float() + (b * -0.5).to(dtype).float(),
    }
    two = group(2)
    for op, fold in folds.items():
        factors = [3, -0.5] if op == "premul_sum" else [None, None]
        results = [torch.empty_like(sides[0]) for _ in range(2)]
        two.all(lambda comm, i: comm.all_reduce(sides[i], results[i], op=op, factor=factors[i]))
        expected = fold.to(dtype)
        bits = expected.view(torch.uint8).clone()
        bits[torch.isnan(expected.float())] = 0x7F
        if op in ("max", "min"):  # whatever torch makes of 0 and -0
            zeros = (a == 0) & (b == 0)
            bits[zeros] = results[0].view(torch.uint8)[zeros]
        for result in results:
            assert torch.equal(result.view(torch.uint8), bits), op


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits_are_rounded_once(group, name, count):
    torch = pytest.importorskip("torch")
    dtype = float8(torch, name)
    generator = torch.Generator().manual_seed(1)
    inputs = [(torch.randn(count, generator=generator) * 4).to(dtype) for _ in range(4)]
    results = [torch.empty_like(one) for one in inputs]
    four = group(4)
    four.all(lambda comm, i: comm.all_reduce(inputs[i], results[i], op="avg"))
    expected = (sum(one.double() for one in inputs) / 4).float().to(dtype)
    for result in results:
        assert torch.equal(result.view(torch.uint8), expected.view(torch.uint8))
    gathered = [torch.empty(4 * count, dtype=dtype) for _ in range(4)]
    four.all(lambda comm, i: comm.all_gather(inputs[i], gathered[i]))
    assert torch.equal(gathered[2].view(torch.uint8), torch.cat([one.view(torch.uint8) for one in inputs]))


def test_floats_of_8_bits_of_numpy(group):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        assert DataType.from_numpy_dtype(dtype).to_numpy_dtype() == np.dtype(dtype)


@pytest.mark.parametrize("count", COUNTS)
def test_premultiplied_sums(group, count):
    three = group(3)
    factors = [0.5, -2.0, 0.0]
    vector = np.arange(count) % 61

    def reduce(comm, i):
        mine = vector * (i + 1.0)
        more, share = np.empty_like(mine), np.empty(count, np.float32)
        comm.all_reduce(mine, more, op="premul_sum", factor=factors[i])
        comm.all_reduce_async(mine, mine, op=ReduceOp.PREMUL_SUM, factor=factors[i], tag=1).result()
        send = np.tile(vector, 3).astype(np.float32)
        comm.reduce_scatter(send, share, op="premul_sum", factor=factors[i])
        reduced = np.empty_like(send)
        comm.reduce(send, reduced, root=2, op="premul_sum", factor=factors[i])
        listed = [
            pccl.AllReduce(send, send, op="premul_sum", factor=i, tag=2),
            pccl.ReduceScatter(send.copy(), share.copy(), op="premul_sum", factor=1, tag=3),
            pccl.Reduce(send.copy(), listed_sum := np.empty_like(send), root=0, op="premul_sum", factor=i, tag=4),
        ]
        comm.run(listed)
        pair = None
        if i < 2:
            with comm.group(comm.members()[:2]) as pair_group:
                pair = np.ones(count)
                pair_group.all_reduce(pair, pair, op="premul_sum", factor=i + 1)
        roots = reduced if i == 2 else listed_sum if i == 0 else None
        return mine, more, share, send, listed[1].recv, pair, roots

    for i, (mine, more, share, send, listed, pair, roots) in enumerate(three.all(reduce)):
        assert (mine == vector * -3.5).all() and (more == mine).all()
        assert (share == vector * np.float32(-1.5)).all() and (send == 3 * np.tile(vector, 3)).all()
        assert (listed == 3 * vector).all()
        assert i == 2 or (pair == 3).all()
        assert i == 1 or (roots == np.tile(vector, 3) * (-1.5 if i else 3)).all()


def test_premultiplied_sums_are_rounded_to_the_type(group):
    torch = pytest.importorskip("torch")
    factors = [1 / 3, 0.7]
    inputs = [torch.linspace(i, 3, LARGE).to(torch.bfloat16) for i in range(2)]
    results = [torch.empty_like(one) for one in inputs]
    group(2).all(lambda comm, i: comm.all_reduce(inputs[i], results[i], op="premul_sum", factor=factors[i]))
    parts = [(one.float() * factor).to(torch.bfloat16).float() for one, factor in zip(inputs, factors)]
    assert torch.equal(results[0], (parts[0] + parts[1]).to(torch.bfloat16)) and torch.equal(results[0], results[1])


def test_quantized_premultiplied_sums(group):
    inputs = [np.random.default_rng(i).random(LARGE, np.float32) for i in range(2)]
    results = [np.empty_like(one) for one in inputs]
    packed = pccl.QuantizationOptions()
    infos = group(2).all(
        lambda comm, i: comm.all_reduce(
            inputs[i], results[i], op="premul_sum", factor=i + 1, quantization_options=packed
        )
    )
    np.testing.assert_allclose(results[0], inputs[0] + 2 * inputs[1], atol=8 / 255)
    assert results[0].tobytes() == results[1].tobytes() and infos[0].tx_bytes < 2 * LARGE


def test_what_does_not_fit(group):
    comm = group(2).members[0]
    reals, wholes, flags = np.zeros(4), np.zeros(4, int), np.zeros(4, bool)
    for words, memory, given in (
        ("and, or and xor take integers and bool, no floats", reals, {"op": "and"}),
        ("bool has no average", flags, {"op": "avg"}),
        ("a premultiplied sum takes floats only", wholes, {"op": "premul_sum", "factor": 2}),
        ("factor: a premultiplied sum needs one", reals, {"op": "premul_sum"}),
        ("factor: only a premultiplied sum has one", reals, {"op": "sum", "factor": 1}),
        ("factor: expected a number, not 'x'", reals, {"op": "premul_sum", "factor": "x"}),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            comm.all_reduce(memory, memory, **given)
        with pytest.raises(pccl.InvalidArgument, match=words):
            comm.reduce_scatter(memory, memory[:2], **given)


@pytest.mark.parametrize("count", COUNTS)
def test_who_does_not_multiply_is_told(group, count):
    def reduce(comm, i):
        mine = np.full(count, 3.0)
        with pytest.raises(pccl.StateMismatch, match="premultiplied sum"):
            comm.all_reduce(mine, mine, op="sum" if i else "premul_sum", factor=None if i else 2)
        assert (mine == 3).all()

    group(2).all(reduce)
