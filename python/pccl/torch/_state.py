"""Modules and optimizers as shared state."""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Tuple

import torch

from .. import _buffers
from .._errors import InvalidArgument
from .._state import Prepared, SharedState, TensorInfo
from . import _numbers, _tensors

_Named = List[Tuple[str, Any]]
_Numbers = Dict[str, torch.Tensor]
_OPTIMIZER = "optimizer"


def _owned(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def materialize(optimizer: torch.optim.Optimizer) -> None:
    """Creates the state that an optimizer would create in its first step, for all parameters that lack it.

    It makes a step with zero gradients and without weight decay, and then restores the parameters (bit for bit), the
    gradients and the counters called "step". Adam, AdamW, SGD without dampening, RMSprop, Adagrad, Adadelta and Rprop
    continue as if that step had never been made; NAdam and ASGD have decayed by one step. Optimizers that need a
    closure (LBFGS) are not supported.
    """
    parameters = _owned(optimizer)
    missing = [p for p in parameters if p.requires_grad and not optimizer.state.get(p)]
    if not missing:
        return
    gradients = [parameter.grad for parameter in parameters]
    decays = [group.get("weight_decay") for group in optimizer.param_groups]
    with torch.no_grad():
        before = [parameter.detach().clone() for parameter in missing]
        try:
            for parameter in parameters:
                parameter.grad = None
            for parameter in missing:
                parameter.grad = torch.zeros_like(parameter)
            for group, decay in zip(optimizer.param_groups, decays):
                if decay is not None:
                    group["weight_decay"] = 0.0
            optimizer.step()
        finally:
            for group, decay in zip(optimizer.param_groups, decays):
                if decay is not None:
                    group["weight_decay"] = decay
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            for parameter, content in zip(missing, before):
                parameter.copy_(content)
    for parameter in missing:
        state = optimizer.state.get(parameter, {})
        step = state.get("step")
        if isinstance(step, torch.Tensor):
            step.zero_()
        elif step is not None:
            state["step"] = type(step)(0)


class TrainingState(SharedState):
    """The result of shared_state(). Its tensors are looked up for each synchronization, so they may be replaced
    (load_state_dict), but their names, data types and sizes must not change."""

    def __init__(
        self,
        module: torch.nn.Module,
        optimizer: Optional[torch.optim.Optimizer],
        extra: Mapping[str, Any],
        own: Callable[[str], bool],
    ) -> None:
        self._module = _tensors.bare(module)
        self._own = own
        self._optimizer = optimizer
        self._extra = dict(extra)
        named, _ = self._look_up()
        super().__init__(
            [TensorInfo.from_buffer(t, name, allow_content_inequality=own(name)) for name, t in named]
        )

    def digest(self) -> str:
        """Returns a hexadecimal digest of names and contents, which is equal if all bits are equal."""
        return _buffers.digest(self._look_up()[0])

    def _shared_buffers(self) -> List[Tuple[str, _tensors.Place]]:
        """Returns the module's buffers, by their names in the shared state."""
        return [(_named(name, place.tensor())[0], place) for name, place in self._buffers()]

    def _let_differ(self, names: Collection[str]) -> None:
        """Allows these tensors to differ among peers, in addition to `own`. All peers must pass the same names."""
        for info in self._infos:
            info.allow_content_inequality = self._own(info.name) or info.name in names

    # ---- its tensors and numbers

    def _buffers(self) -> List[Tuple[str, _tensors.Place]]:
        found = _tensors.persistent_buffers(self._module)
        return [("module." + _tensors.plain_name(name), place) for name, place in found]

    def _look_up(self) -> Tuple[_Named, _Numbers]:
        found: _Named = []
        numbers: _Numbers = {}
        for name, parameter in self._module.named_parameters():
            self._add(found, "module." + _tensors.plain_name(name), parameter)
        for name, place in self._buffers():
            self._add(found, name, place.tensor())
        if self._optimizer is not None:
            self._look_up_optimizer(self._optimizer, found, numbers)
        for name, thing in sorted(self._extra.items()):
            if callable(getattr(thing, "state_dict", None)):
                self._look_up_tree(found, numbers, name, thing.state_dict())
            elif isinstance(thing, torch.Tensor):
                self._add(found, name, thing)
            else:
                found.append((name, thing))
        return found, numbers

    def _look_up_optimizer(self, optimizer: torch.optim.Optimizer, found: _Named, all_numbers: _Numbers) -> None:
        names = {id(p): _tensors.plain_name(name) for name, p in self._module.named_parameters()}
        numbers: _numbers.Found = []
        for index, group in enumerate(optimizer.param_groups):
            prefix = f"{_OPTIMIZER}.group{index}"
            for key in sorted(_hyperparameters(group)):
                if isinstance(group[key], torch.Tensor):
                    self._add(found, f"{prefix}.{key}", group[key])
                else:
                    _numbers.collect(f"{prefix}.{key}", group[key], numbers, flags=False)
            for position, parameter in enumerate(group["params"]):
                state = optimizer.state.get(parameter, {})
                name = names.get(id(parameter), f"group{index}.{position}")
                for key in sorted(state):
                    self._add_state(found, numbers, f"{_OPTIMIZER}.{name}.{key}", state[key], parameter)
        self._add_numbers(found, all_numbers, _OPTIMIZER, numbers)

    def _add_state(
        self, found: _Named, numbers: _numbers.Found, name: str, value: Any, parameter: torch.Tensor
    ) -> None:
        if isinstance(value, torch.Tensor):
            # A plain tensor in the optimizer state of a shard also belongs to that shard.
            shard = _tensors.shard_name(parameter) if value.dim() > 0 and not _tensors.is_dtensor(value) else ""
            self._add(found, name + shard, value)
        elif _numbers.is_number(value):
            _numbers.collect(name, value, numbers)
        elif value is not None:
            raise InvalidArgument(
                f"shared_state: {name} is a {type(value).__name__}: only tensors and numbers can be shared; share it "
                "as `extra`"
            )

    def _look_up_tree(self, found: _Named, all_numbers: _Numbers, name: str, tree: Any) -> None:
        numbers: _numbers.Found = []
        _numbers.collect(name, tree, numbers)
        self._add_numbers(found, all_numbers, name, numbers)
        for path, tensor in _tensors_in(name, tree):
            self._add(found, path, tensor)

    def _add(self, found: _Named, name: str, tensor: torch.Tensor) -> None:
        found.append(_named(name, tensor))

    def _add_numbers(self, found: _Named, all_numbers: _Numbers, name: str, numbers: _numbers.Found) -> None:
        if numbers:
            full_name, all_numbers[name] = _numbers.as_tensor(name, numbers)
            found.append((full_name, all_numbers[name]))

    # ---- around a synchronization

    def _now(self) -> Tuple[_Named, _Numbers]:
        """Returns the current tensors and numbers. Raises InvalidArgument if the set of tensors has changed."""
        named, numbers = self._look_up()
        self._need_names([name for name, _ in named])
        return named, numbers

    def _prepare(self) -> Prepared:
        named, numbers = self._now()
        for info, (_, thing) in zip(self._infos, named):
            info._tensor = thing
        prepared = super()._prepare()
        prepared.numbers = numbers
        return prepared

    def _finish(self, prepared: Prepared) -> None:
        """Also writes the numbers back to their places."""
        super()._finish(prepared)
        numbers = prepared.numbers
        if self._optimizer is not None and _OPTIMIZER in numbers:
            take = _taker(numbers[_OPTIMIZER])
            for group in self._optimizer.param_groups:
                for key in sorted(_hyperparameters(group)):
                    group[key] = _numbers.replace(group[key], take, flags=False)
                for parameter in group["params"]:
                    state = self._optimizer.state.get(parameter, {})
                    for key in sorted(state):
                        state[key] = _numbers.replace(state[key], take)
        for name, thing in sorted(self._extra.items()):
            if name in numbers:
                thing.load_state_dict(_numbers.replace(thing.state_dict(), _taker(numbers[name])))


def _named(name: str, tensor: torch.Tensor) -> Tuple[str, torch.Tensor]:
    """Returns the full name of a tensor, and its memory."""
    memory, order = _tensors.in_memory_order(_tensors.local(tensor))
    return name + _tensors.shard_name(tensor) + order, memory


def _hyperparameters(group: Dict[str, Any]) -> List[str]:
    """Returns the keys of the hyperparameters, without flags that only select an equivalent computation (foreach,
    fused)."""
    return [key for key in group if key != "params" and not isinstance(group[key], bool)]


def _tensors_in(path: str, tree: Any) -> List[Tuple[str, torch.Tensor]]:
    if isinstance(tree, torch.Tensor):
        return [(path, tree)]
    parts: List[Tuple[Any, Any]] = []
    if isinstance(tree, dict):
        parts = [(key, tree[key]) for key in sorted(tree, key=str)]
    elif isinstance(tree, (list, tuple)):
        parts = list(enumerate(tree))
    return [found for key, part in parts for found in _tensors_in(f"{path}.{key}", part)]


def _taker(tensor: torch.Tensor) -> Callable[[], float]:
    numbers = iter(tensor.tolist())
    return lambda: float(next(numbers))


def shared_state(
    module: torch.nn.Module,
    optimizer: Optional[torch.optim.Optimizer] = None,
    extra: Optional[Mapping[str, Any]] = None,
    *,
    own: Callable[[str], bool] = lambda name: False,
) -> TrainingState:
    """Returns parameters, persistent buffers, the optimizer's state and its numbers (learning rate, momentum, ...) as
    shared state. Their names are the same on all peers, whatever wrappers the module has. Materializes the optimizer's
    state if necessary.

    extra: further contents by name: tensors, numpy arrays and other memory; or objects with state_dict() and
        load_state_dict(), such as learning rate schedulers, whose tensors and numbers are shared.

    own: a function that returns true for the names of tensors that may differ among peers, for example BatchNorm's
        statistics. Peers receive these only once, when they join. If they were shared like the others, each
        synchronization would copy one peer's values to all.

    For DTensors the local shards are shared, and the names include the shard, because each shard is a separate peer
    group. Tensors that are not dense (sparse tensors, strided views) are refused.
    """
    if optimizer is not None:
        materialize(optimizer)
    return TrainingState(module, optimizer, extra or {}, own)
