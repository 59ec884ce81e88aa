"""The processes of test_torch_group*.py: each function is the program of one rank. It imports pccl only where it names
it: `import torch` finds the backend."""

import atexit
import importlib
import json
import os
import pathlib
import runpy
import signal
import sys
import threading
import time
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable

Op = dist.ReduceOp
SMALL, LARGE = 6, 30000  # elements: through the master, and from peer to peer
NUMBERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
UNKNOWN_TO_GLOO = [torch.int16, torch.uint16, torch.uint32, torch.uint64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz]


def say(*words):
    print(*words, flush=True)


# ---- the process that forks the ranks (torch_worlds.Nursery)


def serve(*modules):
    for module in modules:  # so that the ranks need not import them
        importlib.import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        ranks = {_fork(order, rank): rank for rank in order["ranks"]}
        ends = {}
        while ranks:
            pid, status = os.wait()
            ends[ranks.pop(pid)] = os.waitstatus_to_exitcode(status)
        say(json.dumps(ends))


def _fork(order, rank):
    pid = os.fork()
    if pid > 0:
        return pid
    out = os.open(order["out"] % rank, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.environ.update({name: str(value) for name, value in order["env"].items()}, RANK=str(rank))
    try:
        module, _, name = order["body"].rpartition(".")
        getattr(importlib.import_module(module or __name__), name)(*order["arguments"])
        _leave(0)
    except SystemExit:  # the interpreter ends as a program's does
        raise
    except BaseException:
        traceback.print_exc()
        _leave(1)


def _leave(status):
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


# ---- programs


def module(name, *arguments):
    """Runs a module, as `python -m` does."""
    sys.argv[1:] = arguments
    runpy.run_module(name, run_name="__main__", alter_sys=True)


# ---- common parts


def start(**given):
    dist.init_process_group("pccl", timeout=timedelta(seconds=60), **given)
    return dist.get_rank(), dist.get_world_size()


def part(rank, count, dtype=torch.float32):
    """Returns whole numbers, so that sums are exact in every type."""
    return ((torch.arange(count) + 3 * rank) % 5 + 1).to(dtype)


def parts(size, count, dtype=torch.float32):
    return [part(rank, count, dtype) for rank in range(size)]


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def same(ours, theirs):
    return [one.shape for one in ours] == [one.shape for one in theirs] and all(
        torch.equal(bits(one), bits(other)) for one, other in zip(ours, theirs)
    )


# ---- every method against gloo


class Against:
    """Makes each call with our group and gloo's; or compares with the given result, if gloo does not support it."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size
        self.gloo = dist.new_group(backend="gloo")

    def __call__(self, what, call, expected=None):
        ours = call(None)
        theirs = call(self.gloo) if expected is None else expected
        assert same(ours, theirs), (what, self.rank, ours, theirs)


def methods():
    every_method(*start())


def every_method(rank, size):
    against = Against(rank, size)
    for count in (SMALL, LARGE):
        reductions(against, count)
        movements(against, count)
        unequal(against, count)
    layouts(against)
    objects(rank, size)
    pairs(rank, size)
    coalesced(rank, size)
    functional_forms(rank, size)
    many_at_once(rank, size)
    groups(rank, size)
    dist.barrier()
    dist.destroy_process_group()
    say("all methods")


def reductions(against, count):
    rank, size = against.rank, against.size

    def all_reduced(op, dtype, group):
        given = part(rank, count, dtype)
        dist.all_reduce(given, op, group=group)
        return [given]

    for dtype in NUMBERS + FLOATS:
        for op in (Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX):
            against((op, dtype), lambda group: all_reduced(op, dtype, group))
    for dtype in NUMBERS:
        for op in (Op.BAND, Op.BOR, Op.BXOR):
            against((op, dtype), lambda group: all_reduced(op, dtype, group))
    for dtype in UNKNOWN_TO_GLOO:
        whole = sum(parts(size, count, torch.int64)).to(dtype)
        against(dtype, lambda group: all_reduced(Op.SUM, dtype, group), [whole])
    sums = sum(parts(size, count))
    against("avg", lambda group: all_reduced(Op.AVG, torch.float32, group), [sums / size])
    factored = torch._C._distributed_c10d._make_nccl_premul_sum(0.5)
    against("premul", lambda group: all_reduced(factored, torch.float32, group), [0.5 * sums])
    against("complex", lambda group: all_reduced(Op.SUM, torch.complex64, group), [sums.to(torch.complex64)])
    is_odd = part(rank, count, torch.int32) % 2 == 1
    any_odd = torch.stack([one % 2 == 1 for one in parts(size, count, torch.int32)]).any(0)
    dist.all_reduce(is_odd, Op.BOR)
    assert torch.equal(is_odd, any_odd)

    def scattered(group):
        given, own = torch.cat(parts(size, count)) + rank, torch.empty(count)
        dist.reduce_scatter_tensor(own, given, group=group)
        return [own]

    def scattered_list(group):
        given, own = [one + rank for one in parts(size, count)], torch.empty(count)
        dist.reduce_scatter(own, given, group=group)
        return [own]

    share = [size * part(rank, count) + sum(range(size))]
    against("reduce_scatter_tensor", scattered, share)
    against("reduce_scatter", scattered_list, share)
    for root in range(size):

        def reduced(group):
            given = part(rank, count)
            dist.reduce(given, root, group=group)
            return [given] if rank == root else []

        against("reduce", reduced)


def movements(against, count):
    rank, size = against.rank, against.size
    for dtype in NUMBERS + UNKNOWN_TO_GLOO + FLOATS + OTHERS:
        whole = parts(size, count, dtype)

        def broadcast(_):
            given = part(rank, count, dtype)
            dist.broadcast(given, size - 1)
            return [given]

        def gathered(_):
            places = [torch.empty(count, dtype=dtype) for _ in range(size)]
            dist.all_gather(places, part(rank, count, dtype))
            return places

        def gathered_into(_):
            place = torch.empty(size * count, dtype=dtype)
            dist.all_gather_into_tensor(place, part(rank, count, dtype))
            return [place]

        def exchanged(_):
            place = torch.empty(size * count, dtype=dtype)
            dist.all_to_all_single(place, torch.cat(parts(size, count, dtype)))
            return [place]

        against(("broadcast", dtype), broadcast, [whole[-1]])
        against(("all_gather", dtype), gathered, whole)
        against(("all_gather_into_tensor", dtype), gathered_into, [torch.cat(whole)])
        against(("all_to_all_single", dtype), exchanged, [part(rank, count, dtype).repeat(size)])
    for root in range(size):

        def gathered_at(group):
            places = [torch.empty(count) for _ in range(size)] if rank == root else None
            dist.gather(part(rank, count), places, dst=root, group=group)
            return places or []

        def scattered(group):
            place = torch.empty(count)
            dist.scatter(place, parts(size, count) if rank == root else None, src=root, group=group)
            return [place]

        against("gather", gathered_at)
        against("scatter", scattered)


def unequal(against, count):
    rank, size = against.rank, against.size

    def exchanged(group):
        out, given = [rank * one for one in range(size)], [one * rank for one in range(size)]
        place = torch.empty(sum(out), count)
        dist.all_to_all_single(place, torch.full((sum(given), count), float(rank)), out, given, group=group)
        return [place]

    def exchanged_lists(_):
        places = [torch.empty(rank + one + 1) for one in range(size)]
        dist.all_to_all(places, [torch.full((rank + one + 1,), float(rank)) for one in range(size)])
        return places

    def gathered(_):
        places = [torch.empty(one * count) for one in range(size)]
        dist.all_gather(places, torch.full((rank * count,), float(rank)))
        return places

    against("all_to_all_single in parts", exchanged)
    against("all_to_all", exchanged_lists, [torch.full((rank + one + 1,), float(one)) for one in range(size)])
    against("all_gather of parts", gathered, [torch.full((one * count,), float(one)) for one in range(size)])


def layouts(against):
    """Tensors with layouts that the library does not support directly, and empty ones."""
    rank, size = against.rank, against.size
    turned = part(rank, 12).view(3, 4).t()
    dist.all_reduce(turned)
    assert torch.equal(turned, sum(one.view(3, 4).t() for one in parts(size, 12)))
    negated = torch._neg_view(torch.ones(3))
    dist.all_reduce(negated)
    assert torch.equal(negated, torch.full((3,), -float(size)))
    every_other = torch.zeros(8)[::2]
    dist.scatter(every_other, [torch.full((4,), float(one)) for one in range(size)] if rank == 0 else None, src=0)
    assert torch.equal(every_other, torch.full((4,), float(rank)))
    rows = torch.zeros(2, 2 * size).t()
    dist.all_gather_into_tensor(rows, part(rank, 4).view(2, 2))
    assert torch.equal(rows, torch.cat([one.view(2, 2) for one in parts(size, 4)]))
    nothing = torch.empty(0)
    dist.all_reduce(nothing)
    dist.broadcast(nothing, 0)
    dist.all_gather([torch.empty(0) for _ in range(size)], nothing)
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    assert scalar.item() == sum(range(size))


def objects(rank, size):
    every = [{"rank": one, "text": "x" * one * 5000} for one in range(size)]
    gathered = [None] * size
    dist.all_gather_object(gathered, every[rank])
    assert gathered == every
    told = [every[1], None] if rank == 1 else [None, None]
    dist.broadcast_object_list(told, src=1)
    assert told == [every[1], None]
    at_root = [None] * size if rank == 0 else None
    dist.gather_object(every[rank], at_root, dst=0)
    assert at_root == (every if rank == 0 else None)
    own = [None]
    dist.scatter_object_list(own, every if rank == 0 else None, src=0)
    assert own == [every[rank]]
    if rank == 0:
        dist.send_object_list([every[1]], dst=1)
    elif rank == 1:
        received = [None]
        dist.recv_object_list(received, src=0)
        assert received == [every[1]]


def pairs(rank, size):
    following, previous = (rank + 1) % size, (rank - 1) % size
    for count in (SMALL, LARGE):
        place = torch.empty(count)
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, part(rank, count), following), dist.P2POp(dist.irecv, place, previous)]
        )
        for work in works:
            work.wait()
        assert torch.equal(place, part(previous, count))
    if rank == 0:  # two tags, received in the other order
        sends = [dist.isend(part(tag, SMALL), 1, tag=tag) for tag in (1, 2)]
        for send in sends:
            send.wait()
    elif rank == 1:
        places = {tag: torch.empty(SMALL) for tag in (1, 2)}
        receives = [dist.irecv(places[tag], 0, tag=tag) for tag in (2, 1)]
        for receive in receives:
            receive.wait()
        assert all(torch.equal(place, part(tag, SMALL)) for tag, place in places.items())
    if rank == 0:  # from any rank, with its sender
        sources = []
        for _ in range(size - 1):
            place = torch.empty(LARGE)
            sources.append(dist.recv(place, tag=3))
            assert torch.equal(place, part(sources[-1], LARGE))
        assert sorted(sources) == list(range(1, size))
    else:
        dist.send(part(rank, LARGE), 0, tag=3)


def coalesced(rank, size):
    tensors = [part(rank, count) for count in (SMALL, LARGE, *[1] * 600)]
    with dist._coalescing_manager():
        for one in tensors:
            dist.all_reduce(one)
    assert same(tensors, [sum(parts(size, one.numel())) for one in tensors])
    places = [torch.empty(size * count) for count in (SMALL, LARGE)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for place in places:
            dist.all_gather_into_tensor(place, part(rank, place.numel() // size))
    manager.wait()
    assert same(places, [torch.cat(parts(size, place.numel() // size)) for place in places])
    own = [torch.empty(count) for count in (SMALL, LARGE)]
    with dist._coalescing_manager():
        for one in own:
            dist.reduce_scatter_tensor(one, torch.cat(parts(size, one.numel())))
    assert same(own, [size * part(rank, one.numel()) for one in own])
    place = torch.empty(SMALL)
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.isend(part(rank, SMALL), (rank + 1) % size)
        dist.irecv(place, (rank - 1) % size)
    manager.wait()
    assert torch.equal(place, part((rank - 1) % size, SMALL))


def functional_forms(rank, size):
    world = dist.group.WORLD
    for count in (SMALL, LARGE):
        given, whole = part(rank, count), torch.cat(parts(size, count))
        for ours, expected in (
            (functional.all_reduce(given, "sum", world), sum(parts(size, count))),
            (functional.all_gather_tensor(given, 0, world), whole),
            (functional.reduce_scatter_tensor(whole, "sum", 0, world), size * given),
            (functional.all_to_all_single(whole, None, None, world), given.repeat(size)),
            (functional.broadcast(given, 0, world), part(0, count)),
        ):
            assert torch.equal(functional.wait_tensor(ours), expected)
        several = functional.all_reduce_coalesced([given, 2 * given], "sum", world)
        assert all(torch.equal(one, k * sum(parts(size, count))) for k, one in enumerate(several, 1))
        leaf = given.clone().requires_grad_()
        differentiable.all_reduce(leaf).sum().backward()
        assert torch.equal(leaf.grad, torch.full((count,), float(size)))


def many_at_once(rank, size):
    tensors = [part(rank + number, SMALL) for number in range(600)]
    works = [dist.all_reduce(one, async_op=True) for one in tensors]
    assert all(isinstance(work.is_completed(), bool) for work in works)
    for work in reversed(works):
        assert work.wait() and work.is_success() and work.exception() is None
    expected = [sum(part(one + number, SMALL) for one in range(size)) for number in range(600)]
    assert same(tensors, expected)
    work = dist.all_reduce(part(rank, LARGE), async_op=True)
    doubled = work.get_future().then(lambda future: 2 * future.value()[0])
    assert torch.equal(doubled.wait(), 2 * sum(parts(size, LARGE)))
    places = [torch.empty(SMALL) for _ in range(size)]
    dist.all_gather(places, part(rank, SMALL), async_op=True)  # dropped; its results arrive nevertheless
    dist.barrier()
    assert same(places, parts(size, SMALL))


def groups(rank, size):
    world = dist.group.WORLD
    assert dist.get_backend() == "pccl" and world.name() == "pccl" and (world.rank(), world.size()) == (rank, size)
    ends = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        given = part(rank, LARGE)
        dist.all_reduce(given, group=ends)
        assert torch.equal(given, part(0, LARGE) + part(size - 1, LARGE))
        dist.destroy_process_group(ends)
    lonely = [dist.new_group([one]) for one in range(size)][rank]
    given, place = part(rank, SMALL), torch.empty(SMALL)
    dist.all_reduce(given, group=lonely)
    dist.all_gather_into_tensor(place, given, group=lonely)
    dist.barrier(lonely)
    assert same([given, place], [part(rank, SMALL)] * 2)
    mesh = dist.device_mesh.init_device_mesh("cpu", (size,))
    given = part(rank, SMALL)
    dist.all_reduce(given, group=mesh.get_group())
    assert torch.equal(given, sum(parts(size, SMALL)))
    if size == 4:
        square = dist.device_mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
        for name, others in (("outer", [rank % 2, rank % 2 + 2]), ("inner", [rank // 2 * 2, rank // 2 * 2 + 1])):
            given = part(rank, SMALL)
            dist.all_reduce(given, group=square.get_group(name))
            assert torch.equal(given, sum(part(one, SMALL) for one in others))
    world.monitored_barrier(timedelta(seconds=60))
    world.set_timeout(timedelta(seconds=50))


# ---- training


def network():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(24, 40), torch.nn.Tanh(), torch.nn.BatchNorm1d(40), torch.nn.Linear(40, 40)]
    return torch.nn.Sequential(*layers, torch.nn.Tanh(), torch.nn.Linear(40, 3))


def batch(step):
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    return torch.randn(16, 24, generator=generator), torch.randn(16, 3, generator=generator)


def losses_of(model, steps=6):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        given, wanted = batch(step)
        loss = torch.nn.functional.mse_loss(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def with_ddp(group, bucket_cap_mb=0.005):
    return torch.nn.parallel.DistributedDataParallel(network(), process_group=group, bucket_cap_mb=bucket_cap_mb)


def with_fsdp2(group):
    from torch.distributed.fsdp import fully_shard

    mesh = dist.device_mesh.DeviceMesh.from_group(group, "cpu")
    model = network()
    for layer in (model[0], model[3]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def square(group):
    """Returns a mesh of two times two, of the backend of a group."""
    backend, rows, columns = dist.get_backend(group), [[0, 1], [2, 3]], [[0, 2], [1, 3]]
    pair = [dist.new_subgroups_by_enumeration(lists, backend=backend)[0] for lists in (columns, rows)]
    return dist.device_mesh.DeviceMesh.from_group(pair, "cpu", mesh=rows, mesh_dim_names=("outer", "inner"))


def with_hsdp(group):
    from torch.distributed.fsdp import fully_shard

    return fully_shard(network(), mesh=square(group))


def with_tp(group):
    from torch.distributed.tensor import parallel

    model = network()
    whole = dist.tensor.Replicate()
    plan = {
        "0": parallel.ColwiseParallel(output_layouts=whole),
        "5": parallel.RowwiseParallel(input_layouts=whole),
    }
    parallel.parallelize_module(model, square(group)["inner"], plan)
    return model


def with_compiled_ddp(group):
    return torch.compile(with_ddp(group, None), backend="aot_eager")


def with_compiled_fsdp2(group):
    return torch.compile(with_fsdp2(group), backend="aot_eager")


def with_inductor(group):
    return torch.compile(with_ddp(group, None))


def checkpoints(folder):
    """A round trip of a sharded model by DCP, awaited and in the background."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    start()
    model = with_fsdp2(dist.group.WORLD)
    losses_of(model, 2)
    for save in (dcp.save, lambda *given, **more: dcp.async_save(*given, **more).result()):
        state = get_model_state_dict(model)
        before = {name: one.full_tensor().clone() for name, one in state.items() if "weight" in name}
        save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
        losses_of(model, 2)
        state = {"model": get_model_state_dict(model)}
        dcp.load(state, checkpoint_id=folder)
        set_model_state_dict(model, state["model"])
        after = get_model_state_dict(model)
        assert all(torch.equal(one, after[name].full_tensor()) for name, one in before.items())
    dist.destroy_process_group()


def example(name, *arguments):
    """Runs one of python/examples."""
    sys.argv = [name, *arguments]
    runpy.run_path(str(pathlib.Path(__file__).parent.parent / "examples" / name), run_name="__main__")


def training(*kinds):
    start()
    gloo = dist.new_group(backend="gloo")
    for kind in kinds:
        make = globals()[f"with_{kind}"]
        ours, theirs = losses_of(make(dist.group.WORLD)), losses_of(make(gloo))
        assert all(abs(one - other) < 1e-5 for one, other in zip(ours, theirs)), (kind, ours, theirs)
        assert len(set(ours)) == len(ours)
    dist.barrier()
    dist.destroy_process_group()
    say("all trained")


# ---- failure


def fails(call, *words):
    """Returns the exception of a call that must fail, with these words in it."""
    try:
        call()
    except (dist.DistBackendError, RuntimeError, ValueError) as error:
        assert all(word in str(error) for word in words), (words, str(error))
        return error
    raise AssertionError(f"no exception with {words}")


def begin_anew(rank, size, port):
    """Starts again, as a program that continues without a launcher's restart does."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), MASTER_PORT=port)
    return start()


def killed(victim, port):
    """A rank fails in the middle of an operation. All works of the others fail and name it; then they start again."""
    victim = int(victim)
    rank, size = start()
    others = dist.new_group([one for one in range(size) if one != victim])
    given = torch.ones(LARGE)
    dist.all_reduce(given)
    survivors = [one for one in range(size) if one != victim]
    if rank == victim:
        dist.all_reduce(given, async_op=True)
        os.kill(os.getpid(), signal.SIGKILL)
    named = f"rank {victim}"
    neighbor = survivors[(survivors.index(rank) + 1) % len(survivors)]
    receive = dist.irecv(torch.empty(LARGE), neighbor)  # from a living rank that does not send
    begin = time.monotonic()
    error = fails(lambda: [dist.all_reduce(torch.ones(LARGE)) for _ in range(3)], named)
    assert error.ranks == (victim,)
    fails(receive.wait, named)
    fails(dist.barrier, named)
    fails(lambda: dist.all_reduce(given, group=others), named)
    fails(lambda: dist.send(given, neighbor), named)
    fails(lambda: dist.all_reduce(given, async_op=True).get_future().wait(), named)
    say(f"failed after {time.monotonic() - begin:.3f} s")
    dist.distributed_c10d._abort_process_group()
    rank, size = begin_anew(survivors.index(rank), size - 1, port)
    given = torch.ones(LARGE)
    dist.all_reduce(given)
    assert torch.equal(given, torch.full((LARGE,), float(size)))
    dist.destroy_process_group()
    say("began anew")


def early():
    """Rank 0 has finished and leaves. This is no loss: the others continue their work without it."""
    rank, size = start()
    others = dist.new_group(list(range(1, size)))
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        dist.destroy_process_group()
        store.set("left", "")
        store.wait([f"{one} is done" for one in range(1, size)])
        return
    store.wait(["left"])
    fails(dist.barrier, "rank 0", "closed")
    given = torch.ones(LARGE)
    dist.all_reduce(given, group=others)
    assert torch.equal(given, torch.full((LARGE,), float(size - 1)))
    work = dist.isend(given, 2) if rank == 1 else dist.irecv(given, 1)
    work.wait()
    fails(lambda: dist.send(given, 0), "left")
    store.set(f"{rank} is done", "")
    dist.destroy_process_group()


def uncommitted(port):
    """The step of FSDP2 and of DistributedDataParallel in which a rank fails."""
    import pccl.torch

    rank, size = start()
    models = [with_fsdp2(dist.group.WORLD), with_ddp(dist.group.WORLD)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
    for model, optimizer in zip(models, optimizers):
        model(batch(0)[0]).sum().backward()
        optimizer.step()
    assert pccl.torch.committed()
    outputs = [model(batch(1)[0]).sum() for model in models]
    if rank == size - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    outputs[0].backward()  # ends, with this rank's values
    fails(optimizers[0].step, "skip the step", f"rank {size - 1}")
    fails(optimizers[1].step, "skip the step", f"rank {size - 1}")
    assert not pccl.torch.committed() and pccl.torch.committed()
    optimizers[0].zero_grad()
    fails(lambda: models[0](batch(2)[0]), f"rank {size - 1}")
    fails(outputs[1].backward, f"rank {size - 1}")
    fails(optimizers[1].step, "skip the step")
    dist.distributed_c10d._abort_process_group()
    begin_anew(rank, size - 1, port)
    losses_of(with_fsdp2(dist.group.WORLD), 2)
    dist.destroy_process_group()
    say("began anew")


def elastic_replicas(address, folder):
    """Two replicas of two ranks. A collective that fails in the backward of one of them drops the step of both, and
    FSDP2 still reduces in the next one."""
    import pccl.torch
    from pccl.torch._call import Call

    rank = int(os.environ["RANK"])
    store = dist.FileStore(f"{folder}/{rank // 2}", 2)
    dist.init_process_group("pccl", store=store, rank=rank % 2, world_size=2, timeout=timedelta(seconds=60))
    models = [with_fsdp2(dist.group.WORLD), with_ddp(dist.group.WORLD)]
    scatter, scatters_now = Call.scatter_reduced, Call.scatters_now

    def scatter_another(call, given, output, *more):
        Call.scatter_reduced, Call.scatters_now = scatter, scatters_now
        scatter(call, torch.zeros(2), torch.zeros(1), *more)

    for model in models:
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        with pccl.torch.elastic(model, optimizer, address=address, min_peers=2) as replica:
            for step in range(4):
                optimizer.zero_grad()
                loss = model(batch(4 * step + rank)[0]).square().mean()
                fails_now = model is models[0] and step == 2
                if fails_now and rank == 1:
                    Call.scatter_reduced, Call.scatters_now = scatter_another, lambda *_: False
                loss.backward()
                optimizer.step()
                assert replica.committed == pccl.torch.committed() == (not fails_now)
                whole = [getattr(p, "full_tensor", lambda p=p: p)().detach().clone() for p in model.parameters()]
                say(step, replica.step, replica.ranks, [float(p.double().sum()) for p in whole])
            dist.barrier()
    dist.destroy_process_group()


def misuse():
    """An error at one rank is an exception with a message at all."""
    rank, size = start()
    odd = rank == size - 1
    fails(lambda: dist.all_reduce(torch.ones(3 if odd else 4)), "rank")
    fails(lambda: dist.all_reduce(torch.ones(4, dtype=torch.int32 if odd else torch.float32)), "pccl")
    fails(lambda: dist.barrier() if odd else dist.all_reduce(torch.ones(4)), "pccl")
    given = torch.ones(2, 2).to_sparse_csr() if odd else torch.ones(4)
    fails(lambda: dist.all_reduce(given), "sparse_csr" if odd else "refused")
    reduced = lambda tensor: (dist.all_reduce(tensor.detach()), tensor.sum())[1]
    reduce = torch.func.grad(reduced) if odd else reduced
    fails(lambda: reduce(torch.ones(4)), "storage" if odd else "refused")
    fails(lambda: dist.broadcast(given, 0), "sparse_csr" if odd else "refused")
    if odd:
        fails(lambda: dist.send(given, 0), "sparse_csr")
    elif rank == 0:
        fails(lambda: dist.recv(given, size - 1), "refused")
    fails(lambda: dist.all_reduce(torch.ones(4, dtype=torch.float8_e4m3fnuz)), "cannot reduce")
    places = [torch.empty(2 if odd else 4) for _ in range(size)]
    fails(lambda: dist.all_gather(places, torch.ones(4)), "pccl" if not odd else "but its output has 2")
    nothing_left = torch.ones(4)
    dist.all_reduce(nothing_left)
    assert torch.equal(nothing_left, torch.full((4,), float(size)))
    store = dist.distributed_c10d._get_default_store()
    if odd:
        store.wait([f"late/{one}" for one in range(size - 1)])
    missing = f"Rank {size - 1} failed to pass monitoredBarrier"
    error = fails(lambda: dist.group.WORLD.monitored_barrier(timedelta(seconds=3)), missing)
    assert error.ranks == (size - 1,)
    store.set(f"late/{rank}", "")
    dist.group.WORLD.monitored_barrier()
    if rank == 0:
        store.wait([f"gave up/{one}" for one in range(1, size)])
    limit = timedelta(seconds=60 if rank == 0 else 0.5)
    late = "after the others had timed out" if rank == 0 else f"Rank {rank} successfully reached monitoredBarrier"
    error = fails(lambda: dist.group.WORLD.monitored_barrier(limit), late, "Rank 0 failed to pass monitoredBarrier")
    assert error.ranks == (0,)
    store.set(f"gave up/{rank}", "")
    dist.group.WORLD.monitored_barrier()
    say("all refused")
    dist.destroy_process_group()


def incomplete():
    """A world whose rank 1 is missing."""
    import pccl.torch._rendezvous as rendezvous

    rendezvous.LOG_EVERY_S = 0.2
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), None, rank == 0, wait_for_workers=False)
    given = {"store": store, "rank": rank, "world_size": size, "timeout": timedelta(seconds=3)}
    words = "world is not complete within 3 s: rank 1 missing", " Timed out "
    fails(lambda: dist.init_process_group("pccl", **given), *words)
    store.set(f"{rank} has failed", "")
    if rank == 0:  # it serves the store, which has no further requests
        store.wait(["2 has failed"])
    say("incomplete")


def of_two_versions():
    """Each rank gets the error that one has another version of the package."""
    import pccl.torch._rendezvous as rendezvous

    if os.environ["RANK"] == "1":
        rendezvous.__version__ = "9.9.9"
    fails(start, "belong to different worlds", "9.9.9")
    say("refused")


def of_another_world(address):
    """Jobs of two and of three that use the same master: at least one of them gets the error, and leaves."""
    size = 2 + int(os.environ["RANK"]) % 2
    os.environ["WORLD_SIZE"] = str(size)
    try:
        start(init_method=f"pccl://{address}")
    except dist.DistBackendError as error:
        assert "another job uses it, or the world sizes differ" in str(error), error
        say("refused")


def by_master(address, size):
    rank, size = start(init_method=f"pccl://{address}", world_size=int(size))
    given = part(rank, LARGE)
    dist.all_reduce(given)
    assert torch.equal(given, sum(parts(size, LARGE)))
    ranks = [None] * size
    dist.all_gather_object(ranks, rank)
    assert ranks == list(range(size))
    dist.destroy_process_group()
    say("by the master")


# ---- waiting


def interrupt_when_waiting(function):
    """Raises Ctrl-C as soon as the main thread waits for an operation of ours in this function."""
    main = threading.main_thread().ident

    def watch():
        while True:
            frame = sys._current_frames()[main]
            while frame is not None and frame.f_code.co_name != function:
                frame = frame.f_back
            if frame is not None:
                os.kill(os.getpid(), signal.SIGINT)
                return

    threading.Thread(target=watch, daemon=True).start()


def must_be_interrupted(function, operate):
    """Interrupts an operation as soon as it waits in this function."""
    interrupt_when_waiting(function)
    try:
        operate()
    except KeyboardInterrupt:
        return
    raise AssertionError("it was not interrupted")


def interrupted():
    import pccl._threads

    rank, _ = start()

    def forbidden(*_):
        raise AssertionError("a blocking operation needs no other thread")

    before = pccl._threads.try_start
    pccl._threads.try_start = forbidden
    for count in (1, LARGE):
        dist.all_reduce(torch.ones(count))
    pccl._threads.try_start = before
    store = dist.distributed_c10d._get_default_store()
    library = pccl.torch._call._carry_out

    def awaits(*given):  # shows that it has been launched
        return library(*given)

    pccl.torch._call._carry_out = awaits
    # At once, and when it takes longer than most.
    for function in ("awaits", "wait_briefly"):
        if rank == 0:
            must_be_interrupted(function, lambda: dist.all_reduce(torch.ones(LARGE)))
            store.set(f"interrupted {function}", "")
        else:
            store.wait([f"interrupted {function}"])
            fails(lambda: dist.all_reduce(torch.ones(LARGE)), "abort")
    work = dist.all_reduce(torch.ones(2), async_op=True) if rank == 0 else None
    if rank == 0:
        fails(lambda: work.wait(timedelta(seconds=0.05)), " Timed out waiting 50ms ", "still running")
        store.set("waited", "")
    else:
        store.wait(["waited"])
        work = dist.all_reduce(torch.ones(2), async_op=True)
    work.wait()
    dist.group.WORLD.set_timeout(timedelta(seconds=0.3))
    if rank == 0:
        fails(dist.barrier, " Timed out waiting 300ms ", "waits for peer", "'rank 1 of 2'")
        store.set("timed out", "")
    else:
        store.wait(["timed out"])
        fails(dist.barrier, "abort")
    dist.group.WORLD.set_timeout(timedelta(seconds=60))
    dist.barrier()
    dist.destroy_process_group()
    say("interrupted")


def twice():
    """Under torchrun, whose store outlives the world; and its master ends by itself."""
    import pccl.torch._rendezvous as rendezvous

    rendezvous.IDLE_EXIT_MS = 1000
    for _ in range(2):
        rank, size = start()
        given = torch.ones(3)
        dist.all_reduce(given)
        assert given.tolist() == [float(size)] * 3
        dist.destroy_process_group()
    if rank == 0:
        assert [master.wait(60) for master in rendezvous._masters] == [0, 0]
    say("twice")


# ---- memory of devices


def on_device():
    """With the device of torch_device.py: operations read the results of the caller's stream, and later work in it
    reads the operations' results; the host waits for neither."""
    import pccl.torch._staging as staging
    import torch_device

    rank, size = start()
    device = torch_device.Device(staging)
    kernels = device.current_stream()

    def check(operate, given, place, expected, is_in_place=False):
        """A kernel makes given; another one reads the old content of the place, and one the new."""
        sent, received, old, new = device.empty(given.shape), device.empty(place), torch.ones(place), torch.zeros(place)
        kernels.put(lambda: old.copy_(received))
        kernels.put(lambda: sent.copy_(given))
        if is_in_place:
            kernels.put(lambda: received.copy_(sent))
        work = operate(sent, received)
        work.wait()
        assert torch.equal(received, given if is_in_place else torch.zeros(place))
        kernels.put(lambda: new.copy_(received))
        kernels.synchronize()
        assert torch.equal(new, expected) and torch.equal(old, torch.zeros(place))

    for count in (SMALL, LARGE):
        own, whole = part(rank, count), torch.cat(parts(size, count))
        gather = lambda sent, received: dist.all_gather_into_tensor(received, sent, async_op=True)  # noqa: E731
        check(gather, own, (size * count,), whole)
        listed = lambda sent, received: dist.all_gather(list(received), sent, async_op=True)  # noqa: E731
        check(listed, own, (size, count), whole.view(size, count))
        scatter = lambda sent, received: dist.reduce_scatter_tensor(received, sent, async_op=True)  # noqa: E731
        check(scatter, whole, (count,), size * own)
        exchange = lambda sent, received: dist.all_to_all_single(received, sent, async_op=True)  # noqa: E731
        check(exchange, whole, (size * count,), own.repeat(size))
        reduce = lambda _, received: dist.all_reduce(received, async_op=True)  # noqa: E731
        check(reduce, own, (count,), sum(parts(size, count)), is_in_place=True)
        for move in (
            lambda _, received: dist.isend(received, 1) if rank == 0 else dist.irecv(received, 0),
            lambda _, received: dist.broadcast(received, 0, async_op=True),
        ):
            check(move, own, (count,), part(0, count), is_in_place=rank == 0)
    dist.barrier()
    dist.destroy_process_group()


# ---- failures at any moment


def killed_at_random(victim, seconds, port, kind):
    """Training, by DistributedDataParallel or HSDP, in which a rank fails at any moment. The others' operations then
    fail with a message that names it; they start again, and their parameters are the same."""
    victim = int(victim)
    rank, size = start()
    model = globals()[f"with_{kind}"](dist.group.WORLD)
    if rank == victim:
        threading.Timer(float(seconds), lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    error = fails(lambda: [losses_of(model, 50) for _ in range(10000)], f"rank {victim}")
    say(f"{type(error).__name__}: {error}")
    dist.distributed_c10d._abort_process_group()
    survivors = [one for one in range(size) if one != victim]
    rank, size = begin_anew(survivors.index(rank), size - 1, port)
    model = with_ddp(dist.group.WORLD)
    losses_of(model, 3)
    assert all(places_agree(parameter.detach()) for parameter in model.parameters())
    dist.destroy_process_group()


def on_cuda():
    """The same with a real device, whose kernels take their time."""
    rank, size = start()
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)

    def slowly(make):
        torch.cuda._sleep(50_000_000)
        return make()

    for count in (SMALL, LARGE):
        own = part(rank, count)
        given = torch.zeros(count, device=device)
        slowly(lambda: given.copy_(own))
        place = torch.zeros(size * count, device=device)
        dist.all_gather_into_tensor(place, given)
        assert torch.equal(place.cpu(), torch.cat(parts(size, count)))
        slowly(lambda: given.add_(1))
        dist.all_reduce(given)
        assert torch.equal((given + 0).cpu(), sum(parts(size, count)) + size)
        share = torch.zeros(count, device=device)
        work = dist.reduce_scatter_tensor(share, slowly(lambda: place * 2), async_op=True)
        assert torch.equal(work.get_future().wait()[0].cpu(), 2 * size * own)
        if rank == 0:
            dist.send(slowly(lambda: share + 1), 1)
        elif rank == 1:
            dist.recv(share, 0)
            assert torch.equal(share.cpu(), 2 * size * part(0, count) + 1)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 300).to(device), device_ids=[device])
    model(torch.full((4, 300), float(rank), device=device)).sum().backward()
    gradient = model.module.weight.grad.cpu()
    assert torch.allclose(gradient, torch.full_like(gradient, 4 * sum(range(size)) / size))
    assert places_agree(gradient)
    dist.destroy_process_group()


def places_agree(tensor):
    """Returns true if all ranks have the same bits."""
    everywhere = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(everywhere, tensor)
    return same(everywhere, [tensor] * len(everywhere))
