#!/usr/bin/env python3
"""A mixture of experts that are distributed over the peers: eight in each of two layers.

    python experts.py 127.0.0.1:48148        start any number of peers at any time; SIGTERM to one ends all

The task has sixteen parts, each with a different function, which the experts can divide among them. If a peer is
killed, others take over its experts from copies that are at most ten steps old. With --on-death drop, tokens use
other experts until the next tenth step, when its experts are reassigned.
"""

import argparse
import signal
import time

import torch

import pccl.torch

WIDTH, EXPERTS, PARTS, BATCH = 32, 8, 16, 64
MEET_EVERY = 10  # number of steps after which newcomers join and experts are copied


def expert():
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, WIDTH))


class Model(torch.nn.Module):
    def __init__(self, comm, on_death):
        super().__init__()
        torch.manual_seed(0)  # all peers start with the same parameters
        self.layers = torch.nn.ModuleList(
            pccl.torch.MoE(
                [expert() for _ in range(EXPERTS)], torch.nn.Linear(WIDTH, EXPERTS), comm, chunks=2,
                on_death=on_death, label=f"layer {number}",
            )
            for number in range(2)
        )
        self.head = torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)

    def common(self):
        """Returns the modules that do not belong to experts."""
        return torch.nn.ModuleList([self.head, *(layer.router for layer in self.layers)])


def batch(step, rank):
    """Returns a batch; each peer draws a different one."""
    own = torch.Generator().manual_seed(1000 * step + rank)
    part = torch.randint(PARTS, (BATCH,), generator=own)
    parts = torch.randn(PARTS, 2, WIDTH, generator=torch.Generator().manual_seed(1))
    x = parts[part, 0] + 0.3 * torch.randn(BATCH, WIDTH, generator=own)
    return x, (x * parts[part, 1]).sum(1, keepdim=True).sin()


def about(infos):
    """Returns a summary of the step over all layers."""
    lost = sorted({peer for info in infos for peer in info.lost})
    taken = [len(info.taken_over) for info in infos]
    return (f", {sum(info.dropped for info in infos)} rows dropped"
            + (f", lost {' '.join(lost)}, took over {sum(taken)}" if lost else ""))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
    parser.add_argument("--on-death", choices=("drop", "take_over"), default="take_over")
    parser.add_argument("--steps", type=int, default=1_000_000_000)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each step, for others to compute")
    args = parser.parse_args(arguments)
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

    comm = pccl.Communicator(args.master)
    model = Model(comm, args.on_death)
    common, layers = model.common(), model.layers
    optimizer = torch.optim.AdamW(common.parameters(), lr=3e-3)
    experts = torch.optim.AdamW((one for layer in layers for one in layer.experts.parameters()), lr=3e-3)
    gradients = pccl.torch.GradientBuckets(common)
    step = torch.zeros(1, dtype=torch.int64)
    state = pccl.torch.shared_state(common, optimizer, {"step": step})

    comm.connect()
    just_joined, alone, stopped = True, False, False
    while not stopped and step < args.steps:
        time.sleep(args.pause)
        met = []
        if just_joined or alone or step % MEET_EVERY == 0:
            if not just_joined:
                comm.update_topology()  # newcomers join, and then continue like the others
            just_joined, alone = False, len(comm.members()) < 2
            if alone:
                time.sleep(0.1)  # waits for others
                continue
            comm.sync_shared_state(state)  # newcomers receive the common parameters
            state.push_revision()
            met = [layer.sync() for layer in layers]  # and the experts assigned to them

        x, y = batch(int(step), comm.rank)
        gradients.zero_grad()
        experts.zero_grad()
        error = (model(x) - y).square().mean()
        (error + 0.01 * sum(layer.aux_loss for layer in layers)).backward()
        told = torch.tensor([error.item(), float(bool(stopping))], dtype=torch.float64)
        try:
            peers = gradients.reduce(comm).local_world_size
            comm.run([pccl.AllReduce(told, told, op="avg", tag=1000)])
        except pccl.TooFewPeersError:
            alone = True
            continue  # the last other peer has left, so this step is dropped
        for parameter in (one for layer in layers for one in layer.experts.parameters()):
            if parameter.grad is not None:
                # Turns the sum over all peers' tokens into a mean, as for the common parameters
                parameter.grad /= peers
        optimizer.step()
        experts.step()
        step += 1
        stopped = bool(told[1] > 0)
        words = about([*met, *(layer.info for layer in layers)])
        print(f"step {int(step)}: {peers} peers, loss {told[0]:.6f}{words}", flush=True)

    print(f"digest {state.digest()}", flush=True)
    comm.close()


if __name__ == "__main__":
    main()
