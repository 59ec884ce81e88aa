"""The examples that are torch's programs with one word changed: they train as with gloo, and continue from checkpoints
of other runs."""

import pytest
import support

support.need("torch")

import installed  # noqa: E402
import torch_worlds  # noqa: E402


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = torch_worlds.Nursery(
        installed.metadata(tmp_path_factory.mktemp("installed")),
        "torch.distributed.fsdp",
        "torch.distributed.checkpoint.state_dict",
        "torch._dynamo",
    )
    yield made
    made.close()


def losses(said):
    """Returns the losses of the steps that rank 0 prints."""
    return {line.split(": ")[0]: float(line.split("loss ")[1]) for line in said[0] if "loss " in line}


def same_as_with_gloo(nursery, size, *arguments):
    given = [[str(one).replace("BACKEND", backend) for one in arguments] for backend in ("pccl", "gloo")]
    given[1] += ["--backend", "gloo"]
    ours, theirs = (losses(nursery.world("example", size, *one)) for one in given)
    assert ours.keys() == theirs.keys() and all(abs(ours[step] - theirs[step]) < 2e-4 for step in ours), (ours, theirs)
    return ours


@pytest.mark.sampled(3)
def test_ddp(nursery, tmp_path):
    given = ["torch_ddp.py", "--snapshot", tmp_path / "BACKEND.pt", "--epochs"]
    ours = same_as_with_gloo(nursery, 2, *given, 2)
    assert list(ours) == ["epoch 1", "epoch 2"] and ours["epoch 2"] < ours["epoch 1"]
    assert list(same_as_with_gloo(nursery, 2, *given, 3)) == ["epoch 3"]


@pytest.mark.sampled(3)
def test_hsdp(nursery):
    ours = same_as_with_gloo(nursery, 4, "torch_hsdp.py", "--dp-replicate", 2, "--steps", 8)
    assert ours["step 8"] < ours["step 1"]


@pytest.mark.sampled(3)
def test_fsdp2_saved_by_four_and_loaded_by_three(nursery, tmp_path):
    given = ["torch_fsdp2.py", "--folder", tmp_path / "checkpoint", "--steps"]
    before = losses(nursery.world("example", 4, *given, 8))
    said = nursery.world("example", 3, *given, 12)
    assert all(f"rank {rank} goes on from step 8" in said[rank] for rank in range(3)), said
    after = losses(said)
    assert list(after) == [f"step {step}" for step in range(9, 13)]
    assert after["step 9"] < min(before["step 1"], before["step 2"]), (before, after)
