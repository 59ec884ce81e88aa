#!/usr/bin/env python3
"""HSDP as in torchtitan: a mesh of replicas times shards, warm-up, and clipping.

The blocks are sharded in the inner dimension of the mesh and replicated in the outer one.

    torchrun --standalone --nproc-per-node 4 torch_hsdp.py --dp-replicate 2 --dp-shard 2

Here only one word is specific to PCCL: "pccl" in place of "nccl". With one more line, the outer dimension consists of
replicas started by other launchers, which join, leave and are killed while the others continue:

    pccl_master &
    export PCCL_MASTER=127.0.0.1:48148
    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1        or gloo and NCCL may read the addresses of failed workers
    torchrun --standalone --nproc-per-node 2 --max-restarts 100 torch_hsdp.py --elastic &        start several
"""

import argparse
import os
import signal
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard


@dataclass
class ParallelDims:
    dp_replicate: int
    dp_shard: int

    def mesh(self, kind: str) -> DeviceMesh:
        if self.dp_shard < 0:
            self.dp_shard = dist.get_world_size() // self.dp_replicate
        if self.dp_replicate * self.dp_shard != dist.get_world_size():
            raise SystemExit(f"{self} is not a world of {dist.get_world_size()}")
        return init_device_mesh(
            kind, (self.dp_replicate, self.dp_shard), mesh_dim_names=("dp_replicate", "dp_shard")
        )


def build(kind: str, mesh: DeviceMesh) -> torch.nn.Module:
    torch.manual_seed(0)
    blocks = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.SiLU(), torch.nn.LayerNorm(64)) for _ in range(3)]
    model = torch.nn.Sequential(*blocks, torch.nn.Linear(64, 8)).to(kind)
    for block in model:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batch(step: int, number: int, kind: str):
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(1000 * step + number)).to(kind)
    return x, x[:, :8].sin()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dp-replicate", type=int, default=1)
    parser.add_argument("--dp-shard", type=int, default=-1, help="by default the rest of the world")
    parser.add_argument("--elastic", action="store_true")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
    parser.add_argument("--backend", help="of the processes that the launcher starts")
    args = parser.parse_args()

    dist.init_process_group(args.backend or ("gloo" if args.elastic else "pccl"))  # the only word specific to PCCL
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    model = build(kind, ParallelDims(args.dp_replicate, args.dp_shard).mesh(kind))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / args.warm_up))

    replica = None
    if args.elastic:
        import pccl.torch

        replica = pccl.torch.elastic(model, optimizer, {"scheduler": scheduler})  # the additional line

        signal.signal(signal.SIGTERM, lambda *_: replica.stop())  # ends all replicas after the same step

    step = replica.step if replica else 0
    while step < args.steps and not (replica and replica.stopped):
        time.sleep(args.pause)
        number = dist.get_world_size() * (replica.rank if replica else 0) + dist.get_rank()
        x, y = batch(step, number, kind)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if replica:
            replica.average_gradients()  # needed because the averages are clipped
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if replica and not replica.committed:
            continue  # no replica has made this step, so the scheduler must not step
        scheduler.step()
        step = replica.step if replica else step + 1
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            replicas = replica.world_size if replica else args.dp_replicate
            print(f"step {step}: {replicas} replicas, loss {mean.item():.5f}", flush=True)

    digest = sum(p.full_tensor().double().abs().sum().item() for p in model.parameters())
    if dist.get_rank() == 0:
        print(f"digest {digest:.10f}", flush=True)
    if replica:
        replica.leave()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
