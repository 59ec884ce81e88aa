"""Programs of ranks (torch_bodies.py) that use torch's tools, sparse tensors and functional collectives."""

import logging
import threading

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor.debug import CommDebugMode
from torch_bodies import SMALL, fails, part, parts, start


def every_kind(device, rank, size):
    """Calls each method of a group once, and one asynchronously."""
    make = lambda count=1: torch.ones(count * SMALL, device=device)  # noqa: E731
    lists = [make() for _ in range(size)]
    dist.all_reduce(make())
    dist.broadcast(make(), 0)
    dist.all_gather(lists, make())
    dist.all_gather_into_tensor(make(size), make())
    dist.reduce_scatter_tensor(make(), make(size))
    dist.gather(make(), lists if rank == 0 else None, 0)
    dist.scatter(make(), lists if rank == 0 else None, 0)
    dist.all_to_all_single(make(size), make(size))
    dist.reduce(make(), 0)
    dist.barrier()
    sent = dist.isend(make(), (rank + 1) % size)
    dist.recv(make(), (rank - 1) % size)
    sent.wait()
    dist.all_reduce(make(), async_op=True).wait()


KINDS = ["all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter_tensor", "gather"]
KINDS += ["scatter", "all_to_all_single", "reduce", "send", "recv"]


def looked_at():
    rank, size = start()
    with CommDebugMode() as seen:
        every_kind("cpu", rank, size)
        inside = part(rank, SMALL)
        dist.all_reduce(inside)
    assert torch.equal(inside, sum(parts(size, SMALL)))
    ops = torch.ops.c10d
    counts = seen.get_comm_counts()
    once = ops.broadcast_, ops.allgather_, ops._allgather_base_, ops._reduce_scatter_base_, ops.gather_, ops.scatter_
    assert counts[ops.allreduce_] == 3 and all(counts[op] == 1 for op in once), counts
    if rank == 0:  # no other rank takes part
        with FakeTensorMode():
            every_kind("cpu", rank, size)
        dist.all_reduce(torch.ones(3, device="meta"))
        dist.send(torch.ones(3, device="meta"), 1)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
        every_kind("cpu", rank, size)
        fails(lambda: dist.all_reduce(torch.ones(SMALL + rank)), "pccl")
    events = {event.name: event for event in reversed(profile.events()) if event.name.startswith("pccl:")}
    for kind in KINDS:
        event = events[f"pccl:{kind}"]
        assert event.is_async and event.input_shapes[0][0] in (SMALL, size * SMALL), (kind, event.input_shapes)
    assert "c10d::allreduce_" in {event.name for event in profile.events()}
    dist.barrier()
    dist.destroy_process_group()


def sparse():
    """All-reduces of sparse tensors, compared with gloo."""
    rank, size = start()
    gloo = dist.new_group(backend="gloo")
    for dense in ((), (3,)):
        for dtype in (torch.float32, torch.int64):
            places = torch.tensor([[rank, 4, rank + 1, 4], [0, 1, 2, 1]])  # one of them twice
            values = part(rank, 4 * (3 if dense else 1), dtype).reshape(4, *dense)
            ours = torch.sparse_coo_tensor(places, values, (6, 7, *dense), check_invariants=True)
            theirs = ours.clone()
            dist.all_reduce(ours)
            dist.all_reduce(theirs, group=gloo)
            assert ours.is_coalesced() and torch.equal(ours.to_dense(), theirs.to_dense())
    own = lambda: torch.sparse_coo_tensor([[rank]], [2.0], (size,), check_invariants=True)  # noqa: E731
    mean = own()
    work = dist.all_reduce(mean, dist.ReduceOp.AVG, async_op=True)
    assert torch.equal(work.get_future().wait()[0].to_dense(), torch.full((size,), 2.0 / size))
    if rank == 0:
        empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0), (size,))
    else:
        empty = own()
    dist.all_reduce(empty)
    assert torch.equal(empty.to_dense(), torch.tensor([0.0] + [2.0] * (size - 1)))
    fails(lambda: dist.all_reduce(own(), dist.ReduceOp.MAX), "reduction max: expected SUM or AVG")
    unequal = torch.sparse_coo_tensor([[0]], [1.0], (9 + rank,), check_invariants=True)
    fails(lambda: dist.all_reduce(unequal), "pccl")
    kinds = torch.sparse_coo_tensor([[0]], torch.ones(1, dtype=torch.float32 if rank else torch.int32), (9,))
    fails(lambda: dist.all_reduce(kinds), "rank", "torch.int32")
    fails(lambda: dist.all_reduce(own() if rank else torch.ones(size)), "pccl")
    losses = []
    for group in (None, gloo):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Embedding(20, 5, sparse=True), torch.nn.Linear(5, 2))
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(5):
            loss = model(torch.tensor([rank, step, 3 + 2 * rank])).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    assert torch.allclose(torch.stack(losses[:5]), torch.stack(losses[5:]), rtol=1e-4), losses
    dist.barrier()
    dist.destroy_process_group()


