#!/usr/bin/env python3
"""PyTorch Lightning on PCCL: the strategy selects the backend.

    pip install lightning
    python torch_lightning.py --devices 4
"""

import argparse

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Sine(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))

    def training_step(self, batch, _):
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def on_train_epoch_end(self) -> None:
        loss = self.trainer.callback_metrics["loss"].item()
        if self.trainer.is_global_zero:
            print(f"epoch {self.current_epoch + 1}: loss {loss:.6f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--backend", default="pccl", help="another one, to compare (%(default)s)")
    args = parser.parse_args()

    lightning.seed_everything(0)
    x = torch.randn(500, 20)
    data = DataLoader(TensorDataset(x, x[:, :1].sin()), batch_size=16, shuffle=True)
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=args.devices,
        strategy=DDPStrategy(process_group_backend=args.backend),  # the only word specific to PCCL
        max_epochs=args.epochs,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Sine(), data)
    if trainer.is_global_zero:
        print(f"{trainer.world_size} processes by {dist.get_backend()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
