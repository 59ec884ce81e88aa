"""A program of ranks (torch_bodies.py) that calls the methods of the group itself, without options or with one tensor
and the fields of the options."""

from datetime import timedelta

import torch
import torch.distributed as dist
from torch_bodies import LARGE, SMALL, Against, Op, fails, part, parts, start


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
    for count in (1, 2, size, size + 2):
        lists(check, rank, size, count)
    wrong_lists(rank, size)
    dist.barrier()
    dist.destroy_process_group()


SHAPES = (2, 3), (), (0, 4), (LARGE,), (3, 1, 2), (5,)


def lists(check, rank, size, count):
    """Operations of lists of this number of tensors of different shapes and types, not all contiguous. gloo returns
    wrong results where types differ."""
    kinds = [torch.float32, torch.int64, torch.float64]
    kind = lambda at: kinds[at % len(kinds)]  # noqa: E731

    def made(one, at, times=1):
        shape = SHAPES[at] if times == 1 else (times, *SHAPES[at])
        return (part(one, torch.Size(shape).numel(), kind(at)) + at).reshape(shape)

    def place(at, times=1):
        shape = SHAPES[at] if times == 1 else (times, *SHAPES[at])
        zeros = torch.zeros(shape, dtype=kind(at))
        return zeros.transpose(0, -1).contiguous().transpose(0, -1) if len(shape) > 1 else zeros

    own, numbers = [place(at).copy_(made(rank, at)) for at in range(count)], range(count)
    every = [[made(one, at) for at in numbers] for one in range(size)]
    flat = lambda places: [one for each in places for one in each]  # noqa: E731

    def gathered(group):
        places = [[place(at) for at in numbers] for _ in range(size)]
        return group.allgather_coalesced(places, own), flat(places)

    def gathered_by_function(group):
        places = [[torch.zeros(at + 1, 2) for at in numbers] for _ in range(size)]
        given = [torch.full((at + 1, 2), float(10 * rank + at)) for at in numbers]
        return dist.all_gather_coalesced(places, given, group=group, async_op=True), flat(places)

    check(("allgather_coalesced", count), gathered, flat(every))
    check(("all_gather_coalesced", count), gathered_by_function)
    joined = [torch.stack([each[at] for each in every]) for at in numbers]
    into = lambda group: (  # noqa: E731
        group.allgather_into_tensor_coalesced(places := [place(at, size) for at in numbers], own),
        places,
    )
    check(("allgather_into_tensor_coalesced", count), into, joined)
    shares = lambda group: (  # noqa: E731
        group.reduce_scatter_tensor_coalesced(places := [place(at) for at in numbers], joined),
        places,
    )
    check(("reduce_scatter_tensor_coalesced", count), shares, [size * made(rank, at) for at in numbers])
    reduced = lambda group: (group.allreduce_coalesced(given := [one.clone() for one in own]), given)  # noqa: E731
    check(("allreduce_coalesced", count), reduced, [sum(made(one, at) for one in range(size)) for at in numbers])


def wrong_lists(rank, size):
    """Arguments that torch refuses: each raises an exception with a message, and the next operation works."""
    group, one, two = dist.group.WORLD, torch.ones(2), [torch.ones(2), torch.ones(3)]
    places = lambda count, shape=2: [torch.zeros(shape) for _ in range(count)]  # noqa: E731
    wrong = {
        f"{size - 1} lists for {size} ranks": lambda: group.allgather_coalesced([places(2)] * (size - 1), two),
        "1 outputs for 2 inputs": lambda: group.allgather_coalesced([places(1)] * size, two),
        "shape (4,) for an input of (2,)": lambda: group.allgather_coalesced([places(1, 4)] * size, [one]),
        "inputs: no tensors": lambda: group.allgather_coalesced([[]] * size, []),
        "all_gather: 2 outputs for 1 inputs": lambda: group.allgather([places(size)] * 2, [one]),
        "into_tensor: 1 outputs for 2 inputs": lambda: group.allgather_into_tensor_coalesced(places(1, 2 * size), two),
        "scatter: 2 outputs for 1 inputs": lambda: group.reduce_scatter(places(2), [places(size)]),
        "scatter_tensor: 1 outputs for 2 inputs": lambda: group.reduce_scatter_tensor_coalesced(places(1), two),
        "all_reduce: 2 tensors: expected one": lambda: group.allreduce(places(2)),
        "broadcast: 2 tensors: expected one": lambda: group.broadcast(places(2)),
        "reduce: 2 tensors: expected one": lambda: group.reduce(places(2)),
        "gather: 2 tensors: expected one": lambda: group.gather([places(size)] if rank == 0 else [], two),
        "scatter: 0 tensors: expected one": lambda: group.scatter([], []),
    }
    for words, call in wrong.items():
        fails(call, words)
    unequal = [torch.zeros(at + 1) for at in range(size)]  # together the same number of elements as equal ones
    sizes = "tensors of different sizes"
    fails(lambda: dist.gather(one, unequal if rank == 0 else None), sizes if rank == 0 else "refused")
    fails(lambda: dist.scatter(one, unequal if rank == 0 else None), sizes if rank == 0 else "refused")
    given = torch.ones(SMALL)
    dist.all_reduce(given)
    assert torch.equal(given, torch.full((SMALL,), float(size)))
