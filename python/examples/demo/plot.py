"""A line chart as a PNG: lines with smooth edges, axes, a legend, marked moments. numpy and zlib."""

import math
import struct
import zlib
from dataclasses import dataclass, field

import font
import numpy as np

INK, PALE, GRID = (45, 45, 50), (120, 120, 128), (228, 228, 232)
TEXT_SCALE = 2
LETTER = font.COLUMNS * TEXT_SCALE


@dataclass
class Line:
    name: str
    points: list  # of (x, y)
    color: tuple
    dashed: bool = False


@dataclass
class Chart:
    title: str
    x_name: str
    y_name: str
    lines: list
    marks: list = field(default_factory=list)  # of (x, words, color)
    width: int = 1120
    height: int = 640

    def save(self, path):
        canvas = Canvas(self.width, self.height)
        self._draw(canvas)
        path.write_bytes(png(canvas.pixels))

    def _draw(self, canvas):
        points = [point for line in self.lines for point in line.points]
        xs, ys = ticks(*bounds(x for x, _ in points), 12), ticks(*bounds(y for _, y in points), 7)
        left, right, top, bottom = 100, self.width - 40, 100, self.height - 80
        at = Scale((xs[0], xs[-1], left, right), (ys[0], ys[-1], bottom, top))
        self._axes(canvas, at, xs, ys, (left, right, top, bottom))
        for row, (x, words, color) in enumerate(self.marks):
            column = at(x, ys[0])[0]
            canvas.line([(column, top), (column, bottom)], color, 1.5, dash=6)
            width = LETTER * len(words)
            place = column + 8 if column + 8 + width < right else column - 8 - width
            canvas.text(place, top + 8 + 26 * (row % 3), words, color)
        for line in self.lines:
            canvas.line([at(x, y) for x, y in line.points], line.color, 2.6, dash=10 if line.dashed else 0)
        self._legend(canvas, left, 60)

    def _axes(self, canvas, at, xs, ys, frame):
        left, right, top, bottom = frame
        canvas.text(left, 22, self.title, INK)
        for y in ys:
            row = at(xs[0], y)[1]
            canvas.line([(left, row), (right, row)], GRID, 1)
            words = label(y, ys)
            canvas.text(left - 12 - LETTER * len(words), row - 7, words, PALE)
        for x in xs:
            column = at(x, ys[0])[0]
            canvas.line([(column, bottom), (column, bottom + 6)], PALE, 1)
            words = label(x, xs)
            canvas.text(column - LETTER * len(words) / 2 + 1, bottom + 12, words, PALE)
        canvas.line([(left, top), (left, bottom), (right, bottom)], PALE, 1)
        canvas.text((left + right - LETTER * len(self.x_name)) / 2, bottom + 44, self.x_name, INK)
        canvas.text(18, (top + bottom + LETTER * len(self.y_name)) / 2, self.y_name, INK, upwards=True)

    def _legend(self, canvas, column, row):
        for line in self.lines:
            canvas.line([(column, row + 7), (column + 34, row + 7)], line.color, 2.6, dash=10 if line.dashed else 0)
            canvas.text(column + 42, row, line.name, INK)
            column += 42 + LETTER * len(line.name) + 32


class Scale:
    """From values to places of the picture. Each of x and y: (lowest value, highest, their places)."""

    def __init__(self, x, y):
        self._x, self._y = x, y

    def __call__(self, x, y):
        return tuple(
            first + (value - low) / (high - low) * (last - first)
            for value, (low, high, first, last) in ((x, self._x), (y, self._y))
        )


class Canvas:
    def __init__(self, width, height):
        self.pixels = np.full((height, width, 3), 255, np.float32)

    def line(self, points, color, width, dash=0):
        """dash: in pieces of so many pixels, or 0."""
        cover = np.zeros(self.pixels.shape[:2], np.float32)
        for begin, end in dashes(points, dash) if dash else zip(points, points[1:]):
            _cover(cover, begin, end, width / 2)
        self._blend(cover, color)

    def text(self, x, y, words, color, upwards=False):
        """x, y: the upper left corner, or for what is written upwards the lower left one."""
        cover = np.zeros(self.pixels.shape[:2], np.float32)
        for column, row in font.dots(words):
            right, down = (row, -column - 1) if upwards else (column, row)
            left, top = round(x) + right * TEXT_SCALE, round(y) + down * TEXT_SCALE
            cover[max(0, top) : max(0, top + TEXT_SCALE), max(0, left) : max(0, left + TEXT_SCALE)] = 1
        self._blend(cover, color)

    def _blend(self, cover, color):
        rows, columns = (np.flatnonzero(cover.any(axis)) for axis in (1, 0))
        if len(rows) == 0:
            return
        box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        self.pixels[box] += cover[box][..., None] * (np.array(color, np.float32) - self.pixels[box])


def _cover(cover, begin, end, radius):
    """Marks how much of each pixel the segment covers, by the distance of the pixel's middle."""
    begin, end = np.array(begin, np.float64), np.array(end, np.float64)
    low = np.maximum(np.floor(np.minimum(begin, end) - radius - 1), 0).astype(int)
    high = np.maximum(np.ceil(np.maximum(begin, end) + radius + 2), 0).astype(int)
    box = cover[low[1] : high[1], low[0] : high[0]]
    y, x = np.ogrid[low[1] : low[1] + box.shape[0], low[0] : low[0] + box.shape[1]]
    way = end - begin
    share = ((x - begin[0]) * way[0] + (y - begin[1]) * way[1]) / max(way @ way, 1e-9)
    share = np.clip(share, 0, 1)
    distance = np.hypot(x - begin[0] - share * way[0], y - begin[1] - share * way[1])
    np.maximum(box, np.clip(radius + 0.5 - distance, 0, 1), out=box)


def dashes(points, length):
    """The way from point to point in pieces of that length, with gaps as long between them."""
    walked = 0.0
    for begin, end in zip(points, points[1:]):
        begin, end = np.array(begin, np.float64), np.array(end, np.float64)
        whole, done = float(np.hypot(*(end - begin))), 0.0
        while done < whole:
            piece = min(whole - done, length - walked % length + 1e-6)
            if walked // length % 2 == 0:
                yield begin + (end - begin) * (done / whole), begin + (end - begin) * ((done + piece) / whole)
            done += piece
            walked += piece


def bounds(values):
    values = list(values)
    return min(values), max(values)


def ticks(low, high, count):
    """Round numbers at equal distances, from at or below the lowest to at or above the highest."""
    raw = max(high - low, 1e-9) / count
    power = 10 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [step * number for number in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def label(value, values):
    step = values[1] - values[0]
    return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def png(pixels):
    """The file of a picture: (height, width, 3) of 0 to 255."""
    rows = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
    height, width, _ = rows.shape
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows.reshape(height, -1)], 1).tobytes()

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 6)) + chunk(b"IEND", b"")
