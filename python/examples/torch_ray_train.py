#!/usr/bin/env python3
"""Ray Train on PCCL: TorchConfig selects the backend.

    pip install "ray[train]"
    python torch_ray_train.py --workers 4        in a running cluster, or in a new one

torch_ray.py does the same with elastic replicas.
"""

import argparse
import os

import ray.train
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from torch.utils.data import DataLoader, TensorDataset


def train(given) -> None:
    """Trains. Runs in each worker after Ray Train has called init_process_group()."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    x = torch.randn(500, 20)
    data = prepare_data_loader(DataLoader(TensorDataset(x, x[:, :1].sin()), batch_size=16, shuffle=True))
    model = prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(given["epochs"]):
        data.sampler.set_epoch(epoch)
        losses = []
        for inputs, wanted in data:
            loss = torch.nn.functional.mse_loss(model(inputs), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: loss {mean.item():.6f}", flush=True)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes by {dist.get_backend()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--folder", default=os.path.abspath("ray"), help="where Ray Train keeps its files")
    parser.add_argument("--backend", default="pccl", help="another one, to compare (%(default)s)")
    args = parser.parse_args()
    TorchTrainer(
        train,
        train_loop_config={"epochs": args.epochs},
        torch_config=TorchConfig(backend=args.backend),  # the only word specific to PCCL
        scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(storage_path=args.folder),
    ).fit()


if __name__ == "__main__":
    main()
