"""Pictures of the report: what is drawn is what was measured."""

import re
import xml.etree.ElementTree as ET

import pytest

from dure.demo.charts import HEIGHT, WIDTH, Line, Mark, Picture, _round_up


def drawn(picture: Picture) -> ET.Element:
    return ET.fromstring(picture.svg())


def paths(picture: Picture, kind: str) -> list[str]:
    return [each.attrib["d"] for each in drawn(picture) if kind in each.get("class", "").split()]


def test_a_gap_in_what_was_measured_is_a_gap_in_the_line() -> None:
    line = Line("a", 0, ((0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 1.0), (4.0, 1.5)))
    assert len(paths(Picture("t", "ms", (line,)), "line")) == 2


def test_a_price_is_drawn_as_steps_and_a_latency_is_not() -> None:
    points = ((0.0, 1.0), (1.0, 2.0))
    assert re.search(r"H[\d.]+V", paths(Picture("t", "", (Line("a", 0, points, True),)), "line")[0])
    assert "L" in paths(Picture("t", "", (Line("a", 0, points),)), "line")[0]


def test_everything_lies_inside_the_picture() -> None:
    points = tuple((float(at), float(at * 7 % 13)) for at in range(40, 90))
    picture = Picture("t", "ms", (Line("a", 0, points),), (Mark(41.0, "first"), Mark(89.0, "last")))
    for path in paths(picture, "line"):
        for x, y in re.findall(r"([\d.]+) ([\d.]+)", path):
            assert 0 <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT


def test_words_of_a_picture_say_what_it_shows_and_nothing_in_them_is_markup() -> None:
    picture = Picture("<t>", "ms", (Line("a & b", 0, ((0.0, 1.0), (2.0, 3.0))),))
    assert drawn(picture).attrib["aria-label"] == "<t>: a & b, from 0 to 2 s"


def test_a_picture_of_nothing_can_be_drawn() -> None:
    assert drawn(Picture("t", "ms", (Line("a", 0, ()),))).tag == "svg"


@pytest.mark.parametrize(("value", "axis"), [(0.7, 1.0), (1.0, 1.0), (3.4, 5.0), (16.8, 20.0)])
def test_axes_end_at_numbers_that_read_well(value: float, axis: float) -> None:
    assert _round_up(value) == pytest.approx(axis)
