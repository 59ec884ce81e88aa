"""Whether all of a step's gradients were reduced.

An exception out of FSDP2's backward leaves the model unsynchronized for good, without a word: its hooks are out of
step. So an operation that fails inside a backward lets it end, with the values of this rank alone, and the failure is
kept here. Nobody can step on such gradients unawares: a hook before every optimizer step raises until committed() was
asked.

With elastic replicas (_elastic.py) the step itself finds that out, together with all others, and drops it.
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
_dropped = False  # the last step of an elastic replica
_hook: Any = None
_elastic: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()


def in_backward() -> bool:
    """Whether this thread is inside backward()."""
    return bool(torch._C._current_graph_task_id() != -1)


def note(error: BaseException) -> None:
    """An operation of a backward has failed."""
    global _failure
    with _lock:
        if _failure is not None:
            return
        _failure = error
    _log.warning("this step is not committed: %s", error)


def committed() -> bool:
    """Whether all operations of the backwards since the last call have succeeded. If not, this rank's gradients are in
    part its own: drop the step (optimizer.zero_grad()). The reason was logged; an optimizer step before this is asked
    raises it. With pccl.torch.elastic() ask after the step, which drops itself: whether it counts."""
    global _dropped
    failed, dropped, _dropped = take(), _dropped, False
    return failed is None and not dropped


def take() -> Optional[BaseException]:
    """The failure of the backwards since the last call."""
    global _failure
    with _lock:
        failed, _failure = _failure, None
    return failed


def step_ended(is_committed: bool) -> None:
    """Of an elastic replica."""
    global _dropped
    _dropped = not is_committed


def is_elastic(optimizer: torch.optim.Optimizer, is_so: bool) -> None:
    """Whether its steps ask for failures themselves."""
    (_elastic.add if is_so else _elastic.discard)(optimizer)


def _before_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    if _failure is not None and optimizer not in _elastic:
        raise RuntimeError(
            "an operation of the last backward() failed, so the gradients are not those of all ranks; drop the step "
            f"where pccl.torch.committed() is False: {_failure}"
        ) from _failure


def watch_steps() -> None:
    """From now on, and with a clean record: a new world has begun."""
    global _failure, _hook
    _failure = None
    if _hook is None:
        _hook = register_optimizer_step_pre_hook(_before_step)
