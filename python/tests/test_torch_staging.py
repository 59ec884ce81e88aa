"""Gradients and parameters on devices, with a made-up one (torch_device.py): reductions read the results of earlier
kernels, later kernels find the averages, and small tensors are moved together."""

import concurrent.futures
import contextlib
import threading

import pytest
import support
import torch_device

import pccl

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402
from pccl.diloco import DiLoCo  # noqa: E402
from pccl.diloco._copier import DeviceCopier  # noqa: E402
from pccl.torch import _staging  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def device():
    return torch_device.Device(_staging)


SHAPES = [(300, 40), (40,), (7, 40), (3,), (600, 500)]  # one is larger than the limit for common moves


def made(number, shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(number))


def on_device(device, number):
    """Returns tensors whose kernels have not run yet."""
    tensors = [device.empty(shape) for shape in SHAPES]
    for index, tensor in enumerate(tensors):
        device.current_stream().put(lambda t=tensor, n=10 * number + index: t.copy_(made(n, t.shape)))
    return tensors


def averages(*numbers):
    return [sum(made(10 * n + i, shape) for n in numbers) / len(numbers) for i, shape in enumerate(SHAPES)]


def behind(device, tensors):
    """Returns the contents that a kernel enqueued now finds in them."""
    found = [torch.zeros_like(one) for one in tensors]
    device.current_stream().put(lambda: [a.copy_(b) for a, b in zip(found, tensors)])
    device.current_stream().synchronize()
    return found


def described(sends, recvs):
    operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT)
    reductions = [pccl.ReduceDescriptor(s.numel(), "avg", tag, operand) for tag, s in enumerate(sends)]
    return [pccl.ReduceOpDescriptor.from_torch(*one) for one in zip(sends, recvs, reductions)]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_list_of_reductions(group, device, in_place):
    """One of the peers has its tensors in host memory."""

    def reduce(comm, i):
        with device.stream(torch_device.Stream()):  # each thread has a separate device
            sends = on_device(device, i) if i else [made(n, shape) for n, shape in enumerate(SHAPES)]
            empty = device.empty if i else torch.zeros
            recvs = sends if in_place else [empty(shape) for shape in SHAPES]
            entries = described(sends, recvs)
            if i:
                with pytest.raises(pccl.LayoutError, match="not in CPU memory"):
                    entries[0].to_c()
            before = device.copies
            info = comm.all_reduce_multiple_with_retry(entries)
            assert info.local_world_size == 2
            # Four small ones: gathered, moved; moved back, scattered. And a large one, twice.
            return behind(device, recvs), device.copies - before

    (one, _), (other, copies) = group(2).all(reduce)
    for a, b, wanted in zip(one, other, averages(0, 1)):
        torch.testing.assert_close(a, wanted)
        assert torch.equal(a, b)
    assert copies == 6


def test_a_list_that_fails_leaves_all_as_it_was(group, device):
    sends = on_device(device, 1)
    with pytest.raises(pccl.TooFewPeersError):
        group(1).members[0].all_reduce_multiple_with_retry(described(sends, sends))
    assert all(torch.equal(a, b) for a, b in zip(behind(device, sends), averages(1)))


class Bucket:
    """The argument of a hook of DistributedDataParallel."""

    def __init__(self, number, parameters, gradients, device):
        self._all = number, parameters, gradients
        self._buffer = device.empty(1)

    def index(self):
        return self._all[0]

    def parameters(self):
        return self._all[1]

    def gradients(self):
        return self._all[2]

    def buffer(self):
        return self._buffer


def model_on(device):
    model = torch.nn.Module()
    for index, shape in enumerate(SHAPES):
        model.register_parameter(f"p{index}", torch.nn.Parameter(device.of(torch.zeros(shape))))
    return model


def test_the_hook(group, device):
    """Two buckets, in the order of a backward, and units that do not fit them. The host waits for no kernel."""
    here, there = group(2).members
    model, other = model_on(device), torch.nn.Module()
    for index, shape in enumerate(SHAPES):
        other.register_parameter(f"p{index}", torch.nn.Parameter(torch.zeros(shape)))
    state = ptorch.DDPState(here, model, bucket_bytes=50000)
    plain = ptorch.GradientBuckets(list(reversed(list(other.parameters()))), bucket_bytes=50000)
    for step in (1, 2):
        gradients = on_device(device, 2 * step)
        pairs = list(zip(model.parameters(), gradients))[::-1]
        for number, p in enumerate(other.parameters()):
            p.grad = made(10 * (2 * step + 1) + number, p.shape)

        def backward():
            torch_device.waited.clear()
            before, futures = device.copies, []
            for number, part in enumerate((pairs[:2], pairs[2:])):
                bucket = Bucket(number, [p for p, _ in part], [g for _, g in part], device)
                futures.append(ptorch.ddp_hook(state, bucket))
            assert threading.get_ident() not in torch_device.waited
            for future in futures:
                future.wait()
            # Each bucket is copied at once, twice; each of the units, too.
            assert device.copies - before == 2 * 2 + 2 * len(state._units)

        support.parallel([backward, lambda: plain.reduce(there)])
        for found, p, wanted in zip(behind(device, gradients), other.parameters(), averages(2 * step, 2 * step + 1)):
            torch.testing.assert_close(found, wanted)
            assert torch.equal(found, p.grad)
        assert state.world_size == 2


