"""The demo's chart: an SVG whose lines match the values."""

import sys
from xml.etree import ElementTree

import pytest
import support

sys.path.insert(0, str(support.PACKAGE / "examples" / "demo"))

import plot  # noqa: E402  the path comes first


def test_chart(tmp_path):
    lines = [plot.Line("falls & falls", [(1, 3.0), (10, 2.0)], "red")]
    lines.append(plot.Line("stays", [(1, 2.5), (10, 2.5)], "blue", dashed=True))
    chart = plot.Chart("a chart", "round", "nats", lines, [(4, "here", "green"), (10, "at the end", "brown")])
    chart.save(tmp_path / "chart.svg")
    root = ElementTree.parse(tmp_path / "chart.svg").getroot()
    names = {"svg": "http://www.w3.org/2000/svg"}

    def drawn(color):
        found = [line for line in root.findall("svg:polyline", names) if line.get("stroke") == color]
        return found, [[tuple(map(float, place.split(","))) for place in one.get("points").split()] for one in found]

    words = {one.text: one for one in root.findall("svg:text", names)}
    assert {"a chart", "round", "nats", "falls & falls", "stays", "here"} <= set(words)
    (falls, _), (stays, _) = drawn("red")[1], drawn("blue")[1]  # the second one is in the legend
    ((left, upper), (right, lower)), ((_, level), (_, same)) = falls, stays
    assert right - left > 0.8 * chart.width and lower - upper > 0.6 * chart.height
    assert level == same == pytest.approx((upper + lower) / 2, abs=0.1)
    assert all(line.get("stroke-dasharray") for line in drawn("blue")[0])
    assert not any(line.get("stroke-dasharray") for line in drawn("red")[0])
    (((here, top), (same_column, bottom)),) = drawn("green")[1]
    assert here == same_column and left < here < right and top < upper + 1 and bottom > lower - 1
    assert words["here"].get("text-anchor") == "start" and words["at the end"].get("text-anchor") == "end"
    assert not root.findall("svg:rect", names)  # a background


@pytest.mark.parametrize(
    "low, high, expected",
    [(1.87, 2.44, ["1.8", "1.9", "2.0", "2.1", "2.2", "2.3", "2.4", "2.5"]), (1, 40, list(map(str, range(0, 41, 10))))],
)
def test_ticks(low, high, expected):
    values = plot.ticks(low, high, 6)
    assert [plot.label(value, values) for value in values] == expected
