#!/usr/bin/env python3
"""Measures the benefit and the cost of the methods of pccl.methods, with the language model of python/tests/lab and
four processes over loopback.

    build/venv/bin/python bench/methods.py losses [--seeds 0,1,2] [--only partial] [--plot FILE.png]
        losses on held-out text, and bytes, compared with the reference methods
    build/venv/bin/python bench/methods.py rounds
        rounds of a few bytes per second
    build/venv/bin/python bench/methods.py agents --seeds 0,1,2,3,4 [--jobs 2]
        users that agents serve: information x learning x swarm

Requires a Python with numpy. All commands accept --build build/default.
"""

import argparse
import itertools
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / where) for where in ("python", "python/tests", "python/examples/demo")]

from lab import launch  # noqa: E402 pylint: disable=wrong-import-position

PEERS = 4
LEARN = {"steps": 600, "tell_every": 50}
LONG = {"steps": 1500, "tell_every": 125}
# A model that was trained on other text learns C. The rates were chosen with Markdown.
PROBE = {"task": "c", "steps": 150, "tell_every": 15, "batch": 128, "rate": 0.03}
SLOPE = {"task": "c", "steps": 200, "tell_every": 20, "rate": 0.3}
PRIVATE = {"task": "c", "steps": 200, "tell_every": 20, "inner_steps": 4, "batch": 512, "rate": 4.0, "rank": 6}
METHODS = {
    "a reduction in each step": {"method": "parallel", **LEARN},
    "DiLoCo, H 25": {"method": "diloco", **LEARN},
    "pairs, H 25": {"method": "pair", **LEARN},
    "pairs, momentum 0.5, H 25": {"method": "pair", "momentum": 0.5, **LEARN},
    "0.5 % of the parameters in each step": {"method": "partial", **LEARN},
    "the largest 512 of 4,096, H 25": {"method": "sparse", "kept": 512, **LEARN},
    "the largest 64 of 4,096, H 25": {"method": "sparse", "kept": 64, **LEARN},
    "PowerSGD of rank 4, H 25": {"method": "power", "rank": 4, "momentum": 0.75, **LEARN},
    "PowerSGD of rank 8, H 25": {"method": "power", "rank": 8, "momentum": 0.75, **LEARN},
    "DeMo in each step, 4 of 64": {"method": "demo", "kept": 4, "rate": 0.01, **LEARN},
    "DeMo in each step, 1 of 64": {"method": "demo", "kept": 1, "rate": 0.006, **LEARN},
    "DiLoCo, 60 rounds of 25": {"method": "diloco", **LONG},
    "the largest 512 of 4,096, 60 rounds of 25": {"method": "sparse", "kept": 512, **LONG},
    "the same without feedback, 60 rounds of 25": {"method": "sparse", "kept": 512, "decay": 0.0, **LONG},
    "one byte a probe": {"method": "byte", **PROBE},
    "f32 a probe": {"method": "float32", **PROBE},
    "SGD, gradients in f32": {"method": "dense", **SLOPE},
    "SGD, count sketch of 1/8": {"method": "count", **SLOPE},
    "SGD, Hadamard sketch of 1/8": {"method": "hadamard", **SLOPE},
    "SGD, count sketch, noise 0.01": {"method": "count", "noise": 0.01, **SLOPE},
    "DP-LoRA of rank 6, no noise": {"method": "dp-lora", **PRIVATE},
    "DP-LoRA of rank 6, noise 2": {"method": "dp-lora", "noise": 2.0, **PRIVATE},
}
COLORS = [(0, 0, 0), (0, 114, 178), (86, 180, 233), (0, 158, 115), (213, 94, 0), (230, 159, 0)]
DRAWN = {
    "DDP": "a reduction in each step", "DiLoCo": "DiLoCo, H 25", "pairs": "pairs, H 25",
    "one in 200": "0.5 % of the parameters in each step", "the largest": "the largest 512 of 4,096, H 25",
}


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def run(**given):
    """Returns the report of each peer, and the loss of the mean of their parameters."""
    import pccl  # pylint: disable=import-outside-toplevel

    with pccl.MasterNode("127.0.0.1:0") as master:
        found = launch.peers(f"127.0.0.1:{master.port}", PEERS, **given)
    means = [lines.pop()["mean_loss"] for lines in found if "mean_loss" in lines[-1]]
    return found, statistics.mean(means or [0.0])


