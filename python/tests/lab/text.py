"""The text that the model reads: the first 1.5 MB of the standard library's modules, as 64 classes of bytes."""

import functools
import glob
import os

import numpy as np

BYTES = 1_500_000
HELD_BACK = 150_000  # at the end, for validation
CLASSES = 64  # the 63 most frequent bytes, and all others
CONTEXT = 12


# Texts to which a model is moved: files of this repository.
TASKS = {"c": ("src/**/*.[ch]", "include/*.h"), "markdown": ("docs/**/*.md", "*.md")}


def _read(names, most):
    taken = b""
    for name in names:
        with open(name, "rb") as file:
            taken += file.read()
        if len(taken) >= most:
            break
    return np.frombuffer(taken[:most], np.uint8)


def _standard_library():
    raw = _read(sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))), BYTES)
    assert len(raw) == BYTES, f"the standard library has {len(raw)} bytes only"
    return raw


@functools.lru_cache(maxsize=None)
def classes(task=None):
    """Returns (text to train with, text to validate with)."""
    raw = text = _standard_library()
    if task is not None:
        root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 3))
        names = [name for pattern in TASKS[task] for name in glob.glob(os.path.join(root, pattern), recursive=True)]
        text = _read(sorted(names), BYTES)
    counts = np.bincount(raw, minlength=256)
    table = np.full(256, CLASSES - 1, np.int64)
    table[np.argsort(-counts, kind="stable")[: CLASSES - 1]] = np.arange(CLASSES - 1)
    held_back = min(HELD_BACK, len(text) // 10)
    return table[text[:-held_back]], table[text[-held_back:]]


def windows(text, starts):
    """Returns (contexts, the character after each)."""
    return text[starts[:, None] + np.arange(CONTEXT)], text[starts + CONTEXT]


def batches(number, workers, seed, step, count, size=32, task=None):
    """Yields the batches of one worker for `count` steps from `step` on: the same for the same steps in any process.
    Each worker has a separate part of the text."""
    train, _ = classes(task)
    length = len(train) // workers
    for at in range(step, step + count):
        dice = np.random.Generator(np.random.Philox(key=[seed, number], counter=[0, at, 0, 0]))
        yield windows(train, number * length + dice.integers(0, length - CONTEXT, size))


@functools.lru_cache(maxsize=None)
def validation(task=None):
    _, held_back = classes(task)
    return windows(held_back, np.arange(0, len(held_back) - CONTEXT, 9))
