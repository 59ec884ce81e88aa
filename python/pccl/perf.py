"""The `pccl-perf` command, which measures all-reduce: `pccl-perf -N 4`, or `python -m pccl.perf -N 4`."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from . import _programs


def main(arguments: Optional[Sequence[str]] = None) -> int:
    return _programs.run("perf", *(sys.argv[1:] if arguments is None else arguments))


if __name__ == "__main__":
    sys.exit(main())
