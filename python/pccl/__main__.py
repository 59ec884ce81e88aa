"""The `pccl` command, also as `python -m pccl`: the C program `pccl`, which the package contains."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from . import _programs


def main(arguments: Optional[Sequence[str]] = None) -> int:
    return _programs.run(*(sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    sys.exit(main())
