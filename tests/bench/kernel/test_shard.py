import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from dure.bench.common.shelf import MACHINE
from dure.bench.kernel.bed import Bed, Surroundings
from dure.bench.kernel.figures import figures_of
from dure.bench.kernel.mps import CONTROL
from dure.bench.kernel.orders import FINITE, POISSON, TRAIN, Order
from dure.bench.kernel.rows import Row
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import Settings, Shard
from dure.bench.kernel.store import CALIBRATION, Store
from dure.bench.kernel.workers import WorkerError, Workers
from tests.bench.kernel.toy_worker import ENDS

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


def mortal(folder: Path) -> Surroundings:
    """Surroundings in which the training ends itself once there is a file in the folder."""
    return replace(TOYS, isolated={**TOYS.isolated, ENDS: str(folder)})


MORTAL = replace(
    SCENARIO,
    tenants=(SCENARIO.tenants[0], BenchTenant("train", "toy-mortal", TRAIN, Role.BEST_EFFORT)),
)


def test_a_tenant_that_dies_is_told_and_ends_neither_the_shard_nor_what_is_kept(
    tmp_path: Path,
) -> None:
    ends = tmp_path / "ends"
    ends.mkdir()
    said: list[str] = []

    def tell(words: str) -> None:
        said.append(words)
        if words.startswith("time-slice 1/"):
            (ends / "now").touch()

    assert not Shard(MORTAL, SETTINGS, tmp_path, tell).run(mortal(ends), {"gpu": "toy"})
    store = Store(tmp_path / "toy")
    assert store.has("time-slice", 0)
    assert "train is gone" in store.failed()["solo+train"]
    (ends / "now").unlink()
    assert Shard(MORTAL, SETTINGS, tmp_path, said.append).run(mortal(ends), {"gpu": "toy"})
    assert store.failed() == {}


def test_a_service_that_dies_alone_is_told(tmp_path: Path) -> None:
    (tmp_path / "ends").mkdir()
    (tmp_path / "ends" / "now").touch()
    service = BenchTenant("web", "toy-mortal", POISSON, Role.SERVICE, capacity_share=0.5)
    scenario = replace(SCENARIO, tenants=(service, SCENARIO.tenants[1]))
    shard = Shard(scenario, SETTINGS, tmp_path, lambda _: None)
    assert not shard.run(mortal(tmp_path / "ends"), {"gpu": "toy"})
    assert set(Store(tmp_path / "toy").failed()) == {"solo+web"}


def test_tenants_beside_one_that_died_are_heard_out(tmp_path: Path) -> None:
    """What they answer is not taken for the answer to the next order."""
    ends = tmp_path / "ends"
    ends.mkdir()
    (ends / "now").touch()
    workers = Workers(tmp_path, TOYS.worker)
    try:
        for name, workload in (("mortal", "toy-mortal"), ("other", "toy-slow")):
            workers.start(name, workload, {**TOYS.isolated, ENDS: str(ends)})
        workers.ask_to_build(["mortal", "other"])
        assert workers.built(["mortal", "other"]) == {}
        for name in ("mortal", "other"):
            workers.warm_up(name)
        with pytest.raises(WorkerError, match="mortal is gone"):
            workers.measure(dict.fromkeys(("mortal", "other"), Order(TRAIN, 0.0, 0.2)))
        answer = workers.measure({"other": Order(FINITE, 0.0, 1.0, steps=3)})["other"]
        assert answer.done == 3
    finally:
        workers.close()


def test_a_worker_that_answers_too_late_is_not_asked_again(tmp_path: Path) -> None:
    workers = Workers(tmp_path, TOYS.worker)
    try:
        workers.start("slow", "toy-slow", TOYS.isolated)
        workers.ask_to_build(["slow"])
        assert workers.built(["slow"]) == {}
        workers.warm_up("slow")
        workers.send("slow", Order(TRAIN, time.monotonic(), 0.5).message())
        with pytest.raises(WorkerError, match="did not answer"):
            workers.collect("slow", 0.01)
        with pytest.raises(WorkerError, match="has failed before"):
            workers.send("slow", Order(TRAIN, 0.0, 0.1).message())
    finally:
        workers.close()


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", None])
def test_an_mps_daemon_that_does_not_start_fails_the_rows_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None
) -> None:
    if script is not None:
        (tmp_path / CONTROL).write_text(script)
        (tmp_path / CONTROL).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    settings = Settings(seconds=0.3, repeats=1, ramp_s=0.05, rows=("time-slice", "mps"))
    assert not Shard(SCENARIO, settings, tmp_path, lambda _: None).run(TOYS, {"gpu": "toy"})
    store = Store(tmp_path / "toy")
    assert "MPS daemon" in store.failed()["mps"]
    assert store.has("time-slice", 0)


def test_services_have_a_promise_when_their_processes_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By which the agent gives them their priority under MPS, for their lives."""
    seen: dict[str, set[str]] = {}

    def start(_: Bed, row: Row, targets_ms: Mapping[str, float]) -> None:
        seen[row.name] = set(targets_ms)
        raise WorkerError("nobody is started", "")

    monkeypatch.setattr(Bed, "start", start)
    settings = Settings(seconds=0.3, repeats=1, rows=("slo-mps",))
    assert not Shard(SCENARIO, settings, tmp_path, lambda _: None).run(TOYS, {"gpu": "toy"})
    assert seen["slo-mps"] == {"web"}


def test_a_shard_is_not_begun_that_would_not_get_beyond_its_start(tmp_path: Path) -> None:
    hurried = Settings(seconds=0.4, repeats=1, ramp_s=0.1, rows=("time-slice",), limit_s=20.0)
    said: list[str] = []
    assert not Shard(SCENARIO, hurried, tmp_path, said.append).run(TOYS, {"gpu": "toy"})
    assert said == ["no time to start its tenants: run the same command again"]


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
