"""Reductions among peers in threads of one process."""

import array
import asyncio
import re
import threading
import time

import pytest
from support import DEADLINE, TWO, figure, parallel, world

import pccl
from pccl import Attribute, DataType, ReduceOp, Result

np = pytest.importorskip("numpy")

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64"]
LARGE = 50000  # elements: from peer to peer, not through the master


FOLDS = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def test_types_and_operators(group):
    """Each reaches the library, by name and by number."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    others = (bool, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
    given = [np.arange(1, 4) + 2 * i for i in range(2)]

    def reduce(comm, i):
        for dtype in (*DTYPES, *others):
            result = np.empty(3, dtype)
            comm.all_reduce((given[i] % 4).astype(dtype), result, op="max")
            assert (result == np.maximum(*[(one % 4).astype(dtype) for one in given])).all(), dtype
        for name, fold in FOLDS.items():
            for op in (name, ReduceOp[name.upper()], int(ReduceOp[name.upper()])):
                result = np.empty(3, int)
                comm.all_reduce(given[i], result, op=op)
                assert (result == fold(*given)).all(), name
        mine = given[i].astype(float)
        comm.all_reduce(mine, mine, op=ReduceOp.AVG, tag=np.int64(7))  # numbers of numpy are numbers
        assert (mine == sum(given) / 2).all()

    group(2).all(reduce)


def test_memory_of_others(group):
    def reduce(comm, i):
        mine = array.array("d", [i + 1.0] * 100)
        comm.all_reduce(mine, mine, op=ReduceOp.SUM)
        return mine[99]

    assert group(2).all(reduce) == [3.0, 3.0]


def test_quantized_steps(group):
    """Scenario 60, with payloads both below and above the packing limit."""
    two = group(2)

    def steps(comm, i, count, number):
        rng = np.random.default_rng(i)
        for _ in range(number):
            mine = rng.random(count, np.float32)
            result = np.empty_like(mine)
            comm.all_reduce(mine, result, op=ReduceOp.SUM, quantization_options=pccl.QuantizationOptions())
        return mine, result

    for count, number in ((1024, 1000), (LARGE, 5)):
        (a, sum_a), (b, sum_b) = two.all(lambda comm, i: steps(comm, i, count, number))
        assert sum_a.tobytes() == sum_b.tobytes()
        np.testing.assert_allclose(sum_a, a + b, atol=4 / 255)


def test_handles(group):
    def reduce(comm, i):
        first, second = np.full(10, i + 1.0), np.full(LARGE, i + 1.0)
        handles = [
            comm.all_reduce_async(first, first, op=ReduceOp.SUM, tag=123),
            comm.all_reduce_async(second, second, op=ReduceOp.MAX, tag=456),
        ]
        with pytest.raises(pccl.InvalidArgument) as caught:  # scenario 17
            comm.all_reduce(first, first, op=ReduceOp.SUM, tag=123)
        assert caught.value.tag == 123
        for call in (comm.update_topology, lambda: comm.sync_shared_state(a_state())):
            with pytest.raises(pccl.PendingAsyncOpsError) as pending:  # scenarios 14, 15
                call()
            assert pending.value.result is Result.PENDING_ASYNC_OPS
        success, status, info = handles[1].wait()
        assert (success, status, info.local_world_size) == (True, 0, 2)
        assert handles[1].wait() == (success, status, info)
        assert handles[0].result(DEADLINE).local_world_size == 2
        assert handles[0].test() and handles[0].exception() is None
        handles[0].close()
        return first[0], second[0]

    assert group(2).all(reduce) == [(3.0, 2.0)] * 2


def a_state():
    return pccl.SharedState([pccl.TensorInfo.from_numpy(np.zeros(3), "x")])


def test_the_end_is_seen_by_many(group):
    """One handle awaited by several threads, a future and asyncio at once."""
    two = group(2)
    memory = [np.full(LARGE, i + 1.0) for i in range(2)]
    handle = two.members[0].all_reduce_async(memory[0], memory[0], op=ReduceOp.SUM)
    assert not handle.test()
    with pytest.raises(pccl.TimeoutError_) as caught:
        handle.result(0.05)
    assert caught.value.ext is Result.TIMEOUT and caught.value.tag == 0
    called = threading.Event()
    handle.future().add_done_callback(lambda _: called.set())
    assert handle.future().cancel() is False
    waits = [lambda: handle.wait()[2], handle.result, handle.future().result, lambda: asyncio.run(wait_for(handle))]
    waits.append(lambda: two.members[1].all_reduce(memory[1], memory[1], op=ReduceOp.SUM))
    infos = parallel(waits)
    assert [info.local_world_size for info in infos] == [2] * 5 and called.wait(DEADLINE)
    assert memory[0][0] == memory[1][0] == 3


async def wait_for(handle):
    return await handle


def test_asyncio(group):
    """Many at once by one loop, and a task that stops waiting."""
    two = group(2)

    async def steps(comm, i):
        memory = [np.full(100 * (k + 1), i + 1.0) for k in range(20)]
        handles = [comm.all_reduce_async(one, one, op=ReduceOp.SUM, tag=k) for k, one in enumerate(memory)]
        infos = await asyncio.gather(*handles)
        assert sum(thread.name == "pccl-watcher" for thread in threading.enumerate()) <= 1  # for all of them
        late = comm.all_reduce_async(memory[0], memory[0], op=ReduceOp.MAX, tag=99) if i == 0 else None
        if late is not None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait_for(late), 0.02)
            assert not late.test()
        return late, [info.local_world_size for info in infos], [one[0] for one in memory]

    results = two.all(lambda comm, i: asyncio.run(steps(comm, i)))
    assert [result[1:] for result in results] == [([2] * 20, [3.0] * 20)] * 2
    one = np.zeros(100)
    two.members[1].all_reduce(one, one, op=ReduceOp.MAX, tag=99)
    assert results[0][0].wait()[0] and one[0] == 3


def test_a_failure_as_an_exception_and_as_a_tuple(group):
    """Peers differ: the same error everywhere, with the peers and the difference."""
    two = group(2)

    def reduce(comm, i):
        memory = np.zeros(LARGE + i)
        handle = comm.all_reduce_async(memory, memory, op=ReduceOp.SUM, tag=5)
        success, status, info = handle.wait()
        assert (success, status) == (False, Result.INVALID_USAGE) and info.local_world_size == 0
        with pytest.raises(pccl.StateMismatch) as caught:
            handle.result()
        with pytest.raises(pccl.StateMismatch):
            handle.future().result()

        async def await_it():
            await handle

        with pytest.raises(pccl.StateMismatch):
            asyncio.run(await_it())
        return caught.value

    for error in two.all(reduce):
        assert (error.result, error.ext, error.tag) == (Result.INVALID_USAGE, Result.PEER_MISMATCH, 5)
        assert "50001" in error.words and error.elapsed > 0
        named = re.findall(r"\bpeer (\w{8})\b", error.words)
        assert len(named) == len(set(named)) == 2, error.words


def test_enumerations_by_name(group):
    two = group(2)

    def use(comm, i):
        memory = array.array("f", [i + 1.0] * 4)
        operand = pccl.ReduceOperandDescriptor("float32", "uniform")
        quantization = pccl.QuantizationOptions("uint8", "min_max")
        comm.all_reduce(memory, memory, op="sum", operand_descriptor=operand, quantization_options=quantization)
        comm.all_reduce(memory, memory, op="Max")
        state = pccl.SharedState([pccl.TensorInfo.from_buffer(memory, "x")])
        comm.sync_shared_state(state, "enforce_popular")
        assert memory[3] == 3 and comm.get_attribute("global_world_size") == 2
        with pytest.raises(ValueError, match="op: 'add' is not in ReduceOp: expected SUM, AVG, PROD, MAX, MIN"):
            comm.all_reduce(memory, memory, op="add")

    two.all(use)


def test_abort(group):
    two = group(2)
    memory = np.ones(LARGE)
    handle = two.members[0].all_reduce_async(memory, memory, op=ReduceOp.SUM)
    two.members[0].abort()
    success, status, _ = handle.wait()
    assert (success, status) == (False, Result.RANK_CONNECTION_LOST)
    assert isinstance(handle.exception(), pccl.AbortedError) and (memory == 1).all()
    two.all(lambda comm, _: comm.update_topology())
    two.all(lambda comm, _: comm.all_reduce(np.ones(LARGE), np.ones(LARGE), op=ReduceOp.SUM))


def test_multiple_with_retry(group):
    def reduce(comm, i):
        memory = [np.full(1000 * (k + 1), i + 1.0, np.float32) for k in range(20)]
        operand = pccl.ReduceOperandDescriptor(DataType.FLOAT)
        descriptors = [
            pccl.ReduceOpDescriptor.from_numpy(one, one, pccl.ReduceDescriptor(one.size, ReduceOp.SUM, k, operand))
            for k, one in enumerate(memory)
        ]
        info = comm.all_reduce_multiple_with_retry(descriptors, max_in_flight=8)
        return info.local_world_size, [float(one[-1]) for one in memory]

    assert group(2).all(reduce) == [(2, [3.0] * 20)] * 2


def test_groups_of_peers(address):
    """Scenario 19: two groups; each alone in its group."""
    with pccl.Communicator(address, 0) as first, pccl.Communicator(address, peer_group=1) as second:
        first.connect()
        thread = threading.Thread(target=second.connect)
        thread.start()
        while world(first) < 2:
            first.update_topology()
        thread.join()
        assert first.get_attribute(Attribute.LOCAL_WORLD_SIZE) == 1
        assert first.get_attribute(Attribute.NUM_DISTINCT_PEER_GROUPS) == 2
        with pytest.raises(pccl.TooFewPeersError):
            first.all_reduce(np.zeros(3), np.zeros(3), op=ReduceOp.SUM)


def test_forgotten_handles(group):
    """A dropped handle releases the tag and the memory when the operation has ended."""
    two = group(2)
    for comm in two.members:
        memory = np.ones(LARGE)
        comm.all_reduce_async(memory, memory, op=ReduceOp.SUM)  # without another reference to its memory
        del memory

    def update(comm, _):
        end = time.monotonic() + DEADLINE
        while True:
            try:
                return comm.update_topology()
            except pccl.PendingAsyncOpsError:
                assert time.monotonic() < end

    two.all(update)
    assert [len(comm._core._dependents) for comm in two.members] == [0, 0]


def test_close_with_operations_open(group):
    """Awaited elsewhere or not: all get the error, and the memory is free."""
    two = group(2)
    leaver, stays = two.members
    handles = [leaver.all_reduce_async(np.ones(LARGE), np.ones(LARGE), op=ReduceOp.SUM, tag=tag) for tag in range(3)]
    results = []
    waiter = threading.Thread(target=lambda: results.append(handles[0].wait()))
    waiter.start()
    future = handles[1].future()
    leaver.close()
    waiter.join(DEADLINE)
    assert results[0][0] is False
    assert isinstance(future.exception(DEADLINE), pccl.PCCLError)
    assert handles[2].wait()[:2] == (False, Result.RANK_CONNECTION_LOST)
    with pytest.raises(pccl.PCCLError):
        stays.all_reduce(np.ones(LARGE), np.ones(LARGE), op=ReduceOp.SUM)


CALLS = {
    "update_topology": lambda comm: comm.update_topology(),
    "are_peers_pending": lambda comm: comm.are_peers_pending(),
    "sync_shared_state": lambda comm: comm.sync_shared_state(a_state()),
    "all_reduce": lambda comm: comm.all_reduce(np.ones(LARGE), np.ones(LARGE), op=ReduceOp.SUM),
}


@pytest.mark.parametrize("call", CALLS)
def test_close_sends_out_who_is_inside(group, call):
    comm, other = group(2).members
    errors = []

    def wait():
        try:
            CALLS[call](comm)
        except pccl.PCCLError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    while comm._core._inside == 0:
        time.sleep(0.001)
    begin = time.monotonic()
    comm.close()
    figure("seconds to close while others are inside", time.monotonic() - begin, "s")
    thread.join(DEADLINE)
    assert len(errors) == 1
    other.update_topology()
    assert world(other) == 1


def test_threads_and_tags(group):
    """Many threads of each peer, each with separate tags."""
    two = group(2)

    def work(comm, i, thread):
        for k in range(20):
            memory = np.full(500, i + thread, np.int32)
            comm.all_reduce(memory, memory, op=ReduceOp.SUM, tag=100 * thread + k)
            assert memory[499] == 2 * thread + 1
        return True

    assert all(parallel([lambda c=c, i=i, t=t: work(c, i, t) for i, c in enumerate(two.members) for t in range(6)]))


def test_topology(group):
    """Optimized together, then described."""
    two = group(2)
    two.all(lambda comm, _: comm.optimize_topology())
    assert "ring" in two.members[0].get_topology()
    two.all(lambda comm, _: comm.all_reduce(np.ones(LARGE), np.ones(LARGE), op=ReduceOp.SUM))


@pytest.mark.parametrize("count", [10, 100_000])
def test_one_buffer_in_place_is_summed(group, count):
    def reduce(comm, i):
        data = np.full(count, i + 1.0)
        info = comm.all_reduce(data)
        handle = comm.all_reduce_async(data, op="max")
        assert handle.result().world_size == info.world_size == 2
        return data[-1]

    assert group(2).all(reduce) == [3, 3]


def test_quantization_has_one_name_more(group):
    packed = pccl.QuantizationOptions("int4")

    def reduce(comm, i):
        one, other = [np.random.default_rng(i).normal(0, 1, 100_000).astype(np.float32) for _ in range(2)]
        info = comm.all_reduce(one, quantization=packed)
        assert info.codec is pccl.QuantizationAlgorithm.INT4
        comm.all_reduce(other, quantization_options=packed)
        with pytest.raises(pccl.InvalidArgument, match="two names of the same argument"):
            comm.all_reduce(other, quantization=packed, quantization_options=packed)
        return (one == other).all()

    assert group(2).all(reduce) == [True, True]


def test_a_read_only_buffer_in_place():
    with pytest.raises(pccl.LayoutError, match="send: .*read-only"):
        pccl.Communicator("127.0.0.1:1").all_reduce(b"12345678")


def test_repr(group):
    run = group(0)
    one, two = run.admit(options={"name": "one"}), run.admit(options={"name": "two"})
    assert repr(two) == f"<pccl.Communicator 'two' ({two.id[:8]}) of the master at {run.address}: rank 1 of 2>"
    three = pccl.Communicator("10.0.0.1:5")
    assert repr(three) == "<pccl.Communicator of the master at 10.0.0.1:5: not in the run>"
    three.close()
    assert "closed" in repr(three) and one.size == 2


TWO_COPIES = """
import sys
import pccl
address = sys.argv[1]

