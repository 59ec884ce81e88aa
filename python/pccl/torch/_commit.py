"""Reports whether all gradients of a step were reduced.

An exception thrown through FSDP2's backward silently desynchronizes the model for good, because its hooks get out of
step. An operation that fails inside a backward therefore lets the backward finish with this rank's own values, and
stores the failure here. A hook before every optimizer step raises it until committed() has been called, so that no step
uses such gradients unnoticed.

With elastic replicas (_elastic.py) the step itself detects the failure, together with all other replicas, and drops the
gradients.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import Any, Optional

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

_log = logging.getLogger("pccl")
_lock = threading.Lock()
_failure: Optional[BaseException] = None
_dropped = False  # true if the last step of an elastic replica was dropped
_hook: Any = None
_elastic: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()


def in_backward() -> bool:
    """Returns true if this thread is inside backward()."""
    return bool(torch._C._current_graph_task_id() != -1)


def note(error: BaseException) -> None:
    """Records the failure of an operation in a backward."""
    global _failure
    with _lock:
        if _failure is not None:
            return
        _failure = error
    _log.warning("step not committed: %s", error)


def committed() -> bool:
    """Returns true if all operations in backward passes since the last call have succeeded.

    If not, some of this rank's gradients are not averages: drop the step (optimizer.zero_grad()). The reason is in the
    log, and an optimizer step before this call raises it. With pccl.torch.elastic(), call this after the step, which
    drops itself if necessary; it then returns true if the step counts."""
    global _dropped
    failed, dropped, _dropped = take(), _dropped, False
    return failed is None and not dropped


def take() -> Optional[BaseException]:
    """Returns the failure in backward passes since the last call, or None."""
    global _failure
    with _lock:
        failed, _failure = _failure, None
    return failed


def step_ended(is_committed: bool) -> None:
    """Records the outcome of an elastic replica's step."""
    global _dropped
    _dropped = not is_committed


def is_elastic(optimizer: torch.optim.Optimizer, is_so: bool) -> None:
    """Sets whether the optimizer's steps check for failures themselves."""
    (_elastic.add if is_so else _elastic.discard)(optimizer)


def _before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if _failure is not None and optimizer not in _elastic:
        raise RuntimeError(
            "an operation of the last backward() failed, so the gradients are incomplete; skip the step "
            f"where pccl.torch.committed() is False: {_failure}"
        ) from _failure


def watch_steps() -> None:
    """Installs the hook and clears the failure. Called for each new world."""
    global _failure, _hook
    _failure = None
    if _hook is None:
        _hook = register_optimizer_step_pre_hook(_before_step)
