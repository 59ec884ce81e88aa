#!/usr/bin/env python3
"""Elastic replicas under Ray Train, each of which is a separate trainer.

A trainer restarts all of its workers when one fails, while the other trainers continue.

    pip install "ray[train]"
    pccl_master &
    python torch_ray.py 127.0.0.1:48148 --replicas 2        in a running cluster, or in a new one
"""

import argparse
import os
import time

import ray
import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer
from torch.nn.parallel import DistributedDataParallel


def train(given) -> None:
    """Trains. Runs in each worker after Ray Train has called init_process_group()."""
    import pccl.torch

    torch.manual_seed(0)
    layers = [torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    replica = pccl.torch.elastic(model, optimizer, address=given["master"])  # the additional line

    print(f"process {os.getpid()} is in replica {replica.rank}", flush=True)
    while replica.step < given["steps"] and not replica.stopped:
        if os.path.exists(given["stop"]):
            replica.stop()
        time.sleep(given["pause"])
        x = torch.randn(32, 64)
        loss = (model(x) - x[:, :1].sin()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if replica.committed:
            print(f"step {replica.step}: {replica.world_size} replicas, loss {loss.item():.3f}", flush=True)
    print(f"digest {pccl.torch.shared_state(model, optimizer).digest()}", flush=True)
    replica.leave()


@ray.remote(num_cpus=0)
def trainer(number: int, args: argparse.Namespace) -> None:
    TorchTrainer(
        train,
        train_loop_config=vars(args),
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name=f"replica-{number}", storage_path=args.folder, failure_config=FailureConfig(max_failures=-1)
        ),
    ).fit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("master")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="of each replica (%(default)s)")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--stop", default=os.path.abspath("stop"), help="a file that ends all after the same step")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
    parser.add_argument("--folder", default=os.path.abspath("ray"), help="where Ray Train keeps its files")
    args = parser.parse_args()
    ray.init()
    ray.get([trainer.remote(number, args) for number in range(args.replicas)])


if __name__ == "__main__":
    main()
