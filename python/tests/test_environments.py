"""With and without numpy and torch: the package works without optional packages."""

import importlib.util

import pytest

PEERS = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None  # as if it were not installed
import threading, array, asyncio
import pccl
from pccl import ReduceOp
assert not ({"numpy", "torch"} - set(sys.argv[1].split(","))) & set(sys.modules), "imported without need"
master = pccl.MasterNode("127.0.0.1:0")
master.run()
address = f"127.0.0.1:{master.port}"
first, second = pccl.Communicator(address), pccl.Communicator(address)
first.connect()
alone = first.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE)
assert alone == 1
thread = threading.Thread(target=second.connect)
thread.start()
while first.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 2:
    first.update_topology()
thread.join()

def make(value):
    if sys.argv[2] == "numpy":
        import numpy
        return numpy.full(50000, value, numpy.float32)
    if sys.argv[2] == "torch":
        import torch
        return torch.full((50000,), value)
    return array.array("f", [value] * 50000)

def info(tensor):
    return getattr(pccl.TensorInfo, "from_" + sys.argv[2])(tensor, "x")

def work(comm, value):
    memory = make(value)
    comm.all_reduce(memory, memory, op=ReduceOp.SUM)
    assert memory[49999] == 3, memory[49999]
    state = pccl.SharedState([info(memory)])
    assert comm.sync_shared_state(state).rx_bytes == 0
    handle = comm.all_reduce_async(memory, memory, op=ReduceOp.AVG)
    assert handle.wait()[0] and memory[0] == 3

threads = [threading.Thread(target=work, args=(comm, value)) for comm, value in ((first, 1.0), (second, 2.0))]
failed = []
threading.excepthook = lambda what: failed.append(what)
for thread in threads: thread.start()
for thread in threads: thread.join()
for comm in (first, second): comm.close()
master.close()
assert not failed, failed
print("works")
"""


ENVIRONMENTS = [("numpy,torch", "buffer"), ("torch", "numpy"), ("numpy", "torch"), ("none", "torch")]


@pytest.mark.parametrize("without, kind", ENVIRONMENTS)
def test_environment(script, without, kind):
    if kind in ("numpy", "torch") and importlib.util.find_spec(kind) is None:
        pytest.skip(f"no {kind} here")
    program = script(PEERS, without, kind)
    program.line("works")
    assert program.end() == 0
