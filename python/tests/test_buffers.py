"""Buffers that are accepted, and buffers that are refused with a reason. There are no peers here: a reduction that
reaches the library fails with TooFewPeers; any other error has its reason."""

import array
import ctypes
import gc
import weakref

import pytest

import pccl
from pccl import _buffers, _parameters

np = pytest.importorskip("numpy")

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", DTYPES)
def test_numpy(name):
    memory = np.arange(12, dtype=name).reshape(3, 4)
    buffer = _buffers.of(memory, "x")
    assert (buffer.address, buffer.count, buffer.dtype.to_numpy_dtype()) == (memory.ctypes.data, 12, np.dtype(name))
    assert pccl.DataType.from_numpy_dtype(memory.dtype) is buffer.dtype
    assert buffer.dtype.itemsize == memory.itemsize


@pytest.mark.parametrize("letter", "bBhHiIlLqQfd")
def test_array(letter):
    memory = array.array(letter, [1, 2, 3])
    buffer = _buffers.of(memory, "x")
    assert (buffer.address, buffer.count) == (memory.buffer_info()[0], 3)
    assert buffer.dtype.itemsize == memory.itemsize
    with pytest.raises(BufferError):
        memory.append(4)  # held in place


def test_others_with_the_buffer_protocol():
    floats = (ctypes.c_float * 5)()
    buffer = _buffers.of(floats, "x")
    assert (buffer.address, buffer.count, buffer.dtype) == (ctypes.addressof(floats), 5, pccl.DataType.FLOAT)
    constant = _buffers.of(b"constant", "x")
    assert (constant.count, constant.dtype, constant.writable) == (8, pccl.DataType.UINT8, False)
    assert ctypes.string_at(constant.address, 8) == b"constant"
    part = _buffers.of(memoryview(bytearray(b"0123456789"))[2:5], "x")
    assert ctypes.string_at(part.address, part.count) == b"234"


class OnlyInterface:
    def __init__(self, memory, **changes):
        self.__array_interface__ = dict(memory.__array_interface__, **changes)
        self.memory = memory


class OnlyDLPack:
    def __init__(self, memory, versioned=True):
        self.memory = memory
        self.versioned = versioned

    def __dlpack__(self, **arguments):
        if arguments and not self.versioned:
            raise TypeError("unexpected keyword argument")
        return self.memory.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


@pytest.mark.parametrize("name", DTYPES)
def test_interfaces(name):
    memory = np.arange(12, dtype=name).reshape(3, 4)
    for thing in (OnlyInterface(memory), OnlyDLPack(memory), OnlyDLPack(memory, versioned=False)):
        buffer = _buffers.of(thing, "x")
        assert (buffer.address, buffer.count, buffer.dtype.to_numpy_dtype()) == (memory.ctypes.data, 12, memory.dtype)
        assert buffer.writable
    memory.flags.writeable = False
    assert not _buffers.of(OnlyInterface(memory), "x").writable
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":  # older ones have no such attribute, and refuse
        assert not _buffers.of(OnlyDLPack(memory), "x").writable


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    memory = np.zeros(4, ml_dtypes.bfloat16)
    assert _buffers.of(memory, "x").dtype is pccl.DataType.BFLOAT16
    assert pccl.DataType.BFLOAT16.to_numpy_dtype() == memory.dtype


class Alone:
    """A communicator without peers."""

    def __init__(self, comm):
        self.comm = comm

    def refused(self, kind, words, send, recv=None, **given):
        recv = send if recv is None else recv
        with pytest.raises(kind, match=words) as caught:
            self.comm.all_reduce(send, recv, op=pccl.ReduceOp.SUM, **given)
        assert isinstance(caught.value, pccl.PCCLError)
        return caught.value

    def taken(self, send, recv, **given):
        self.refused(pccl.TooFewPeersError, "TOO_FEW_PEERS", send, recv, **given)


@pytest.fixture
def alone(address):
    with pccl.Communicator(address) as comm:
        comm.connect()
        yield Alone(comm)


