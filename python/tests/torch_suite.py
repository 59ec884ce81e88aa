"""Runs torch's own suite of a backend, torch.testing._internal.distributed.distributed_test: forked ranks.

    BACKEND=gloo SUITE_GROUPS=pccl python torch_suite.py RESULTS [NAME...]

The suite reads BACKEND to select tests and expected words. SUITE_GROUPS=pccl gives it groups of this backend wherever
it asks for gloo's; get_backend() then still returns gloo. SUITE_RANKS is the number of ranks, 3 by default; tests of
groups skip with 3. The program appends a line to RESULTS for each test: name, one of passed, skipped and failed,
and the reason.
"""

import json
import multiprocessing
import os
import pathlib
import signal
import sys
import tempfile
import threading
import unittest

RANKS, LIMIT_S = int(os.environ.get("SUITE_RANKS", "3")), 150


def gloo_is_pccl(dist, suite):
    """Makes groups of this backend where the suite requests gloo's. The suite finds the profiler's events, whose names
    have the backend, by gloo's name."""
    c10d = dist.distributed_c10d
    make, find = c10d._new_process_group_helper, suite.get_profiling_event

    def found(name, *more, **named):
        events = find(name.replace("gloo:", "pccl:"), *more, **named)
        for event in events:
            event.name = event.name.replace("pccl:", "gloo:")
        return events

    def made(size, rank, ranks, backend, store, *more, **named):
        is_gloo = str(backend) == "gloo"
        made = make(size, rank, ranks, dist.Backend("pccl") if is_gloo else backend, store, *more, **named)
        if is_gloo and made[0] in c10d._world.pg_map:
            c10d._world.pg_map[made[0]] = "gloo", c10d._world.pg_map[made[0]][1]
        return made

    c10d._new_process_group_helper = made
    suite.get_profiling_event = found


def words_of(outcome):
    for kind, found in (("failed", outcome.failures + outcome.errors), ("skipped", outcome.skipped)):
        if found:
            return kind, found[0][1]
    return "passed", ""


def run(case, name, out):
    """Runs a test in this process, which becomes the leader of a session."""
    os.setsid()
    log = os.open(out + ".log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    kind, words = words_of(unittest.TextTestRunner(stream=sys.stderr, verbosity=0).run(case(name)))
    pathlib.Path(out).write_text(json.dumps([name, kind, words]), encoding="utf-8")


def one(case, name, folder):
    out = f"{folder}/{name}"
    pid = os.fork()
    if pid == 0:
        try:
            run(case, name, out)
        finally:
            os._exit(0)
    watch = threading.Timer(LIMIT_S, os.killpg, (pid, signal.SIGKILL))
    watch.start()
    os.waitpid(pid, 0)
    watch.cancel()
    try:
        os.killpg(pid, signal.SIGKILL)  # ranks that remain
    except ProcessLookupError:
        pass
    said = pathlib.Path(out + ".log").read_text(encoding="utf-8", errors="replace")
    if not os.path.exists(out):
        return [name, "failed", f"no end within {LIMIT_S} s", said]
    return [*json.loads(pathlib.Path(out).read_text(encoding="utf-8")), said]


def main(results, *names):
    os.environ.update(WORLD_SIZE=str(RANKS), BACKEND=os.environ.get("BACKEND", "pccl"), TORCH_DISTRIBUTED_DEBUG="OFF")
    sys.argv[1:] = []
    import torch.distributed as dist
    from torch.testing._internal.distributed import distributed_test as suite

    if os.environ.get("SUITE_GROUPS") == "pccl":
        gloo_is_pccl(dist, suite)

    class Case(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(multiprocessing.get_context("fork").Process)

    Case.__module__ = "__main__"
    with tempfile.TemporaryDirectory() as folder, open(results, "a", encoding="utf-8") as file:
        for name in names or sorted(unittest.TestLoader().getTestCaseNames(Case)):
            line = one(Case, name, folder)
            file.write(json.dumps(line) + "\n")
            file.flush()
            print(line[0], line[1], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
