#!/usr/bin/env python3
"""Measures the loss of pccl.methods.Pipeline with compressed links, and the duration of its steps over slow links, with
the model of python/tests/lab/pipelines.py.

    build/venv/bin/python bench/pipelines.py losses [--seeds 0,1,2] [--only fat]
        over loopback: losses on held-out text, of the whole model and of the pipeline with compressed links,
        and bytes between stages
    build/venv/bin/python bench/pipelines.py link [--rate 50] [--delay-ms 40]
        two stages on separate hosts (needs root): seconds of a step, compared with computing and with sending

Requires a Python with numpy. Both commands accept --build build/default.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / where) for where in ("python", "python/tests", "tests/wan")]

from lab import launch  # noqa: E402 pylint: disable=wrong-import-position

MODEL = {"width": 256, "kept": 512, "batch": 64, "micro_batches": 2}
ALONE = {"workers": 2, "steps": 600, "inner_steps": 1_000_000, **MODEL}
TWO = {"replicas": 2, "steps": 500, **MODEL}
RUNS = {
    "a pipeline, activations in f32": {"compress": "none", **ALONE},
    "a pipeline, an eighth of them": ALONE,
    "two with the whole model": {"workers": 2, "whole": 2, **TWO},
    "one and a compressed pipeline": {"workers": 3, "whole": 1, **TWO},
    "one and a pipeline, both compressed": {"workers": 3, "whole": 1, "compress": "all", **TWO},
}


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def losses(given):
    import pccl  # pylint: disable=import-outside-toplevel

    row("replicas", "loss", "of seeds", "with compressed links", "of seeds", "sent between stages, MB")
    row(*["---"] * 6)
    for name in (name for name in RUNS if given.only in name):
        found = []
        for seed in given.seeds:
            with pccl.MasterNode("127.0.0.1:0") as master:
                how = {**RUNS[name], "seed": seed}
                count = how.pop("workers")
                found.append(launch.peers(f"127.0.0.1:{master.port}", count, module="pipelines", seconds=1800, **how))
        cells = []
        for kind in ("whole", "linked"):
            ends = [peers[0][-1][kind] for peers in found]
            cells += [f"{statistics.mean(ends):.3f}", " ".join(f"{one:.3f}" for one in ends)]
        sent = statistics.mean(sum(lines[-1]["activations"] for lines in peers) for peers in found)
        row(name, *cells, f"{sent * 1e-6:.2f}")


def link(given):
    from wan import Wan  # pylint: disable=import-outside-toplevel

    build = ROOT / given.build
    emulator = str(build / "tests" / "wan" / "wanem")
    row("activations", "step, s", "computing, s", "sending, s", "of the longer one")
    row(*["---"] * 5)
    for name, compress in (("an eighth", "pipelines"), ("f32", "none")):
        with Wan(3, rate_mbit=given.rate, delay_ms=given.delay_ms, emulator=emulator) as wan:
            address = f"{wan.address(2)}:48148"
            words = [*wan.prefix(2), str(build / "tools" / "pccl-master"), "--listen", address]
            how = {"micro_batches": 32, "batch": 32 * 512, "width": 256, "sham_s": given.sham_s, "ahead": 6, "steps": 5}
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
                try:
                    found = launch.peers(
                        address, 2, prefix=wan.prefix, module="pipelines", compress=compress, inner_steps=1_000_000,
                        **how
                    )
                finally:
                    server.terminate()
        # The first steps measure the path.
        step = max(statistics.median(time for time, _, _ in lines[-1]["times"][2:]) for lines in found)
        sending = max(lines[-1]["activations"] for lines in found) / how["steps"] * 8e-6 / given.rate
        computing = how["micro_batches"] * given.sham_s
        row(name, *(f"{one:.2f}" for one in (step, computing, sending, step / max(computing, sending))))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["losses", "link"])
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--only", default="")
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--delay-ms", type=int, default=40, help="one way")
    parser.add_argument("--sham-s", type=float, default=0.15, help="a micro-batch of a stage, there and back")
    given = parser.parse_args()
    os.environ["PCCL_LIBRARY"] = str(ROOT / given.build / "src" / "libpccl.so.1")
    {"losses": losses, "link": link}[given.what](given)


main()
