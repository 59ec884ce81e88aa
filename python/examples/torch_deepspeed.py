#!/usr/bin/env python3
"""DeepSpeed's ZeRO on PCCL: the backend is selected where DeepSpeed creates the process group.

    pip install deepspeed
    torchrun --standalone --nproc-per-node 4 torch_deepspeed.py --stage 2
"""

import argparse

import deepspeed
import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, default=1, help="of ZeRO (%(default)s)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--backend", default="pccl", help="another one, to compare (%(default)s)")
    args = parser.parse_args()

    deepspeed.init_distributed(dist_backend=args.backend)  # the only word specific to PCCL
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    config = {
        "train_micro_batch_size_per_gpu": 16,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": args.stage},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    for step in range(args.steps):
        x = torch.randn(16, 20, generator=torch.Generator().manual_seed(1000 * step + dist.get_rank()))
        x = x.to(engine.device)
        loss = torch.nn.functional.mse_loss(engine(x), x[:, :1].sin())
        engine.backward(loss)
        engine.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {step + 1}: loss {mean.item():.6f}", flush=True)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes by {dist.get_backend()}", flush=True)
    engine.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
