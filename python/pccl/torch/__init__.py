"""PyTorch support: shared training state, averaged gradients, and a torch.distributed backend.

    state = pccl.torch.shared_state(model, optimizer)  # parameters, buffers, optimizer
    gradients = pccl.torch.GradientBuckets(model)      # flat buffers, averaged with retry
    ddp.register_comm_hook(pccl.torch.DDPState(comm, model), pccl.torch.ddp_hook)
    with pccl.torch.DiLoCo(comm, [model], inner, outer, sync_every=100): ...  # by hooks
    replica = pccl.torch.elastic(model, optimizer)     # replicas that join and leave, in optimizer.step()
    sampler = pccl.torch.ElasticSampler(count, batch)  # for replicas: each sample once in each epoch
    layer = pccl.torch.MoE(experts, router, comm)      # experts on several peers
    torch.distributed.init_process_group("pccl")       # the backend; see docs/guide/torch.md
    if pccl.torch.committed(): optimizer.step()        # with the backend: true if all gradients were reduced

LocalSGD works like DiLoCo. For DTensors (fully_shard, FSDP2), the local shards are used. The number of a shard is then
its peer group, and grid_is_full() returns true if all shards of all peers are present.
"""

from __future__ import annotations

from ._commit import committed
from ._ddp import DDPState, ddp_hook
from ._diloco import DiLoCo, LocalSGD
from ._elastic import Elastic, ElasticStats, elastic
from ._gradients import GradientBuckets
from ._grid import connect_grid, fill_grid, grid_is_full
from ._moe import MoE, MoEInfo, shared_parameters
from ._monitored import monitored_barrier
from ._objects import refuse_pickles
from ._pipeline import PipelineStage
from ._sampler import ElasticSampler
from ._state import TrainingState, materialize, shared_state
from ._work import CollectiveError

__all__ = [
    "CollectiveError",
    "DDPState",
    "DiLoCo",
    "Elastic",
    "ElasticSampler",
    "ElasticStats",
    "GradientBuckets",
    "LocalSGD",
    "MoE",
    "MoEInfo",
    "PipelineStage",
    "TrainingState",
    "committed",
    "connect_grid",
    "ddp_hook",
    "elastic",
    "fill_grid",
    "grid_is_full",
    "materialize",
    "monitored_barrier",
    "refuse_pickles",
    "shared_parameters",
    "shared_state",
]
