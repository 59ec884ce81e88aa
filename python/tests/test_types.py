"""mypy --strict: the package, and a program that uses it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")
PACKAGE = Path(__file__).resolve().parents[1] / "pccl"
SETTINGS = PACKAGE.parents[1] / "pyproject.toml"

PROGRAM = '''
from typing import Tuple
import asyncio
import pccl

def main(address: str) -> int:
    with pccl.Communicator(address, 0, options={"op_timeout_ms": 1000}) as comm:
        comm.connect(n_attempts=2)
        memory = bytearray(8)
        info: pccl.ReduceInfo = comm.all_reduce(memory, memory, op=pccl.ReduceOp.SUM)
        handle = comm.all_reduce_async(memory, memory, op=pccl.ReduceOp.AVG, tag=3)
        outcome: Tuple[bool, int, pccl.ReduceInfo] = handle.wait()
        told: pccl.OperationInfo = comm.broadcast(memory, root=0, tag=2)
        part: memoryview = comm.scatter_v_async([memory], root=0, on_arrival=print).result()
        comm.run([pccl.Reduce(memory, root="x", op="sum"), pccl.AllGatherV(part, max_bytes=told.tag)])
        state = pccl.SharedState([pccl.TensorInfo.from_buffer(memory, "x")])
        synced: pccl.SharedStateSyncInfo = comm.sync_shared_state(state)

        async def wait() -> pccl.ReduceInfo:
            return await handle

        asyncio.run(wait())
        try:
            comm.update_topology()
        except pccl.PCCLError as error:
            result: pccl.Result = error.result
            print(result, error.ext, error.tag)
        world = comm.get_attribute(pccl.Attribute.LOCAL_WORLD_SIZE)
        return world + info.local_world_size + synced.rx_bytes + outcome[1]
'''


def mypy(file, cwd):
    """Checks a file. The calls share a cache, so only the first one reads the package and the stubs of numpy."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(SETTINGS), "--python-version", "3.10", "--cache-dir",
         str(cwd.parent / "cache"), str(file)],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=dict(os.environ, MYPYPATH=str(PACKAGE.parent)),
    )


