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
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(SETTINGS), "--python-version", "3.10", "--cache-dir",
         str(cwd / "cache"), str(file)],
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
