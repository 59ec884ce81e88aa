#!/usr/bin/env python3
"""What the methods of pccl.methods learn and cost, with the language model of python/tests/lab: four
processes over loopback.

    build/venv/bin/python bench/methods.py losses [--seeds 0,1,2] [--only partial] [--plot FILE.png]
        losses on text that was held back, and bytes, beside those of what they are compared with
    build/venv/bin/python bench/methods.py rounds
        rounds of a few bytes a second
    build/venv/bin/python bench/methods.py agents [--seeds 0,1,2,3,4] [--plot FILE.svg]
        users that agents serve who learn together, beside others; the plot shows where they fly

It must be a Python that has numpy. All take --build build/default.
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
# A model of other text learns C. Rates were chosen with Markdown.
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
    """What each peer has told, and the loss of the mean of their parameters."""
    import pccl  # pylint: disable=import-outside-toplevel

    with pccl.MasterNode("127.0.0.1:0") as master:
        found = launch.peers(f"127.0.0.1:{master.port}", PEERS, **given)
    means = [lines.pop()["mean_loss"] for lines in found if "mean_loss" in lines[-1]]
    return found, statistics.mean(means or [0.0])


def loss_of(lines):
    """Of several peers at the same step."""
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
    import pccl  # pylint: disable=import-outside-toplevel
    from lab import agents as lab  # pylint: disable=import-outside-toplevel

    row("seed", "together", "independent Q-learning", "particle swarm")
    row(*["---"] * 4)
    found = []
    for seed in given.seeds:
        with pccl.MasterNode("127.0.0.1:0") as master:
            totals, *_ = lab.together(f"127.0.0.1:{master.port}", seed)
        found.append([lab.score(one) for one in (totals, lab.apart(seed), lab.swarm(seed))])
        row(seed, *(f"{one:.1f}" for one in found[-1]))
    row("mean", *(f"{statistics.mean(column):.1f}" for column in zip(*found)))
    if given.plot:
        with pccl.MasterNode("127.0.0.1:0") as master:
            flyers = lab.story(f"127.0.0.1:{master.port}", given.seeds[0])
        pathlib.Path(given.plot).write_text(trajectories(lab.cells, flyers, lab.STEPS), encoding="utf-8")


def trajectories(cells, flyers, steps, size=560):
    """A map, as SVG: users at the end, the base station, and the way of each agent, with what it serves."""
    scale, names = size / cells.SIDE, ("#0072b2", "#009e73", "#d55e00", "#cc79a7", "#e69f00")

    def circle(place, radius, how):
        x, y = scale * place[0], size - scale * place[1]
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {how}/>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size + 190}" height="{size}" font-family="sans-serif" '
        f'font-size="12"><rect width="{size + 190}" height="{size}" fill="white"/>'
        f'<rect width="{size}" height="{size}" fill="#f7f7f7"/>'
    ]
    parts.append(circle(cells.BASE, scale * cells.BASE_RANGE, 'fill="#e3e3e3"'))
    parts += [circle(place, 2.2, 'fill="#666666"') for place in flyers[0].world.users(steps - 1)]
    for number, (flyer, color) in enumerate(zip(flyers, names)):
        stations = itertools.groupby(f"{scale * x:.0f},{size - scale * y:.0f}" for _, x, y, _ in flyer.path)
        points = " ".join(station for station, _ in stations)
        begin, end = flyer.path[0], flyer.path[-1]
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6" opacity="0.75"/>')
        parts.append(circle(begin[1:3], 4, f'fill="white" stroke="{color}" stroke-width="2"'))
        if end[0] == steps - 1:
            parts.append(circle(end[1:3], scale * cells.RANGE, f'fill="{color}" opacity="0.2"'))
            words = f"from step {begin[0]}, {end[3]} users at the end"
        else:
            x, y = scale * end[1], size - scale * end[2]
            cross = f"M{x - 7:.1f},{y - 7:.1f}l14,14m-14,0l14,-14"
            parts.append(f'<path d="{cross}" stroke="{color}" stroke-width="4"/>')
            words = f"falls in step {end[0]}, with {end[3]}"
        y = 24 + 20 * number
        parts.append(f'<rect x="{size + 8}" y="{y - 9}" width="12" height="9" fill="{color}"/>')
        parts.append(f'<text x="{size + 26}" y="{y}">{words}</text>')
    return "\n".join(parts + ["</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["losses", "rounds", "agents"])
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--seeds", type=lambda text: [int(word) for word in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--only", default="", metavar="WORDS,...", help="the methods that are named so")
    parser.add_argument("--plot", metavar="FILE", help="draw loss over bytes, or where agents fly, of the first seed")
    parser.add_argument("--rounds", type=int, default=3000)
    given = parser.parse_args()
    os.environ["PCCL_LIBRARY"] = str(ROOT / given.build / "src" / "libpccl.so.1")
    {"losses": losses, "rounds": rounds, "agents": agents}[given.what](given)


main()
