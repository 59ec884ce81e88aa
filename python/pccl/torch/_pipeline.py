"""Pipeline stages made of modules."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Optional, Sequence, Tuple

import torch

from .._errors import InvalidArgument


class PipelineStage:
    """A sequence of torch modules as a stage of pccl.methods.Pipeline. It maps the residual stream from the previous
    stage to the stream for the next one.

    modules: the modules, in order. optimizer: a function that creates the optimizer of the parameters, for example
        lambda parameters: torch.optim.AdamW(parameters, 4e-4). first: on the first stage, (micro-batch) -> the input of
        its first module. loss: on the last stage, (output of its last module, micro-batch) -> a scalar. max_norm:
        length to which longer gradients of the stage are scaled down. scheduler: a function that creates a scheduler
        for the optimizer; it counts the steps of this peer.
    """

    def __init__(
        self,
        modules: Sequence[torch.nn.Module],
        optimizer: Callable[[Iterable[torch.nn.Parameter]], torch.optim.Optimizer],
        *,
        first: Optional[Callable[[Any], torch.Tensor]] = None,
        loss: Optional[Callable[[torch.Tensor, Any], torch.Tensor]] = None,
        max_norm: Optional[float] = 1.0,
        scheduler: Optional[Callable[[torch.optim.Optimizer], Any]] = None,
    ) -> None:
        self.modules = torch.nn.ModuleList(modules)
        self._first, self._loss, self._max_norm = first, loss, max_norm
        self.params: Dict[str, torch.nn.Parameter] = {
            name: parameter for name, parameter in self.modules.named_parameters() if parameter.requires_grad
        }
        if not self.params:
            raise InvalidArgument("modules: no parameters to train")
        self._device = next(iter(self.params.values())).device
        self.optimizer = optimizer(self.params.values())
        self._scheduler = scheduler(self.optimizer) if scheduler is not None else None

    def forward(self, micro: Any, hidden: Optional[Any]) -> Tuple[Any, Any]:
        if (hidden is None) != (self._first is not None):
            raise InvalidArgument("PipelineStage: only the first stage takes `first`")
        given = None
        with torch.enable_grad():
            if self._first is not None:
                stream = self._first(micro)
            else:
                stream = given = torch.from_numpy(hidden).to(self._device).requires_grad_()
            for module in self.modules:
                stream = module(stream)
            if self._loss is not None:
                loss = self._loss(stream, micro)
                return float(loss.detach()), (given, loss)
        return stream.detach().to("cpu", torch.float32).numpy(), (given, stream)

    def backward(self, saved: Any, gradient: Optional[Any]) -> Optional[Any]:
        given, made = saved
        above = None if gradient is None else torch.from_numpy(gradient).to(made.device, made.dtype)
        torch.autograd.backward(made, above)
        return None if given is None else given.grad.to("cpu", torch.float32).numpy()

    def step(self, step: int, micro_batches: int) -> None:
        gradients = [parameter.grad for parameter in self.params.values() if parameter.grad is not None]
        for gradient in gradients:
            gradient /= micro_batches
        if self._max_norm is not None:
            torch.nn.utils.clip_grad_norm_(list(self.params.values()), self._max_norm)
        self.optimizer.step()
        if self._scheduler is not None:
            self._scheduler.step()
        self.forget()

    def forget(self) -> None:
        self.optimizer.zero_grad()
