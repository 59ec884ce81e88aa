"""One process of a collective of torch.distributed over gloo, for comparison. compare.py runs it.

    torch_collective.py RANK RANKS STORE_FILE INTERFACE NAME WARM_UP BYTES:ITERATIONS ...

NAME is one of compare.py's names; BYTES is the size of the larger buffer. Prints for each size: bytes, iterations,
total seconds, total CPU seconds, wrong elements.
"""

import os
import sys
import time


def prepare(torch, name, count):
    """Returns the call, its result, and the expected result."""
    dist = torch.distributed
    rank, ranks = dist.get_rank(), dist.get_world_size()
    part = count // ranks

    def values(first, length, of):
        return ((torch.arange(first, first + length, dtype=torch.int64) * 5 + of * 3) % 8).to(torch.float32)

    def summed(first, length):
        return sum(values(first, length, of) for of in range(ranks))

    if name == "all_reduce":
        tensor = values(0, count, rank)
        return lambda: dist.all_reduce(tensor), tensor, summed(0, count)
    if name == "broadcast":
        tensor = values(0, count, rank)
        return lambda: dist.broadcast(tensor, 0), tensor, values(0, count, 0)
    if name == "all_gather":
        send, tensor = values(0, part, rank), torch.zeros(part * ranks)
        gathered = torch.cat([values(0, part, of) for of in range(ranks)])
        return lambda: dist.all_gather_into_tensor(tensor, send), tensor, gathered
    if name == "reduce_scatter":
        send, tensor = values(0, part * ranks, rank), torch.zeros(part)
        return lambda: dist.reduce_scatter_tensor(tensor, send), tensor, summed(rank * part, part)
    if name == "reduce":
        tensor = values(0, count, rank)
        return lambda: dist.reduce(tensor, 0), tensor, summed(0, count) if rank == 0 else None
    if name == "gather":
        send, tensor = values(0, part, rank), torch.zeros(part * ranks if rank == 0 else 0)
        into = list(tensor.chunk(ranks)) if rank == 0 else None
        gathered = torch.cat([values(0, part, of) for of in range(ranks)])
        return lambda: dist.gather(send, into, 0), tensor, gathered[: len(tensor)]
    if name == "scatter":
        send, tensor = values(0, part * ranks, 0), torch.zeros(part)
        parts = list(send.chunk(ranks)) if rank == 0 else None
        return lambda: dist.scatter(tensor, parts, 0), tensor, send[rank * part : (rank + 1) * part]
    if name == "all_to_all":
        send, tensor = values(0, part * ranks, rank), torch.zeros(part * ranks)
        exchanged = torch.cat([values(rank * part, part, of) for of in range(ranks)])
        return lambda: dist.all_to_all_single(tensor, send), tensor, exchanged
    if name == "send":  # in each two, the first one to the second
        tensor = values(0, count, rank)
        run = (lambda: dist.recv(tensor, rank - 1)) if rank % 2 else (lambda: dist.send(tensor, rank + 1))
        return run, tensor, values(0, count, rank - rank % 2)
    return dist.barrier, torch.zeros(0), torch.zeros(0)


def measure(torch, name, size, warm_up, iterations):
    run, tensor, expected = prepare(torch, name, size // 4)
    run()
    wrong = int((tensor != expected).sum()) if expected is not None else 0
    if name in ("all_reduce", "reduce"):
        tensor.zero_()  # in place: it would grow
    for _ in range(warm_up):
        run()
    torch.distributed.barrier()
    cpu, start = time.process_time(), time.monotonic()
    for _ in range(iterations):
        run()
    took = time.monotonic() - start
    print(size, iterations, f"{took:.9f} {time.process_time() - cpu:.9f}", wrong, flush=True)
    torch.distributed.barrier()


def main():
    rank, ranks, store, interface, name, warm_up = sys.argv[1:7]
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    import torch  # pylint: disable=import-outside-toplevel,import-error
    import torch.distributed  # pylint: disable=import-outside-toplevel,import-error

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(ranks))
    for size in sys.argv[7:]:
        size, iterations = (int(word) for word in size.split(":"))
        measure(torch, name, size, int(warm_up), iterations)


main()
