"""pccl.torch on tensors of a real CUDA device: the test gpu/torch."""

import threading

import pytest
import support

torch = pytest.importorskip("torch")

import installed  # noqa: E402
import pccl  # noqa: E402
import pccl.torch as ptorch  # noqa: E402
import test_diloco_torch as diloco  # noqa: E402
import test_torch_elastic as elastic  # noqa: E402
import test_torch_staging as staging  # noqa: E402
import torch_worlds  # noqa: E402
from test_torch_elastic import peers  # noqa: E402, F401 - a fixture

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_the_backend(tmp_path):
    fresh = torch_worlds.Nursery(installed.metadata(tmp_path))  # without CUDA, which does not survive forks
    try:
        fresh.world("on_cuda", 2)
    finally:
        fresh.close()


class Device:
    """The device of a thread, with a separate stream, whose kernels take their time."""

    def __enter__(self):
        self._stream = torch.cuda.stream(torch.cuda.Stream())
        self._stream.__enter__()
        return self

    def __exit__(self, *raised):
        self._stream.__exit__(*raised)

    def empty(self, shape):
        return torch.empty(shape, device=DEVICE)

    def gradients(self, number):
        """Returns tensors whose kernels have not run yet."""
        own = [staging.made(10 * number + i, shape).to(DEVICE) for i, shape in enumerate(staging.SHAPES)]
        tensors = [torch.zeros_like(one) for one in own]
        torch.cuda._sleep(50_000_000)
        for tensor, value in zip(tensors, own):
            tensor.copy_(value)
        return tensors


def means(found):
    """Checks that all have the same bits, equal to the average."""
    for one, other, wanted in zip(*found, staging.averages(0, 1)):
        torch.testing.assert_close(one, wanted)
        assert torch.equal(one, other)


@pytest.mark.parametrize("in_place", [True, False])
def test_lists_of_reductions(group, in_place):
    def reduce(comm, i):
        with Device() as device:
            sends = device.gradients(i)
            recvs = sends if in_place else [torch.zeros_like(one) for one in sends]
            comm.all_reduce_multiple_with_retry(staging.described(sends, recvs))
            return [(one + 0).cpu() for one in recvs]

    means(group(2).all(reduce))


def test_the_hook(group):
    def backward(comm, i):
        with Device() as device:
            model = torch.nn.Module()
            for index, shape in enumerate(staging.SHAPES):
                model.register_parameter(f"p{index}", torch.nn.Parameter(torch.zeros(shape, device=DEVICE)))
            state = ptorch.DDPState(comm, model, bucket_bytes=50000)
            for _ in range(2):
                gradients = device.gradients(i)
                pairs = list(zip(model.parameters(), gradients))[::-1]
                futures = []
                for number, part in enumerate((pairs[:2], pairs[2:])):
                    bucket = staging.Bucket(number, [p for p, _ in part], [g for _, g in part], device)
                    futures.append(ptorch.ddp_hook(state, bucket))
                for future in futures:
                    future.wait()
            return [(one + 0).cpu() for one in gradients]

    means(group(2).all(backward))


def test_elastic_replicas(peers, address):  # noqa: F811
    """One leaves, and one joins, whose model and optimizer equal the others' from its first step on."""
    made = peers(3, device=DEVICE)
    elastic.steps(made, 3)
    made.pop(0).replica.leave()
    elastic.steps(made, 2)
    elastic.admit(made, lambda: elastic.Peer(address, device=DEVICE))
    elastic.steps(made, 2)
    assert made[0].replica.ranks == (0, 1, 2) and made[2].replica.stats.state_bytes > 0
    states = [one.optimizer.state_dict()["state"] for one in made]
    assert all(states[0][0][name].device.type == DEVICE for name in ("exp_avg", "exp_avg_sq"))
    assert all(torch.equal(states[0][i]["exp_avg"], states[2][i]["exp_avg"]) for i in states[0])


@pytest.mark.parametrize("codec", [None, "e3m0"])
@pytest.mark.parametrize("how", [dict(mode="sync"), dict(fragments=3, delay=2, alpha=0.5)], ids=["sync", "streaming"])
def test_diloco(address, how, codec):
    """The device gets the host's bits, except for different rounding of its kernels."""
    ends = []
    for device in ("cpu", DEVICE):
        modules = [diloco.model().to(device) for i in range(2)]
        optimizers = [torch.optim.SGD(module.parameters(), lr=0.01) for module in modules]
        settings = dict(inner_steps=4, min_peers=2, bucket_bytes=4096, codec=codec, **how)
        two = diloco.start(address, 2, lambda i, comm: diloco.DiLoCo(comm, modules[i], **settings))
        for step in range(24):
            for i in range(2):
                diloco.train(modules[i], optimizers[i], i, step)
            support.parallel([one.step for one in two])
        support.parallel([one.finish for one in two])
        assert two[0].digest() == two[1].digest()
        assert all(torch.equal(a, b) for a, b in zip(*(module.parameters() for module in modules)))
        assert next(modules[0].parameters()).device.type == device
        ends.append(torch.cat([p.detach().cpu().flatten() for p in modules[0].parameters()]))
        for one in two:
            one.close()
    torch.testing.assert_close(*ends, rtol=0.02, atol=0.02 if codec else 1e-3)


def test_a_newcomer_gets_one_fragment_after_another(address):
    """During training; then all have the same bits."""
    modules = [diloco.model().to(DEVICE) for _ in range(3)]
    optimizers = [torch.optim.SGD(module.parameters(), lr=0.01) for module in modules]
    settings = dict(inner_steps=6, fragments=3, delay=1, alpha=0.5, min_peers=2, catch_up="fragments")
    two = diloco.start(address, 2, lambda i, comm: diloco.DiLoCo(comm, modules[i], **settings))
    late, last, joined = diloco.DiLoCo(pccl.Communicator(address), modules[2], **settings), [], []

    def step(one, i):
        diloco.train(modules[i], optimizers[i], i, one.inner_step)
        one.step()

    def live():
        joined.append(late.join())
        while not last or late.inner_step < last[0]:
            step(late, 2)

    thread = threading.Thread(target=live, daemon=True)
    thread.start()
    while not last or two[0].inner_step < last[0]:
        support.parallel([lambda i=i: step(two[i], i) for i in range(2)])
        if joined and not last:
            last.append(two[0].inner_step + 24)
    thread.join(support.DEADLINE)
    assert joined[0].moved_bytes > 0 and len({one.digest() for one in (*two, late)}) == 1
    assert all(p.device.type == DEVICE for p in modules[2].parameters())
    for one in (*two, late):
        one.close()
