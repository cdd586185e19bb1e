import math

from dure.sim.benches.page import Made, markdown
from dure.sim.benches.pool import spread
from dure.sim.benches.report import BenchReport, Grid, Verdict, number, percent, silent

MADE = Made("2026-01-02", "a CPU, 2 cores", "dure bench x --out x.md")
REPORT = BenchReport(
    "x",
    "A figure",
    "About it.",
    (Grid("Rows", ("name", "value"), (("a|b", "1"),)),),
    (Verdict("is small", "1", True), Verdict("is blue", "red", False), Verdict("size", "1", None)),
    figures={"value": math.inf, "rows": ((1, 2.0),)},
)


def test_a_page_says_what_it_is_and_how_it_was_made() -> None:
    page = markdown(REPORT, MADE)
    assert page.startswith("# A figure\n\n**Simulated**")
    for part in ("- date: 2026-01-02", "- machine: a CPU, 2 cores", "`dure bench x --out x.md`"):
        assert part in page
    assert "| pass | is small | 1 |" in page
    assert "| FAIL | is blue | red |" in page
    assert "| note | size | 1 |" in page
    assert "| a\\|b | 1 |" in page


def test_data_has_no_infinite_numbers() -> None:
    data = REPORT.data()
    assert data["value"] is None
    assert data["rows"] == [[1, 2.0]]
    assert [verdict["passed"] for verdict in data["verdicts"]] == [True, False, None]


def test_missing_figures_are_dashes() -> None:
    assert (number(None), number(math.nan), percent(None)) == ("–", "–", "–")
    assert (number(1234.5), percent(0.123)) == ("1,234.5", "12.3 %")


def test_work_spread_over_processes_comes_back_in_order() -> None:
    told: list[float] = []
    found = spread(abs, [-3, 2, -1], workers=2, tell=lambda _, share: told.append(share))
    assert found == [3, 2, 1]
    assert told[-1] == 1.0
    assert spread(abs, [-3], workers=2, tell=silent) == [3]