""" + TWO + """
import threading
import numpy as np
for name in [name for name in sys.modules if name.split(".")[0] == "pccl"]:
    del sys.modules[name]
import pccl as other
assert other.ReduceOpDescriptor is not pccl.ReduceOpDescriptor

def reduce(comm):
    data, memory = np.ones(10), bytearray(8)
    operand = other.ReduceOperandDescriptor(other.DataType.DOUBLE)
    descriptor = other.ReduceDescriptor(10, other.ReduceOp.SUM, 3, operand)
    comm.all_reduce_multiple_with_retry([other.ReduceOpDescriptor.from_numpy(data, data, descriptor)])
    comm.all_reduce(memory)  # each has its own declarations of Python's functions
    return data[0]

first, second = two()
thread = threading.Thread(target=reduce, args=(second,))
thread.start()
print("sum", reduce(first))
thread.join()
try:
    first.all_reduce_multiple_with_retry([other.Barrier()])
except ValueError as error:
    print(error)
first.close()
second.close()
"""


def test_descriptors_of_another_copy_of_the_package(script, address):
    """The package is loaded a second time, as happens if two packages contain it."""
    process = script(TWO_COPIES, address)
    process.line("sum 2.0")
    process.line("expected ReduceOpDescriptors")
    assert process.end() == 0
