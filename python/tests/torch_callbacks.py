"""Programs of ranks (torch_bodies.py) whose callbacks of futures wait for other operations."""

import os
import signal
import threading
from datetime import timedelta

import torch
import torch.distributed as dist
from torch_bodies import LARGE, begin_anew, fails, losses_of, part, places_agree, say, start, with_ddp


def later(tensor, group=None):
    return dist.all_reduce(tensor, group=group, async_op=True).get_future()


# ---- hooks of torch


def with_power_sgd(group, bucket_cap_mb=25, wrapper=None, **given):
    """Uses one bucket by default: with several, operations of gloo's callbacks match operations of other buckets."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    model = with_ddp(group, bucket_cap_mb)
    state = powerSGD_hook.PowerSGDState(
        group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1, **given
    )
    hook = powerSGD_hook.powerSGD_hook
    model.register_comm_hook(state, hook if wrapper is None else getattr(default_hooks, wrapper)(hook))
    return model


def with_local_sgd(group):
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as hooks

    model = with_ddp(group)
    alone = dist.new_subgroups(group_size=1, backend=dist.get_backend(group))[0]
    model.register_comm_hook(hooks.PostLocalSGDState(group, alone, 3), hooks.post_localSGD_hook)
    return model


def with_default_hook(group, name):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = with_ddp(group)
    model.register_comm_hook(group, getattr(default_hooks, name))
    return model


HOOKS = {
    "powerSGD": with_power_sgd,
    "powerSGD without warm start": lambda group: with_power_sgd(group, use_error_feedback=False, warm_start=False),
    "powerSGD in float16": lambda group: with_power_sgd(group, wrapper="fp16_compress_wrapper"),
    "post_localSGD": with_local_sgd,
    "fp16_compress": lambda group: with_default_hook(group, "fp16_compress_hook"),
}


def hooks(*kinds):
    start()
    gloo = dist.new_group(backend="gloo")
    for kind in kinds or HOOKS:
        ours, theirs = losses_of(HOOKS[kind](dist.group.WORLD)), losses_of(HOOKS[kind](gloo))
        limit = 1e-2 if "16" in kind else 1e-4
        assert all(abs(one - other) < limit for one, other in zip(ours, theirs)), (kind, ours, theirs)
        assert len(set(ours)) == len(ours)
    model = with_power_sgd(dist.group.WORLD, 0.005)
    losses_of(model, 10)
    assert all(places_agree(parameter.detach()) for parameter in model.parameters())
    dist.barrier()
    dist.destroy_process_group()
    say("all hooks")


# ---- callbacks that wait


def waiting():
    rank, size = start()
    in_order(rank, size)
    at_once(rank, size)
    in_another_order(rank, size)
    for_a_later_one(rank, size)
    behind_a_receive(rank, size)
    nested(rank, size)
    chained(rank, size)
    of_all_kinds(rank, size)
    raising(rank, size)
    for_a_while(rank, size)
    dist.barrier()
    dist.destroy_process_group()
    say("all waited")


def in_order(rank, size):
    """Each callback runs once, after its work has ended, with a bounded number of threads."""
    ran, before = {}, threading.active_count()

    def note(at):
        return lambda done: ran.setdefault(at, done.value()[0].clone())

    futures = [later(part(rank + at, LARGE if at % 10 == 0 else 3)).then(note(at)) for at in range(100)]
    for at, future in enumerate(futures):
        expected = sum(parts_of(size, at, LARGE if at % 10 == 0 else 3))
        assert torch.equal(future.wait(), expected) and torch.equal(ran[at], expected)
    assert len(ran) == 100 and threading.active_count() < before + 50


def parts_of(size, at, count):
    return [part(one + at, count) for one in range(size)]


def at_once(rank, size):
    """More callbacks than a usual backend has threads, each waiting for two operations, in either way. Some ranks add
    callbacks when the work is over, so that they run at once. Only corresponding operations match."""

    def wait_twice(at):
        def call(_):
            first, second = part(rank + at, 3), part(rank + 2 * at, LARGE)
            dist.all_reduce(first, async_op=True).wait()
            assert torch.equal(first, sum(parts_of(size, at, 3)))
            return later(second).wait()[0]

        return call

    for repeat in range(3):
        works = [dist.all_reduce(torch.ones(at + 1), async_op=True) for at in range(5)]
        futures = []
        for at, work in enumerate(works):
            if (at + rank + repeat) % size == 0:
                work.wait()
            futures.append(work.get_future().then(wait_twice(at)))
            dist.all_reduce(given := part(rank + at, 3))
            assert torch.equal(given, sum(parts_of(size, at, 3)))
        for at, future in enumerate(futures):
            assert torch.equal(future.wait(), sum(parts_of(size, 2 * at, LARGE)))


def in_another_order(rank, size):
    """Each rank's callbacks run in another order, and each waits for all ranks: in one group, and in several. Rank 0 is
    the last to launch, so that then() blocks no other one."""
    store = dist.distributed_c10d._get_default_store()
    for number, groups in enumerate(([None] * 3, [dist.new_group() for _ in range(3)])):
        if rank == 0:
            store.wait([f"registered {number} {one}" for one in range(1, size)])
        works = [dist.all_reduce(torch.ones(2), async_op=True) for _ in groups]
        values = {}
        for at in sorted(range(3), key=lambda at: (at + rank) % 3):
            given = part(rank + at, LARGE)
            values[at] = works[at].get_future().then(lambda _, given=given, at=at: later(given, groups[at]).wait()[0])
        store.set(f"registered {number} {rank}", "")
        for at, future in values.items():
            assert torch.equal(future.wait(), sum(parts_of(size, at, LARGE)))


def for_a_later_one(rank, size):
    """A callback waits for an event that the callback of the next work sets. Rank 0 has no callbacks and launches last,
    so that no work is over when then() is called: otherwise then() would run the callback, and wait, itself."""
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        store.wait([f"waits for a later one {one}" for one in range(1, size)])
        return [later(torch.ones(2)).wait() for _ in range(2)]
    brought = torch.futures.Future()
    waits = later(torch.ones(2)).then(lambda _: brought.wait())
    store.set(f"waits for a later one {rank}", "")
    later(torch.ones(2)).then(lambda _: brought.set_result("brought")).wait()
    assert waits.wait() == "brought"


def behind_a_receive(rank, _size):
    """A future whose work waits for long does not delay the next one, whose callback ends the wait."""
    if rank == 0:
        place = torch.zeros(3)
        received = dist.irecv(place, 1, tag=7).get_future()
        later(torch.ones(2)).then(lambda _: dist.send(torch.ones(3), 1, tag=7)).wait()
        received.wait()
        assert place.tolist() == [2.0] * 3
    else:
        later(torch.ones(2)).wait()
        if rank == 1:
            dist.recv(got := torch.zeros(3), 0, tag=7)
            dist.send(2 * got, 0, tag=7)


def nested(_rank, size, depth=30):
    def deeper(left):
        def call(done):
            value = done.value()[0] / size
            return value if left == 0 else later(value).then(deeper(left - 1)).wait() + 1

        return call

    assert later(torch.ones(2)).then(deeper(depth)).wait().tolist() == [1.0 + depth] * 2


def chained(_rank, size, count=300):
    """Each callback launches the next operation, and waits for none, while the program launches others."""
    left, ended = [count], threading.Event()

    def step(done):
        left[0] -= done.value()[0].item() == size
        if left[0] == 0:
            ended.set()
        else:
            later(torch.ones(1)).then(step)

    later(torch.ones(1)).then(step)
    for _ in range(20):
        dist.all_reduce(given := torch.ones(3))
        assert given.tolist() == [float(size)] * 3
    ended.wait()


def of_all_kinds(rank, size):
    """Callbacks and the program use the same operations at the same time, more than a lane has tags."""

    def exchange(value):
        places = [torch.zeros(rank + one + 1) for one in range(size)]
        dist.all_to_all(places, [torch.full((rank + one + 1,), float(value + rank)) for one in range(size)])
        assert all(place.eq(value + one).all() for one, place in enumerate(places))

    def use(value):
        tensors = [torch.full((at + 1,), float(value)) for at in range(20)]
        dist.group.WORLD.allreduce_coalesced(tensors).wait()
        assert all(one.eq(value * size).all() for one in tensors)
        exchange(value)
        objects = [None] * size
        dist.all_gather_object(objects, (value, rank))
        assert objects == [(value, one) for one in range(size)]
        works = [dist.all_reduce(torch.ones(1), async_op=True) for _ in range(40)]
        return sum(work.result()[0].item() for work in works)

    futures = [later(torch.ones(1)).then(lambda _, value=value: use(value)) for value in (10, 20, 30)]
    exchange(40)
    assert [future.wait() for future in futures] == [40.0 * size] * 3


def raising(_rank, size):
    def fail(_):
        later(torch.ones(2)).wait()
        raise ValueError("not today")

    failed = later(torch.ones(2)).then(fail)
    outer = later(torch.ones(2)).then(lambda _: later(torch.ones(2)).then(fail).wait())
    fine = later(torch.ones(2)).then(lambda done: later(done.value()[0]).wait()[0])
    for future in (failed, outer):
        fails(future.wait, "not today")
    assert fine.wait().tolist() == [float(size * size)] * 2


def for_a_while(rank, size):
    """A wait inside a callback reaches its limit; the operation continues."""
    store = dist.distributed_c10d._get_default_store()

    def wait(done):
        if rank == 0:
            work = dist.all_reduce(value := done.value()[0].clone(), async_op=True)
            fails(lambda: work.wait(timedelta(seconds=0.05)), " Timed out waiting 50ms ")
            store.set("waited", "")
        else:
            store.wait(["waited"])
            work = dist.all_reduce(value := done.value()[0].clone(), async_op=True)
        work.wait()
        return value

    assert later(torch.ones(2)).then(wait).wait().tolist() == [float(size * size)] * 2


# ---- ends of waits


def killed_inside(victim, port):
    """A rank fails in its callback, while callbacks of the others wait for it in both ways. They fail with its name."""
    victim = int(victim)
    rank, size = start()

    def wait(done, ask):
        if rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        return ask(dist.all_reduce(done.value()[0], async_op=True))

    ways = lambda work: work.wait(), lambda work: work.get_future().wait()  # noqa: E731
    futures = [later(torch.ones(LARGE)).then(lambda done, ask=ask: wait(done, ask)) for ask in ways]
    for future in futures:
        fails(future.wait, f"rank {victim}")
    fails(lambda: with_power_sgd(dist.group.WORLD), f"rank {victim}")
    dist.distributed_c10d._abort_process_group()
    survivors = [one for one in range(size) if one != victim]
    begin_anew(survivors.index(rank), size - 1, port)
    losses_of(with_power_sgd(dist.group.WORLD))
    dist.destroy_process_group()
    say("began anew")


def killed_in_hook(port):
    """The same inside the callbacks of PowerSGD: backward raises, its optimizer refuses the step."""
    import pccl.torch

    rank, size = start()
    model = with_power_sgd(dist.group.WORLD)
    losses_of(model, 3)
    if rank == size - 1:
        launched = dist.all_reduce

        def die(*given, **named):
            if threading.current_thread() is not threading.main_thread():
                os.kill(os.getpid(), signal.SIGKILL)
            return launched(*given, **named)

        dist.all_reduce = die
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fails(lambda: [losses_of(model, 50) for _ in range(1000)], f"rank {size - 1}")
    fails(optimizer.step, "skip the step")
    assert not pccl.torch.committed()
    dist.distributed_c10d._abort_process_group()
    begin_anew(rank, size - 1, port)
    losses_of(with_power_sgd(dist.group.WORLD))
    dist.destroy_process_group()
    say("began anew")


def destroyed():
    """The group ends while callbacks wait: they end, as do the ones whose works were in progress."""
    rank, _ = start()
    store = dist.distributed_c10d._get_default_store()
    begun, futures = threading.Event(), []

    def wait(_, ask):
        work = dist.all_reduce(torch.ones(2), async_op=True)  # without rank 1
        begun.set()
        ask(work)

    if rank == 0:
        for i, ask in enumerate((lambda work: work.wait(), lambda work: work.get_future().wait())):
            begun.clear()
            futures.append(later(torch.ones(2)).then(lambda _, ask=ask: wait(_, ask)))
            store.set(f"added {i}", "")  # a callback of a future that is complete would wait in this thread
            begun.wait()
        futures.append(dist.irecv(torch.zeros(2), 1).get_future().then(lambda done: done.value()))
        dist.destroy_process_group()
        for future in futures:
            fails(future.wait, "")
        store.set("destroyed", "")
    else:
        for i in range(2):
            store.wait([f"added {i}"])
            dist.all_reduce(torch.ones(2))
        store.wait(["destroyed"])
        fails(dist.barrier, "rank 0")
        dist.destroy_process_group()
    say("destroyed")
