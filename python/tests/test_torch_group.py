"""The backend "pccl" of torch.distributed: programs of 2, 3 and 4 processes, compared with gloo."""

import pytest

torch = pytest.importorskip("torch")

import torch_worlds  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return torch_worlds.install(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def ranks(script, folder):
    return lambda *given, **environment: torch_worlds.Ranks(script, folder, *given, **environment)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_method(ranks, size):
    ranks("methods", size).end_after("all methods")
