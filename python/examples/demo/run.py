#!/usr/bin/env python3
"""The demo: four processes on this machine train a small transformer to write Python, using DiLoCo through pccl, so
they synchronize only after many steps. One is killed with kill -9 during the training, and another one joins later.

There are three runs of equal length: an undisturbed one, one with the kill and the newcomer, and a single worker alone.
The exit status is 0 only if all peers had the same bits after every round, the disturbed run learned as much as the
undisturbed one (within a bound), the newcomer took part, and all processes ended in order.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import display
import numpy as np
import plot
import text
from model import Transformer
from processes import Failed
from training import Alone, Disturbed, Undisturbed

BOUND = 0.08  # maximum additional loss of the disturbed run, in nats per byte
BEGINNINGS = (b"import ", b"class ", b"    def __init__(self", b"        if ", b"        return ")
BLUE, ORANGE, GRAY, RED, GREEN = "#3b82f6", "#e8710a", "#8b949e", "#e5484d", "#2da44e"


def arguments():
    root = Path(__file__).resolve().parents[3]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--master", default=shutil.which("pccl-master"), help="program; default: pccl-master on PATH")
    parser.add_argument("--out", type=Path, default=root / "build" / "demo", help="folder for the plot and the logs")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--inner-steps", type=int, default=25, help="steps of a peer between two rounds")
    parser.add_argument("--quick", action="store_true", help="a short version, for tests: it hardly learns")
    given = parser.parse_args()
    if given.quick:
        given.rounds, given.inner_steps = 10, 8
    if given.master is None or not os.access(given.master, os.X_OK):
        parser.error(f"there is no program {given.master or 'pccl-master'}")
    if given.rounds < 8 or given.inner_steps < 2:
        parser.error("at least 8 rounds of 2 steps, for something has to happen in between")
    return given


def judge(runs):
    """Returns the loss of each run's final parameters on a larger text that was not used for training."""
    model = Transformer()
    _, held_back = text.load()
    parts = np.array_split(text.pieces(held_back, 256, model.shape.context + 1), 8)
    losses = {}
    for run in runs:
        model.flat[...] = run.parameters()
        losses[run.title] = sum(model.loss(part) * len(part) for part in parts) / sum(map(len, parts))
    return losses


def samples(flat, length=60, seed=5, heat=0.5):
    """Yields lines that the model writes, each from a given beginning."""
    model, random = Transformer(), np.random.default_rng(seed)
    model.flat[...] = flat
    for beginning in BEGINNINGS:
        written = list(b"\n" + beginning)
        while len(written) < length and written[-1] != ord("\n"):
            odds = model.next_odds(np.array(written, np.uint8)).astype(np.float64) ** (1 / heat)
            written.append(int(random.choice(len(odds), p=odds / odds.sum())))
        yield "".join(chr(c) if 32 <= c < 127 else "?" for c in written if c != ord("\n")).rstrip()


def ddp_bytes(run):
    """Returns the bytes that each peer would send with a ring all-reduce of 32-bit gradients in each step (computed,
    not measured)."""
    return sum(
        2 * (count - 1) / count * 4 * run.size * run.given.inner_steps for count in run.participants().values()
    )


def draw(path, undisturbed, disturbed, alone):
    kill, join = disturbed.kill_story, disturbed.join_story
    begin = disturbed.given.rounds // 20  # skips the first rounds, whose steep fall would hide the rest
    lines = [
        plot.Line("four peers, undisturbed", undisturbed.curve()[begin:], BLUE),
        plot.Line("one killed, one joins", disturbed.curve()[begin:], ORANGE),
        plot.Line("one worker alone", alone.curve()[begin:], GRAY, dashed=True),
    ]
    marks = [
        (kill["round"], f"{kill['name']} is killed", RED),
        (join["round"], f"{join['name']} joins", GREEN),
    ]
    steps = disturbed.given.inner_steps
    x_name, y_name = f"round ({steps} steps of each peer)", "validation loss (nats per byte)"
    plot.Chart("A transformer learns Python over TCP (DiLoCo)", x_name, y_name, lines, marks).save(path)


