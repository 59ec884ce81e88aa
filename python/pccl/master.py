"""The program `pccl-master`, the master of a run: `pccl-master --listen 0.0.0.0:48148`, or `python -m pccl.master`.
Runs the C program. `pccl_master --listen-address`, as with PCCL 1.0, and `ccoip_master` are the same."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from . import _programs


def main(arguments: Optional[Sequence[str]] = None) -> int:
    return _programs.run("pccl-master", arguments)


if __name__ == "__main__":
    sys.exit(main())
