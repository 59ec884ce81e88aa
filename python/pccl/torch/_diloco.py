"""DiLoCo and local SGD as optimizer hooks: each step of the optimizer counts as an inner step, and the last step of a
round synchronizes with the other peers."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

import torch

from .. import diloco
from .._communicator import Communicator
from .._errors import InvalidArgument, InvalidUsage
from . import _tensors

Outer = Union[diloco.Nesterov, diloco.SGD, torch.optim.SGD, Callable[[Any, Any, Any], object]]


class _Hooked:
    """A context manager. Inside it the peer is in the run, and each step of the optimizer counts as a step of the
    round."""

    def __init__(self, optimizer: torch.optim.Optimizer, engine: diloco.DiLoCo) -> None:
        self.diloco = engine
        self.last = diloco.StepInfo()  # result of the latest step
        self._optimizer = optimizer
        self._hook: Any = None

    def __enter__(self) -> Any:
        if self._hook is not None:
            raise InvalidUsage(f"{type(self).__name__}: entered twice")
        self.last = self.diloco.join()
        self._hook = self._optimizer.register_step_post_hook(self._after_step)
        return self

    def __exit__(self, *about: Any) -> bool:
        """Leaves the run. If there was no exception, first applies the reductions in flight, as diloco.finish() does.
        Treats DrainedError as a regular end, as `with diloco:` does."""
        hook, self._hook = self._hook, None
        hook.remove()
        return self.diloco.__exit__(*about)

    def _after_step(self, *_: Any) -> None:
        self.last = self.diloco.step()

    def add_samples(self, count: int) -> None:
        """Counts samples (tokens) of the round. Call it before the optimizer's step."""
        self.diloco.add_samples(count)

    def state_dict(self) -> Dict[str, Any]:
        return self.diloco.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state. Call it before entering the context manager."""
        self.diloco.load_state_dict(state)


class DiLoCo(_Hooked):
    """DiLoCo with the interface of torchft's class of the same name. `more`: settings of pccl.diloco.DiLoCo.

        with pccl.torch.DiLoCo(comm, [model], inner, torch.optim.SGD(model.parameters(), lr=0.7,
                               momentum=0.9, nesterov=True), sync_every=100):
            for batch in batches:
                ...
                inner.step()

    model_fragments: a module, or a list of modules, each a fragment that is reduced at a different time, once every
        sync_every steps. To split a single module, use the `fragments` of pccl.diloco.DiLoCo.

    outer_optimizer: a pccl.diloco.Nesterov or SGD, a function (see pccl.diloco.DiLoCo), or a torch.optim.SGD, whose lr
        and momentum are read once and which never steps. Or a list of these, one for each fragment.

    should_quantize: sends 8 bits per delta ("u8-minmax").

    fragment_sync_delay: number of steps from a fragment's launch to its application. fragment_update_alpha: share of
        its parameters that the peer keeps at that time.

    backup_device and pin_memory are ignored: the outer copy is in host memory, page-locked if the parameters are on a
        GPU. use_bucketization is ignored: there are always buckets, of bucket_cap_mb MiB if given.
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
        if should_quantize:
            more.setdefault("codec", "u8-minmax")
        if bucket_cap_mb is not None:
            more.setdefault("bucket_bytes", bucket_cap_mb << 20)
        modules = model_fragments if isinstance(model_fragments, Sequence) else [model_fragments]
        if not modules:
            raise InvalidArgument("model_fragments: no fragments")
        params = [_tensors.bare(module) for module in modules]
        if len(params) > 1:
            more.setdefault("fragments", params)
        outer = as_outer(outer_optimizer)
        engine = diloco.DiLoCo(
            comm,
            params[0] if len(params) == 1 else torch.nn.ModuleList(params),
            inner_steps=sync_every,
            outer=outer,
            delay=fragment_sync_delay,
            alpha=fragment_update_alpha,
            **more,
        )
        super().__init__(inner_optimizer, engine)


class LocalSGD(_Hooked):
    """Sets the parameters to the mean of the peers' parameters every sync_every steps. `more`: settings of
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


def as_outer(given: Any) -> Any:
    """Converts a torch.optim.SGD, or each one in a list, to the equivalent outer optimizer. Leaves an AdamW unchanged,
    because pccl.diloco accepts it."""
    if isinstance(given, (list, tuple)):
        return as_outer(given[0]) if len(given) == 1 else [as_outer(one) for one in given]
    if not isinstance(given, torch.optim.Optimizer) or isinstance(given, torch.optim.AdamW):
        return given
    if not isinstance(given, torch.optim.SGD):
        raise InvalidArgument(
            f"outer_optimizer: {type(given).__name__}; expected a torch.optim.SGD, an optimizer of pccl.diloco or a "
            "function"
        )
    settings = [{key: value for key, value in group.items() if key != "params"} for group in given.param_groups]
    if any(other != settings[0] for other in settings):
        raise InvalidArgument("outer_optimizer: its parameter groups have different settings")
    only = settings[0]
    wrong = [key for key in ("dampening", "weight_decay", "maximize") if only[key]]
    if wrong:
        raise InvalidArgument(f"outer_optimizer: {', '.join(wrong)} is not supported")
    kind = diloco.Nesterov if only["nesterov"] or only["momentum"] == 0 else diloco.SGD
    return kind(float(only["lr"]), float(only["momentum"]))
