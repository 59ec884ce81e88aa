"""DiLoCo and local SGD as hooks of an optimizer: each of its steps counts as an inner step, and the
last one of a round synchronizes with the other peers."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch

from .. import diloco
from .._communicator import Communicator
from .._errors import InvalidArgument, InvalidUsage, Unsupported
from . import _tensors

Outer = Union[diloco.Nesterov, torch.optim.SGD]


class _Hooked:
    """A context manager. Inside it the peer is in the run, and each step of the optimizer is a step
    of the round."""

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
        """Leaves the run. Without an exception, applies what is in flight first, as diloco.finish()
        does."""
        hook, self._hook = self._hook, None
        hook.remove()
        self.diloco.__exit__(*about)

    def _after_step(self, *_: Any) -> None:
        self.last = self.diloco.step()

    def add_samples(self, count: int) -> None:
        """Counts samples (tokens) of the round. To be called before the optimizer's step."""
        self.diloco.add_samples(count)

    def state_dict(self) -> Dict[str, Any]:
        return self.diloco.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """To be called before the context manager is entered."""
        self.diloco.load_state_dict(state)


class DiLoCo(_Hooked):
    """For programs that were written for torchft's class of this name. `more`: settings of
    pccl.diloco.DiLoCo.

        with pccl.torch.DiLoCo(comm, [model], inner, torch.optim.SGD(model.parameters(), lr=0.7,
                               momentum=0.9, nesterov=True), sync_every=100):
            for batch in batches:
                ...
                inner.step()

    model_fragments: one module, or a list of one. outer_optimizer: a pccl.diloco.Nesterov, or a
    torch.optim.SGD, whose lr and momentum are read once; it never steps. should_quantize: sends
    deltas as 8 bits ("u8-minmax"). The options for streaming fragments (several fragments,
    fragment_sync_delay, fragment_update_alpha) are not supported. backup_device and pin_memory are
    ignored: the outer copy is in host memory. use_bucketization, bucket_cap_mb: buckets are always
    used, with bucket_cap_mb MiB if that is given.
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
    """Sets the parameters to the mean of the peers' parameters every sync_every steps. `more`:
    settings of pccl.diloco.DiLoCo."""

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
    """The only entry: torchft accepts lists with one entry for each fragment."""
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
    """The outer optimizer that computes what this torch.optim.SGD would."""
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
