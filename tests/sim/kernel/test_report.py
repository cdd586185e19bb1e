import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dure.sim.kernel.charts import BAR_PX, latency_chart
from dure.sim.kernel.compare import Comparison
from dure.sim.kernel.report import html_report
from dure.sim.kernel.state import SPAN
from dure.sim.kernel.timeline import Block, draw, pictured, stack

SMS = 132


class _Balanced(HTMLParser):
    """Checks that every element is closed, and collects what is loaded from elsewhere."""

    VOID = ("meta", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.foreign += [name for name, _ in attrs if name in ("src", "href")]
        if tag not in self.VOID or tag == "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(comparison: Comparison) -> str:
    return html_report(comparison)


def test_the_report_is_one_well_formed_file_that_needs_nothing_else(page: str) -> None:
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.foreign == []
    assert "script" not in parser.seen
    assert "url(" not in page
    assert "http" not in page


def test_the_report_says_what_was_run_and_that_it_is_simulated(page: str) -> None:
    assert "A &lt;short&gt; run" in page
    assert "<short>" not in page
    assert ">simulated</span>" in page
    for word in ("h200", "web", "train", "time-slice", "switching", "p99 ≤ 8 ms", "seed 1"):
        assert word in page


def test_one_baseline_is_pictured_beside_every_managed_mode(comparison: Comparison) -> None:
    drawn = pictured([run.outcome for run in comparison.runs])
    assert [outcome.mode.name for outcome in drawn] == ["mps", "slo", "switching"]
    only = pictured([comparison.runs[0].outcome])
    assert [outcome.mode.name for outcome in only] == ["time-slice"]


def test_the_timeline_has_kernels_squads_and_the_switch(comparison: Comparison) -> None:
    switching = draw(comparison.runs[-1].outcome)
    assert {tenant for tenant, _ in switching.shapes} >= {1}
    assert switching.switches == ((400.0, "jct → slo"),)
    assert sum(reign.width for reign in switching.reigns) == pytest.approx(1000.0, abs=1.0)
    assert any(re.match("jct: squad 1", reign.title) for reign in switching.reigns)
    assert 0.0 < switching.busy_share <= 1.0
    assert draw(comparison.runs[0].outcome).reigns == ()


def test_a_latency_out_of_scale_is_cut_and_says_its_value(comparison: Comparison) -> None:
    old = comparison.runs[0]
    tenants = (replace(old.result.tenants[0], p99_ms=5000.0), *old.result.tenants[1:])
    slow = replace(old, result=replace(old.result, tenants=tenants))
    chart = latency_chart(replace(comparison, runs=(slow, *comparison.runs[1:])), 0)
    bar = next(bar for bar in chart.bars if bar.label == "time-slice")
    assert bar.cut
    assert (bar.length, bar.text) == (BAR_PX, "5,000")
    assert chart.target is not None
    assert 0 < chart.target < BAR_PX


spans = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.integers(0, 900),
        st.integers(1, 400),
        st.floats(0.5, SMS),
        st.floats(0, SMS),
    ),
    max_size=12,
)


@given(spans)
def test_blocks_of_the_picture_never_hide_one_another_and_fit_the_device(
    drawn: list[tuple[int, int, int, float, float]],
) -> None:
    array = np.array(
        [(tenant, start, start + length, sms, low) for tenant, start, length, sms, low in drawn],
        dtype=SPAN,
    )
    blocks = stack(array, 100, 1000, SMS)
    for block in blocks:
        assert 100 <= block.start_ns < block.end_ns <= 1000
        assert block.low_sms >= -1e-6
        assert block.low_sms + block.sms <= SMS + 1e-6
    for number, one in enumerate(blocks):
        for other in blocks[number + 1 :]:
            assert not _overlap(one, other)


def _overlap(one: Block, other: Block) -> bool:
    together = min(one.end_ns, other.end_ns) > max(one.start_ns, other.start_ns)
    top = min(one.low_sms + one.sms, other.low_sms + other.sms)
    return together and top - max(one.low_sms, other.low_sms) > 1e-6


def test_a_kernel_alone_is_drawn_whole_at_its_own_place() -> None:
    array = np.array([(2, 200, 700, 64.0, 32.0)], dtype=SPAN)
    assert stack(array, 0, 1000, SMS) == [Block(2, 200, 700, 32.0, 64.0)]
