#!/usr/bin/env python3
"""Measures the benefit and the cost of the methods of pccl.diloco, with the language model of python/tests/lab and four
processes.

    build/venv/bin/python bench/diloco.py losses [--steps 600,1500] [--seeds 0,1,2] [--only streaming] [--jobs 4]
        over loopback: losses on held-out text, their difference from DiLoCo with the same seeds and H 50,
        and bytes; checks that all peers have equal bits in each round. --jobs: number of parallel runs
    build/venv/bin/python bench/diloco.py overlap [--rate 20] [--delay-ms 100] [--compute-s 3]
        on separate hosts (needs root): seconds of a round in each mode
    build/venv/bin/python bench/diloco.py newcomer
        likewise: the time that members wait when one more peer joins, and the time until it has joined
    build/venv/bin/python bench/diloco.py curves [--steps 600] [--pace 0.1] [--plots bench/plots]
        likewise, with inner steps of this duration: loss over bytes and over time, as pictures and in a table

Requires a Python with numpy. All commands accept --build build/default.
"""

import argparse
import concurrent.futures
import contextlib
import itertools
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / where) for where in ("python", "python/tests", "python/examples/demo", "tests/wan")]

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
BESIDE = "sync .7/.9, H 50"  # the reference for other losses, by seed
STREAMING = {"inner_steps": 51, "fragments": 3, "delay": 5, "alpha": 0.5}
METHODS = {
    "sync .7/.9, H 10": {"inner_steps": 10},
    "sync .7/.9": {},
    BESIDE: {"inner_steps": 50},
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
    "sync .9/.9, H 50": {"inner_steps": 50, "rate": 0.9},
    "streaming .9/.9": {**STREAMING, "rate": 0.9},
    "streaming .9/.9, e3m0": {**STREAMING, "rate": 0.9, "codec": "e3m0"},
}


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


# ---- losses


def of_reference(method, **given):
    with launch.Run([launch.start("reference", *launch.options(method=method, **given))], seconds=3600) as run:
        return run.results()[0][0]["loss"], 0, 0


def of_method(how, **given):
    """Returns (loss, bytes that a peer sent, maximum bytes in a slot)."""
    import pccl  # pylint: disable=import-outside-toplevel

    with pccl.MasterNode("127.0.0.1:0") as master:
        found = launch.peers(f"127.0.0.1:{master.port}", PEERS, seconds=3600, **how, **given)
    for lines in zip(*found):
        assert len({line["digest"] for line in lines}) == 1, lines
    assert len({len(lines) for lines in found}) == len({lines[-1]["loss"] for lines in found}) == 1
    sent = sum(line["tx"] for line in found[0])
    return found[0][-1]["loss"], sent, max(slot[1] for line in found[0] for slot in line["slots"])


def of_seed(name, steps, seed):
    if name in REFERENCES:
        return of_reference(REFERENCES[name], steps=steps, seed=seed)
    return of_method(METHODS[name], steps=steps, seed=seed)


def losses(given):
    from lab.model import SIZE  # pylint: disable=import-outside-toplevel

    names = [name for name in [*REFERENCES, *METHODS] if given.only in name]
    each = ("loss", "of seeds", "beside H 50", "sent, MB", "most in a slot, of the f32 model")
    row("method", *[f"{steps} steps: {what}" for steps in given.steps for what in each])
    row(*["---"] * (1 + len(each) * len(given.steps)))
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        wanted = itertools.product(dict.fromkeys([*names, BESIDE]), given.steps, given.seeds)
        runs = {about: pool.submit(of_seed, *about) for about in wanted}
        for name in names:
            cells = []
            for steps in given.steps:
                values, sent, slots = zip(*(runs[name, steps, seed].result() for seed in given.seeds))
                more = [value - runs[BESIDE, steps, seed].result()[0] for value, seed in zip(values, given.seeds)]
                cells += [f"{statistics.mean(values):.3f}", " ".join(f"{value:.3f}" for value in values)]
                cells.append(f"{statistics.mean(more):+.3f}: " + " ".join(f"{one:+.3f}" for one in more))
                cells += [f"{sent[0] * 1e-6:.2f}", f"{slots[0] / 4 / SIZE:.4f}"] if sent[0] else ["-", "-"]
            row(name, *cells)


# ---- overlap


@contextlib.contextmanager
def far_apart(given):
    """Starts peers and a master on separate hosts. Yields (their network, the master's address). Each run has a new
    network, because the kernel caches properties of each path."""
    from wan import Wan  # pylint: disable=import-outside-toplevel

    build = ROOT / given.build
    with Wan(PEERS + 1, given.rate, given.delay_ms, emulator=str(build / "tests" / "wan" / "wanem")) as wan:
        address = f"{wan.address(PEERS)}:48148"
        words = [*wan.prefix(PEERS), str(build / "tools" / "pccl-master"), "--listen", address]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                yield wan, address
            finally:
                server.terminate()


def of_mode(mode, given):
    """Returns the report of each peer."""
    about = {"rounds": given.rounds, "compute_s": given.compute_s}
    about.update({"parameters": given.parameters, "codec": given.codec, "seconds": 600, **MODES[mode]})
    with far_apart(given) as (wan, address):
        found = [lines[0] for lines in launch.peers(address, PEERS, prefix=wan.prefix, module="paced", **about)]
    assert len({told["digest"] for told in found}) == 1, found
    return found


