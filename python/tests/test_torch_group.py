"""The backend "pccl" of torch.distributed: programs of 2, 3 and 4 processes, compared with gloo."""

import pytest
import support

support.need("torch")

import installed  # noqa: E402
import torch_worlds  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return installed.metadata(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def nursery(folder):
    made = torch_worlds.Nursery(folder, "torch.distributed.fsdp", "torch._dynamo")
    yield made
    made.close()


@pytest.mark.parametrize("size", [3, *(pytest.param(size, marks=pytest.mark.nightly) for size in (2, 4))])
def test_every_method(nursery, size):
    nursery.world("methods", size)


@pytest.mark.sampled(3)
def test_every_form(nursery):
    nursery.world("torch_forms.every_form", 3)


@pytest.mark.sampled(3)
def test_tools_of_torch(nursery):
    nursery.world("torch_tools.looked_at", 3)


@pytest.mark.sampled(3)
def test_sparse(nursery):
    nursery.world("torch_tools.sparse", 3)


@pytest.mark.sampled(3)
def test_functional(nursery):
    nursery.world("torch_tools.functional", 2)


@pytest.mark.nightly
def test_a_late_start(nursery):
    nursery.world("torch_tools.late_start", 3)


@pytest.mark.sampled(3)
def test_every_method_in_another_order(nursery):
    nursery.world("torch_membership.methods_in_another_order", 3)


@pytest.mark.sampled(3)
def test_reconfigure(nursery, address):
    nursery.world("torch_membership.reconfigured", 4, address, support.free_port(), dying=[1])


def test_training(nursery):
    nursery.world("training", 2, "ddp", "fsdp2")


@pytest.mark.sampled(3)
def test_callbacks_that_wait(nursery):
    nursery.world("torch_callbacks.waiting", 3)


@pytest.mark.parametrize("kinds", [["powerSGD"], pytest.param([], marks=pytest.mark.nightly)])
def test_hooks_of_torch(nursery, kinds):
    nursery.world("torch_callbacks.hooks", 2, *kinds)


@pytest.mark.sampled(3)
def test_one_thread_completes_futures(nursery):
    nursery.world("torch_completers.one_thread_serves", 1)


@pytest.mark.sampled(3)
def test_futures_after_a_close(nursery):
    nursery.world("torch_completers.put_after_close", 1)


@pytest.mark.sampled(3)
def test_interpreter_ends_while_callbacks_run(nursery):
    assert nursery.world("torch_completers.interpreter_ends", 1) == [[]]


@pytest.mark.sampled(3)
def test_rank_and_world_from_the_master(nursery, address):
    nursery.world("by_master", 3, address, 3)


@pytest.mark.sampled(3)
def test_under_torchrun(folder):
    assert torch_worlds.torchrun(folder, "twice", 2).stdout.count("twice\n") == 2


def test_import_torch_does_not_import_pccl(script, folder):
    text = "import sys, torch; assert 'PCCL' in torch.distributed.Backend._plugins and 'pccl' not in sys.modules"
    assert script(text, env={"PYTHONPATH": str(folder)}).end() == 0
    broken = "import sys; sys.modules['torch.distributed'] = None; import pccl_autoload; pccl_autoload.register()"
    assert script(broken).end() == 0


@pytest.mark.sampled(3)
def test_memory_of_a_device(nursery):
    nursery.world("on_device", 2)


@pytest.mark.nightly
@pytest.mark.parametrize("size", [3, 4])
def test_training_of_more(nursery, size):
    nursery.world("training", size, "ddp", "fsdp2")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["hsdp", "tp"])
def test_training_on_a_square(nursery, kind):
    nursery.world("training", 4, kind)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["compiled_ddp", "compiled_fsdp2", "inductor"])
def test_training_compiled(nursery, kind):
    nursery.world("training", 2, kind)


@pytest.mark.nightly
def test_groups_after_one_another(nursery):
    nursery.world("torch_many.again", 4, 5)


@pytest.mark.nightly
def test_sends_in_a_large_world(nursery):
    """A world of up to 16 ranks has links between all pairs."""
    nursery.world("torch_many.sends", 18)


@pytest.mark.nightly
def test_checkpoints(nursery, tmp_path):
    nursery.world("checkpoints", 2, tmp_path / "saved")
