"""A container comparison as tables and as data."""

from pathlib import Path

import pytest
from rich.console import Console

from dure.sim.node.compare import Comparison, compare
from dure.sim.node.export import comparison_data
from dure.sim.node.scenario import read_scenario
from dure.sim.node.sheets import container_sheet, outcome_sheet, seconds, times
from dure.sim.node.tables import WIDTH, comparison_tables, decision_tables
from dure.sim.sheets import wide_table
from tests.sim.node.worlds import Fields, written


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Two jobs that do not fit beside each other, a service, and somebody mislabelled."""
    job: Fields = {"name": "job", "count": 2, "every": "500ms", "image": "job"}
    job["labels"] = {"dure.memory": "101GB"}
    job["steps"] = [{"host": "100ms"}, {"allocate": "100GB"}, {"kernel": "1s"}]
    web: Fields = {"name": "web", "steps": [{"serve": _requests()}]}
    odd: Fields = {"name": "odd", "steps": [{"kernel": "1s"}], "labels": {"dure.weight": "x"}}
    fields: Fields = {
        "title": "A tight fit",
        "modes": ["plain", "one-after-another", "dure-docker"],
        "containers": [job, web, odd],
    }
    return compare(read_scenario(written(tmp_path_factory.mktemp("scenario"), fields)))


def _requests() -> Fields:
    return {"requests": 40, "period": "100ms", "steps": [{"kernel": "10ms"}]}


def printed(table: object, width: int = WIDTH) -> str:
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def row(text: str, start: str) -> list[str]:
    return next(line for line in text.split("\n") if line.strip().startswith(start)).split()


def test_the_heading_says_what_was_run_and_that_it_is_simulated(comparison: Comparison) -> None:
    text = printed(comparison_tables(comparison))
    assert "A tight fit   4 containers, 1 GPU of 141 GB, seed 1   simulated" in text


def test_what_fails_in_plain_sharing_is_shown_beside_what_does_not(comparison: Comparison) -> None:
    text = printed(wide_table(container_sheet(comparison)))
    plain = comparison.results[0].containers
    assert row(text, "job-1")[1:3] == ["1.30", seconds(plain[0].completion_s)]
    assert row(text, "job-2")[2:4] == ["memory", "✗"]
    wrong = printed(comparison_tables(comparison)).split("What went wrong")[1]
    assert row(wrong, "plain")[1:3] == ["1", "1"]
    assert row(wrong, "dure-docker")[1:3] == ["0*", "0*"]


def test_services_have_their_own_columns_beside_themselves_alone(comparison: Comparison) -> None:
    titles = [column.title for column in outcome_sheet(comparison).columns]
    assert titles[-2:] == ["web\np95 ms", "over\nalone"]
    latency = outcome_sheet(comparison).columns[-2]
    assert [cell.value for cell in latency.cells] == [
        result.containers[2].p95_ms for result in comparison.results
    ]


def test_what_the_machine_told_is_shown(comparison: Comparison) -> None:
    text = printed(comparison_tables(comparison), 300)
    assert "odd: 'odd' is unmanaged: label dure.weight: 'x' is no weight" in text


def test_decisions_are_listed_with_time_container_and_reason(comparison: Comparison) -> None:
    text = printed(decision_tables(comparison), 300)
    plain, dure = text.split("Decisions under dure-docker")
    assert "none" in plain
    assert "0.510 s  job-2            pause by docker for at most 600.0 s: it is expected" in dure
    assert "job-2            let go: " in dure


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_figure_is_cut_however_narrow_the_terminal(comparison: Comparison, width: int) -> None:
    text = printed(comparison_tables(comparison), width)
    assert "…" not in text
    assert max(len(line.rstrip()) for line in text.split("\n")) <= width


def test_the_export_has_every_mode_container_and_decision(comparison: Comparison) -> None:
    data = comparison_data(comparison)
    assert (data["schema"], data["simulated"], data["gpus"]) == (1, True, 1)
    assert [mode["mode"] for mode in data["modes"]] == ["plain", "one-after-another", "dure-docker"]
    plain, _, dure = data["modes"]
    assert (plain["out_of_memory"], dure["out_of_memory"]) == (1, 0)
    assert [each["name"] for each in dure["containers"]] == ["job-1", "job-2", "web", "odd"]
    assert dure["containers"][1]["slowdown"] > 1.0
    assert dure["containers"][1]["pauses"] == len(dure["containers"][1]["pause_spans_s"])
    assert any(name == "job-2" for _, name, _ in dure["decisions"])
    assert [each["name"] for each in data["alone"]] == ["job-1", "job-2", "web", "odd"]


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (seconds(None), "–"),
        (seconds(3.456), "3.46"),
        (seconds(123.4), "123.4"),
        (seconds(12345.6), "12,346"),
        (times(1.234), "1.23×"),
        (times(None), "–"),
    ],
)
def test_figures_are_short(shown: str, wanted: str) -> None:
    assert shown == wanted


def test_alone_means_without_the_others_but_with_ones_peers(tmp_path: Path) -> None:
    ring = [{"loop": {"times": 3, "steps": [{"kernel": "100ms"}, {"meet": "ring"}]}}]
    fields: Fields = {
        "gpus": 2,
        "modes": ["plain"],
        "containers": [
            {"name": "left", "gpus": [0], "steps": ring},
            {"name": "right", "gpus": [1], "at": "5s", "steps": ring},
        ],
    }
    found = compare(read_scenario(written(tmp_path, fields)))
    assert [each.completion_s for each in found.alone] == pytest.approx([0.5, 0.5], abs=0.01)
    assert found.results[0].containers[0].completion_s == pytest.approx(5.5, abs=0.01)
