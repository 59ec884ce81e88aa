"""Starts the laboratory's programs in separate processes, and reads their reports."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback

TESTS = pathlib.Path(__file__).resolve().parent.parent


def options(**given):
    """Converts rate=0.4 to --rate 0.4; omits None."""
    there = {f"--{name.replace('_', '-')}": value for name, value in given.items() if value is not None}
    return [word for pair in there.items() for word in pair]


def start(module, *arguments, prefix=(), more=None):
    paths = [str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", **(more or {}))
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    words = [*prefix, sys.executable, "-B", "-m", f"lab.{module}", *map(str, arguments)]
    return subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)


class Run:
    """Processes that were started together. Leaving the context ends them."""

    def __init__(self, processes, seconds=240):
        self.processes = list(processes)
        self._end = time.monotonic() + seconds

    def results(self, killed=()):
        """Returns the output of each, as JSON. killed: numbers of the killed ones."""
        found = []
        for number, process in enumerate(self.processes):
            out, err = process.communicate(timeout=max(0.1, self._end - time.monotonic()))
            wanted = -signal.SIGKILL if number in killed else 0
            assert process.returncode == wanted, f"process {number} ended with {process.returncode}: {err[-2000:]}"
            found.append([json.loads(line) for line in out.splitlines()])
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()


def peers(address, count, killed=(), prefix=lambda number: (), module="peer", seconds=240, **given):
    """Returns the reports of `count` peers; the peers in `killed` are killed in the round of dies_in. module: their
    program. seconds: time limit."""
    dies_in = given.pop("dies_in", None)

    def one(number):
        how = options(workers=count, dies_in=dies_in if number in killed else None, **given)
        return start(module, address, number, *how, prefix=prefix(number))

    with Run((one(number) for number in range(count)), seconds) as run:
        return run.results(killed)


def learn(seed, steps, **given):
    """Trains with one of pccl.methods. Returns the loss, the same for all, and the most bytes of one worker."""
    import pccl

    with pccl.MasterNode("127.0.0.1:0") as master:
        found = peers(f"127.0.0.1:{master.port}", 4, module="methods", seed=seed, steps=steps, **given)
    assert len({lines[-2]["parameters"] for lines in found}) == 1
    return found[0][-2]["loss"], max(lines[-2]["tx"] for lines in found)


def end_fork(work):
    """Does the work of this forked process, and ends it: status 0 shows that the work has not failed."""
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)
