"""The demo's chart: a PNG that decodes to what was drawn."""

import struct
import sys
import zlib

import pytest
import support

np = pytest.importorskip("numpy")
sys.path.insert(0, str(support.PACKAGE / "examples" / "demo"))

import font  # noqa: E402  the path comes first
import plot  # noqa: E402


def decode(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, place = {}, 8
    while place < len(data):
        size, kind = struct.unpack_from(">I4s", data, place)
        body = data[place + 8 : place + 8 + size]
        assert struct.unpack_from(">I", data, place + 8 + size)[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        place += size + 12
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 2, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_png():
    pixels = np.random.default_rng(1).integers(0, 256, (7, 5, 3))
    assert np.array_equal(decode(plot.png(pixels.astype(np.float32))), pixels)


def test_chart(tmp_path):
    red, blue, green = (200, 0, 0), (0, 0, 200), (0, 150, 0)
    lines = [plot.Line("falls", [(1, 3.0), (10, 2.0)], red)]
    lines.append(plot.Line("stays", [(1, 2.5), (10, 2.5)], blue, dashed=True))
    chart = plot.Chart("a chart", "round", "nats", lines, [(4, "here", green)])
    chart.save(tmp_path / "chart.png")
    pixels = decode((tmp_path / "chart.png").read_bytes()).astype(int)
    assert pixels.shape == (chart.height, chart.width, 3)

    codes = pixels @ (65536, 256, 1)

    def where(color, top=0):
        return np.argwhere(codes[top:] == np.dot(color, (65536, 256, 1))) + (top, 0)

    inside = where(red, 90)  # below the legend
    first, last = inside[inside[:, 1].argmin()], inside[inside[:, 1].argmax()]
    assert last[1] - first[1] > 0.8 * chart.width and last[0] - first[0] > 0.7 * chart.height
    level = where(blue, 90)
    assert np.ptp(level[:, 0]) <= 3  # flat
    assert abs(level[:, 0].mean() - (first[0] + last[0]) / 2) < 3  # and in the middle
    assert 0.4 < len(set(level[:, 1])) / np.ptp(level[:, 1]) < 0.6  # with gaps
    assert len(where(green)) == 4 * len(list(font.dots("here")))  # the line beside them is between two columns
    assert len(np.unique(codes)) > 50  # smooth edges


def test_smooth_line():
    canvas = plot.Canvas(20, 10)
    canvas.line([(3, 5), (15, 5)], (0, 0, 0), 3)
    column = 255 - canvas.pixels[:, 9, 0]
    assert column.sum() == pytest.approx(3 * 255)  # as wide as wanted
    assert not canvas.pixels[:, 0].min() < 255


@pytest.mark.parametrize(
    "low, high, expected",
    [(1.87, 2.44, ["1.8", "1.9", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5"]), (1, 40, list(map(str, range(0, 41, 10))))],
)
def test_ticks(low, high, expected):
    values = plot.ticks(low, high, 6)
    assert [plot.label(value, values) for value in values] == expected


def test_letters():
    assert set(font.dots("-")) == {(1, 3), (2, 3), (3, 3)}
    assert {column // font.COLUMNS for column, _ in font.dots("a b")} == {0, 2}
    for letter, rows in font.LETTERS.items():
        assert len(rows) == font.ROWS and {len(row) for row in rows} == {5}, letter
    shapes = [tuple(rows) for rows in font.LETTERS.values()]
    assert len(set(shapes)) == len(shapes)
    with pytest.raises(ValueError, match="%"):
        list(font.dots("5 %"))
