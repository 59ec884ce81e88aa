"""A peer that has found the others, with a small model and its optimizer. The block may make a
process group."""

import os
import time

import torch

import pccl
import pccl.torch

peers = int(os.environ["PEERS"])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
torch.manual_seed(os.getpid())
batch = torch.randn(8, 16)
comm = pccl.Communicator(os.environ["MASTER"])
comm.connect()
while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < peers:
    comm.update_topology()
    time.sleep(0.01)

# the block

comm.update_topology()
comm.close()
ddp = averaging = None  # which a block may have made: they hold the group, whose threads have to end here
if torch.distributed.is_initialized():
    torch.distributed.destroy_process_group()
print("over", flush=True)
