"""A program of ranks (torch_bodies.py) of a world of more than 16: not all of them have links to each other."""

import torch
import torch.distributed as dist
from torch_bodies import LARGE, part, start


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
