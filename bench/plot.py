#!/usr/bin/env python3
"""Draws the results of bench/compare.py: a chart of time over size, and a chart of the share of the limit.

    bench/plot.py [build/compare.json] [--out build]        writes time.svg and share.svg there

Plain sockets in the same run give the limit, or over emulated links the bound of the ring. Requires only Python.
"""

import argparse
import html
import json
import math
import pathlib
import statistics

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 320, 62, 14, 34, 44
LEGEND = 190
# Distinguishable without red and green.
COLORS = ["#000000", "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#7f5f00", "#5f3f9f"]
LIMIT_COLOR = "#999999"


def size_text(size):
    for power, suffix in ((30, "G"), (20, "M"), (10, "K")):
        if size >> power:
            return f"{size >> power}{suffix}"
    return str(size)


def time_text(seconds):
    for unit, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


class Panel:
    """One diagram; x is logarithmic in bytes, y logarithmic or linear."""

    def __init__(self, number, title, sizes, values, logarithmic):
        self.left, self.title, self.logarithmic = number * WIDTH, title, logarithmic
        self.sizes = sizes
        self.low_x, self.high_x = math.log(min(sizes)), max(math.log(max(sizes)), math.log(min(sizes)) + 1)
        if logarithmic:
            self.low = math.floor(math.log10(min(values)))
            self.high = max(math.ceil(math.log10(max(values))), self.low + 1)
        else:
            self.low, self.high = 0, max(1.2, max(values) * 1.05)

    def x(self, size):
        share = (math.log(size) - self.low_x) / (self.high_x - self.low_x)
        return self.left + LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        value = math.log10(value) if self.logarithmic else value
        return HEIGHT - BOTTOM - (value - self.low) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)

    def ticks(self):
        if self.logarithmic:
            return [(10.0**power, time_text(10.0**power)) for power in range(self.low, self.high + 1)]
        step = 0.2 if self.high < 2.5 else math.ceil(self.high / 8)
        return [(i * step, f"{i * step * 100:.0f} %") for i in range(int(self.high / step + 1e-9) + 1)]

    def frame(self):
        yield text(self.left + LEFT, TOP - 14, self.title, "start", bold=True)
        for value, label in self.ticks():
            y = self.y(value)
            yield line(self.left + LEFT, y, self.left + WIDTH - RIGHT, y)
            yield text(self.left + LEFT - 6, y + 4, label, "end")
        for size in self.sizes:
            yield text(self.x(size), HEIGHT - BOTTOM + 16, size_text(size), "middle")
        yield text(self.left + (LEFT + WIDTH) / 2, HEIGHT - 8, "bytes", "middle")

    def curve(self, points, color):
        path = " ".join(f"{self.x(size):.1f},{self.y(value):.1f}" for size, value in points)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        for size, value in points:
            yield f'<circle cx="{self.x(size):.1f}" cy="{self.y(value):.1f}" r="2.5" fill="{color}"/>'


def text(x, y, words, anchor, bold=False):
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{html.escape(words)}</text>'


def line(x, y, to_x, to_y):
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="#dddddd"/>'


def picture(curves, logarithmic, what):
    """Draws curves[peers][row], lists of points."""
    rows = list(dict.fromkeys(row for found in curves.values() for row in found))
    others = [row for row in rows if row != "limit"]
    colors = {"limit": LIMIT_COLOR, **{row: COLORS[i % len(COLORS)] for i, row in enumerate(others)}}
    width = WIDTH * len(curves) + LEGEND
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" font-family="sans-serif" '
             f'font-size="11"><rect width="{width}" height="{HEIGHT}" fill="white"/>']
    for number, (peers, found) in enumerate(curves.items()):
        sizes = sorted({size for points in found.values() for size, _ in points})
        values = [value for points in found.values() for _, value in points]
        panel = Panel(number, f"{what}, {peers} peers", sizes, values, logarithmic)
        parts += panel.frame()
        for row, points in found.items():
            parts += panel.curve(points, colors[row])
    for i, row in enumerate(rows):
        y = TOP + 18 * i
        parts.append(f'<rect x="{width - LEGEND + 10}" y="{y - 8}" width="14" height="8" fill="{colors[row]}"/>')
        parts.append(text(width - LEGEND + 30, y, row, "start"))
    return "\n".join(parts + ["</svg>\n"])


def read(path):
    """Returns ({peers: {row: [(size, seconds)]}}, wan)."""
    data = json.loads(path.read_text(encoding="utf-8"))
    curves = {}
    for run in data["runs"]:
        points = curves.setdefault(run["peers"], {}).setdefault(run["row"], [])
        points.append((run["bytes"], statistics.median(run["seconds"])))
    return curves, data["wan"]


def shares(curves, wan):
    """Returns the curves as limit / time, without sizes below 64 KiB, for which a limit by bandwidth has no meaning."""
    found = {}
    for peers, rows in curves.items():
        if wan:
            sizes = {size for points in rows.values() for size, _ in points}
            limit = {size: 2 * (peers - 1) / peers * size * 8e-6 / wan["rate_mbit"] for size in sizes}
        else:
            limit = dict(rows.get("limit", []))
        for row, points in rows.items():
            own = [(size, limit[size] / seconds) for size, seconds in points if size in limit and size >= 1 << 16]
            if own and row != "limit":
                found.setdefault(peers, {})[row] = own
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", nargs="?", type=pathlib.Path, default=pathlib.Path("build/compare.json"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build"))
    arguments = parser.parse_args()
    curves, wan = read(arguments.json)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "time.svg").write_text(picture(curves, True, "Time of one all-reduce"), encoding="utf-8")
    of_limit = shares(curves, wan)
    if of_limit:
        what = "Share of the ring's bound" if wan else "Share of plain sockets"
        (arguments.out / "share.svg").write_text(picture(of_limit, False, what), encoding="utf-8")


main()
