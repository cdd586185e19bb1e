import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dure.sim.fleet.charts import HEIGHT_PX, WIDTH_PX, line_charts
from dure.sim.fleet.compare import Comparison
from dure.sim.fleet.report import html_report
from dure.sim.fleet.results import ForecastFigures
from tests.sim.fleet.scenarios import read, result, scenario


@pytest.fixture
def html(tmp_path: Path) -> str:
    made = read(tmp_path, scenario(title="<b>Two</b> ways"))
    return html_report(Comparison(made, (result("first-fit", rent=150.0), result("dure"))))


class _Balance(HTMLParser):
    """Finds elements that are closed in the wrong place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag == "path":
            return
        assert self.open.pop() == tag


def test_the_file_is_whole_and_needs_nothing_else(html: str) -> None:
    assert html.startswith("<!doctype html>")
    parser = _Balance()
    parser.feed(html)
    assert parser.open == []
    assert not re.findall(r"(?:src|href|url)\s*[=(]", html)


def test_titles_are_escaped(html: str) -> None:
    assert "<b>Two</b>" not in html
    assert "&lt;b&gt;Two&lt;/b&gt; ways" in html


def test_it_is_readable_in_light_and_dark(html: str) -> None:
    assert "color-scheme: light dark" in html
    assert "@media (prefers-color-scheme: dark)" in html


def test_it_has_tables_bills_charts_and_reasons(html: str) -> None:
    for part in (
        "Money, USD",
        "Bills under dure, USD",
        "Clusters under dure",
        "Money spent so far, USD",
        "Devices in use",
        "train → east/a100",
        "west/h100, 3 h later, for 40.2 USD, 9.00 more: cheaper hours come then",
        "<th>term</th><th>USD</th>",
        "Work without a place",
        "no money is left",
        '<td class="words">us-east-1</td>',
        "budget of lab is 90 % used",
    ):
        assert part in html


def test_forecasts_are_shown_beside_expecting_the_present_to_last(tmp_path: Path) -> None:
    judged = ForecastFigures(price=0.123, price_as_now=0.2, load=0.05, load_as_now=0.04)
    results = (result("first-fit"), replace(result("dure"), forecasts=judged))
    html = html_report(Comparison(read(tmp_path, scenario()), results))
    assert "in brackets of expecting that all stays as it is now: " in html
    assert "dure price 12.3 % (20.0 %), load 5.0 % (4.0 %)." in html


def test_measures_without_values_have_no_chart() -> None:
    titles = [chart.title for chart in line_charts([result("dure")])]
    assert "Jobs waiting" in titles
    assert not any("Congestion" in title for title in titles)
    assert not any("within target" in title for title in titles)  # always 100 %


def test_lines_stay_inside_their_chart_however_long_the_run() -> None:
    for chart in line_charts([result("first-fit", hours=2000), result("dure", hours=2000)]):
        assert len(chart.lines) == 2
        for line in chart.lines:
            points = re.findall(r"([\d.-]+) ([\d.-]+)", line.path)
            assert 2 <= len(points) <= 260
            assert all(0 <= float(x) <= WIDTH_PX for x, _ in points)
            assert all(-0.1 <= float(y) <= HEIGHT_PX + 0.1 for _, y in points)


def test_sums_grow_and_end_at_the_total() -> None:
    chart = line_charts([result("dure", rent=600.0)])[0]
    assert chart.title == "Money spent so far, USD"
    assert chart.lines[0].last == "600"
    heights = [float(y) for _, y in re.findall(r"([\d.-]+) ([\d.-]+)", chart.lines[0].path)]
    assert heights == sorted(heights, reverse=True)


def test_dure_is_drawn_solid_and_others_are_not() -> None:
    chart = line_charts([result("first-fit"), result("dure")])[0]
    assert [bool(line.dashes) for line in chart.lines] == [True, False]
