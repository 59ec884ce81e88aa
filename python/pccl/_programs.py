"""Finds and runs programs of the C library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import List, Optional, Sequence


def _is_program(path: Path) -> bool:
    """Returns true for a binary. A script of the same name, installed by pip, would call itself forever."""
    if not os.access(path, os.X_OK):
        return False
    with open(path, "rb") as file:
        return file.read(2) != b"#!"


def find(name: str) -> Optional[str]:
    """Returns the path of a program: bundled with the package, built beside PCCL_LIBRARY, or installed. Returns None if
    it is not found."""
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
    """Replaces this process with the program. If that is impossible, runs it, waits for it and returns its exit status.
    """
    path = find(name)
    if path is None:
        print(f"{name}: not included in this installation of the Python package", file=sys.stderr)
        return 1
    command = [path, *(sys.argv[1:] if arguments is None else arguments)]
    if os.name == "posix":
        os.execv(path, command)
    return subprocess.call(command)
