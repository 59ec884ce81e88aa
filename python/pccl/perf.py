"""`python -m pccl.perf -N 4`: measures all-reduce with the program that comes with the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Optional


def program() -> Optional[str]:
    """The bundled pccl-perf, or else one that is installed."""
    bundled = Path(__file__).resolve().parent / "bin" / "pccl-perf"
    return str(bundled) if os.access(bundled, os.X_OK) else which("pccl-perf")


def main() -> int:
    path = program()
    if path is None:
        print("pccl.perf: this installation has no pccl-perf", file=sys.stderr)
        return 1
    command = [path, *sys.argv[1:]]
    if os.name == "posix":
        os.execv(path, command)
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
