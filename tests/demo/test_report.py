"""The report: one file that needs nothing else, with the story, the charts and the tables."""

import re

from dure.demo.baselines import Sheet
from dure.demo.report import Told, html_report, marks
from dure.demo.stage import TOWNS
from dure.demo.story import Beat, Level, Sample

BEATS = (
    Beat(1.0, Level.DEMO, "http://127.0.0.1:1/ui/#key=secret", "all levels"),
    Beat(2.0, Level.FLEET, "chat runs in seoul", "$1 for its run"),
    Beat(3.0, Level.KERNEL, "the promise to chat is in danger", "beyond <20> requests"),
    Beat(4.0, Level.KERNEL, "the advisor switches jct → slo", "a & b"),
    Beat(5.0, Level.FLEET, "price of seoul spikes", ""),
)
SHEET = Sheet("GPU: a mix", ("mode", "on time"), (("mps", "10 %"), ("slo", "99 %")))


def told(samples: tuple[Sample, ...]) -> Told:
    return Told(BEATS, samples, (SHEET,), 7)


def samples() -> tuple[Sample, ...]:
    prices = {town.name: town.price for town in TOWNS}
    return tuple(
        Sample(float(at), 10.0, 20.0 + at, 30.0, 0.99, "jct", "seoul" if at > 2 else "", prices)
        for at in range(8)
    )


def test_it_needs_nothing_from_elsewhere_and_has_no_key_in_it() -> None:
    page = html_report(told(samples()))
    assert not re.search(r"(src|href)=|@import|url\(|<script", page)
    assert "secret" not in page


def test_it_tells_every_line_and_table_and_follows_light_and_dark() -> None:
    page = html_report(told(samples()))
    assert "beyond &lt;20&gt; requests" in page
    assert "a &amp; b" in page
    assert "prefers-color-scheme: dark" in page
    assert page.count("<svg") == 3
    assert '<tr class="ours"><td>slo</td><td>99 %</td></tr>' in page
    assert "<tr><td>mps</td>" in page
    assert "seed 7" in page


def test_charts_mark_what_the_story_is_about() -> None:
    assert [mark.name for mark in marks(BEATS)] == ["risk", "policy switched", "price spikes"]


def test_a_story_without_measurements_has_a_report_too() -> None:
    assert html_report(told(())).count("<svg") == 3