def test_package(tmp_path):
    done = mypy(PACKAGE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_program(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = mypy(program, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    program.write_text(PROGRAM.replace("memory = bytearray(8)", "memory: str = comm.get_attribute(1.5)"))
    done = mypy(program, tmp_path)
    assert done.returncode == 1 and "get_attribute" in done.stdout and "str" in done.stdout, done.stdout


WRONG = {
    "comm.broadcast(memory)": 'Missing named argument "root" for "broadcast"',
    "comm.broadcast(memory, root=0, tag=None)": 'Argument "tag" to "broadcast"',
    "comm.broadcast('nonsense', root='a')": 'Argument 1 to "broadcast"',
    "comm.all_to_all_async(memory)": 'argument "recv"',
    "comm.all_reduce(7)": 'Argument 1 to "all_reduce"',
    "comm.all_reduce(memory, op='summ')": 'Argument "op" to "all_reduce"',
    "comm.all_reduce(memory, quantization='int4')": 'Argument "quantization" to "all_reduce"',
    "comm.coalesced([memory, 'text'], op='sum')": "List item 1",
    "comm.all_gather_v('text')": 'Argument 1 to "all_gather_v"',
    "pccl.GatherV(memory, root=0, on_arrival=print)": 'keyword argument "on_arrival" for "GatherV"',
    "pccl.Barrier().quantization": '"Barrier" has no attribute "quantization"',
    "world: str = comm.reduce(memory, root=0, op=0.5)": 'Argument "op" to "reduce"',
    "pccl.TensorInfo.from_numpy('text', 'name')": 'Argument 1 to "from_numpy"',
    "pccl.loop('', {'name': 'text'})": "Dict entry 0",
    "pccl.loop('', min_peers='two')": 'Argument "min_peers" to "loop"',
}
RIGHT = """
import array
import ctypes
import numpy as np

comm.all_reduce(array.array("f", [1]), quantization=pccl.QuantizationOptions("int4"))
comm.all_reduce(np.zeros(3), np.zeros(3), op="avg")
comm.broadcast((ctypes.c_float * 3)(), root=comm.members()[0])
comm.scatter(None, memory, root=1)
comm.all_gather_v(b"any bytes")
comm.coalesced([memory, np.zeros(3)], op=["sum", pccl.ReduceOp.MAX])
for step in pccl.loop("", {"x": np.zeros(3), "y": memory}, min_peers=3):
    with step:
        info: pccl.OperationInfo = step.all_reduce(memory)
        print(step.index + info.world_size, step.comm.size)
try:
    comm.wait_for(2)
except (pccl.TimeoutError, pccl.ConnectionError) as error:
    print(error.words)
"""


METHODS = """
import pccl
from pccl.diloco import DiLoCo, LocalSGD, Nesterov
from pccl.methods import Method, OneByte, PairAverage, Settings, SparseLoCo, setting, takes

comm = pccl.Communicator("")

class Mine(Settings):
    lr: float = 1.0
    own: int = setting(default=3, same=False)
    needed: str = setting()

class One(Method):
    @takes(Mine)
    def __init__(self, given: Mine) -> None:
        self.lr: float = given.lr
        super().__init__(given.comm, given.params, given)
"""
WRONG_SETTINGS = {
    "DiLoCo(comm, {})": 'Missing named argument "inner_steps" for "DiLoCo"',
    "DiLoCo(comm, {}, inner_steps='x')": 'Argument "inner_steps" to "DiLoCo"',
    "DiLoCo(comm, {}, inner_steps=2, outr=Nesterov())": 'Unexpected keyword argument "outr" for "DiLoCo"',
    "DiLoCo(comm, {}, 3, inner_steps=2)": 'Too many positional arguments for "DiLoCo"',
    "DiLoCo('comm', {}, inner_steps=2)": 'Argument 1 to "DiLoCo"',
    "LocalSGD(comm, {}, inner_steps=1, outer=Nesterov())": 'Unexpected keyword argument "outer" for "LocalSGD"',
    "SparseLoCo(comm, {})": 'Missing named argument "inner_steps" for "SparseLoCo"',
    "SparseLoCo(comm, {}, inner_steps=1, kept=0.5)": 'Argument "kept" to "SparseLoCo"',
    "OneByte(comm, {})": 'Missing positional argument "loss"',
    "PairAverage(comm, {}, inner_steps=1, verify_every=3)": 'keyword argument "verify_every" for "PairAverage"',
    "Method(comm, {}, {1: 2})": "Dict entry 0",
    "One(comm, {}, lr=0.5)": 'Missing named argument "needed" for "One"',
    "One(comm, {}, needed='x', lr='x')": 'Argument "lr" to "One"',
    "One(comm, {}, needed='x', inner_step=2)": 'Unexpected keyword argument "inner_step" for "One"',
    "Mine(comm, {}, needed='x').lr = 3": "read-only",
}
RIGHT_SETTINGS = """
One(comm, {}, lr=0.5, needed="x", rounds=3)
One(comm=comm, params={}, needed="x", own=4)
DiLoCo(comm=comm, params={}, inner_steps=3, codec=["int4", None], outer=Nesterov(1.0))
LocalSGD(comm, {}, inner_steps=2, rounds=None)
OneByte(comm, {}, lambda probe: 1.0)
Method(comm, {}, settings={"lr": 3}, inner_steps=2)
"""


@pytest.mark.parametrize(
    "begin, all_wrong, right",
    [
        ("import pccl\ncomm = pccl.Communicator('')\nmemory = bytearray(8)\n", WRONG, RIGHT),
        (METHODS, WRONG_SETTINGS, RIGHT_SETTINGS),
    ],
    ids=["operations", "settings"],
)
def test_arguments(tmp_path, begin, all_wrong, right):
    program = tmp_path / "program.py"
    program.write_text(begin + "".join(f"{line}\n" for line in all_wrong) + right)
    done = mypy(program, tmp_path)
    found = {}
    for line in done.stdout.splitlines():
        if ": error: " in line:
            found.setdefault(int(line.split(":")[1]), []).append(line)
    for number, (wrong, words) in enumerate(all_wrong.items(), begin.count("\n") + 1):
        assert any(words in line for line in found.pop(number, [])), (wrong, done.stdout)
    assert not found, found