def test_what_a_failed_backward_has_left_comes_before_the_next_one(group, device, monkeypatch):
    """One unit has failed; the averages of the other one are still in transfer when the next backward begins."""
    model = model_on(device)
    state = ptorch.DDPState(group(1).members[0], model, bucket_bytes=50000)
    broken = [state._units[-1]]

    def average(unit):
        if unit in broken:
            concurrent.futures.wait(state._ends[:-1])
            raise RuntimeError("not today")
        return pccl.ReduceInfo(1, 0, 0)

    def backward(number):
        gradients = on_device(device, number)
        ptorch.ddp_hook(state, Bucket(0, list(model.parameters()), gradients, device)).wait()
        return behind(device, gradients)

    def load(twin):
        """Loads after late copies have arrived."""
        device.current_stream().synchronize()
        _staging._stream_for_results(twin.memory.device).synchronize()
        load_of_twin(twin)

    monkeypatch.setattr(state, "_average", average)
    with pytest.raises(RuntimeError, match="not today"):
        backward(1)
    load_of_twin = _staging.Twin.load
    monkeypatch.setattr(_staging.Twin, "load", load)
    broken.clear()
    assert all(torch.equal(a, b) for a, b in zip(backward(2), averages(2)))


def test_buckets_of_gradients(group, device):
    def reduce(comm, i):
        with device.stream(torch_device.Stream()):
            model = model_on(device)
            buckets = ptorch.GradientBuckets(model, bucket_bytes=50000)
            for p, gradient in zip(model.parameters(), on_device(device, i)):
                p.grad = gradient
            device.current_stream().synchronize()  # torch itself fills the buckets, without made-up streams
            buckets.reduce(comm)
            return behind(device, [p.grad for p in model.parameters()])

    one, other = group(2).all(reduce)
    for a, b, wanted in zip(one, other, averages(0, 1)):
        torch.testing.assert_close(a, wanted)
        assert torch.equal(a, b)


def test_elastic_replicas(address, device):
    """Gradients in the optimizer's step, which reduces the host's copies."""
    replicas = []

    def replica(i):
        with device.stream(torch_device.Stream()):
            model = model_on(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            mine = ptorch.elastic(model, optimizer, address=address, min_peers=2)
            replicas.append(mine)
            for p, gradient in zip(model.parameters(), on_device(device, i)):
                p.grad = gradient
            device.current_stream().synchronize()
            optimizer.register_step_pre_hook(lambda *_: device.current_stream().synchronize())
            optimizer.step()
            assert mine.committed
            return [p.detach().clone() for p in model.parameters()]

    try:
        one, other = support.parallel([lambda: replica(0), lambda: replica(1)])
        for a, b, wanted in zip(one, other, averages(0, 1)):
            torch.testing.assert_close(a, -wanted)
            assert torch.equal(a, b)
    finally:
        for one in replicas:
            one.leave()


def test_copies_beside_training(device):
    """They find the results of earlier training, and later training waits for them. Copies back precede later work."""
    training, memory, host = torch_device.Stream(), device.empty(3), torch.zeros(3)
    copier = DeviceCopier([memory.device])
    with device.stream(training):
        training.put(lambda: memory.fill_(1))
        copier.begin()
        with device.stream(torch_device.Stream()), copier.copies() as out:  # another thread has another one
            _staging.copy(host, memory)
        copier.join()
        training.put(lambda: memory.fill_(2))
        training.synchronize()
        assert host.tolist() == [1, 1, 1]
        host += 2
        copier.begin()
        with device.stream(torch_device.Stream()), copier.copies() as back:
            _staging.copy(memory, host)
        copier.join()
        training.put(lambda: memory.mul_(10))
        for copies in (out, back):
            copies.wait()
        assert memory.tolist() == [3, 3, 3]
        assert [one.tolist() for one in behind(device, [memory])] == [[30, 30, 30]]


STREAMED = dict(inner_steps=6, fragments=3, delay=2, min_peers=2, bucket_bytes=4096, verify_every=0)


def diloco(address, device, settings):
    """Trains two peers, of which the second one has its parameters on the device, if there is one. Neither waits for
    it."""

    def work(i):
        on = device if i else None
        with on.stream(torch_device.Stream()) if on else contextlib.nullcontext():
            values = {f"h.{index}.w": made(index, shape) for index, shape in enumerate(SHAPES)}
            if on:
                values = {name: on.of(value) for name, value in values.items()}
            with DiLoCo(pccl.Communicator(address), values, **settings) as one:
                torch_device.waited.discard(threading.get_ident())
                ages = set()
                for step in range(1, 20):
                    for index, value in enumerate(values.values()):
                        train = lambda v=value, n=100 * step + 10 * i + index: v.add_(made(n, v.shape)).mul_(0.9)
                        on.current_stream().put(train) if on else train()
                    ages |= {cost.age for cost in one.step().fragments}
                waited = threading.get_ident() in torch_device.waited
            assert ages == {settings.get("delay", 0)} and not ("delay" in settings and waited)
            return one.digest(), behind(on, list(values.values())) if on else list(values.values())

    return support.parallel([lambda: work(0), lambda: work(1)])


@pytest.mark.parametrize("settings", [dict(alpha=0.5), dict(alpha=0.0), dict(alpha=0.5, codec="e3m0"), None])
def test_diloco(address, device, settings):
    """The bits equal those in the host's memory."""
    settings = dict(inner_steps=3, min_peers=2) if settings is None else {**STREAMED, **settings}
    (digest, here), (other, there) = diloco(address, device, settings)
    assert digest == other and all(torch.equal(a, b) for a, b in zip(here, there))
    assert [said for said, _ in diloco(address, None, settings)] == [digest] * 2
