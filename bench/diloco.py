#!/usr/bin/env python3
"""What the methods of pccl.diloco gain and cost, with the language model of python/tests/lab: four
processes.

    build/venv/bin/python bench/diloco.py losses [--steps 600,1500] [--seeds 0,1,2] [--only streaming]
        over loopback: losses on text that was held back, and bytes; checks that all have equal bits
        in each round
    build/venv/bin/python bench/diloco.py overlap [--rate 20] [--delay-ms 100] [--compute-s 3]
        each on a host of its own (needs root): seconds of a round in each mode

It must be a Python that has numpy. Both take --build build/default.
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

PEERS = 4
MODES = {
    "sync": {},
    "delayed": {"mode": "delayed"},
    "eager": {"mode": "eager"},
    "2 fragments, delay 6": {"fragments": 2, "delay": 6},
    "2 fragments, delay 6, e3m0": {"fragments": 2, "delay": 6, "codec": "e3m0"},
}
REFERENCES = {"a reduction in each step": "parallel", "one worker": "alone"}
STREAMING = {"inner_steps": 51, "fragments": 3, "delay": 5, "alpha": 0.5}
METHODS = {
    "sync .7/.9, H 10": {"inner_steps": 10},
    "sync .7/.9": {},
    "sync .7/.9, H 50": {"inner_steps": 50},
    "sync .7/.9, u8-minmax": {"codec": "u8-minmax"},
    "sync .7/.9, u8-zps": {"codec": "u8-zps"},
    "plain average": {"rate": 1.0, "momentum": 0.0},
    "delayed .7/.9": {"mode": "delayed"},
    "delayed .7/0": {"mode": "delayed", "momentum": 0.0},
    "eager .7/.9": {"mode": "eager"},
    "eager .4/.9": {"mode": "eager", "rate": 0.4},
    "3 fragments, H 50": {"inner_steps": 50, "fragments": 3},
    "streaming": STREAMING,
    "streaming, e3m0": {**STREAMING, "codec": "e3m0"},
    "streaming, int4, feedback": {**STREAMING, "codec": "int4", "feedback": 1},
}


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


# ---- losses


def of_reference(method, **given):
    with launch.Run([launch.start("reference", *launch.options(method=method, **given))]) as run:
        return run.results()[0][0]["loss"], 0, 0


def of_method(how, **given):
    """(loss, bytes that a peer has sent, CPU seconds of all)"""
    import pccl  # pylint: disable=import-outside-toplevel

    with pccl.MasterNode("127.0.0.1:0") as master:
        found = launch.peers(f"127.0.0.1:{master.port}", PEERS, **how, **given)
    for lines in zip(*found):
        assert len({line["digest"] for line in lines}) == 1, lines
    assert len({len(lines) for lines in found}) == len({lines[-1]["loss"] for lines in found}) == 1
    sent = sum(line["tx"] for line in found[0])
    return found[0][-1]["loss"], sent, sum(lines[-1]["cpu_s"] for lines in found)


def losses(given):
    row(*["method"] + [f"{steps} steps: {what}" for steps in given.steps for what in ("loss", "of seeds", "sent, MB")])
    row(*["---"] * (1 + 3 * len(given.steps)))
    for name in (name for name in [*REFERENCES, *METHODS] if given.only in name):
        cells = []
        for steps in given.steps:
            found = []
            for seed in given.seeds:
                about = {"steps": steps, "seed": seed}
                is_reference = name in REFERENCES
                found.append(
                    of_reference(REFERENCES[name], **about) if is_reference else of_method(METHODS[name], **about)
                )
            values, sent = [loss for loss, _, _ in found], found[0][1]
            cells += [f"{statistics.mean(values):.3f}", " ".join(f"{value:.3f}" for value in values)]
            cells.append(f"{sent * 1e-6:.2f}" if sent else "-")
        row(name, *cells)


# ---- overlap


def of_mode(wan, master, mode, given):
    """What each peer has told."""
    address = f"{wan.address(PEERS)}:48148"
    words = [*wan.prefix(PEERS), str(master), "--listen", address]
    about = {"workers": PEERS, "rounds": given.rounds, "compute_s": given.compute_s}
    about.update({"parameters": given.parameters, "codec": given.codec, **MODES[mode]})
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            started = (
                launch.start("paced", address, number, *launch.options(**about), prefix=wan.prefix(number))
                for number in range(PEERS)
            )
            with launch.Run(started, seconds=600) as run:
                found = [lines[0] for lines in run.results()]
        finally:
            server.terminate()
    assert len({told["digest"] for told in found}) == 1, found
    return found


def overlap(given):
    from wan import Wan  # pylint: disable=import-outside-toplevel

    build = ROOT / given.build
    emulator = str(build / "tests" / "wan" / "wanem")
    row("mode", "round, s", "compute, s", "exposed wait, s", "of max(compute, comm)")
    row(*["---"] * 5)
    comm_s = None
    for mode in (mode for mode in MODES if given.only in mode or mode == "sync"):
        # A network of its own for each: what the kernel has learned of a path is not another's.
        with Wan(PEERS + 1, rate_mbit=given.rate, delay_ms=given.delay_ms, emulator=emulator) as wan:
            found = of_mode(wan, build / "tools" / "pccl-master", mode, given)
        whole, compute, wait = (max(told[name] for told in found) for name in ("round_s", "compute_s", "waited_s"))
        comm_s = wait if mode == "sync" else comm_s
        share = whole / max(compute, comm_s)
        row(mode, f"{whole:.2f}", f"{compute:.2f}", f"{wait:.2f}", f"{share:.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["losses", "overlap"])
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--steps", type=numbers, default=[600, 1500])
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2])
    parser.add_argument("--only", default="", metavar="WORDS", help="the methods or modes that are named so")
    parser.add_argument("--rate", type=float, default=20, metavar="MBIT")
    parser.add_argument("--delay-ms", type=float, default=100, help="one way")
    parser.add_argument("--compute-s", type=float, default=3.0, help="of a round")
    parser.add_argument("--parameters", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--codec")
    given = parser.parse_args()
    os.environ["PCCL_LIBRARY"] = str(ROOT / given.build / "src" / "libpccl.so.1")
    {"losses": losses, "overlap": overlap}[given.what](given)


main()
