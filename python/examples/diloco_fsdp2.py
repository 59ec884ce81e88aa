#!/usr/bin/env python3
"""A small GPT, sharded over the processes of each trainer (FSDP2, fully_shard) and trained with DiLoCo.

Trainers synchronize rarely, in four-bit fragments that are streamed.

    torchrun --nproc-per-node 2 diloco_fsdp2.py 127.0.0.1:48148      a trainer with two processes; start several

Trainers may join and leave. Each process is a peer, and the number of its shard is its peer group: equal shards are
averaged with each other. Either all processes of all trainers make an outer step, or none does.
"""

import argparse
import glob
import hashlib
import os

import torch
import torch.distributed
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

import pccl
import pccl.torch

CONTEXT, WIDTH, HEADS, BLOCKS, BATCH, CLASSES = 32, 64, 4, 3, 16, 128

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--rendezvous", default="env://", help="init_method of the trainer's process group (%(default)s)")
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--inner-steps", type=int, default=30)
parser.add_argument("--min-peers", type=int, default=2, help="fewer trainers wait for others")
args = parser.parse_args()


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mix, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.mix(self.before(x)).chunk(3, -1)]
        seen = functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class GPT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = torch.nn.Embedding(CLASSES, WIDTH), torch.nn.Embedding(CONTEXT, WIDTH)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))
        self.after, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, letters):
        """Returns the loss of predicting each letter from the previous ones."""
        x = self.letters(letters[:, :-1]) + self.places(torch.arange(CONTEXT))
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.after(x)).flatten(0, 1), letters[:, 1:].flatten())


def library_text():
    """Returns the source of Python's own modules."""
    names = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[:40]
    return torch.tensor(list(b"".join(open(name, "rb").read() for name in names))).clamp(max=CLASSES - 1)


torch.distributed.init_process_group("gloo", init_method=args.rendezvous)
torch.manual_seed(0)  # all processes of a trainer start with the same model
model = GPT()
for block in model.blocks:
    fully_shard(block)
fully_shard(model)
inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)

text = library_text()
own = torch.Generator().manual_seed(int.from_bytes(os.urandom(7), "big"))  # each process reads a different text
comm = pccl.Communicator(args.master, torch.distributed.get_rank())
with pccl.torch.DiLoCo(
    comm, [model], inner, outer, sync_every=args.inner_steps, fragments=3, fragment_sync_delay=3,
    fragment_update_alpha=0.5, codec="e3m0", min_peers=args.min_peers, rounds=args.rounds,
) as trainer:  # fmt: skip
    while not trainer.diloco.finished:
        starts = torch.randint(0, len(text) - CONTEXT - 1, (BATCH, 1), generator=own)
        inner.zero_grad()
        loss = model(text[starts + torch.arange(CONTEXT + 1)])
        loss.backward()
        trainer.add_samples(BATCH)
        inner.step()
        for cost in trainer.last.fragments:
            about = f"fragment {cost.fragment}: {cost.participants} peers, {cost.tx_bytes} bytes sent"
            print(f"step {trainer.diloco.inner_step}: {about}, loss {loss.item():.3f}", flush=True)

digest = hashlib.sha256()
for parameter in model.parameters():  # the full parameters, which are equal on all processes of all trainers
    digest.update(bytes(parameter.full_tensor().detach().view(-1).view(torch.uint8).tolist()))
torch.distributed.destroy_process_group()
print(f"digest {digest.hexdigest()}")
