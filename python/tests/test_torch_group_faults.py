"""The backend "pccl" of torch.distributed after failures, misuse and timeouts: an exception with a message."""

import random

import pytest
import support

support.need("torch")

import installed  # noqa: E402
import torch_worlds  # noqa: E402


@pytest.fixture(scope="module")
def nursery(tmp_path_factory):
    made = torch_worlds.Nursery(
        installed.metadata(tmp_path_factory.mktemp("installed")), "torch.distributed.fsdp", "torch._dynamo"
    )
    yield made
    made.close()


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank(nursery, victim):
    said = nursery.world("killed", 3, victim, support.free_port(), dying=[victim])
    del said[victim]
    for lines in said:
        after = next(line for line in lines if line.startswith("failed after "))
        support.figure("torch_words_after_kill", float(after.split()[2]), "s")


def test_a_rank_killed_in_a_step(nursery):
    nursery.world("uncommitted", 3, support.free_port(), dying=[2])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("victim", [0, pytest.param(2, marks=pytest.mark.nightly)])
def test_a_rank_killed_in_a_callback(nursery, victim):
    nursery.world("torch_callbacks.killed_inside", 3, victim, support.free_port(), dying=[victim])


@pytest.mark.nightly
def test_a_rank_killed_in_a_hook(nursery):
    nursery.world("torch_callbacks.killed_in_hook", 3, support.free_port(), dying=[2])


@pytest.mark.sampled(3)
def test_a_group_that_ends_while_callbacks_wait(nursery):
    nursery.world("torch_callbacks.destroyed", 2)


@pytest.mark.sampled(3)
def test_a_rank_that_leaves_early(nursery):
    nursery.world("early", 3)


def test_misuse(nursery):
    nursery.world("misuse", 3)


@pytest.mark.sampled(3)
def test_waiting(nursery):
    nursery.world("interrupted", 2)


@pytest.mark.sampled(3)
def test_an_interrupted_transfer(nursery):
    nursery.world("torch_interrupts.interrupted_transfer", 2)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["send", "recv"])
def test_a_rank_killed_in_a_transfer(nursery, kind):
    nursery.world("torch_interrupts.killed_in_a_transfer", 3, kind, dying=[1])


@pytest.mark.sampled(3)
def test_all_tags_at_once(nursery):
    nursery.world("torch_threads.all_tags_at_once", 2)


@pytest.mark.sampled(3)
def test_a_number_that_is_given_back_late(nursery):
    nursery.world("torch_threads.given_back_late", 2)


@pytest.mark.sampled(3)
def test_another_thread_at_each_line(nursery):
    nursery.world("torch_threads.at_each_line", 1)


@pytest.mark.nightly
@pytest.mark.parametrize("body", ["at_each_line", "transfers_at_each_line"])
def test_interrupts_leave_ranks_in_step(nursery, body):
    print(nursery.world(f"torch_interrupts.{body}", 2))


@pytest.mark.sampled(3)
def test_a_world_that_does_not_fill_up(nursery):
    for lines in nursery.world("incomplete", [0, 2], size=3):
        assert any("not complete after" in line and "rank 1 missing" in line for line in lines), lines


@pytest.mark.sampled(3)
def test_two_versions(nursery):
    assert nursery.world("of_two_versions", 2) == [["refused"], ["refused"]]


@pytest.mark.sampled(3)
def test_a_master_of_another_job(nursery, address):
    said = nursery.world("of_another_world", 2, address)
    assert ["refused"] in said


@pytest.mark.sampled(3)
def test_elastic_replicas_of_two_ranks(nursery, address, tmp_path):
    said = nursery.world("elastic_replicas", 4, address, tmp_path)
    told = [[line for line in lines if line[0].isdigit()] for lines in said]
    assert told[0] == told[1] == told[2] == told[3], said
    assert [line.split()[1] for line in told[0]] == ["1", "2", "2", "3", "1", "2", "3", "4"], told[0]


@pytest.mark.nightly
def test_kills_at_random_moments(nursery):
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)
    for number in range(8):
        victim, seconds, kind = draw.randrange(4), draw.uniform(0.05, 1.5), "hsdp" if number % 2 else "ddp"
        nursery.world("killed_at_random", 4, victim, seconds, support.free_port(), kind, dying=[victim])
