import xml.etree.ElementTree as ET

from dure.bench.common import svg

AXIS = svg.Axis("seconds <s>", lambda value: 100.0 * value, [(1.0, "1"), (2.0, "2")])


def test_panels_lie_side_by_side_or_in_the_columns_asked_for() -> None:
    panels = [svg.axes(str(index), AXIS, AXIS) for index in range(3)]
    flat = ET.fromstring(svg.picture(panels))
    folded = ET.fromstring(svg.picture(panels, columns=2))
    assert flat.get("width") == str(3 * svg.WIDTH)
    assert flat.get("height") == str(svg.HEIGHT)
    assert (folded.get("width"), folded.get("height")) == (str(2 * svg.WIDTH), str(2 * svg.HEIGHT))


def test_labels_are_text_not_markup() -> None:
    drawn = ET.fromstring(svg.picture([svg.axes("a < b", AXIS, AXIS)]))
    words = {item.text for item in drawn.iter() if item.text and item.text.strip()}
    assert {"a < b", "seconds <s>", "1", "2"} <= words
