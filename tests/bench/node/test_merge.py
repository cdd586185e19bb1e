import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dure.bench.node.cells import Store
from dure.bench.node.chart import plot
from dure.bench.node.figures import figures_of
from dure.bench.node.merge import merged, sets_of
from dure.bench.node.paper import TABLE_1, line_s, plain_ratio_of_managed
from dure.bench.node.sets import LARGE, MEDIUM, MIXED, SETS, SMALL
from dure.domain.errors import InputError
from dure.sim.benches.report import BenchReport, Verdict
from tests.bench.node.canned import keep, keep_alike, keep_mixed

TAILS = {
    "plain": 100.0,
    "one-after-another": 10.0,
    "dure-lock": 20.0,
    "dure-docker": 24.0,
    "dure-shim": 12.0,
}


def verdict(report: BenchReport, *words: str) -> Verdict:
    found = [item for item in report.verdicts if all(word in item.claim for word in words)]
    assert len(found) == 1, [item.claim for item in report.verdicts]
    return found[0]


def test_figures_are_means_over_repeats_and_the_last_completion_is_the_makespan(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    keep(store, "plain", [2.0, 4.0], repeat=0)
    keep(store, "plain", [4.0, 6.0], repeat=1)
    figures = figures_of(SETS[LARGE], store)
    assert figures is not None
    found = figures.at("plain", 2)
    assert found is not None
    assert found.makespan_s.value == pytest.approx(5.0)
    assert (found.makespan_s.low, found.makespan_s.high) == (4.0, 6.0)
    assert found.mean_s.value == pytest.approx(4.0)
    assert found.completions_s == (3.0, 5.0)
    assert found.spread == pytest.approx((2 / 3 + 2 / 5) / 2)
    assert found.phases["kernel_s"] == 3.0


def test_one_alone_is_measured_alone_where_it_was(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keep(store, "one-after-another", [3.0, 6.0, 9.0, 12.0, 15.0])
    before = figures_of(SETS[LARGE], store)
    keep(store, "plain", [3.5])
    after = figures_of(SETS[LARGE], store)
    assert before is not None
    assert after is not None
    assert (before.alone_s, after.alone_s) == (3.0, 3.5)


def test_one_after_another_tells_of_every_smaller_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    keep(store, "one-after-another", [3.0, 6.0, 9.5])
    figures = figures_of(SETS[LARGE], store)
    assert figures is not None
    ends = [figures.rows["one-after-another"][count].makespan_s.value for count in (1, 2, 3)]
    assert ends == [3.0, 6.0, 9.5]


def test_the_paper_table_gives_the_differences_its_text_states() -> None:
    assert TABLE_1[2].total_s - line_s(2) == pytest.approx(1.23, abs=0.01)
    assert TABLE_1[10].total_s - line_s(10) == pytest.approx(4.06, abs=0.01)
    assert plain_ratio_of_managed(10) == pytest.approx(0.964, abs=0.001)


def test_sets_that_keep_the_bars_pass_every_verdict(tmp_path: Path) -> None:
    for name, alone_s, lock, docker in ((LARGE, 3.0, 0.9, 0.91), (MEDIUM, 1.0, 0.9, 0.91)):
        keep_alike(Store(tmp_path / name), alone_s=alone_s, lock=lock, docker=docker)
    keep_alike(Store(tmp_path / SMALL), alone_s=0.25, lock=1.04, docker=1.01)
    keep_mixed(Store(tmp_path / MIXED), TAILS)
    report = merged(tmp_path)
    assert [item.claim for item in report.verdicts if item.passed is False] == []
    assert sum(item.passed is True for item in report.verdicts) >= 17


@pytest.mark.parametrize(
    ("name", "row", "factor", "words"),
    [
        (LARGE, "lock", 0.93, ("19,456", "CUDA lock", "makespan")),
        (MEDIUM, "docker", 0.93, ("13,312", "docker pause", "makespan")),
        (SMALL, "lock", 1.06, ("8,192", "CUDA lock", "makespan")),
        (SMALL, "docker", 1.03, ("8,192", "docker pause", "makespan")),
    ],
)
def test_a_makespan_above_its_bar_fails(
    tmp_path: Path, name: str, row: str, factor: float, words: tuple[str, ...]
) -> None:
    factors = {"lock": 0.9, "docker": 0.9, row: factor}
    keep_alike(Store(tmp_path / name), alone_s=1.0, **factors)
    found = verdict(merged(tmp_path), *words)
    assert (found.passed, found.found) == (False, f"{factor:.3f}×")


@pytest.mark.parametrize(
    ("row", "p95_ms", "words"),
    [
        ("dure-lock", 26.0, ("CUDA lock: p95", "2.5× alone")),
        ("dure-docker", 51.0, ("docker pause: p95", "0.5× plain")),
        ("dure-shim", 14.0, ("under the shim: p95", "1.3× alone")),
    ],
)
def test_a_tail_of_the_server_above_its_bar_fails(
    tmp_path: Path, row: str, p95_ms: float, words: tuple[str, ...]
) -> None:
    keep_mixed(Store(tmp_path / MIXED), {**TAILS, row: p95_ms})
    assert verdict(merged(tmp_path), *words).passed is False


def test_a_wait_past_its_label_fails_and_names_the_container(tmp_path: Path) -> None:
    keep_mixed(Store(tmp_path / MIXED), TAILS, wait_s=61.0)
    found = verdict(merged(tmp_path), "CUDA lock: no container waits")
    assert (found.passed, found.found) == (False, "m19456 61.0 s")


def test_what_was_not_measured_and_programs_that_failed_are_no_pass(tmp_path: Path) -> None:
    store = Store(tmp_path / LARGE)
    keep(store, "plain", [15.0] * 5, failed=(1, 3))
    store.fail("paper", "the agent did not start")
    report = merged(tmp_path)
    assert verdict(report, "CUDA lock: makespan").found == "not measured"
    assert verdict(report, "every program ends well").found == "2 failed"
    assert verdict(report, "paper can be measured").passed is False


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ({LARGE: (0.10, 0.11), MEDIUM: (0.02, 0.03)}, "confirmed"),
        ({LARGE: (0.01, 0.10), MEDIUM: (0.01, 0.10)}, "refuted"),
    ],
)
def test_the_claim_of_size_is_judged_by_what_plain_sharing_loses(
    tmp_path: Path, losses: dict[str, tuple[float, float]], word: str
) -> None:
    for name, (few, many) in losses.items():
        store, most = Store(tmp_path / name), SETS[name].most
        keep(store, "plain", [1.0])
        for count, lost in ((2, few), (5, many), (most, many)):
            keep(store, "plain", [count * (1 + lost)] * count)
    assert verdict(merged(tmp_path), "task size").found.startswith(word)


