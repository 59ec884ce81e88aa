"""The `pccl` command, also as `python -m pccl`: `pccl doctor` and `pccl top` are here, all other commands are of the C
program `pccl`, which the package contains."""

from __future__ import annotations

import sys
from typing import Callable, Dict, Optional, Sequence

from . import _programs, doctor, top

_COMMANDS: Dict[str, Callable[[Optional[Sequence[str]]], int]] = {"doctor": doctor.main, "top": top.main}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    command = _COMMANDS.get(given[0]) if given else None
    return command(given[1:]) if command else _programs.run(*given)


if __name__ == "__main__":
    sys.exit(main())
