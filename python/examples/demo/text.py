"""The training text: the modules of Python's standard library as bytes. Some files are held back for validation."""

import os
from pathlib import Path

import numpy as np

LEFT_OUT = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idlelib", "lib2to3", "encodings"}
BYTES_MAX = 3 << 20
HELD_BACK = 10  # one file out of this number is held back


def load():
    """Returns (training text, validation text) as byte arrays."""
    folder = Path(os.__file__).resolve().parent
    parts, size = ([], []), 0
    for number, path in enumerate(sorted(_modules(folder))):
        text = path.read_bytes()
        parts[number % HELD_BACK == HELD_BACK - 1].append(text)
        size += len(text)
        if size > BYTES_MAX:
            break
    if not all(parts):
        raise SystemExit(f"the demo trains on Python's standard library, and {folder} has too few modules")
    return tuple(np.frombuffer(b"".join(part), np.uint8) for part in parts)


def _modules(folder):
    for place, folders, names in os.walk(folder):
        folders[:] = set(folders) - LEFT_OUT
        yield from (Path(place, name) for name in names if name.endswith(".py"))


def cut(text, starts, length):
    """Returns pieces of this length, one for each start."""
    return text[np.asarray(starts, np.int64)[:, None] + np.arange(length)]


def pieces(text, count, length):
    """Returns this number of equidistant pieces."""
    return cut(text, np.linspace(0, len(text) - length, count), length)