def row(name, words):
    print(f"  {name:15} {words}")


def lost(took_ms, usual_ms):
    words = f"{took_ms - usual_ms:.0f} ms lost" if took_ms > usual_ms else "nothing lost"
    return f"{words}: usual are {usual_ms:.0f} ms, the median of the other rounds"


def events(undisturbed, disturbed):
    kill, join, usual_ms = disturbed.kill_story, disturbed.join_story, disturbed.usual_ms()
    when = "in" if kill["round"] == kill["kill_round"] else "after"
    moment = f"{kill['after_ms']:.1f} ms from its begin"
    row("kill -9", f"{kill['name']}, {when} the reduction of round {kill['kill_round']}, {moment}")
    row("", f"round {kill['round']}: the {kill['peers']} others had it {kill['took_ms']:.0f} ms after the last arrived")
    row("", lost(kill["took_ms"], usual_ms))
    got = f"got {display.megabytes(join['moved'])}, counted from round {join['took_part']} on"
    row("newcomer", f"{join['name']}: in {join['wait_ms']:.0f} ms after it asked, {got}")
    row("", f"round {join['round']}, which let it in: {join['took_ms']:.0f} ms after the last arrived")
    row("", lost(join["took_ms"], usual_ms))
    row("time", f"{disturbed.length_s:.1f} s for the disturbed run, {undisturbed.length_s:.1f} s for the other")


def summary(given, runs, losses):
    undisturbed, disturbed, alone = runs
    loss, base, single = (losses[run.title] for run in (disturbed, undisturbed, alone))
    print("\nSummary")
    row("model", f"{disturbed.size} parameters, {given.rounds} rounds of {given.inner_steps} steps")
    row("loss at the end", f"{loss:.3f} nats per byte; undisturbed {base:.3f}, one worker alone {single:.3f}")
    row("", f"that is {loss - base:+.3f} for the kill and the newcomer; {BOUND:+.2f} is the bound")
    row("same bits", f"after each of {len(undisturbed.rounds)} + {len(disturbed.rounds)} rounds, on all who made them")
    events(undisturbed, disturbed)
    most = max(peer.last.get("tx", 0) for peer in undisturbed.peers)
    would = ddp_bytes(undisturbed)
    row("sent by a peer", f"{display.megabytes(most)} in the undisturbed run (most of the four)")
    ratio = would / max(1, most)
    row("", f"gradients in each step (DDP) would be {display.megabytes(would)}, {ratio:.0f} times as much (computed)")
    print("  it writes")
    for line in samples(disturbed.parameters()):
        print(f"      | {line}")
    path = given.out / "loss.svg"
    draw(path, undisturbed, disturbed, alone)
    row("plot", path)
    check_loss(loss, base)


def check_loss(loss, base):
    if not loss <= base + BOUND:
        raise Failed(f"the disturbed run is {loss - base:.3f} behind the undisturbed one; at most {BOUND} was expected")


def main():
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends all processes, as Ctrl-C does
    start = time.monotonic()
    given.out.mkdir(parents=True, exist_ok=True)
    print(__doc__.split("\n\n")[0] + "\n", flush=True)
    screen = display.choose(sys.stdout)
    runs = [Undisturbed(given, screen), Disturbed(given, screen), Alone(given, screen)]
    try:
        for number, run in enumerate(runs, 1):
            screen.event(f"run {number} of {len(runs)}: {run.title}")
            run.carry_out()
            screen.close()
        summary(given, runs, judge(runs))
    except Failed as failure:
        screen.close()
        print(f"\nThe demo FAILED: {failure}", flush=True)
        return 1
    except KeyboardInterrupt:
        screen.close()
        print("\ninterrupted; all processes have been ended", flush=True)
        return 130
    row("all in all", f"{time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
