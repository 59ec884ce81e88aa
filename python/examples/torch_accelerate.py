#!/usr/bin/env python3
"""Hugging Face accelerate on PCCL: the process group is created before the Accelerator, which then uses it.

    pip install accelerate
    torchrun --standalone --nproc-per-node 4 torch_accelerate.py
"""

import argparse

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--backend", default="pccl", help="another one, to compare (%(default)s)")
    args = parser.parse_args()

    dist.init_process_group(args.backend)  # the only line specific to PCCL
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=2)

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(500, 20)
    data = DataLoader(TensorDataset(x, x[:, :1].sin()), batch_size=16, shuffle=True)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)

    for epoch in range(args.epochs):
        losses = []
        for inputs, wanted in data:
            with accelerator.accumulate(model):
                each = torch.nn.functional.mse_loss(model(inputs), wanted, reduction="none")
                accelerator.backward(each.mean())
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather_for_metrics(each.detach()))
        whole = torch.cat(losses)
        accelerator.print(f"epoch {epoch + 1}: {len(whole)} samples, loss {whole.mean().item():.6f}", flush=True)
    accelerator.print(f"{accelerator.num_processes} processes by {dist.get_backend()}", flush=True)
    accelerator.end_training()  # destroys the process group


if __name__ == "__main__":
    main()
