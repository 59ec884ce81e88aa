"""Finds and runs the program `pccl` of the C library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import List, Optional, Sequence

_NAME = "pccl.exe" if os.name == "nt" else "pccl"


def _is_program(path: Path) -> bool:
    """Returns true for a binary. A script of the same name, installed by pip, would call itself forever."""
    if not os.access(path, os.X_OK) or path.is_dir():
        return False
    with open(path, "rb") as file:
        return file.read(2) != b"#!"


def find() -> Optional[str]:
    """Returns the path of the program: bundled with the package, built beside PCCL_LIBRARY, or installed. Returns None
    if it is not found."""
    places: List[Path] = [Path(__file__).resolve().parent / "bin" / _NAME]
    chosen = os.environ.get("PCCL_LIBRARY")
    if chosen:
        places.append(Path(chosen).resolve().parent.parent / "tools" / _NAME)
    for folder in os.get_exec_path():
        found = which(_NAME, path=folder)
        if found:
            places.append(Path(found))
    return next((str(path) for path in places if _is_program(path)), None)


def run(*arguments: str) -> int:
    """Replaces this process with the program. If that is impossible, runs it, waits for it and returns its exit status.
    """
    path = find()
    if path is None:
        print("pccl: the program is not included in this installation of the Python package", file=sys.stderr)
        return 1
    command = [path, *arguments]
    if os.name == "posix":
        os.execv(path, command)
    return subprocess.call(command)
