"""All-reduce with torch.distributed over gloo, for comparison: one process of it. compare.py runs
it.
    torch_all_reduce.py RANK RANKS STORE_FILE INTERFACE WARM_UP BYTES:ITERATIONS ...
Prints, for each size: bytes, iterations, seconds of all, CPU seconds of all, wrong elements."""

import os
import sys
import time


def measure(torch, size, warm_up, iterations):
    count, rank, ranks = size // 4, torch.distributed.get_rank(), torch.distributed.get_world_size()
    index = torch.arange(count, dtype=torch.int64)
    tensor = ((index * 5 + rank * 3) % 8).to(torch.float32)
    expected = sum(((index * 5 + other * 3) % 8).to(torch.float32) for other in range(ranks))
    torch.distributed.all_reduce(tensor)
    wrong = int((tensor != expected).sum())
    tensor.zero_()
    for _ in range(warm_up):
        torch.distributed.all_reduce(tensor)
    torch.distributed.barrier()
    cpu, start = time.process_time(), time.monotonic()
    for _ in range(iterations):
        torch.distributed.all_reduce(tensor)
    took = time.monotonic() - start
    print(size, iterations, f"{took:.9f} {time.process_time() - cpu:.9f}", wrong, flush=True)
    torch.distributed.barrier()


def main():
    rank, ranks, store, interface, warm_up = sys.argv[1:6]
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    import torch  # pylint: disable=import-outside-toplevel,import-error
    import torch.distributed  # pylint: disable=import-outside-toplevel,import-error

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(ranks))
    for size in sys.argv[6:]:
        size, iterations = (int(word) for word in size.split(":"))
        measure(torch, size, int(warm_up), iterations)


main()
