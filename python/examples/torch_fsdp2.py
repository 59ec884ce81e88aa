#!/usr/bin/env python3
"""FSDP2 as in torch's tutorials: a transformer sharded layer by layer, mixed precision, and checkpoints by DCP.

A world of a different size can continue from a checkpoint. Only one word is specific to PCCL: "pccl" in place of "gloo"
or "nccl".

    torchrun --standalone --nproc-per-node 4 torch_fsdp2.py --steps 20
    torchrun --standalone --nproc-per-node 3 torch_fsdp2.py --steps 40        continues at step 20
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

WORDS, LENGTH, WIDTH = 64, 16, 32


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = torch.nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        wide = 4 * WIDTH
        self.feed = torch.nn.Sequential(torch.nn.Linear(WIDTH, wide), torch.nn.GELU(), torch.nn.Linear(wide, WIDTH))

    def forward(self, x):
        normed = self.norms[0](x)
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        x = x + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]
        return x + self.feed(self.norms[1](x))


class Transformer(torch.nn.Module):
    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(WORDS, WIDTH), torch.nn.Embedding(LENGTH, WIDTH)
        self.layers = torch.nn.ModuleList(Block() for _ in range(layers))
        self.out = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Training(Stateful):
    """Contents of a checkpoint."""

    def __init__(self, model, optimizer) -> None:
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, saved) -> None:
        set_state_dict(
            self.model, self.optimizer, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"]
        )
        self.step = saved["step"]


def batch(step: int, device: torch.device) -> torch.Tensor:
    """Returns texts in which each word is the previous one plus a constant."""
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    first, more = torch.randint(WORDS, (8, 1), generator=generator), torch.randint(1, 4, (8, 1), generator=generator)
    return ((first + more * torch.arange(LENGTH + 1)) % WORDS).to(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--folder", default="checkpoint")
    parser.add_argument("--bfloat16", action="store_true", help="parameters and gradients travel so")
    parser.add_argument("--backend", default="pccl", help="another one, to compare (%(default)s)")
    args = parser.parse_args()

    dist.init_process_group(args.backend)  # the only word specific to PCCL
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(kind, int(os.environ.get("LOCAL_RANK", 0))) if kind == "cuda" else torch.device(kind)
    mesh = init_device_mesh(kind, (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Transformer().to(device)
    given = {"mesh": mesh}
    if args.bfloat16:
        given["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, **given)
    fully_shard(model, **given)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    training = Training(model, optimizer)
    if os.path.exists(os.path.join(args.folder, ".metadata")):
        dcp.load({"training": training}, checkpoint_id=args.folder)
        print(f"rank {dist.get_rank()} goes on from step {training.step}", flush=True)
    while training.step < args.steps:
        tokens = batch(training.step, device)
        loss = torch.nn.functional.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        training.step += 1
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {training.step}: loss {mean.item():.5f}", flush=True)
    dcp.save({"training": training}, checkpoint_id=args.folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
