"""DiLoCo, training with little communication: peers train independently for many steps between two averages.

    with pccl.Communicator("127.0.0.1:48148") as comm:
        with DiLoCo(comm, params, inner_steps=100, rounds=50) as diloco:
            while not diloco.finished:
                train(params)                    # one step of the inner optimizer, in place
                diloco.step(samples=len(batch))  # the last step of each round synchronizes

Works with numpy and torch, even with both in the same run.
"""

from __future__ import annotations

from ._fragment import FragmentInfo
from ._line import Line
from ._member import Member, StepInfo
from ._outer import SGD, AdamW, Nesterov
from ._sampler import Sampler
from ._trainer import DiLoCo, LocalSGD

__all__ = ["SGD", "AdamW", "DiLoCo", "FragmentInfo", "Line", "LocalSGD", "Member", "Nesterov", "Sampler", "StepInfo"]
