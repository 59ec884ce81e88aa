"""Programs of ranks (torch_bodies.py): of a world of more than 16, in which not all have links to each other, and of
many process groups in turns."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch_bodies import LARGE, part, say, start


def sends():
    """Sends bulk data to ranks near and far in the ring, then from all ranks to one, which receives from any rank."""
    rank, size = start()
    for distance in (2, size // 2, size - 1):
        place = torch.empty(LARGE)
        work = dist.irecv(place, (rank - distance) % size)
        dist.send(part(rank, LARGE), (rank + distance) % size)
        work.wait()
        assert torch.equal(place, part((rank - distance) % size, LARGE))
    if rank > 0:
        dist.send(part(rank, LARGE), 0, tag=1)
    else:
        sources = set()
        for _ in range(size - 1):
            place = torch.empty(LARGE)
            sources.add(source := dist.recv(place, tag=1))
            assert torch.equal(place, part(source, LARGE))
        assert sources == set(range(1, size))
    dist.destroy_process_group()


def again(turns):
    """Makes process groups of gloo and "pccl" in turns, each with a prefix in one store."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), size, is_master=rank == 0)
    for number in range(2 * int(turns)):
        own, limit = dist.PrefixStore(str(number), store), timedelta(seconds=60)
        dist.init_process_group(["gloo", "pccl"][number % 2], store=own, rank=rank, world_size=size, timeout=limit)
        total = torch.tensor([float(rank)])
        dist.all_reduce(total)
        assert total.item() == sum(range(size)), (number, total)
        dist.destroy_process_group()
    store.add("done", 1)
    while rank == 0 and store.add("done", 0) < size:
        time.sleep(0.01)
    say("all agreed")
