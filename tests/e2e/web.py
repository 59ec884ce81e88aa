"""The pages of a master over HTTP, for the tests."""

import json
import re
import subprocess
import urllib.request

import harness
from harness import check, poll


def start(run, http="127.0.0.1:0", **parameters):
    """Starts a master; run.http is the port of its HTTP."""
    run.start_master(http=http, **parameters)
    run.http = int(re.search(r"http on port (\d+)", run.master.wait_line("http on port")).group(1))
    return run.master


def get(run, path):
    """Returns the text of a page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{run.http}{path}", timeout=harness.DEADLINE) as answer:
        return answer.read().decode()


def status(run):
    return json.loads(get(run, "/status.json"))


def values(text):
    """Returns {"name{labels}": value} of an exposition."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            series, value = line.rsplit(" ", 1)
            check(series not in found, f"{series} twice")
            found[series] = float(value)
    return found


def until(run, **wanted):
    """Waits until the metrics have these values, and returns them: a page may be slightly older than the request."""

    def found():
        now = values(get(run, "/metrics"))
        return now if all(now[name] == value for name, value in wanted.items()) else None

    return poll(found, f"these metrics: {wanted}")


def ask(*arguments, command="status"):
    """Runs pccl-master status or pccl top. Returns (exit code, standard output, standard error)."""
    program = harness.executable("master")
    done = subprocess.run(
        [program if command == "status" else program.removesuffix("-master"), command, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=harness.DEADLINE,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr
