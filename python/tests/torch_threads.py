"""A program of ranks (torch_bodies.py) in which two threads of one use the same group."""

import sys
import threading

import torch
import torch.distributed as dist
from torch_bodies import start


def given_back_late():
    """A number is returned while the next one is in use: only the operation of the others under it fails."""
    from pccl.torch import _call

    rank, _ = start()
    group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    if rank == 0:
        holder = group._pool.make()
        group._take_number(holder)
        work = dist.all_reduce(torch.ones(1), async_op=True)
        _call.give_back(group, holder)
        work.wait()
    else:
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError:
            dist.all_reduce(torch.ones(1))
        else:
            raise AssertionError("nothing told this rank that the other one gave the operation up")
    dist.barrier()
    assert not group._comm._launching and -1 not in group._under_way
    dist.destroy_process_group()


def all_tags_at_once():
    """While one thread waits for an all-reduce, another one launches as many as have tags. The next waits for it."""
    from pccl.torch import _call

    rank, _ = start()
    store = dist.distributed_c10d._get_default_store()
    values = [float(index) for index in range(256)]
    if rank == 0:
        waits, goes_on = threading.Event(), threading.Event()
        library = _call._carry_out

        def awaits(*given):
            _call._carry_out = library
            waits.set()
            goes_on.wait()
            code = library(*given)  # fails: the other rank has not begun
            store.set("go", "")
            return code

        _call._carry_out = awaits
        first, more = torch.full((1,), values[0]), [torch.full((1,), value) for value in [*values[1:], 9.0]]
        thread = threading.Thread(target=lambda: dist.all_reduce(first))
        thread.start()
        waits.wait()
        works = [dist.all_reduce(one, async_op=True) for one in more[:-1]]
        goes_on.set()
        works.append(dist.all_reduce(more[-1], async_op=True))
        thread.join()
        for work in works:
            work.wait()
        own = [first, *more]
    else:
        store.wait(["go"])
        own = [torch.full((1,), value) for value in [*values, 9.0]]
        for one in own:
            dist.all_reduce(one)
    assert [one.item() for one in own] == [2 * value for value in [*values, 9.0]]
    dist.barrier()
    dist.destroy_process_group()


def at_each_line():
    """Another thread calls at any line of an all-reduce: it finds no object in use, and breaks nothing."""
    start()
    pool, visits = dist.group.WORLD._pool, dist.group.WORLD._core._visits
    comes, found = [], []

    def line(_frame, event, _argument):
        if event == "line":
            found.extend(one for one in pool.free if one.mark in visits)
            comes.append(pool.make())
        return line

    before = sys.gettrace()
    for is_async in (False, True):
        pool.free.append(pool.make())
        sys.settrace(lambda *_: line)
        try:
            dist.all_reduce(torch.ones(1), async_op=is_async)
        finally:
            sys.settrace(before)
    assert len(comes) > 20 and not found, found
    dist.destroy_process_group()
