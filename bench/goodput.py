#!/usr/bin/env python3
"""Measures the pace of a run whose workers fail repeatedly: streaming DiLoCo of eight processes over loopback
(python/tests/lab/crowd.py), with inner steps of a fixed duration, as if on separate accelerators. Every few seconds one
worker is killed (kill -9), or stopped for 2 or 15 seconds; all return.

    build/venv/bin/python bench/goodput.py [--seconds 300] [--every 5] [--pace 0.25] [--seed 0]
        [--catch-up whole]

A run of equal steps without failures gives the reference for the loss, and a short run with equal padding the reference
for the pace. Requires a Python with numpy. "of the living": trained samples per second of a worker in the run, alive
and not stopped, relative to the undisturbed run. "raw": trained samples per second of the run, likewise. "counted": the
share of the trained samples that reached the model.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
INNER_STEPS = 24
# Silent peers are removed after this time. Less than a fragment may travel (delay 5), so that no peer waits for a lost
# one.
SILENCE_MS, LINK_SILENCE_MS = 1000, 1000
PACED_ROUNDS = 4  # for the undisturbed run with padding


def told(build, **about):
    """Returns the output of lab.crowd for a run with a separate master."""
    settings = ["--set", f"silence_ms={SILENCE_MS}", "--set", f"heartbeat_ms={SILENCE_MS // 4}"]
    words = [build / "tools" / "pccl-master", "--listen", "127.0.0.1:0", *settings]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as master:
        try:
            port = next(found[1] for line in master.stderr if (found := re.search(r"listening on port (\d+)", line)))
            about.update(inner_steps=INNER_STEPS, options={"link_silence_ms": LINK_SILENCE_MS})
            program = [sys.executable, "-B", "-m", "lab.crowd", f"127.0.0.1:{port}", json.dumps(about)]
            threading.Thread(target=master.stderr.read, daemon=True).start()  # to prevent a full pipe
            return json.loads(subprocess.run(program, check=True, stdout=subprocess.PIPE, text=True).stdout)
        finally:
            master.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=5.0, metavar="SECONDS")
    parser.add_argument("--pace", type=float, default=0.25, metavar="SECONDS", help="of an inner step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--catch-up", default="whole", help="whole: here the state comes in milliseconds")
    given = parser.parse_args()
    build = (ROOT / given.build).resolve()
    os.environ.update(PCCL_LIBRARY=str(build / "src" / "libpccl.so.1"), OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    os.environ["PCCL_LOG_LEVEL"] = "FATAL"  # failures and returns are expected here
    os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / where) for where in ("python", "python/tests"))
    rounds = max(4, round(given.seconds / given.pace / INNER_STEPS))
    about = {"workers": given.workers, "seed": given.seed, "rounds": rounds, "catch_up": given.catch_up}
    calm = told(build, **about)
    paced = told(build, **{**about, "rounds": PACED_ROUNDS}, pace=given.pace)
    failing = told(build, **about, pace=given.pace, every=given.every, linger_s=20)
    rate = paced["trained"] / paced["lived_s"]
    whole_s = given.workers * failing["whole_s"]
    print(f"{given.workers} workers, {rounds} rounds of {INNER_STEPS} steps of {given.pace} s:"
          f" {failing['whole_s']:.0f} s")
    print(f"failures: {failing['disturbed']}; processes: {failing['processes']}; slots given up: {failing['given_up']}")
    print(f"samples a second of the living: {failing['trained'] / failing['lived_s'] / rate:.3f} of undisturbed")
    print(f"raw: {failing['trained'] / whole_s / rate:.3f}; the living were {failing['lived_s'] / whole_s:.3f} of all")
    print(f"counted: {failing['counted'] / failing['trained']:.3f} of what was trained")
    print(f"loss: {failing['loss']:.3f}; of as many steps without failures {calm['loss']:.3f}")
    print(f"processors in use: {failing['cpu_s'] / failing['whole_s'] / os.cpu_count():.2f} of {os.cpu_count()};"
          f" load of the machine: {os.getloadavg()[0]:.1f}")


main()