def test_layouts(alone):
    square = np.zeros((4, 4), np.float32)
    good = np.zeros(8, np.float32)
    for thing in (square[:, :2], square[::2], OnlyInterface(square[:, :2]), OnlyDLPack(square[:, :2])):
        for send, recv in ((thing, thing), (good, thing), (thing, good)):
            for kind in (AssertionError, ValueError):
                alone.refused(kind, r"all_reduce: (send|recv): .*not contiguous", send, recv)
    alone.refused(AssertionError, r"send: ndarray shape \(4, 2\) dtype float32: not contiguous \(strides \(16, 4\)\)",
                  square[:, :2])
    alone.refused(AssertionError, "not contiguous", memoryview(bytearray(8))[::2])
    alone.refused(AssertionError, "send and recv have different numbers of elements: 8, 16", good, square)
    alone.refused(ValueError, "no elements", good[:0])
    good.flags.writeable = False
    alone.refused(AssertionError, "recv: .*read-only", good)
    alone.refused(ValueError, "recv: bytes is read-only", b"abc")
    alone.taken(good, np.zeros(8, np.float32))
    alone.taken(b"abc", bytearray(3))


def test_dtypes(alone):
    for thing in (np.zeros(4, complex), np.zeros(4, "datetime64[s]"), np.zeros(4, object),
                  OnlyInterface(np.zeros(4, complex)), OnlyDLPack(np.zeros(4, complex)),
                  memoryview(bytearray(4)).cast("c"), np.zeros(4, ">f4" if np.dtype("<f4").isnative else "<f4"),
                  [1.0, 2.0], None, 7):
        for kind in (ValueError, TypeError):
            error = alone.refused(kind, "send: ", thing, thing if thing is not None else bytearray(1))
            assert isinstance(error, pccl.DTypeError)
    words = "send and recv have different data types: float, double"
    alone.refused(TypeError, words, np.zeros(4, np.float32), np.zeros(4))
    with pytest.raises(AssertionError):
        pccl.DataType.from_numpy_dtype(np.dtype(complex))


def test_descriptors(alone):
    words = np.zeros(8, np.uint16)
    alone.taken(words, words, operand_descriptor=pccl.ReduceOperandDescriptor(pccl.DataType.BFLOAT16))
    alone.refused(pccl.DTypeError, "descriptor has FLOAT", words,
                  operand_descriptor=pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT))
    alone.refused(ValueError, "tag -1", words, tag=-1)
    floats = np.zeros(8, np.float32)
    whole = pccl.ReduceDescriptor(8, pccl.ReduceOp.SUM, 1, pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT))
    made = pccl.ReduceOpDescriptor.from_numpy(floats, floats, whole)
    assert made.sendbuf_ptr == made.recvbuf_ptr == floats.ctypes.data and made.to_c().descriptor.count == 8
    with pytest.raises(AssertionError, match="descriptor has 8 elements, but the buffers have 4"):
        pccl.ReduceOpDescriptor.from_numpy(floats[:4], floats[:4], whole)
    with pytest.raises(pccl.TooFewPeersError):
        alone.comm.all_reduce_multiple_with_retry([made])
    with pytest.raises(pccl.InvalidArgument):
        alone.comm.all_reduce_multiple_with_retry([made], max_in_flight=0)
    with pytest.raises(pccl.InvalidArgument):
        alone.comm.all_reduce_multiple_with_retry([])


def test_overlap(alone):
    memory = np.zeros(9, np.float32)
    error = alone.refused(ValueError, "overlap", memory[:8], memory[1:])
    assert error.result is pccl.Result.INVALID_ARGUMENT


def test_numbers_are_no_memory(alone):
    """Numbers have an interface to a copy: the result would be lost."""
    for number in (np.float64(3), np.int8(3)):
        alone.refused(ValueError, "recv: .*read-only", number)


def test_masked_arrays(alone):
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    alone.refused(pccl.LayoutError, "mask", masked)
    alone.taken(masked.data, masked.data)


class Maker:
    """Makes new memory for each request, without keeping it."""

    def __init__(self):
        self.made = None

    def make(self):
        memory = np.arange(1000, dtype=np.float32)
        self.made = weakref.ref(memory)
        return memory


class InterfaceMaker(Maker):
    @property
    def __array_interface__(self):
        memory = self.make()
        return dict(memory.__array_interface__, made=memory)


