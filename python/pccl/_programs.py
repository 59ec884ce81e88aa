"""The programs of the C library, in the place of this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import List, Optional, Sequence


def _is_program(path: Path) -> bool:
    """Also pip's scripts are called so, which would call themselves for ever."""
    if not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        return file.read(2) != b"#!"


def find(name: str) -> Optional[str]:
    """The one that comes with the package, or that was built with the library of PCCL_LIBRARY, or that is installed."""
    places: List[Path] = [Path(__file__).resolve().parent / "bin" / name]
    chosen = os.environ.get("PCCL_LIBRARY")
    if chosen:
        places.append(Path(chosen).resolve().parent.parent / "tools" / name)
    for folder in os.get_exec_path():
        found = which(name, path=folder)
        if found:
            places.append(Path(found))
    return next((str(path) for path in places if _is_program(path)), None)


def run(name: str, arguments: Optional[Sequence[str]]) -> int:
    """Becomes the program, or, where that cannot be, waits for it: its exit status."""
    path = find(name)
    if path is None:
        print(f"{name}: this installation of the Python package has no such program", file=sys.stderr)
        return 1
    command = [path, *(sys.argv[1:] if arguments is None else arguments)]
    if os.name == "posix":
        os.execv(path, command)
    return subprocess.call(command)
