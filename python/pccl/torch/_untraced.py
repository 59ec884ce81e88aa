"""Keeps torch.compile out of methods that torch calls while it looks into whatever runs: there is nothing to compile
in them, and it fails at that. torch.compiler.disable does the same, and imports the compiler for it, which takes
seconds."""

from __future__ import annotations

import inspect
from typing import Any, Tuple

from torch._C._dynamo import eval_frame


def untrace(kind: type, but: Tuple[str, ...] = ()) -> None:
    """Of a class: all public methods, with what they call, but those whose names begin so."""
    evaluation: Any = eval_frame
    if not hasattr(evaluation, "set_code_exec_strategy"):
        return  # before torch 2.7
    skip = evaluation._FrameAction.SKIP
    for name, member in vars(kind).items():
        if inspect.isfunction(member) and not name.startswith(("_", *but)):
            evaluation.set_code_exec_strategy(member.__code__, evaluation._FrameExecStrategy(skip, skip))
