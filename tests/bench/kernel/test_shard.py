import sys
from pathlib import Path
from statistics import fmean

import pytest

from dure.bench.common.shelf import MACHINE
from dure.bench.kernel.bed import Surroundings
from dure.bench.kernel.figures import figures_of
from dure.bench.kernel.orders import POISSON, TRAIN
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import Settings, Shard
from dure.bench.kernel.store import CALIBRATION, Store

ROOT = Path(__file__).resolve().parents[3]
SCENARIO = BenchScenario(
    "toy",
    "two toys",
    (
        BenchTenant("web", "toy-fast", POISSON, Role.SERVICE, capacity_share=0.5),
        BenchTenant("train", "toy-slow", TRAIN, Role.BEST_EFFORT),
    ),
    slo_factor=2.0,
)
TOYS = Surroundings(
    worker=(sys.executable, "-m", "tests.bench.kernel.toy_worker"),
    isolated={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
)
SETTINGS = Settings(seconds=0.4, repeats=2, ramp_s=0.1, rows=("time-slice",))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    folder = tmp_path_factory.mktemp("shards")
    said: list[str] = []
    assert Shard(SCENARIO, SETTINGS, folder, said.append).run(TOYS, {"gpu": "toy"})
    return folder, said


def test_a_shard_keeps_a_cell_for_every_row_and_repeat(measured: tuple[Path, list[str]]) -> None:
    store = Store(measured[0] / "toy")
    kept = {(cell.row, cell.repeat) for cell in store.cells()}
    rows = ("solo+web", "solo+train", "time-slice")
    assert kept == {(row, repeat) for row in rows for repeat in (0, 1)} | {("solo-again+web", 0)}
    assert store.failed() == {}
    assert (store.noted(MACHINE) or {})["gpu"] == "toy"


def test_services_get_half_of_what_they_serve_alone(measured: tuple[Path, list[str]]) -> None:
    store = Store(measured[0] / "toy")
    capacity = (store.noted(CALIBRATION) or {})["capacity_per_s"]["web"]
    alone = store.of_row("solo+web")
    arrived = sum(
        len(cell.tenants["web"].latencies_ms) + len(cell.tenants["web"].unserved_ms)
        for cell in alone
    )
    assert arrived == pytest.approx(0.5 * capacity * 0.8, rel=0.25)


def test_what_was_measured_is_not_measured_again(measured: tuple[Path, list[str]]) -> None:
    folder = measured[0]
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")}
    said: list[str] = []
    assert Shard(SCENARIO, SETTINGS, folder, said.append).run(TOYS, {"gpu": "toy"})
    assert said == []
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.json")} == before


def test_nothing_is_begun_that_would_end_too_late(tmp_path: Path) -> None:
    hurried = Settings(seconds=0.4, repeats=1, ramp_s=0.1, rows=("time-slice",), limit_s=0.0)
    said: list[str] = []
    assert not Shard(SCENARIO, hurried, tmp_path, said.append).run(TOYS, {"gpu": "toy"})
    assert list(Store(tmp_path / "toy").cells()) == []


def test_a_row_that_cannot_run_is_noted_and_spoils_no_other(tmp_path: Path) -> None:
    broken = Settings(seconds=0.3, repeats=1, ramp_s=0.05, rows=("time-slice", "mps"))
    said: list[str] = []
    assert not Shard(SCENARIO, broken, tmp_path, said.append).run(TOYS, {"gpu": "toy"})
    store = Store(tmp_path / "toy")
    assert set(store.failed()) == {"mps"}
    assert store.has("time-slice", 0)


def test_figures_of_a_shard_have_tails_and_speeds(measured: tuple[Path, list[str]]) -> None:
    store = Store(measured[0] / "toy")
    figures = figures_of(SCENARIO, store)
    assert figures is not None
    row = figures.row("time-slice")
    assert row is not None
    web, train = row.tenants
    assert web.p99_ms.value >= web.p50_ms.value >= 1.0
    beside, alone = (
        fmean(cell.tenants["train"].per_s for cell in store.of_row(name))
        for name in ("time-slice", "solo+train")
    )
    assert train.speed.value == pytest.approx(beside / alone, rel=0.01)
    assert 0.3 < figures.busy_share < 0.7
    assert row.efficiency.value == pytest.approx(row.best_effort.value / (1 - figures.busy_share))
