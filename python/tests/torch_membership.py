"""Programs of ranks (torch_bodies.py) that assign members to their process group: a manual version of the function of
torch 2.14."""

import os
import signal
from datetime import timedelta
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch_bodies import LARGE, every_method, fails, part, say, start


def methods_in_another_order():
    """Every method, with ranks in another order than the master's order of admission."""
    rank, size = start()
    group, store = dist.group.WORLD, dist.distributed_c10d._get_default_store()
    old = dist.new_group(list(range(size)))
    store.set(f"handle/{rank}", group.get_reconfigure_handle())
    handles = [store.get(f"handle/{one}").decode() for one in range(size)]
    order = [*range(1, size), 0]
    given = SimpleNamespace(uuid=1, handles=[handles[one] for one in order], timeout=None, hints=None)
    assert group.supports_reconfigure and group.reconfigure(given).wait()
    assert (group.rank(), group.size()) == (order.index(rank), size)
    fails(lambda: group.reconfigure(given), "uuid 1 was already used")
    fails(lambda: dist.barrier(group=old), "reconfigured")
    store.set(f"reconfigured {rank}", "")
    store.wait([f"reconfigured {one}" for one in range(size)])
    every_method(group.rank(), size)


def reconfigured(address, port):
    """One fails; the others continue with a new one, in the order of a list; then without the first."""
    rank, size = int(os.environ["RANK"]), 3
    newcomer, victim = size, 1
    store = dist.TCPStore("127.0.0.1", int(port), None, rank == 0, wait_for_workers=False)
    os.environ["PCCL_MASTER"] = address

    def agree(number, ranks, kind=list):
        handle = group.get_reconfigure_handle()
        store.set(f"{number}/{rank}", handle)
        handles = kind(store.get(f"{number}/{one}").decode() for one in ranks)
        assert handle in handles
        return SimpleNamespace(uuid=number, handles=handles, timeout=timedelta(seconds=60), hints=None)

    def works(wanted):
        given = part(rank, LARGE)
        dist.all_reduce(given)
        assert torch.equal(given, sum(part(one, LARGE) for one in wanted))

    if rank == newcomer:
        options = SimpleNamespace(enable_reconfigure=True)
        given = {"store": dist.HashStore(), "rank": 0, "world_size": 1, "pg_options": options}
        dist.init_process_group("pccl", **given)
        dist.destroy_process_group()
        dist.init_process_group("pccl", **given)
        fails(lambda: dist.all_reduce(torch.ones(3)), "no members before reconfigure()")
    else:
        os.environ["WORLD_SIZE"] = str(size)
        start()
        works(range(size))
    group = dist.group.WORLD
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    if rank != newcomer:
        fails(lambda: [dist.all_reduce(torch.ones(LARGE)) for _ in range(100)], f"rank {victim}")
        if rank == 0:
            fails(lambda: group.reconfigure(SimpleNamespace(uuid=9, handles=["pccl://x/y"])), "include this rank's")
        early = agree(8, [0, 2])
        early.handles, early.timeout = [*early.handles, f"pccl://{address}/nobody"], timedelta(seconds=0.3)
        fails(lambda: group.reconfigure(early), "reconfigure: the world is not complete within 0.3 s: 1 of 3 handles")
        fails(lambda: dist.all_reduce(torch.ones(3)), f"rank {victim}")
    group.reconfigure(agree(1, [newcomer, 0, 2])).wait()
    assert dist.get_rank() == {newcomer: 0, 0: 1, 2: 2}[rank] and dist.get_world_size() == 3
    works([newcomer, 0, 2])
    dist.barrier()
    if rank != 0:
        group.reconfigure(agree(2, [2, newcomer], set)).wait()
        assert dist.get_world_size() == 2
        works([2, newcomer])
        dist.barrier()
        store.set(f"{rank} is done", "")
    else:
        store.wait(["2 is done", f"{newcomer} is done"])
    dist.destroy_process_group()
    say("reconfigured")
