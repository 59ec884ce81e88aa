"""Starts the ranks of a process group as torchrun would, each in a process of its own, with torch_bodies.py."""

import os

import support

_RUN = "import sys, torch_bodies; getattr(torch_bodies, sys.argv[1])(*sys.argv[2:])"


def install(folder):
    """Makes `import torch` find the backend, as an installed package does: what pyproject.toml names is in the
    metadata of a distribution. Its folder belongs on the path."""
    entry = 'pccl = "pccl_autoload:register"'
    text = (support.PACKAGE.parent / "pyproject.toml").read_text()
    assert f'[project.entry-points."torch.backends"]\n{entry}\n' in text
    info = folder / "pccl-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pccl\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\n" + entry.replace('"', "") + "\n")
    return folder


class Ranks:
    """One world; `script` is the fixture."""

    def __init__(self, script, folder, body, size, *arguments, **environment):
        port = support.free_port()
        self.all = [
            script(
                _RUN,
                body,
                *arguments,
                env={
                    "RANK": str(rank),
                    "WORLD_SIZE": str(size),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "OMP_NUM_THREADS": "1",
                    "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
                    **environment,
                },
            )
            for rank in range(size)
        ]

    def say(self, words):
        for rank in self.all:
            rank.line(words)

    def end_after(self, words):
        self.say(words)
        for rank in self.all:
            rank.ends_after(words)


