from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from dure.sim.figures import TableColumn, WideTable, percent
from dure.sim.fleet.compare import Comparison
from dure.sim.fleet.export import comparison_data
from dure.sim.fleet.sheets import amount, bill_sheet, cluster_sheet, sheets, span
from dure.sim.fleet.tables import WIDTH, comparison_tables, explanation_tables
from tests.sim.fleet.scenarios import read, result, scenario


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    made = read(tmp_path, scenario(title="Two ways"))
    return Comparison(made, (result("first-fit", rent=150.0), result("dure")))


def printed(table: object, width: int = WIDTH) -> str:
    console = Console(width=width, no_color=True)
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
    assert "train (training of lab) under dure: after 30 min placed at east/a100" in text
    assert row(text, "rent") == ["rent", "32.0"]
    assert row(text, "saved transfer")[-1] == "-2.00"
    assert row(text, "congestion price")[-1] == "1.25"
    assert row(text, "total")[-1] == "31.2"
    assert "3.50 kg CO2, expected penalty 0.50" in text
    line = (
        "best alternative: west/h100, 3 h later, for 40.2 USD, 9.00 more: cheaper hours come then"
    )
    assert line in text
    assert "deadline in 6 h" in text


def test_a_workload_without_a_place_says_why(comparison: Comparison) -> None:
    text = printed(explanation_tables("late", comparison.explanations("late")))
    assert "late (training of lab) under dure: without a place since 0 s" in text
    assert "no money is left" in text


@pytest.mark.parametrize(
    ("modes", "part"),
    [(("first-fit",), "baselines do not explain themselves"), (("dure",), "dure never had to")],
)
def test_a_workload_without_reasons_says_so(modes: tuple[str, ...], part: str) -> None:
    text = printed(explanation_tables("chat", [], modes))
    assert text.startswith("'chat' has no explanation: ")
    assert part in text


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_figure_is_cut_however_narrow_the_terminal(comparison: Comparison, width: int) -> None:
    wide = printed(comparison_tables(comparison), 400)
    text = printed(comparison_tables(comparison), width)
    assert "…" not in text
    assert max(len(line) for line in text.split("\n")) <= width
    figures = {word for word in wide.split() if any(sign.isdigit() for sign in word)}
    assert figures <= set(text.split())


def test_a_narrow_terminal_gets_tables_about_equally_wide(comparison: Comparison) -> None:
    columns = tuple(TableColumn(f"c{number}", (Text("12345678"),)) for number in range(8))
    table = WideTable("figures", columns)
    assert [len(part) for part in table.parts(81)] == [8]
    assert [len(part) for part in table.parts(80)] == [5, 4]
    assert [part[0].title for part in table.parts(80)] == ["c0", "c0"]


def test_words_stand_at_the_left_and_tenants_without_jobs_have_no_share(
    comparison: Comparison,
) -> None:
    clusters = cluster_sheet(comparison.results[1])
    assert [column.title for column in clusters.columns if column.words] == ["region", "class"]
    done, on_time = bill_sheet(comparison.results[1]).columns[-2:]
    assert [cell.text for cell in done.cells] == ["2", "–"]
    assert [cell.text for cell in on_time.cells] == ["50.0%", "–"]


def test_the_export_has_every_mode_and_sums(comparison: Comparison) -> None:
    data = comparison_data(comparison)
    assert (data["schema"], data["simulated"], data["currency"]) == (1, True, "USD")
    assert [mode["mode"] for mode in data["modes"]] == ["first-fit", "dure"]
    assert data["modes"][1]["money"]["total"] == pytest.approx(104.5)
    assert data["modes"][1]["tenants"][0]["money"]["total"] == pytest.approx(103.0)
    assert data["modes"][1]["explanations"][0]["runner_up"] == "west/h100"
    assert data["modes"][1]["explanations"][0]["runner_up_start_ns"] > 0
    assert data["modes"][1]["waits"][0]["why"] == "no money is left"


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
