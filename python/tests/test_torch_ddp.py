"""The hook for DistributedDataParallel. In this process its process group has one member, and the other peers are
threads that reduce the same units by hand; groups with several members are separate processes."""

import threading

import pytest
from support import DEADLINE

import pccl

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")

import pccl.torch as ptorch  # noqa: E402

torch.set_num_threads(1)

Parallel = torch.nn.parallel.DistributedDataParallel


@pytest.fixture(scope="module", autouse=True)
def process_group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(300, 7))


def batch(number):
    return torch.randn(16, 300, generator=torch.Generator().manual_seed(number))


def loss(net, number):
    return net(batch(number)).square().mean()


class Other:
    """A peer that computes the same network without DistributedDataParallel."""

    def __init__(self, comm, bucket_bytes):
        self.comm, self.net = comm, network()
        self.buckets = ptorch.GradientBuckets(list(reversed(list(self.net.parameters()))), bucket_bytes=bucket_bytes)

    def step(self, number):
        self.buckets.zero_grad()
        loss(self.net, number).backward()
        return self.buckets.reduce(self.comm)


def wrapped(comm, bucket_bytes=500_000, **given):
    """Returns one with buckets of DistributedDataParallel that are not the hook's units, and change after the first
    iteration."""
    ddp = Parallel(network(), bucket_cap_mb=0.2, **given)
    state = ptorch.DDPState(comm, ddp, bucket_bytes=bucket_bytes)
    ddp.register_comm_hook(state, ptorch.ddp_hook)
    return ddp, state


def both(call, other_call):
    """Makes call() here, where torch.distributed is initialized, and the other one on a thread."""
    outcome = []
    thread = threading.Thread(target=lambda: outcome.append(other_call()), daemon=True)
    thread.start()
    mine = call()
    thread.join(DEADLINE)
    return mine, outcome[0]


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("bucket_bytes", [1000, 500_000, 100_000_000])
def test_averages_among_peers(group, bucket_bytes, view):
    here, there = group(2).members
    ddp, state = wrapped(here, bucket_bytes, gradient_as_bucket_view=view)
    other = Other(there, bucket_bytes)
    for step in range(4):
        ddp.zero_grad()
        both(lambda: loss(ddp, 2 * step).backward(), lambda: other.step(2 * step + 1))
        assert state.world_size == 2 and state.error is None
        for a, b in zip(ddp.module.parameters(), other.net.parameters()):
            assert torch.equal(a.grad, b.grad)
        alone = network()
        alone.load_state_dict(ddp.module.state_dict())
        (loss(alone, 2 * step) + loss(alone, 2 * step + 1)).backward()
        for a, b in zip(ddp.module.parameters(), alone.parameters()):
            torch.testing.assert_close(a.grad, b.grad / 2, atol=1e-6, rtol=1e-4)
        for net in (ddp.module, other.net):
            torch.optim.SGD(net.parameters(), lr=0.1).step()


def test_a_newcomer_whose_buckets_are_still_the_first_ones(group):
    """DistributedDataParallel rearranges its buckets after the first iteration: peers at different ones agree."""
    three = group(2)
    ddp, state = wrapped(three.members[0])
    other = Other(three.members[1], 500_000)
    for step in range(2):
        both(lambda: loss(ddp, step).backward(), lambda: other.step(step))
    new_comm = three.admit()
    new, new_state = wrapped(new_comm)
    ready = threading.Thread(target=lambda: loss(new, 8).backward(), daemon=True)
    ready.start()
    both(lambda: loss(ddp, 7).backward(), lambda: other.step(9))
    ready.join(DEADLINE)
    assert state.world_size == new_state.world_size == 3


def test_a_peer_that_goes(group):
    """It has reduced one unit and leaves: the others' step ends with all units reduced."""
    three = group(3)
    ddp, state = wrapped(three.members[0], bucket_bytes=1000)
    other = Other(three.members[1], 1000)
    leaver = Other(three.members[2], 1000)

    def leave():
        leaver.buckets.zero_grad()
        first = leaver.buckets._buckets[0].descriptor(pccl.ReduceOp.AVG, None)
        leaver.comm.all_reduce_multiple_with_retry([first])
        leaver.comm.close()

    thread = threading.Thread(target=leave, daemon=True)
    thread.start()
    both(lambda: loss(ddp, 1).backward(), lambda: other.step(2))
    thread.join(DEADLINE)
    assert state.world_size == 2
    for a, b in zip(ddp.module.parameters(), other.net.parameters()):
        assert torch.equal(a.grad, b.grad)


def test_alone_fails_and_goes_on(group):
    two = group(1)
    ddp, state = wrapped(two.members[0])
    for _ in range(2):
        with pytest.raises(RuntimeError, match="TooFewPeers"):
            loss(ddp, 0).backward()
        assert isinstance(state.error, pccl.TooFewPeersError) and state.world_size == 0
    other = Other(two.admit(), 500_000)
    ddp.zero_grad()
    both(lambda: loss(ddp, 3).backward(), lambda: other.step(4))
    assert state.world_size == 2 and state.error is None
    assert torch.equal(ddp.module[0].weight.grad, other.net[0].weight.grad)


