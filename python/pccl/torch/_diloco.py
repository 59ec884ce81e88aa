"""DiLoCo and local SGD around an optimizer: each step of it counts, and the last one of a round meets the others."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .. import diloco
from .._communicator import Communicator
from .._errors import InvalidArgument, InvalidUsage, Unsupported
from . import _tensors

Outer = Union[diloco.Nesterov, torch.optim.SGD]


class _Hooked:
    """A context manager: inside it the peer is in the run, and each step of the optimizer is one of the round."""

    def __init__(self, optimizer: torch.optim.Optimizer, engine: diloco.DiLoCo) -> None:
        self.diloco = engine
        self.last = diloco.StepInfo()  # of the latest step
        self._optimizer = optimizer
        self._hook: Any = None

    def __enter__(self) -> Any:
        if self._hook is not None:
            raise InvalidUsage(f"{type(self).__name__}: entered twice")
        self.last = self.diloco.join()
        self._hook = self._optimizer.register_step_post_hook(self._after_step)
        return self

    def __exit__(self, *about: Any) -> None:
        """Without an exception: what is in flight is applied, as by diloco.finish(). Leaves the run in any case."""
        hook, self._hook = self._hook, None
        hook.remove()
        self.diloco.__exit__(*about)

    def _after_step(self, *_: Any) -> None:
        self.last = self.diloco.step()

    def add_samples(self, count: int) -> None:
        """Counts samples (tokens) of the round: before the optimizer's step."""
        self.diloco.add_samples(count)

    def state_dict(self) -> Dict[str, Any]:
        return self.diloco.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Before it is entered."""
        self.diloco.load_state_dict(state)


class DiLoCo(_Hooked):
    """For programs written for torchft's class of that name; pccl.diloco.DiLoCo has the settings of `more`.

        with pccl.torch.DiLoCo(comm, [model], inner, torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9,
                               nesterov=True), sync_every=100):
            for batch in batches:
                ...
                inner.step()

    model_fragments: one module, or a list of one. outer_optimizer: a pccl.diloco.Nesterov, or a torch.optim.SGD, of
    which lr and momentum are read, once; it is never stepped. should_quantize: deltas travel as 8 bits ("u8-minmax").
    What streams fragments (several of them, fragment_sync_delay, fragment_update_alpha) is not supported.
    backup_device, pin_memory: the outer copy is in memory of the host, whatever they say. use_bucketization,
    bucket_cap_mb: there are always buckets, of bucket_cap_mb MiB if it is given.
    """

    def __init__(
        self,
        comm: Communicator,
        model_fragments: Union[torch.nn.Module, Sequence[torch.nn.Module]],
        inner_optimizer: torch.optim.Optimizer,
        outer_optimizer: Union[Outer, Sequence[Outer]],
        sync_every: int,
        backup_device: Optional[torch.device] = None,
        pin_memory: bool = True,
        use_bucketization: bool = False,
        bucket_cap_mb: Optional[int] = None,
        should_quantize: bool = False,
        fragment_sync_delay: int = 0,
        fragment_update_alpha: float = 0.0,
        **more: Any,
    ) -> None:
        if fragment_sync_delay != 0 or fragment_update_alpha != 0:
            raise Unsupported(
                "fragment_sync_delay and fragment_update_alpha are of streaming DiLoCo, which is not supported: "
                'mode="delayed" and mode="eager" hide the reduction behind a whole round'
            )
        if should_quantize:
            more.setdefault("codec", "u8-minmax")
        if bucket_cap_mb is not None:
            more.setdefault("bucket_bytes", bucket_cap_mb << 20)
        module = _tensors.bare(_only(model_fragments, "model_fragments"))
        outer = as_nesterov(_only(outer_optimizer, "outer_optimizer"))
        super().__init__(
            inner_optimizer, diloco.DiLoCo(comm, module, inner_steps=sync_every, outer=outer, **more)
        )


class LocalSGD(_Hooked):
    """Every sync_every steps the parameters become the mean of the peers'. The settings of `more` are those of
    pccl.diloco.DiLoCo."""

    def __init__(
        self,
        comm: Communicator,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        sync_every: int,
        **more: Any,
    ) -> None:
        engine = diloco.LocalSGD(comm, _tensors.bare(model), inner_steps=sync_every, **more)
        super().__init__(optimizer, engine)


def _only(given: Any, name: str) -> Any:
    """torchft takes lists, with one entry for each fragment."""
    if not isinstance(given, (list, tuple)):
        return given
    entries: List[Any] = list(given)
    if len(entries) != 1:
        raise Unsupported(
            f"{name}: there are {len(entries)}; fragments that are reduced at different times (streaming DiLoCo) are "
            "not supported: give the whole model as one"
        )
    return entries[0]


def as_nesterov(outer: Any) -> diloco.Nesterov:
    """What a torch.optim.SGD would do, if it is that."""
    if isinstance(outer, diloco.Nesterov):
        return outer
    if not isinstance(outer, torch.optim.SGD):
        raise InvalidArgument(
            f"outer_optimizer: {type(outer).__name__}; wanted is a pccl.diloco.Nesterov or a torch.optim.SGD"
        )
    groups = outer.param_groups
    settings = [{key: value for key, value in group.items() if key != "params"} for group in groups]
    if any(other != settings[0] for other in settings):
        raise InvalidArgument("outer_optimizer: its parameter groups have different settings")
    only = settings[0]
    if only["momentum"] != 0 and not only["nesterov"]:
        raise InvalidArgument("outer_optimizer: momentum without nesterov=True is not supported")
    wrong = [key for key in ("dampening", "weight_decay", "maximize") if only[key]]
    if wrong:
        raise InvalidArgument(f"outer_optimizer: {', '.join(wrong)} is not supported")
    return diloco.Nesterov(float(only["lr"]), float(only["momentum"]))