class CapsuleMaker(Maker):
    def __dlpack__(self, **arguments):
        return self.make().__dlpack__(**arguments)


@pytest.mark.parametrize("kind", [InterfaceMaker, CapsuleMaker])
def test_what_was_made_when_asked_is_kept(kind):
    maker = kind()
    buffer = _buffers.of(maker, "x")
    gc.collect()
    assert maker.made() is not None and (ctypes.c_float * 3).from_address(buffer.address)[2] == 2
    del buffer
    gc.collect()
    assert maker.made() is None


class Copier:
    """Returns a copy for each request, and declares it, as the standard requires."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **arguments):
        return self.memory.__dlpack__(max_version=(1, 0), copy=True)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="this numpy does not say that it copies")
def test_copies_are_not_written_to(alone):
    memory = np.zeros(4, np.float32)
    alone.refused(pccl.LayoutError, "recv: Copier is a copy", Copier(memory))
    alone.taken(Copier(memory), memory)


@pytest.mark.parametrize("wrong", [1.7, "PLUS", None, 1 << 32])
def test_operations_are_known(alone, wrong):
    memory = np.zeros(4)
    with pytest.raises(pccl.InvalidArgument, match="op"):
        alone.comm.all_reduce(memory, memory, op=wrong)
    with pytest.raises(pccl.InvalidArgument, match="attribute"):
        alone.comm.get_attribute(wrong)
    with pytest.raises(pccl.DTypeError, match="not a data type"):
        alone.comm.all_reduce(memory, memory, op=0, operand_descriptor=pccl.ReduceOperandDescriptor(wrong))
    operand = pccl.ReduceOperandDescriptor(pccl.DataType.DOUBLE, 99)
    with pytest.raises(pccl.InvalidArgument, match="distribution_hint: unknown hint 99"):
        alone.comm.all_reduce(memory, memory, op=0, operand_descriptor=operand)


@pytest.mark.parametrize("wrong", [None, b"127.0.0.1:1", "127.0.0.1:1\0", "\udc80:1", 7])
def test_addresses_are_text(wrong):
    for kind in (pccl.Communicator, pccl.MasterNode):
        with pytest.raises(pccl.InvalidArgument, match="address"):
            kind(wrong)


@pytest.mark.parametrize("wrong", [{"name": None}, {"name": "a\0b"}, {1: 2}, {"op_timeout_ms": 1.5}, {"name\0": "x"}])
def test_options_are_text_and_numbers(wrong):
    with pytest.raises(pccl.InvalidArgument):
        pccl.Communicator("127.0.0.1:1", options=wrong)


def test_pools_of_any_size():
    """PCCL 1.0's argument is cut to the maximum; the option is not."""
    limit = _parameters.maximum("connection_pool_size")
    for size in (1, limit, limit + 1, 1 << 40, np.int64(128)):
        pccl.Communicator("127.0.0.1:1", 0, size).close()
    with pytest.raises(pccl.InvalidArgument, match="connection_pool_size"):
        pccl.Communicator("127.0.0.1:1", options={"connection_pool_size": limit + 1})
    with pytest.raises(pccl.InvalidArgument):
        pccl.Communicator("127.0.0.1:1", 0, -1)


def test_what_is_no_descriptor(alone):
    for thing in (np.zeros(4), None):
        with pytest.raises(pccl.InvalidArgument, match="ReduceOpDescriptor"):
            alone.comm.all_reduce_multiple_with_retry([thing])
        with pytest.raises(pccl.InvalidArgument, match="expected a SharedState"):
            alone.comm.sync_shared_state(thing)
    whole = pccl.ReduceDescriptor(8, pccl.ReduceOp.SUM, 1, pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT))
    for pointer in (-1, 1 << 64, None):
        with pytest.raises(pccl.InvalidArgument, match="_ptr"):
            pccl.ReduceOpDescriptor(pointer, pointer, whole).to_c()


def test_bools_of_all_producers():
    memory = np.array([True, False, True])
    for thing in (memory, OnlyInterface(memory), OnlyDLPack(memory), memoryview(memory)):
        buffer = _buffers.of(thing, "x")
        assert (buffer.dtype, buffer.count, buffer.address) == (pccl.DataType.BOOL, 3, memory.ctypes.data)