def loss_of(lines):
    """Returns the mean loss of several peers at the same step."""
    return statistics.mean(line["loss"] for line in lines)


def losses(given):
    curves, private = {}, {}
    row("method", "loss before", "loss", "of seeds", "of the peers' mean", "sent by a peer, MB", "same bits on all")
    row(*["---"] * 7)
    for name in (name for name in METHODS if any(words in name for words in given.only.split(","))):
        ran = [run(module="methods", seed=seed, **METHODS[name]) for seed in given.seeds]
        found, mean = [peers for peers, _ in ran], statistics.mean(loss for _, loss in ran)
        ends = [loss_of([lines[-1] for lines in peers]) for peers in found]
        starts = [loss_of([lines[0] for lines in peers]) for peers in found]
        equal = all(len({line["parameters"] for line in at}) == 1 for peers in found for at in zip(*peers))
        sent = statistics.mean(lines[-1]["tx"] for peers in found for lines in peers)
        curves[name] = [(lines[0]["tx"], loss_of(lines)) for lines in zip(*found[0])]
        private[name] = max(lines[-1].get("epsilon", 0) for peers in found for lines in peers)
        each = " ".join(f"{value:.3f}" for value in ends)
        start, end = (f"{statistics.mean(values):.3f}" for values in (starts, ends))
        row(name, start, end, each, f"{mean:.3f}", f"{sent * 1e-6:.4f}", "yes" if equal else "no")
    for name, epsilon in private.items():
        if epsilon > 0:
            print(f"\n{name}: epsilon {epsilon:.3f} for each peer's examples, at delta 1e-6")
    if given.plot:
        draw(curves, given.plot)


def draw(curves, path):
    import math  # pylint: disable=import-outside-toplevel

    import plot  # pylint: disable=import-outside-toplevel

    lines = [
        plot.Line(short, [(math.log10(sent), loss) for sent, loss in curves[name] if sent > 0], color)
        for (short, name), color in zip(DRAWN.items(), COLORS)
        if name in curves
    ]
    plot.Chart("loss over bytes, 600 steps", "log10 of the bytes sent by a peer", "loss, nats", lines).save(
        pathlib.Path(path)
    )


def rounds(given):
    found, _ = run(module="rounds", rounds=given.rounds)
    row("", "a second: median of 10 parts", "the best part")
    row(*["---"] * 3)
    for name, key in (("all_gather_v of 8 bytes", "gathers"), ("steps of OneByte with 8 probes", "steps")):
        parts = found[0][0][key]
        row(name, round(statistics.median(parts)), round(max(parts)))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


def agents(given):
    import multiprocessing  # pylint: disable=import-outside-toplevel

    from lab import agents as lab  # pylint: disable=import-outside-toplevel

    wanted = [*lab.CELLS, ("bound", True)]
    with multiprocessing.get_context("spawn").Pool(given.jobs) as pool:
        flat = iter(pool.map(lab.scored, [(*cell, seed) for cell in wanted for seed in given.seeds], chunksize=1))
    found = {cell: list(itertools.islice(flat, len(given.seeds))) for cell in wanted}

    def told(values, sign=""):
        mean, half = lab.interval(values)
        return f"{mean:{sign}.1f} ± {half:.1f}"

    row("users served", "own information", "shared information", "of seeds, shared")
    row(*["---"] * 4)
    for name in (*lab.CONTROLS, "bound"):
        cells = [told(found[name, sees]) if (name, sees) in found else "" for sees in (False, True)]
        row(name, *cells, " ".join(f"{one:.1f}" for one in found.get((name, True), found.get((name, False)))))
    print()
    row("gain by", "users, same seeds", "beyond the interval")
    row(*["---"] * 3)
    for name, one, other in lab.COMPARED:
        gains = [a - b for a, b in zip(found[one], found[other])]
        mean, half = lab.interval(gains)
        row(name, told(gains, "+"), "yes" if abs(mean) > half else "no")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["losses", "rounds", "agents"])
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--only", default="", metavar="WORDS,...", help="the methods that are named so")
    parser.add_argument("--plot", metavar="FILE", help="draw loss over bytes, of the first seed")
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes for agents")
    given = parser.parse_args()
    os.environ["PCCL_LIBRARY"] = str(ROOT / given.build / "src" / "libpccl.so.1")
    {"losses": losses, "rounds": rounds, "agents": agents}[given.what](given)


if __name__ == "__main__":
    main()
