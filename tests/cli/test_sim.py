import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Dure
from tests.sim.kernel.scenarios import Fields, loop, scenario, service, written

WALL_FIELDS = {"wall_s", "kernels_per_wall_s", "decision_us_median", "decision_us_p99"}


@pytest.fixture
def dure(dure: Dure) -> Dure:
    """Run `dure sim kernel` in this process; gives the exit code, stdout and stderr."""
    return partial(dure, "sim", "kernel")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path, scenario())


def figures(text: str) -> dict[str, Any]:
    """The JSON without what depends on the speed of this machine."""
    data: dict[str, Any] = json.loads(text)
    for mode in data["modes"]:
        for field in WALL_FIELDS:
            mode.pop(field)
    return data


def test_json_has_every_figure_and_only_finite_ones(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path, "--json")
    assert code == 0
    data = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert (data["schema"], data["simulated"], data["gpu"]) == (1, True, "h200")
    assert (data["seed"], data["duration_s"]) == (1, 0.3)
    assert [mode["mode"] for mode in data["modes"]] == ["mps", "slo"]
    managed = data["modes"][1]
    for field in ("bubble_share", "protected_idle_share", "decision_us_median", "utilisation"):
        assert isinstance(managed[field], float)
    assert managed["squads"] > 0
    web = managed["tenants"][0]
    assert web["name"] == "web"
    for field in ("p50_ms", "p95_ms", "p99_ms", "throughput_per_s", "mean_jct_s", "slo_attainment"):
        assert web[field] > 0
    assert data["modes"][0]["decision_us_median"] is None


def test_the_same_seed_gives_the_same_figures(dure: Dure, path: Path) -> None:
    runs = [figures(dure(path, "--json", "--seed", seed)[1]) for seed in (5, 5, 6)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_a_table_is_printed_by_default(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path)
    assert code == 0
    assert "What counts" in out
    assert "web: guaranteed, p99 ≤ 8 ms" in out


def test_modes_and_duration_can_be_chosen(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path, "--json", "--modes", "time-slice, jct", "--duration", "100ms")
    data = json.loads(out)
    assert code == 0
    assert [mode["mode"] for mode in data["modes"]] == ["time-slice", "jct"]
    assert data["duration_s"] == 0.1


def test_a_report_is_written(dure: Dure, path: Path, tmp_path: Path) -> None:
    report = tmp_path / "deep" / "report.html"
    code, _, _ = dure(path, "--html", report)
    assert code == 0
    assert report.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_journal_replays_identically(dure: Dure, path: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.journal"
    assert dure(path, "--modes", "mps,slo", "--journal", journal)[0] == 0
    code, out, _ = dure("--replay", journal)
    assert code == 0
    assert "'slo' replayed: identical." in out
    data = json.loads(dure("--replay", journal, "--json")[1])
    assert data["mismatches"] == 0
    assert data["events"] > 10


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (scenario(tenants=[]), ("tenants: is empty", "give at least 1")),
        (scenario(tenants=[service(wieght=2)]), ("tenants[web].wieght", "did you mean 'weight'?")),
        (scenario(tenants=[service(weight=float("nan"))]), ("weight: is nan",)),
        (scenario(tenants=[service(slo={"latency": "1us"})]), ("1 µs is impossible on h200",)),
        (scenario(tenants=[loop(memory={"use": "1TiB"})]), ("does not fit in the 131 GiB",)),
        (
            scenario(modes=["switching"], switches=[{"at": "50ms", "policy": "slo"}] * 2),
            ("switches[1].at", "already a switch at 50 ms"),
        ),
    ],
)
def test_bad_input_exits_2_with_one_line_and_runs_nothing(
    dure: Dure, tmp_path: Path, fields: Fields, parts: tuple[str, ...]
) -> None:
    report = tmp_path / "report.html"
    code, out, err = dure(written(tmp_path, fields), "--html", report)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"{tmp_path / 'scenario.yaml'}, line ")
    assert all(part in err for part in parts)
    assert not report.exists()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("nowhere.yaml",), "nowhere.yaml: there is no such file"),
        ((), "there is no scenario to run"),
        (("--replay", "nowhere.journal"), "there is no such file"),
        (("x.yaml", "--replay", "nowhere.journal"), "a replay takes no scenario"),
        (("{path}", "--modes", "slow"), "--modes: 'slow' is not a mode; did you mean 'slo'?"),
        (("{path}", "--modes", "switching"), "there are no policy switches"),
        (("{path}", "--duration", "long"), "--duration: 'long' is not a duration"),
        (("{path}", "--duration", "0s"), "--duration: must be longer than nothing"),
        (("{path}", "--html", "/"), "--html: / is a folder"),
        (("{path}", "--modes", "mps", "--journal", "j"), "--journal: there is nothing to record"),
        (("{path}", "--modes", "slo,jct", "--journal", "j"), "choose one, for example --modes slo"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    dure: Dure, path: Path, arguments: tuple[str, ...], part: str
) -> None:
    code, out, err = dure(*(argument.format(path=path) for argument in arguments))
    assert (code, out) == (2, "")
    assert part in err
    assert not Path("j").exists()