def overlap(given):
    row("mode", "round, s", "compute, s", "exposed wait, s", "of max(compute, comm)")
    row(*["---"] * 5)
    comm_s = None
    for mode in (mode for mode in MODES if given.only in mode or mode == "sync"):
        found = of_mode(mode, given)
        whole, compute, wait = (max(told[name] for told in found) for name in ("round_s", "compute_s", "waited_s"))
        comm_s = wait if mode == "sync" else comm_s
        share = whole / max(compute, comm_s)
        row(mode, f"{whole:.2f}", f"{compute:.2f}", f"{wait:.2f}", f"{share:.2f}")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


# ---- a newcomer


def of_newcomer(how, given):
    """Returns the maximum wait of the earlier members in each round, and the duration of the newcomer's join()."""
    about = {"compute_s": given.compute_s, "parameters": given.parameters, **how}
    with far_apart(given) as (wan, address):
        of_run = launch.options(**about, workers=PEERS - 1, rounds=given.rounds)
        started = [launch.start("paced", address, n, *of_run, prefix=wan.prefix(n)) for n in range(PEERS - 1)]
        with launch.Run(started, seconds=600) as run:
            time.sleep(4 * given.compute_s)
            late = launch.options(**about, workers=1, rounds=1)
            run.processes.append(launch.start("paced", address, 0, *late, prefix=wan.prefix(PEERS - 1)))
            found = [lines[0] for lines in run.results()]
    in_before = [told["rounds"] for told in found[: PEERS - 1]]
    return [max(waited for _, _, waited in at) for at in zip(*in_before)], found[-1]["joined_s"]


def newcomer(given):
    row("mode", "catch_up", "exposed wait of a round, s", "the most, s", "in all, s", "join() of the newcomer, s")
    row(*["---"] * 6)
    for mode in (mode for mode in MODES if given.only in mode and "fragments" in mode):
        for way in ("whole", "fragments"):
            waits, joined_s = of_newcomer({**MODES[mode], "catch_up": way}, given)
            told = (statistics.median(waits), max(waits), sum(waits), joined_s)
            row(mode, way, *(f"{value:.2f}" for value in told))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


# ---- curves


CURVES = {
    "DDP": {"module": "methods", "method": "parallel", "tell_every": 50},
    "DiLoCo": {"inner_steps": 50},
    "streaming, f32": STREAMING,
    "streaming, e3m0": {**STREAMING, "codec": "e3m0"},
}
COLORS = [(0, 0, 0), (0, 114, 178), (0, 158, 115), (213, 94, 0)]


def curve_of(lines):
    """[(bytes that the peer has sent, seconds, loss)] at boundaries and at the end; the most bytes of a slot."""
    if "loss" in lines[0]:  # of lab.methods
        told = [line for line in lines if "tx" in line]
        return [(line["tx"], line["at_s"], line["loss"]) for line in told], told[-1]["tx"] / (len(told) - 1) / 50
    found, sent, slots, losses = [], 0, [0], iter([*lines[-1]["curve"], lines[-1]["loss"]])
    before = 0
    for line in lines:
        sent += line["tx"]
        slots += [slot[1] for slot in line["slots"]]
        if line["round"] > before or line is lines[-1]:
            found.append((sent, line["at_s"], next(losses)))
        before = line["round"]
    return found, max(slots)


def curves(given):
    import plot  # pylint: disable=import-outside-toplevel

    from lab.model import SIZE  # pylint: disable=import-outside-toplevel

    row("method", "loss", "sent, MB", "seconds", "steps a second", "most in a slot, of the f32 model")
    row(*["---"] * 6)
    by_bytes, by_time = [], []
    for (name, how), color in zip(CURVES.items(), COLORS):
        if given.only not in name:
            continue
        about = {"steps": given.steps[0], "pace": given.pace, "seed": given.seeds[0], "seconds": 3600, **how}
        about.update({} if "module" in how else {"curve": 1})
        with far_apart(given) as (wan, address):
            points, slot = curve_of(launch.peers(address, PEERS, prefix=wan.prefix, **about)[0])
        sent, seconds, loss = points[-1]
        rate = given.steps[0] / seconds
        row(name, f"{loss:.3f}", f"{sent * 1e-6:.2f}", f"{seconds:.0f}", f"{rate:.2f}", f"{slot / 4 / SIZE:.3f}")
        by_bytes.append(plot.Line(name, [(math.log10(tx), value) for tx, _, value in points if tx > 0], color))
        by_time.append(plot.Line(name, [(at, value) for _, at, value in points if at > 0], color))
    folder = pathlib.Path(given.plots)
    title = f"{given.steps[0]} steps of {given.pace:g} s, round trip {2 * given.delay_ms:g} ms"
    plot.Chart(title, "log10 of the bytes sent by a peer", "loss, nats", by_bytes).save(folder / "diloco_bytes.png")
    plot.Chart(title, "seconds", "loss, nats", by_time).save(folder / "diloco_time.png")
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["losses", "overlap", "newcomer", "curves"])
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--steps", type=numbers, default=[600, 1500])
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2])
    parser.add_argument("--only", default="", metavar="WORDS", help="the methods or modes that are named so")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="runs of `losses` side by side")
    parser.add_argument("--rate", type=float, default=20, metavar="MBIT")
    parser.add_argument("--delay-ms", type=float, default=100, help="one way")
    parser.add_argument("--compute-s", type=float, default=3.0, help="of a round")
    parser.add_argument("--parameters", type=int, default=1 << 20)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--codec")
    parser.add_argument("--pace", type=float, default=0.1, metavar="SECONDS", help="of an inner step")
    parser.add_argument("--plots", default="bench/plots", metavar="FOLDER")
    given = parser.parse_args()
    os.environ["PCCL_LIBRARY"] = str(ROOT / given.build / "src" / "libpccl.so.1")
    {"losses": losses, "overlap": overlap, "newcomer": newcomer, "curves": curves}[given.what](given)


main()
