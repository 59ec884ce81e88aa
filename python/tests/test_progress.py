"""Long calls report their progress: waiting for others, connecting, the transfer of shared state."""

import io
import threading
import time

import numpy
import pytest
from support import DEADLINE, Group, parallel

import pccl
from pccl.progress import Progress, Shown, shown


class Told:
    """A hook that records its arguments."""

    def __init__(self):
        self.all = []

    def __call__(self, progress):
        self.all.append(progress)

    def until(self, wanted):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            found = [progress for progress in list(self.all) if progress is not None and wanted(progress)]
            if found:
                return found[-1]
            time.sleep(0.01)
        raise AssertionError(f"never told: {self.all[-3:]}")


def test_waiting(address):
    """A waiting thread's progress has the call, its duration, and the awaited peers."""
    group = Group(address, 2, options={"where_ms": 50})
    first, second = group.members
    assert first.progress() is None
    told = Told()
    with shown(first, told, after_s=0.05, every_s=0.01):
        thread = threading.Thread(target=first.update_topology)
        thread.start()
        waits = told.until(lambda progress: second.id[:8] in progress.waits)
        assert waits.call == "update topology" and waits.elapsed_s >= 0.05
        assert (waits.done, waits.total, waits.rate, waits.remaining_s) == (0, 0, 0.0, None)
        second.update_topology()
        thread.join(DEADLINE)
        while told.all[-1] is not None:
            time.sleep(0.01)
    assert first.progress() is None
    group.close()


def test_connecting(address):
    group = Group(address, 1)
    newcomer, told = pccl.Communicator(address), Told()
    with shown(newcomer, told, after_s=0, every_s=0.01):
        thread = threading.Thread(target=lambda: newcomer.connect(1))
        thread.start()
        told.until(lambda progress: progress.call == "connect")
        while newcomer.progress() is not None:
            group.members[0].update_topology()
            time.sleep(0.01)
        thread.join(DEADLINE)
    newcomer.close()
    group.close()


def test_operation(address):
    group = Group(address, 2)
    first, second = group.members
    thread = threading.Thread(target=lambda: first.all_reduce(numpy.ones(4, "f4"), numpy.ones(4, "f4"), op="sum"))
    thread.start()
    end = time.monotonic() + DEADLINE
    while first.progress() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert first.progress().call == "operation"
    second.all_reduce(numpy.ones(4, "f4"), numpy.ones(4, "f4"), op="sum")
    thread.join(DEADLINE)
    assert first.progress() is None
    group.close()


def test_transfer(address):
    """A newcomer fetches a large state: bytes, their total, and the rate."""
    count, told = 32 << 20, Told()
    group = Group(address, 2)
    first, second = group.members
    states = [
        pccl.SharedState([pccl.TensorInfo.from_numpy(numpy.full(count, float(i), "f4"), "w")]) for i in range(2)
    ]
    gives, takes = pccl.SharedStateSyncStrategy.SEND_ONLY, pccl.SharedStateSyncStrategy.RECEIVE_ONLY
    with shown(second, told, after_s=0, every_s=0.001):
        parallel(
            [
                lambda: first.sync_shared_state(states[0], strategy=gives),
                lambda: second.sync_shared_state(states[1], strategy=takes),
            ]
        )
    seen = [progress for progress in told.all if progress is not None and progress.total]
    assert seen, "the transfer has shown nothing"
    assert all(0 <= progress.done <= progress.total <= 4 * count for progress in seen)
    assert [progress.done for progress in seen] == sorted(progress.done for progress in seen)
    assert {progress.call for progress in seen} == {"synchronize shared state"}
    group.close()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_how_it_looks():
    progress = Progress("synchronize shared state", 12.3, 300_000_000, 400_000_000, 25e6, 4.0, "waits for peer a\nmore")
    words = "synchronize shared state, 12 s, 300.0 of 400.0 MB, 25.0 MB/s, 4 s left, waits for peer a"
    assert str(progress) == words
    terminal, file = Terminal(), io.StringIO()
    for hook in (Shown(terminal), Shown(file)):
        hook(progress)
        hook(progress)
        hook(None)
    assert "######.." in terminal.getvalue() and terminal.getvalue().endswith("\r\033[K")
    assert file.getvalue() == f"pccl: {words}\n"


def test_tqdm():
    tqdm = pytest.importorskip("tqdm")
    out = io.StringIO()
    hook = pccl.progress.Tqdm(file=out, mininterval=0)
    hook(Progress("connect", 3.0, 0, 0, 0.0, None, ""))
    hook(Progress("synchronize shared state", 1.0, 50_000_000, 100_000_000, 5e7, 1.0, "waits for peer a"))
    hook(None)
    assert tqdm and "synchronize shared state:  50%" in out.getvalue() and "connect" in out.getvalue()
