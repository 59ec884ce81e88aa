"""refuse_pickles(): code that a rank sends runs nowhere."""

import datetime
import pathlib
import pickle

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed import distributed_c10d  # noqa: E402

import pccl.torch  # noqa: E402

PLAIN = {"a": [1, 2.5, None, True, b"x", ("y", {3})]}


class Evil:
    """Creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(distributed_c10d, "_unpickler", distributed_c10d._unpickler)  # pylint: disable=protected-access
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def gathered(thing):
    told = [None]
    dist.all_gather_object(told, thing)
    return told[0]


def test_code_is_refused(alone, tmp_path):
    path = tmp_path / "ran"
    gathered(Evil(path))
    assert path.exists(), "torch runs it"
    path.unlink()
    pccl.torch.refuse_pickles()
    with pytest.raises(pickle.UnpicklingError, match="allows plain data only"):
        gathered(Evil(path))
    with pytest.raises(pickle.UnpicklingError, match="datetime"):
        gathered(datetime.timedelta(1))
    assert not path.exists() and gathered(PLAIN) == PLAIN


def test_another_torch(monkeypatch):
    monkeypatch.delattr(distributed_c10d, "_unpickler")
    with pytest.raises(pccl.InvalidUsage, match="in an unsupported way"):
        pccl.torch.refuse_pickles()
