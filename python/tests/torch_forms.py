"""A program of ranks (torch_bodies.py) that calls the methods of the group itself, without options or with one tensor
and what options would have."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch_bodies import SMALL, Against, Op, part, parts, start


def every_form():
    rank, size = start()
    against = Against(rank, size)
    own, every, last = part(rank, SMALL), parts(size, SMALL), size - 1

    def check(what, call, expected=None):
        def called(group):
            work, results = call(dist.group.WORLD if group is None else group)
            work.wait()
            return results

        against(what, called, expected)

    for more in ((), (Op.MAX,), (Op.MIN, timedelta(seconds=50))):
        check("allreduce", lambda group: (group.allreduce([given := own.clone()], *more), [given]))
        check("allreduce", lambda group: (group.allreduce(given := own.clone(), *more), [given]))
        check("reduce_scatter", lambda group: (group.reduce_scatter(given := own.clone(), every, *more), [given]))
    check("allreduce", lambda group: (group.allreduce(given := own.clone(), op=Op.PRODUCT), [given]))
    two = lambda: [own.clone(), 2 * own]  # noqa: E731
    check("allreduce_coalesced", lambda group: (group.allreduce_coalesced(given := two()), given))
    check("broadcast", lambda group: (group.broadcast([given := own.clone()]), [given]))
    check("broadcast", lambda group: (group.broadcast(given := own.clone(), last), [given]))
    check("reduce", lambda group: (group.reduce([given := own.clone()]), [given] if rank == 0 else []))
    check("reduce", lambda group: (group.reduce(given := own.clone(), last, Op.MAX), [given] if rank == last else []))
    empty = lambda: list(torch.empty(size, SMALL))  # noqa: E731
    check("allgather", lambda group: (group.allgather([places := empty()], [own]), places))
    check("allgather", lambda group: (group.allgather(places := empty(), own), places))
    for root, more in ((0, ()), (last, (last,))):
        places, place = empty() if rank == root else [], torch.empty(SMALL)
        gathered, given = ([places], [own]) if root == 0 else (places, own), every if rank == root else []
        check("gather", lambda group: (group.gather(*gathered, *more), places), every if rank == root else [])
        scattered = ([place], [given]) if root == 0 else (place, given)
        check("scatter", lambda group: (group.scatter(*scattered, *more), [place]), [own])
    shared, place = size * own, torch.empty(size * SMALL)
    check("reduce_scatter", lambda group: (group.reduce_scatter([given := own.clone()], [every]), [given]), [shared])
    single = lambda group: (group.reduce_scatter_single(given := own.clone(), torch.cat(every)), [given])  # noqa: E731
    check("reduce_scatter_single", single, [shared])
    check("all_gather_single", lambda group: (group.all_gather_single(place, own), [place]), [torch.cat(every)])
    check("allreduce", lambda group: (group.allreduce(tensor=(given := own.clone()), op=Op.MAX), [given]))
    check("broadcast", lambda group: (group.broadcast(tensor=(given := own.clone()), root=last), [given]))
    named = lambda group, places: group.allgather(input_tensors=[own], output_tensors=[places])  # noqa: E731
    check("allgather", lambda group: (named(group, places := empty()), places))
    limits = ([], [], timedelta(seconds=50)), ([], [])

    def exchange(group, *more, **one):
        return group.alltoall_base(place, torch.cat(every), *more, **one), [place]

    check("alltoall_base", lambda group: exchange(group, *limits[0]), [own.repeat(size)])
    check("alltoall_base", lambda group: exchange(group, *limits[1], timeout=limits[0][2]), [own.repeat(size)])
    for wrong in ({"roots": 1}, {"opts": dist.ReduceOptions()}):
        try:
            dist.group.WORLD.broadcast(own, **wrong)
        except TypeError as error:
            assert "BroadcastOptions or root, timeout" in str(error)
        else:
            raise AssertionError(wrong)
    check("barrier", lambda group: (group.barrier(), []))
    check("barrier", lambda group: (group.barrier(timeout=timedelta(seconds=50)), []))
    dist.barrier()
    dist.destroy_process_group()
