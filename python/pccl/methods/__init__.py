"""Training methods for slow links, built on the library's collectives. They send a few bytes per step, or communicate
with only one peer at a time.

    with pccl.Communicator("127.0.0.1:48148") as comm:
        with PartialAverage(comm, params, fraction=0.005) as average:
            while training:
                train(params)   # one step of any optimizer, in place
                average.step()  # returns the participants and the cost

Requires numpy; parameters may also be torch tensors. Membership, checkpoints and settings work as in pccl.diloco.
"""

from __future__ import annotations

from .._described import takes
from .._settings import setting
from ._accountant import Accountant
from ._averages import PairAverage, PartialAverage
from ._decoupled import DeMo
from ._dp_lora import DPLoRA
from ._method import Method
from ._one_byte import OneByte
from ._pipeline import Pipeline, PipelineInfo, Stage
from ._power_sgd import PowerSGD
from ._sarsa import Agent, CooperativeSarsa
from ._settings import Settings
from ._sketch import CountSketch, Hadamard
from ._sketched import Sketched
from ._sparse_loco import SparseLoCo

__all__ = [
    "Accountant", "Agent", "CooperativeSarsa", "CountSketch", "DPLoRA", "DeMo", "Hadamard", "Method", "OneByte",
    "PairAverage", "PartialAverage", "Pipeline", "PipelineInfo", "PowerSGD", "Settings", "Sketched", "SparseLoCo",
    "Stage", "setting", "takes",
]
