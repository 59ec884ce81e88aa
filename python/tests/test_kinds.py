"""bool and floats of 8 bits, and reductions that do not fit a type."""

import pytest

import pccl
from pccl import DataType

np = pytest.importorskip("numpy")


def test_memory_with_bools(group):
    two = group(2)

    def reduce(comm, i):
        mine = memoryview(bytearray([i, 1, 0])).cast("?")
        comm.all_reduce(mine, mine, op="xor")
        return mine.tolist()

    assert two.all(reduce) == [[True, False, False]] * 2
    assert DataType.from_numpy_dtype(bool) is DataType.BOOL and DataType.BOOL.to_numpy_dtype() == bool
    assert DataType.BOOL.itemsize == 1


def test_floats_of_8_bits_of_numpy(group):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        assert DataType.from_numpy_dtype(dtype).to_numpy_dtype() == np.dtype(dtype)


def test_what_does_not_fit(group):
    comm = group(2).members[0]
    reals, wholes, flags = np.zeros(4), np.zeros(4, int), np.zeros(4, bool)
    for words, memory, given in (
        ("and, or and xor require integers or bool, not floats", reals, {"op": "and"}),
        ("average of bool is not supported", flags, {"op": "avg"}),
        ("a premultiplied sum requires floats", wholes, {"op": "premul_sum", "factor": 2}),
        ("factor: a premultiplied sum requires one", reals, {"op": "premul_sum"}),
        ("factor: only a premultiplied sum takes one", reals, {"op": "sum", "factor": 1}),
        ("factor: expected a number, not 'x'", reals, {"op": "premul_sum", "factor": "x"}),
    ):
        with pytest.raises(pccl.InvalidArgument, match=words):
            comm.all_reduce(memory, memory, **given)
        with pytest.raises(pccl.InvalidArgument, match=words):
            comm.reduce_scatter(memory, memory[:2], **given)


