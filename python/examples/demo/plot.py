"""A line chart as an SVG file, with axes, a legend and markers at given times. It has no background, and its colors are
readable on light and dark pages."""

import html
import math
from dataclasses import dataclass, field

INK = "#7d8590"  # color of text and axes
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 70, 52  # margins around the plot
LETTER = 6.6  # approximate width of a letter


@dataclass
class Line:
    name: str
    points: list  # pairs (x, y)
    color: str
    dashed: bool = False


@dataclass
class Chart:
    title: str
    x_name: str
    y_name: str
    lines: list
    marks: list = field(default_factory=list)  # tuples (x, text, color)
    width: int = 840
    height: int = 400

    def save(self, path):
        path.write_text(self.svg(), encoding="utf-8")

    def svg(self):
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        style = 'font-family="system-ui, sans-serif" font-size="13"'
        begin = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>'
        return "\n".join([begin, f"<title>{html.escape(self.title)}</title>", *self._parts(), "</svg>"]) + "\n"

    def _parts(self):
        points = [point for line in self.lines for point in line.points]
        xs, ys = ticks(*bounds(x for x, _ in points), 12), ticks(*bounds(y for _, y in points), 7)
        left, right, top, bottom = LEFT, self.width - RIGHT, TOP, self.height - BOTTOM
        at = Scale((xs[0], xs[-1], left, right), (ys[0], ys[-1], bottom, top))
        yield text(left, 18, self.title, INK, 'font-size="15" font-weight="600"')
        yield from self._axes(at, xs, ys, (left, right, top, bottom))
        for row, (x, words, color) in enumerate(self.marks):
            column = at(x, ys[0])[0]
            yield polyline([(column, top), (column, bottom)], color, 1.5, 'stroke-dasharray="4 4"')
            on_the_right = column + 6 + LETTER * len(words) < right
            place, anchor = (column + 6, "start") if on_the_right else (column - 6, "end")
            yield text(place, top + 14 + 20 * (row % 3), words, color, f'text-anchor="{anchor}"')
        for line in self.lines:
            yield polyline([at(x, y) for x, y in line.points], line.color, 2.2, dashes(line))
        column = left
        for line in self.lines:
            yield polyline([(column, 42), (column + 28, 42)], line.color, 2.2, dashes(line))
            yield text(column + 34, 46, line.name, INK)
            column += 34 + LETTER * len(line.name) + 28

    def _axes(self, at, xs, ys, frame):
        left, right, top, bottom = frame
        for y in ys:
            row = at(xs[0], y)[1]
            yield polyline([(left, row), (right, row)], INK, 1, 'stroke-opacity="0.25"')
            yield text(left - 8, row + 4, label(y, ys), INK, 'text-anchor="end"')
        for x in xs:
            column = at(x, ys[0])[0]
            yield polyline([(column, bottom), (column, bottom + 5)], INK, 1)
            yield text(column, bottom + 19, label(x, xs), INK, 'text-anchor="middle"')
        yield polyline([(left, top), (left, bottom), (right, bottom)], INK, 1)
        yield text((left + right) / 2, bottom + 42, self.x_name, INK, 'text-anchor="middle"')
        middle = (top + bottom) / 2
        turned = f'text-anchor="middle" transform="rotate(-90 16 {middle:g})"'
        yield text(16, middle, self.y_name, INK, turned)


class Scale:
    """Converts values to positions in the picture. x, y: (lowest value, highest value, position of the lowest, position
    of the highest)."""

    def __init__(self, x, y):
        self._x, self._y = x, y

    def __call__(self, x, y):
        return tuple(
            first + (value - low) / (high - low) * (last - first)
            for value, (low, high, first, last) in ((x, self._x), (y, self._y))
        )


def text(x, y, words, color, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" {more}>{html.escape(words)}</text>'


def polyline(points, color, width, more=""):
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="{width}" {more}/>'


def dashes(line):
    return 'stroke-dasharray="7 5"' if line.dashed else ""


def bounds(values):
    values = list(values)
    return min(values), max(values)


def ticks(low, high, count):
    """Returns equidistant round numbers, from at or below the lowest value to at or above the highest."""
    raw = max(high - low, 1e-9) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [step * number for number in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def label(value, values):
    step = values[1] - values[0]
    return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
