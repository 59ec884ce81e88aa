"""The backend "pccl" of torch.distributed on tensors of a real CUDA device: the test gpu/torch."""

import pytest
import support  # noqa: F401 - it finds installed

torch = pytest.importorskip("torch")

import installed  # noqa: E402
import torch_worlds  # noqa: E402


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda(tmp_path):
    fresh = torch_worlds.Nursery(installed.metadata(tmp_path))  # none that has used CUDA, which does not survive forks
    try:
        fresh.world("on_cuda", 2)
    finally:
        fresh.close()
