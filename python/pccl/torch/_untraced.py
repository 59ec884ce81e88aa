"""Keeps torch.compile out of methods that torch calls while inspecting running code, because the compiler fails on
them. torch.compiler.disable does the same, but imports the compiler, which takes seconds."""

from __future__ import annotations

import inspect
from typing import Any, Tuple

from torch._C._dynamo import eval_frame


def untrace(kind: type, but: Tuple[str, ...] = ()) -> None:
    """Excludes all public methods of a class and everything they call, except methods whose names begin with an entry
    of `but`."""
    evaluation: Any = eval_frame
    if not hasattr(evaluation, "set_code_exec_strategy"):
        return  # torch before 2.7
    skip = evaluation._FrameAction.SKIP
    for name, member in vars(kind).items():
        if inspect.isfunction(member) and not name.startswith(("_", *but)):
            evaluation.set_code_exec_strategy(member.__code__, evaluation._FrameExecStrategy(skip, skip))
