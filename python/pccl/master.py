"""The `pccl-master` command, the master of a run: `pccl-master --listen 0.0.0.0:48148`, or `python -m pccl.master`.
Runs the C program. `ccoip_master`, and `pccl_master --listen-address` as in PCCL 1.0, are aliases."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from . import _programs


def main(arguments: Optional[Sequence[str]] = None) -> int:
    return _programs.run("master", *(sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    sys.exit(main())
