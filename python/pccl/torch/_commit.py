"""Whether all of a step's gradients were reduced.

An exception out of FSDP2's backward leaves the model unsynchronized for good, without a word: its hooks are out of
step. So an operation that fails inside a backward lets it end, with the values of this rank alone, and the failure is
kept here. Nobody can step on such gradients unawares: a hook before every optimizer step raises until committed() was
asked.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Optional

import torch

_log = logging.getLogger("pccl")
_lock = threading.Lock()
_failure: Optional[BaseException] = None
_hook: Any = None


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
    raises it."""
    global _failure
    with _lock:
        failed, _failure = _failure, None
    return failed is None


def _before_step(*_: Any) -> None:
    if _failure is not None:
        raise RuntimeError(
            "an operation of the last backward() failed, so the gradients are not those of all ranks; drop the step "
            f"where pccl.torch.committed() is False: {_failure}"
        ) from _failure


def watch_steps() -> None:
    """From now on, and with a clean record: a new world has begun."""
    global _failure, _hook
    _failure = None
    if _hook is None:
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        _hook = register_optimizer_step_pre_hook(_before_step)
