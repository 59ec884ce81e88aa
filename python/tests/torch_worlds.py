"""The ranks of process groups: forks of a process that has imported torch, which takes longer than most of their work
(torch_bodies.py)."""

import json
import os
import subprocess
import sys

import endings
import support

def environment(folder):
    """folder: the package, with the metadata of an installation (installed.py)."""
    given = support.environment(OMP_NUM_THREADS="1")
    given["PYTHONPATH"] += os.pathsep + str(folder)
    return given


def torchrun(folder, body, size, *arguments):
    """Returns the output, after checking that all ended with success."""
    text = "import sys; from torch.distributed.run import main; main(sys.argv[1:])"
    ranks = "import sys, torch_bodies; getattr(torch_bodies, sys.argv[1])(*sys.argv[2:])"
    words = [f"--nproc-per-node={size}", f"--master-port={support.free_port()}", "--no-python", sys.executable, "-c"]
    command = [sys.executable, "-c", text, *words, ranks, body, *arguments]
    given = environment(folder)
    return subprocess.run(command, env=given, check=True, timeout=support.DEADLINE, stdout=subprocess.PIPE, text=True)


class Nursery:
    """The parent process of ranks."""

    def __init__(self, folder, *modules):
        """modules: used by most ranks."""
        self._folder = folder
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import sys, torch_bodies; torch_bodies.serve(*sys.argv[1:])", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(folder),
            text=True,
            start_new_session=True,
        )

    def world(self, body, ranks, *arguments, size=None, dying=(), **more):
        """Runs a world to its end, and returns the output of its ranks, a list of lines for each. All must end with
        success except the dying ones. ranks: their number, or a selection from a world of this size."""
        present = list(range(ranks)) if isinstance(ranks, int) else list(ranks)
        self._count += 1
        place = str(self._folder / f"{self._count}.%d.out")
        launch = {"WORLD_SIZE": size or len(present), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": support.free_port()}
        given = [str(one) for one in arguments]
        order = {"body": body, "arguments": given, "ranks": present, "out": place, "env": {**launch, **more}}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        statuses = json.loads(support.parallel([self._process.stdout.readline])[0] or "{}")
        said = {rank: open(place % rank).read().splitlines() for rank in present}
        ends = {rank: statuses.get(str(rank), "no end") for rank in present}
        ill = [rank for rank in present if rank not in dying and not endings.ended_well(ends[rank], said[rank], "")]
        words = ["\n".join([f"rank {rank} of {body} ended with {ends[rank]}:", *said[rank]]) for rank in ill]
        assert not ill, "\n".join(words)
        return [said[rank] for rank in present]

    def close(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
