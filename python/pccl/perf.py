"""The `pccl-perf` command, which measures all-reduce: `pccl-perf -N 4`, or `python -m pccl.perf -N 4`."""

from __future__ import annotations

import sys
from typing import Optional, Sequence

from . import _programs


def program() -> Optional[str]:
    """Returns the path of pccl-perf: the bundled one, or else an installed one."""
    return _programs.find("pccl-perf")


def main(arguments: Optional[Sequence[str]] = None) -> int:
    return _programs.run("pccl-perf", arguments)


if __name__ == "__main__":
    sys.exit(main())
