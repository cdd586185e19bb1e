from pathlib import Path

import pytest
from rich.console import Console

from dure.sim.figures import percent
from dure.sim.fleet.compare import Comparison
from dure.sim.fleet.export import comparison_data
from dure.sim.fleet.sheets import amount, sheets, span
from dure.sim.fleet.tables import WIDTH, comparison_tables, explanation_tables
from tests.sim.fleet.scenarios import read, result, scenario


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    made = read(tmp_path, scenario(title="Two ways"))
    return Comparison(made, (result("first-fit", rent=150.0), result("dure")))


def printed(table: object) -> str:
    console = Console(width=WIDTH, no_color=True)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def row(text: str, start: str) -> list[str]:
    return next(line for line in text.split("\n") if line.strip().startswith(start)).split()


def test_modes_are_side_by_side_with_money_by_term(comparison: Comparison) -> None:
    text = printed(comparison_tables(comparison))
    assert "Two ways   1 clusters, 16 devices, 1 workloads, 12 h, seed 1" in text
    assert row(text, "first-fit")[:5] == ["first-fit", "154", "150", "3.00", "1.50"]
    assert row(text, "dure")[:6] == ["dure", "104*", "100", "3.00", "1.50", "0.0%"]


def test_terms_nobody_paid_are_left_out(comparison: Comparison) -> None:
    titles = [column.title for column in sheets(comparison.results)[0].columns]
    assert "rent" in titles
    assert "trans-\nfers" not in titles


def test_the_best_is_marked_only_where_rows_differ(comparison: Comparison) -> None:
    money, promises, _ = sheets(comparison.results)
    total = money.columns[0]
    assert [cell.best for cell in total.cells] == [False, True]
    assert not any(cell.best for column in promises.columns for cell in column.cells)


def test_bills_are_those_of_the_last_mode_or_of_all(comparison: Comparison) -> None:
    assert printed(comparison_tables(comparison)).count("Bills under") == 1
    text = printed(comparison_tables(comparison, all_bills=True))
    assert "Bills under first-fit, USD" in text
    assert row(text, "lab")[:3] == ["lab", "153", "150"]
    assert row(text, "webco")[1] == "1.50"


def test_notes_and_warnings_are_shown(comparison: Comparison) -> None:
    assert "dure: budget of lab is 90 % used" in printed(comparison_tables(comparison))


def test_an_explanation_names_terms_prices_and_the_alternative(comparison: Comparison) -> None:
    text = printed(explanation_tables("train", comparison.explanations("train")))
    assert "train (training of lab) under dure: after 0.5 h placed at east/a100" in text
    assert row(text, "rent") == ["rent", "32.0"]
    assert row(text, "saved transfer")[-1] == "-2.00"
    assert row(text, "congestion price")[-1] == "1.25"
    assert row(text, "total")[-1] == "31.2"
    assert "3.50 kg CO2, expected penalty 0.50" in text
    assert "best alternative: west/h100 at 40.2, 9.00 more" in text
    assert "deadline in 6 h" in text


def test_a_workload_without_reasons_says_so(comparison: Comparison) -> None:
    text = printed(explanation_tables("chat", comparison.explanations("chat")))
    assert "'chat' was placed by no mode that explains itself" in text


def test_the_export_has_every_mode_and_sums(comparison: Comparison) -> None:
    data = comparison_data(comparison)
    assert (data["schema"], data["simulated"], data["currency"]) == (1, True, "USD")
    assert [mode["mode"] for mode in data["modes"]] == ["first-fit", "dure"]
    assert data["modes"][1]["money"]["total"] == pytest.approx(104.5)
    assert data["modes"][1]["tenants"][0]["money"]["total"] == pytest.approx(103.0)
    assert data["modes"][1]["explanations"][0]["runner_up"] == "west/h100"


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (amount(12345.6), "12,346"),
        (amount(0.0), "0.0"),
        (amount(-2.0), "-2.00"),
        (percent(0.99996), "99.9%"),
        (percent(1.0), "100.0%"),
        (percent(None), "–"),
        (span(42.0), "42 s"),
        (span(5400.0), "1.5 h"),
        (span(86400.0), "24 h"),
        (span(31 * 86400.0), "31 d"),
    ],
)
def test_figures_are_short(shown: str, wanted: str) -> None:
    assert shown == wanted
