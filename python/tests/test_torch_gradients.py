"""Gradients in buckets, among peers in threads of one process."""

import pytest

import pccl

torch = pytest.importorskip("torch")

import pccl.torch as ptorch  # noqa: E402

torch.set_num_threads(1)


class Net(torch.nn.Module):
    """A network with parameters of two data types, one that no forward uses, a frozen one, and one with another order
    in memory."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 40)
        self.conv = torch.nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)
        self.unused = torch.nn.Parameter(torch.ones(17))
        self.frozen = torch.nn.Parameter(torch.ones(5), requires_grad=False)
        self.second = torch.nn.Linear(40, 3).to(torch.bfloat16)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, x):
        hidden = self.first(x) + self.conv(x.reshape(1, -1, 1, 1).expand(1, 48, 3, 3).reshape(24, 2, 3, 3)).mean()
        return self.second(hidden.to(torch.bfloat16)).float().square().mean()


def loss(net, number):
    return net(torch.randn(8, 6, generator=torch.Generator().manual_seed(number)))


def gradients_of(net, number):
    for parameter in net.parameters():
        parameter.grad = None
    loss(net, number).backward()
    return [None if p.grad is None else p.grad.clone() for p in net.parameters()]


def bits(net):
    return [None if p.grad is None else p.grad.contiguous().view(torch.uint8) for p in net.parameters()]


def same(one, other):
    return all((a is None and b is None) or torch.equal(a, b) for a, b in zip(one, other))


@pytest.mark.parametrize("views", [True, False])
def test_average(group, views):
    def step(comm, i):
        net = Net()
        buckets = ptorch.GradientBuckets(net, bucket_bytes=512)
        wanted = [gradients_of(net, number) for number in range(2)]
        if views:
            buckets.zero_grad()
        else:
            for parameter in net.parameters():
                parameter.grad = None
        loss(net, i).backward()
        info = buckets.reduce(comm)
        assert info.local_world_size == 2 and info.rx_bytes > 0
        for p, a, b in zip(net.parameters(), *wanted):
            if a is not None:
                assert p.grad.shape == p.shape and p.grad.stride() == p.stride()
                torch.testing.assert_close(p.grad, (a + b) / 2)
        assert torch.equal(net.unused.grad, torch.zeros(17)) and net.frozen.grad is None
        return bits(net)

    one, other = group(2).all(step)
    assert same(one, other)


def test_buffers_are_few_and_gradients_are_in_them():
    net = Net()
    buckets = ptorch.GradientBuckets(net, bucket_bytes=1000)
    kinds = [(buffer.dtype, buffer.numel()) for buffer in buckets.buffers]
    assert kinds == [(torch.float32, 17), (torch.float32, 240), (torch.float32, 40 + 54 + 3), (torch.bfloat16, 123)]
    buckets.zero_grad()
    loss(net, 0).backward()
    assert net.first.weight.grad.data_ptr() == buckets.buffers[1].data_ptr()
    assert torch.equal(net.first.weight.grad.flatten(), buckets.buffers[1])
    assert buckets.buffers[1].abs().sum() > 0 and buckets.buffers[0].abs().sum() == 0
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    buckets.zero_grad()
    assert all(float(buffer.abs().sum()) == 0 for buffer in buckets.buffers)
    assert len(ptorch.GradientBuckets(net).buffers) == 2
    with pytest.raises(pccl.InvalidArgument):
        ptorch.GradientBuckets(net, bucket_bytes=0)


def test_who_uses_a_parameter_and_who_does_not(group):
    """A gradient that one peer lacks counts as zero; both have the average."""

    def step(comm, i):
        used = torch.nn.Parameter(torch.ones(4))
        other = torch.nn.Parameter(torch.ones(3))
        (used.sum() + (other.sum() if i == 0 else 0)).backward()
        ptorch.GradientBuckets([used, other]).reduce(comm)
        return used.grad.tolist(), other.grad.tolist()

    assert group(2).all(step) == [([1.0] * 4, [0.5] * 3)] * 2


def test_sum_and_quantized(group):
    def step(comm, i):
        net = torch.nn.Linear(300, 300)
        torch.nn.init.constant_(net.weight, 0.5)
        buckets = ptorch.GradientBuckets(net, tag=70, bucket_bytes=100000)
        buckets.zero_grad()
        with torch.no_grad():
            net.weight.grad += torch.rand(300, 300, generator=torch.Generator().manual_seed(i))
        buckets.reduce(comm, pccl.ReduceOp.SUM, quantization=pccl.QuantizationOptions(), max_in_flight=1)
        wanted = sum(torch.rand(300, 300, generator=torch.Generator().manual_seed(k)) for k in range(2))
        assert float((net.weight.grad - wanted).abs().max()) < 0.02
        return net.weight.grad.view(torch.uint8)

    one, other = group(2).all(step)
    assert torch.equal(one, other)


def test_sparse_gradients(group):
    def step(comm, i):
        table = torch.nn.Embedding(5, 2, sparse=True)
        table(torch.tensor([i, 4])).sum().backward()
        assert table.weight.grad.is_sparse
        ptorch.GradientBuckets(table).reduce(comm)
        return table.weight.grad.tolist()

    assert group(2).all(step) == [[[0.5, 0.5], [0.5, 0.5], [0, 0], [0, 0], [1, 1]]] * 2


def test_alone_is_said(group):
    net = torch.nn.Linear(2, 2)
    with pytest.raises(pccl.TooFewPeersError):
        ptorch.GradientBuckets(net).reduce(group(1).members[0])


def test_a_peer_that_goes_is_made_up_for(group):
    """It leaves in the middle of a step; the others continue with the same averages, and report the number of peers."""
    three = group(3)

    def steps(comm, i):
        net = torch.nn.Sequential(*[torch.nn.Linear(60, 60) for _ in range(5)])
        buckets = ptorch.GradientBuckets(net, bucket_bytes=1000)
        sizes = []
        for _ in range(5):
            if i == 2 and len(sizes) == 3:
                buckets.zero_grad()
                # As many as two of its buckets: the others have launched more.
                descriptors = [bucket.descriptor(pccl.ReduceOp.AVG, None) for bucket in buckets._buckets[:2]]
                comm.all_reduce_multiple_with_retry(descriptors)
                comm.close()
                return None
            buckets.zero_grad()
            for parameter in net.parameters():
                parameter.grad += i
            sizes.append(buckets.reduce(comm).local_world_size)
        return sizes, bits(net), net[0].weight.grad[0, 0].item()

    one, other, _ = three.all(steps)
    assert one[0] == other[0] == [3, 3, 3, 2, 2] and same(one[1], other[1]) and one[2] == 0.5


def test_all_is_equal_after_steps_with_churn(group):
    """Peers join and leave, one of them in the middle of a step: parameters, moments and learning rate have equal bits.
    """
    members = group(3)

    def train(comm, i, steps, leaves_at=None):
        torch.manual_seed(i)
        net = torch.nn.Sequential(torch.nn.Linear(6, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1))
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
        state = ptorch.shared_state(net, optimizer, {"scheduler": scheduler})
        buckets = ptorch.GradientBuckets(net, bucket_bytes=200)
        synced = []
        while state.revision < steps:
            synced.append(comm.sync_shared_state(state).rx_bytes)
            state.push_revision()
            if leaves_at == state.revision:
                comm.close()
                return None
            buckets.zero_grad()
            x = torch.randn(16, 6, generator=torch.Generator().manual_seed(1000 * i + state.revision))
            (net(x) - x.sum(1, keepdim=True)).square().mean().backward()
            buckets.reduce(comm)
            optimizer.step()
            scheduler.step()
        assert sum(synced[1:]) == 0
        return state.digest(), optimizer.param_groups[0]["lr"]

    def first(comm, i):
        return train(comm, i, 20, leaves_at=11 if i == 1 else None)

    one, _, three = members.all(first)
    assert one == three
