"""DTensors, in a process group of one. python/examples/fsdp2.py has two shards in two processes."""

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
fsdp = pytest.importorskip("torch.distributed.fsdp")

import pccl  # noqa: E402
import pccl.torch as ptorch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def mesh():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed.device_mesh.init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def plain(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 2))


def whole(net):
    return torch.cat([getattr(p, "to_local", lambda p=p: p)().detach().reshape(-1) for p in net.parameters()])


def sharded(mesh, seed):
    net = plain(seed)
    for layer in net:
        fsdp.fully_shard(layer, mesh=mesh)
    fsdp.fully_shard(net, mesh=mesh)
    return net


def test_names_carry_the_shard(mesh):
    net = sharded(mesh, 0)
    state = ptorch.shared_state(net, torch.optim.AdamW(net.parameters()))
    names = [info.name for info in state.tensor_infos]
    assert names[:2] == ["module.0.weight@S0:0/1", "module.0.bias@S0:0/1"]
    assert "optimizer.0.weight.exp_avg@S0:0/1" in names and "optimizer.0.weight.step" in names
    placed = distributed.tensor.distribute_tensor(torch.ones(3), mesh, [distributed.tensor.Replicate()])
    module = torch.nn.Identity()
    module.register_parameter("whole", torch.nn.Parameter(placed))
    assert ptorch.shared_state(module).tensor_infos[0].name == "module.whole@R"


def test_shards_are_averaged_and_synchronized(group, mesh):
    """The other peer is a thread with a network that is sharded alike: the forward of both is here, because the process
    group is."""
    nets = [sharded(mesh, i) for i in range(2)]
    optimizers = [torch.optim.AdamW(net.parameters(), lr=0.01) for net in nets]
    states = [ptorch.shared_state(net, optimizer) for net, optimizer in zip(nets, optimizers)]
    buckets = [ptorch.GradientBuckets(net) for net in nets]
    two = group(2)
    received = []
    for step in range(3):
        received.append(two.all(lambda comm, i: comm.sync_shared_state(states[i]).rx_bytes))
        assert states[0].digest() == states[1].digest()
        for i, net in enumerate(nets):
            states[i].push_revision()
            buckets[i].zero_grad()
            net(torch.randn(4, 6)).square().mean().backward()
            # Written by FSDP itself, into the bucket: nothing was copied.
            assert net[0].weight.grad.to_local().data_ptr() == buckets[i].buffers[0].data_ptr()
            assert float(buckets[i].buffers[0].abs().sum()) > 0
        mean = (buckets[0].buffers[0] + buckets[1].buffers[0]) / 2
        two.all(lambda comm, i: buckets[i].reduce(comm))
        torch.testing.assert_close(buckets[0].buffers[0], mean)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()  # drops the gradients: the next ones are FSDP's, or the bucket's views again
    assert sum(received[0]) > 0 and received[1:] == [[0, 0], [0, 0]]
    assert states[0].digest() == states[1].digest()


def test_gradients_that_are_not_in_the_buckets(group, mesh):
    nets = [sharded(mesh, 0) for _ in range(2)]
    buckets = [ptorch.GradientBuckets(net) for net in nets]
    for i, net in enumerate(nets):
        net(torch.full((4, 6), float(i + 1))).square().mean().backward()
    wanted = (nets[0][0].weight.grad.full_tensor() + nets[1][0].weight.grad.full_tensor()) / 2
    group(2).all(lambda comm, i: buckets[i].reduce(comm))
    for net in nets:
        torch.testing.assert_close(net[0].weight.grad.full_tensor(), wanted)
        assert type(net[0].weight.grad) is type(net[0].weight.data)


def test_unsharded_parameters_are_refused(mesh):
    net = sharded(mesh, 0)
    state = ptorch.shared_state(net)
    net.unshard()
    net[0].unshard()
    with pytest.raises(pccl.InvalidArgument, match="differ from the original ones"):
        state._prepare()


def test_diloco_of_shards_is_that_of_the_whole(address, mesh):
    """Bit by bit. Two peers; after each step an evaluation leaves all parameters gathered."""
    import support

    from pccl.diloco import DiLoCo

    digests = []
    for shard in (True, False):
        nets = [sharded(mesh, 0) if shard else plain(0) for _ in range(2)]
        optimizers = [torch.optim.AdamW(net.parameters(), lr=0.01) for net in nets]
        settings = dict(inner_steps=4, fragments=2, delay=1, alpha=0.5, min_peers=2, outer=pccl.diloco.SGD(0.5, 0.9))
        members = support.Group(address, 2).members
        two = [DiLoCo(comm, net, **settings) for comm, net in zip(members, nets)]
        support.parallel([one.join for one in two])
        for step in range(12):
            for i, net in enumerate(nets):
                net(torch.full((4, 6), float(i + step))).square().mean().backward()
                optimizers[i].step()
                optimizers[i].zero_grad()
                with torch.no_grad():
                    net(torch.ones(4, 6))
            support.parallel([one.step for one in two])
        found = [whole(net) for net in nets]
        assert all(torch.equal(part, two[1].state_dict()[name]) for name, part in two[0].state_dict().items()
                   if name.startswith("theta"))
        digests.append([found, two[0].state_dict()["theta.float32"]])
        for one in two:
            one.close()
    for (mine, theta), (others, other) in [digests]:
        assert torch.equal(theta, other) and all(map(torch.equal, mine, others))


@pytest.mark.parametrize("given, words", [
    (dict(peer_group=0), "the communicator is of peer group 0; this process is number 1 of 2"),
    (dict(connected=True), "is already connected"),
])
def test_communicators_of_shards(address, given, words):
    """Arguments that a second process must not pass."""
    from pccl.diloco import _inside, _membership

    class Second(_inside.Inside):
        def __init__(self):
            self.group, self.rank, self.size = None, 1, 2

        def name(self):
            return "name"

    comm = pccl.Communicator(address, given.get("peer_group", 1))
    if given.get("connected"):
        comm.connect()
    member = _membership.Membership(comm, "DiLoCo", None, 1, None, [], Second())
    with pytest.raises(pccl.PCCLError, match=words):
        member.enter(comm)
    comm.close()


def test_sums_that_are_not_complete_are_refused(address, mesh):
    part = distributed.tensor.DTensor.from_local(torch.ones(4), mesh, [distributed.tensor.Partial()])
    with pytest.raises(pccl.LayoutError, match="w is a DTensor of incomplete sums"):
        pccl.diloco.DiLoCo(pccl.Communicator(address), {"w": part}, inner_steps=1)
