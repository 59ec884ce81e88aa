"""The flight recorders of several peers in PyTorch's format, analyzed by torch's own program."""

import pickle

import pytest
import support
import test_recorder
from test_recorder import BULK, SMALL, enter, poll, reduce

support.need("torch")

import torch_worlds  # noqa: E402

PROGRAM = "torch.distributed.flight_recorder.fr_trace"


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = torch_worlds.Nursery(tmp_path_factory.mktemp("nursery"), "torch.distributed")
    yield made
    made.close()


@pytest.fixture
def analyze(nursery):
    """Returns analyze(folder), which returns the output of torch's analysis."""
    return lambda folder: "\n".join(nursery.world("module", 1, PROGRAM, "-p", "peer", folder)[0])


def write(peers, folder):
    """Writes the peers' dumps in torch's format, and returns their content."""
    files = test_recorder.write(peers, folder)
    said, _ = test_recorder.explain("--torch", folder / "peer", *files)
    names = [folder / f"peer{rank}" for rank in range(len(peers))]
    assert all(f"wrote {name}\n" in said for name in names)
    for file in files:
        file.unlink()
    return [pickle.loads(name.read_bytes()) for name in names]


def test_all_is_well(group, tmp_path, analyze):
    peers = group(3)
    for size in (SMALL, BULK):
        peers.all(lambda comm, _, size=size: reduce(comm, size))
    peers.all(lambda comm, _: comm.barrier())
    peers.all(lambda comm, i: comm.all_gather(bytes([i] * SMALL), bytearray(3 * SMALL)))
    write(peers.members, tmp_path)
    said = analyze(tmp_path)
    assert "missing" not in said and "mismatch" not in said.lower(), said


def test_one_is_missing(group, tmp_path, analyze):
    peers = group(3)
    for _ in range(3):
        peers.all(lambda comm, _: reduce(comm, BULK))
    *others, absent = peers.members
    threads = enter(others, BULK, 8)
    write(peers.members, tmp_path)
    said = analyze(tmp_path)
    assert "Not all ranks joining collective" in said and "missing ranks: {2}" in said, said
    assert "sequence number: 4" in said, said
    reduce(absent, BULK, 8)
    for thread in threads:
        thread.join()


def test_what_some_have_forgotten_is_left_out(group, tmp_path, analyze):
    peers = group(2)
    third = peers.admit(options={"recorder_operations": 4})
    for _ in range(9):
        peers.all(lambda comm, _: reduce(comm, SMALL))
    assert [len(dump["entries"]) for dump in write(peers.members, tmp_path)] == [4, 4, 4]
    assert "missing" not in analyze(tmp_path)
    poll(lambda: third.flight_recorder()["connected"])
