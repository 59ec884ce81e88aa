"""pccl.torch.PipelineStage: modules of torch as stages of pccl.methods.Pipeline."""

import threading

import pytest
import support
from test_methods import start

import pccl

torch = pytest.importorskip("torch")

from pccl.methods import Pipeline  # noqa: E402
from pccl.torch import PipelineStage  # noqa: E402

WIDTH, TOKENS, LENGTH = 16, 11, 5


class Block(torch.nn.Module):
    """Adds its output to the stream, for each token from the previous ones."""

    def __init__(self):
        super().__init__()
        self.norm, self.inner = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 24)
        self.out = torch.nn.Linear(24, WIDTH)

    def forward(self, stream):
        past = torch.cumsum(self.norm(stream), 1) / torch.arange(1, LENGTH + 1)[:, None]
        return stream + self.out(torch.relu(self.inner(past)))


class Meaning(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.learned = torch.nn.Embedding(TOKENS, WIDTH)

    def forward(self, tokens):
        return torch.from_numpy(known((tokens, None))) + self.learned(tokens)


TABLE = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(0))


def known(micro):
    return TABLE[micro[0]].numpy()


LOCK = threading.Lock()  # the seed is shared by all threads


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.1)


def first_stage():
    with LOCK:
        torch.manual_seed(1)
        meaning, block = Meaning(), Block()
    return PipelineStage([meaning, block], sgd, first=lambda micro: micro[0], max_norm=None)


def last_stage():
    with LOCK:
        torch.manual_seed(2)
        block, head = Block(), torch.nn.Linear(WIDTH, TOKENS)

    def loss(scores, micro):
        return torch.nn.functional.cross_entropy(scores.reshape(-1, TOKENS), micro[1].reshape(-1))

    return PipelineStage([block, head], sgd, loss=loss, max_norm=None)


def batch(replica, step):
    dice = torch.Generator().manual_seed(100 * step + replica)
    tokens = torch.randint(0, TOKENS, (4, 3, LENGTH + 1), generator=dice)
    return [(one[:, :-1], one[:, 1:]) for one in tokens]


def make(comm, whole, **given):
    return Pipeline(
        comm, [first_stage, last_stage], batch, known, width=WIDTH, rank=4, inner_steps=3, kept=4096, whole=whole,
        min_peers=1 if whole else 2, **given
    )


def test_it_computes_what_torch_does(address):
    """For one peer with all stages, which does not compress."""
    (one,) = start(address, 1, lambda i, comm: make(comm, True, compress="none"))
    first, last = first_stage(), last_stage()
    modules = torch.nn.Sequential(*first.modules, *last.modules)
    optimizer = sgd(modules.parameters())
    for step in range(2):
        micros = batch(0, step)
        scores = modules(torch.cat([micro[0] for micro in micros]))
        wanted = torch.cat([micro[1] for micro in micros])
        loss = torch.nn.functional.cross_entropy(scores.reshape(-1, TOKENS), wanted.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert abs(one.step().loss - float(loss.detach())) < 1e-5
    for number, stage in enumerate((first, last)):
        for name, parameter in stage.params.items():
            assert torch.allclose(one.stages[number].params[name], parameter, atol=1e-6), name
    one.close()


def test_a_pipeline_computes_what_one_peer_does(address):
    with pccl.MasterNode("127.0.0.1:0") as master:
        (alone,) = start(f"127.0.0.1:{master.port}", 1, lambda i, comm: make(comm, True, compress="all"))
        wanted = [alone.step().loss for _ in range(6)]
        pipe = start(address, 2, lambda i, comm: make(comm, False, compress="all"))
        infos = [support.parallel([one.step for one in pipe]) for _ in range(6)]
        losses = [info.loss for told in infos for info in told if info.loss is not None]
        assert losses == pytest.approx(wanted, abs=1e-4)
        assert all(info.activation_bytes == 4 * 3 * LENGTH * 4 * 4 for told in infos for info in told)
        for one in (alone, *pipe):
            one.close()


def test_bad_arguments_are_told_in_words():
    with pytest.raises(pccl.InvalidArgument, match="modules: no parameters to train"):
        PipelineStage([torch.nn.ReLU()], sgd)
