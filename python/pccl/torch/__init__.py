"""PyTorch: training state that all peers hold alike, and gradients averaged among them.

    state = pccl.torch.shared_state(model, optimizer)     parameters, buffers, the optimizer's state and numbers
    gradients = pccl.torch.GradientBuckets(model)         one flat buffer for many gradients, averaged with retry
    ddp.register_comm_hook(pccl.torch.DDPState(comm, model), pccl.torch.ddp_hook)
    with pccl.torch.DiLoCo(comm, [model], inner, outer, sync_every=100): ...      and LocalSGD: pccl.diloco, by hooks

DTensors (fully_shard, FSDP2) are taken by their local shards; peer groups are then the shard numbers, and grid_is_full
says whether all shards of all peers are there.
"""

from __future__ import annotations

from ._ddp import DDPState, ddp_hook
from ._diloco import DiLoCo, LocalSGD
from ._gradients import GradientBuckets
from ._grid import connect_grid, fill_grid, grid_is_full
from ._state import TrainingState, materialize, shared_state

__all__ = [
    "DDPState",
    "DiLoCo",
    "GradientBuckets",
    "LocalSGD",
    "TrainingState",
    "connect_grid",
    "ddp_hook",
    "fill_grid",
    "grid_is_full",
    "materialize",
    "shared_state",
]