def test_the_paper_stands_beside_what_was_measured(tmp_path: Path) -> None:
    store = Store(tmp_path / MEDIUM)
    keep(store, "plain", [1.2])
    keep(store, "plain", [2.6] * 2)
    grids = {grid.title: grid for grid in merged(tmp_path).grids}
    (table,) = [grid for title, grid in grids.items() if title.startswith("Table 1")]
    assert table.rows[1] == ("2", "0.236", "23.271", "0.333", "0.200", "3.000", "0.100")
    assert table.rows[2][4:] == ("–", "–", "–")
    (line,) = [grid for title, grid in grids.items() if title.startswith("Figure 3")]
    assert line.rows[1] == ("2", "23.84", "22.60", "5.5 %", "2.60", "2.40", "8.3 %")


def test_all_figures_of_the_paper_are_drawn(tmp_path: Path) -> None:
    for name in (LARGE, MEDIUM, SMALL):
        keep_alike(Store(tmp_path / name), alone_s=1.0, lock=0.9, docker=0.95)
    drawn = plot(sets_of(tmp_path))
    words = [item.text or "" for item in ET.fromstring(drawn).iter()]
    for number in ("2", "3", "4", "7 (a)", "7 (b)", "8 (a)", "8 (b)", "9 (a)", "9 (b)"):
        assert any(word.startswith(f"Fig. {number}:") for word in words), number
    assert "nan" not in drawn


def test_a_folder_without_cells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no finished cell"):
        merged(tmp_path)


def test_the_data_is_plain_json(tmp_path: Path) -> None:
    keep_alike(Store(tmp_path / LARGE), alone_s=3.0, lock=0.9, docker=0.95)
    text = json.dumps(merged(tmp_path).data(), allow_nan=False)
    assert json.loads(text)["sets"][0]["rows"]["plain"][0]["count"] == 5