def test_given_up_by_another_peer(group):
    """The other gives up after its first units: backward fails here too, and a new step works after an update."""
    two = group(2)
    ddp, state = wrapped(two.members[0], bucket_bytes=1000)
    other = Other(two.members[1], 1000)

    def give_up():
        other.buckets.zero_grad()
        first, second = [bucket.descriptor(pccl.ReduceOp.AVG, None) for bucket in other.buckets._buckets[:2]]
        other.comm.all_reduce_multiple_with_retry([first])
        nothing = torch.zeros(1)  # an abort alone could come too late, and this peer would wait for the rest
        handle = other.comm.all_reduce_async(nothing, nothing, op=pccl.ReduceOp.MAX, tag=second.reduce_descriptor.tag)
        other.comm.abort()
        handle.wait()

    def fails():
        with pytest.raises(RuntimeError):
            loss(ddp, 1).backward()

    both(fails, give_up)
    assert isinstance(state.error, pccl.PCCLError)
    two.all(lambda comm, _: comm.update_topology())
    ddp.zero_grad()
    both(lambda: loss(ddp, 3).backward(), lambda: other.step(4))
    assert state.world_size == 2
    assert torch.equal(ddp.module[0].weight.grad, other.net[0].weight.grad)


def test_a_backward_left_in_the_middle(group):
    """An exception in backward after some units were launched: the others' step fails, the next one works, after
    DistributedDataParallel itself was recreated."""
    two = group(2)
    ddp, state = wrapped(two.members[0], bucket_bytes=1000)
    other = Other(two.members[1], 1000)
    both(lambda: loss(ddp, 1).backward(), lambda: other.step(2))
    failing = [True]

    def fail(_):
        if failing[0]:
            raise ValueError("not today")

    ddp.module[0].weight.register_hook(fail)

    def broken():
        with pytest.raises(ValueError, match="not today"):
            loss(ddp, 3).backward()
        state.give_up()

    def other_fails():
        with pytest.raises(pccl.PCCLError):
            other.step(4)

    both(broken, other_fails)
    failing[0] = False
    two.all(lambda comm, _: comm.update_topology())
    ddp = Parallel(ddp.module, bucket_cap_mb=0.2)
    ddp.register_comm_hook(state, ptorch.ddp_hook)
    ddp.zero_grad()
    both(lambda: loss(ddp, 5).backward(), lambda: other.step(6))
    assert state.world_size == 2
    assert torch.equal(ddp.module[0].weight.grad, other.net[0].weight.grad)


def test_another_module_is_refused(group):
    ddp = Parallel(network())
    state = ptorch.DDPState(group(1).members[0], network())
    ddp.register_comm_hook(state, ptorch.ddp_hook)
    with pytest.raises(pccl.InvalidArgument, match="another module"):
        loss(ddp, 0).backward()
    with pytest.raises(pccl.InvalidArgument):
        ptorch.DDPState(state.comm, ddp, max_in_flight=0)


# A member of one of two process groups with two members each, all four of which are peers of one
# run.
MEMBER = """
import hashlib, sys, time
import torch, pccl
import pccl.torch as ptorch
torch.set_num_threads(1)
address, store, group, rank, last = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])

def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 300), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(300, 7))

def loss(net, step, member):
    data = torch.randn(16, 300, generator=torch.Generator().manual_seed(10 * step + member))
    return net(data).square().mean()

def check(net, step, members):
    alone = network()
    alone.load_state_dict(net.state_dict())
    sum(loss(alone, step, member) for member in range(members)).backward()
    for a, b in zip(net.parameters(), alone.parameters()):
        torch.testing.assert_close(a.grad, b.grad / members, atol=1e-6, rtol=1e-4)

def stop_in_the_middle(gradient):
    if step == last:
        print(f"in the middle, launched {state._launched}", flush=True)
        time.sleep(1000)

net = network()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)  # before the group: torch would keep that otherwise
torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(store, 2), rank=rank, world_size=2)
comm = pccl.Communicator(address)
comm.connect()
while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 4:
    comm.update_topology()
ddp = torch.nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.2)
state = ptorch.DDPState(comm, ddp, bucket_bytes=1000)
ddp.register_comm_hook(state, ptorch.ddp_hook)
if group == 1:
    ddp.module[0].weight.register_hook(stop_in_the_middle)
for step in range(last + 3):
    ddp.zero_grad()
    loss(ddp, step, 2 * group + rank).backward()
    if step != last:  # some of that one's units are averages of four
        check(ddp.module, step, 4 if step < last else 2)
    optimizer.step()
    parts = [parameter.detach().numpy().tobytes() for parameter in ddp.parameters()]
    print(f"step {step}: {state.world_size} {hashlib.sha256(b''.join(parts)).hexdigest()}", flush=True)
print("done", flush=True)
del ddp, state  # they hold the group, whose threads have to end here
torch.distributed.destroy_process_group()
"""


@pytest.mark.nightly
@pytest.mark.parametrize("last, launched", [(0, {0}), (3, {1, 2, 3, 4})])
def test_a_process_group_is_killed_in_the_middle_of_backward(script, address, tmp_path, last, launched):
    """In the first iteration, in which DistributedDataParallel has one bucket and nothing is launched yet, and with
    some of its units launched: the members of the other one end that backward, with equal bits, and continue as two."""
    members = [
        script(MEMBER, address, tmp_path / f"store{group}", group, rank, last, env={"OMP_NUM_THREADS": "1"})
        for group in range(2)
        for rank in range(2)
    ]
    for victim in members[2:]:
        assert int(victim.line("in the middle").split()[-1]) in launched
    for victim in members[2:]:
        victim.kill()
    for step in range(last + 3):
        told = [member.line(f"step {step}: ") for member in members[:2]]
        assert told[0] == told[1] and told[0].split()[2] == ("4" if step < last else "2"), told
    for member in members[:2]:
        member.ends_after("done")