def functional():
    """Functional collectives that need kernels of ours; the kernels serve gloo's groups as before."""
    rank, size = start()
    ops, given = torch.ops._c10d_functional, part(rank, SMALL)
    following, previous = (rank + 1) % size, (rank - 1) % size
    for group in (dist.group.WORLD, dist.new_group(backend="gloo")):
        name = group.group_name
        place = torch.zeros(size * SMALL)
        ops.wait_tensor(ops.all_gather_into_tensor_out(given, size, name, out=place))
        assert torch.equal(place, torch.cat(parts(size, SMALL)))
        share = torch.zeros(SMALL)
        ops.wait_tensor(ops.reduce_scatter_tensor_out(place, "sum", size, name, out=share))
        assert torch.equal(share, size * given)
        received = torch.zeros(SMALL)
        made = ops.batch_p2p_ops(["isend", "irecv"], [following, previous], [0, 0], [given, received], name)
        for one in made:
            ops.wait_tensor(one)
        assert torch.equal(received, part(previous, SMALL))
    dist.barrier()
    dist.destroy_process_group()


class _Lines(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def until(condition):
    pause = threading.Event()
    while not condition():
        pause.wait(0.01)


def late_start():
    """The last rank enters the first operation late: the verdict that it has not entered is not logged."""
    from pccl.torch import _backend

    rank, size = start()
    heard, judged = _Lines(), []
    logging.getLogger("pccl").addHandler(heard)
    (start_filter,) = logging.getLogger("pccl.peer").filters
    judge = start_filter.filter
    start_filter.filter = lambda record: judged.append(judge(record)) or judged[-1]
    comm, store = _backend._world.comm, dist.distributed_c10d._get_default_store()
    under_way = [one for one in comm.flight_recorder()["operations"] if one["state"] != "ended"]
    assert not under_way, under_way  # nothing that could be mistaken for a wait
    for is_first in (True, False):
        given = part(rank, SMALL)
        late = lambda: [line for line in heard.lines if "not entered" in line]  # noqa: E731
        has_come = (lambda: False in judged) if is_first else late
        if rank == size - 1:
            store.wait([f"{is_first}/{one}" for one in range(size - 1)])
            until(has_come)
            dist.all_reduce(given)
        else:
            work = dist.all_reduce(given, async_op=True)
            until(lambda: has_come() or work.is_completed())
            assert not work.is_completed()
            store.set(f"{is_first}/{rank}", "")
            work.wait()
        assert torch.equal(given, sum(parts(size, SMALL)))
        until(lambda: not comm.verdicts())
        dist.barrier()
        logged = late()
        assert bool(logged) != is_first, logged
    assert f"rank {size - 1} of {size}" in logged[0], logged
    dist.destroy_process_group()
