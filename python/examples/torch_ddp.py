#!/usr/bin/env python3
"""DistributedDataParallel as in torch's tutorials, with a sampler and a snapshot from which a job restarts.

Only one word is specific to PCCL: "pccl" in place of "gloo" or "nccl".

    torchrun --standalone --nproc-per-node 4 --max-restarts 9 torch_ddp.py

If a worker fails, each of the others exits with a message that names it, and torchrun restarts all of them.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Samples(Dataset):
    """Training data: the sine of one of several numbers."""

    def __init__(self, count: int) -> None:
        self.x = torch.randn(count, 20, generator=torch.Generator().manual_seed(0))
        self.y = self.x[:, :1].sin()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Trainer:
    def __init__(self, model, data, optimizer, device, snapshot: str) -> None:
        self.data, self.optimizer, self.device, self.snapshot = data, optimizer, device, snapshot
        self.epochs_done = 0
        if os.path.exists(snapshot):
            saved = torch.load(snapshot, map_location=device)
            model.load_state_dict(saved["model"])
            optimizer.load_state_dict(saved["optimizer"])
            self.epochs_done = saved["epochs_done"]
        self.model = DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)

    def save(self) -> None:
        saved = {
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epochs_done": self.epochs_done,
        }
        torch.save(saved, self.snapshot + ".new")
        os.replace(self.snapshot + ".new", self.snapshot)

    def epoch(self) -> torch.Tensor:
        self.data.sampler.set_epoch(self.epochs_done)
        losses = []
        for x, y in self.data:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(self.model(x.to(self.device)), y.to(self.device))
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses).mean()

    def train(self, epochs: int) -> None:
        while self.epochs_done < epochs:
            loss = self.epoch()
            dist.all_reduce(loss, dist.ReduceOp.AVG)
            self.epochs_done += 1
            if dist.get_rank() == 0:
                self.save()
                print(f"epoch {self.epochs_done}: loss {loss.item():.5f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--snapshot", default="snapshot.pt")
    parser.add_argument("--backend", default="pccl", help="another one, to compare (%(default)s)")
    args = parser.parse_args()

    dist.init_process_group(args.backend)  # the only word specific to PCCL
    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    samples = Samples(2048)
    data = DataLoader(samples, args.batch, sampler=DistributedSampler(samples))
    Trainer(model, data, optimizer, device, args.snapshot).train(args.epochs)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
