"""Makes the shards of a folder into one report: tables, verdicts, and a plot beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dure.bench.common.machine import machine_of, machine_words
from dure.bench.common.statistics import Estimate
from dure.bench.kernel.figures import RowFigures, ScenarioFigures, TenantFigures, figures_of
from dure.bench.kernel.scenarios import RELAXED_FACTOR, SCENARIOS
from dure.bench.kernel.specials import SPECIALS
from dure.bench.kernel.store import PARTS, Store
from dure.bench.kernel.verdicts import verdicts_of
from dure.domain.errors import InputError
from dure.sim.benches.report import BenchReport, Grid, Verdict, number, percent

FULL_SECONDS, FULL_REPEATS = 12.0, 5
"""What a published figure is to rest on; a page of less says so."""


def scenarios_of(folder: Path, names: Sequence[str] = ()) -> list[ScenarioFigures]:
    """Figures of every scenario that was measured, or of those named."""
    return [
        found
        for scenario in SCENARIOS.values()
        if (not names or scenario.name in names)
        and (found := figures_of(scenario, Store(folder / scenario.name))) is not None
    ]


def merged(folder: Path, names: Sequence[str] = ()) -> BenchReport:
    """The report of all shards in a folder, or of those named."""
    scenarios = scenarios_of(folder, names)
    specials = {
        name: found
        for name in SPECIALS
        if (not names or name in names) and (found := Store(folder / name).noted(PARTS))
    }
    if not scenarios and not specials:
        raise InputError(f"{folder} holds no finished shard", "run `dure bench kernel` first")
    machine = machine_of(folder)
    verdicts = [verdict for figures in scenarios for verdict in verdicts_of(figures)]
    grids = [_grid(figures) for figures in scenarios]
    for name, found in specials.items():
        verdicts += SPECIALS[name].verdicts(found)
        grids += SPECIALS[name].grids(found)
    return BenchReport(
        name="kernel",
        title="Tenants that share one GPU",
        about=_about(scenarios, machine),
        grids=tuple(grids),
        verdicts=(*verdicts, *_errors(scenarios), *_unmeasured(scenarios, specials, names)),
        simulated=bool(machine.get("emulated")),
        measured_on="" if machine.get("emulated") else machine_words(machine),
        figures={
            "machine": machine,
            "scenarios": [_data(figures) for figures in scenarios],
            **specials,
        },
    )


def _unmeasured(
    scenarios: Sequence[ScenarioFigures], specials: Mapping[str, Any], names: Sequence[str]
) -> list[Verdict]:
    """What a reader might take for shown and is not there."""
    there = {*(figures.scenario.name for figures in scenarios), *specials}
    absent = [name for name in (*SCENARIOS, *SPECIALS) if name not in there]
    if names or not absent:
        return []
    return [Verdict("shards that were not measured", ", ".join(absent), passed=None)]


def _about(scenarios: Sequence[ScenarioFigures], machine: dict[str, Any]) -> str:
    text = (
        "Every tenant is a process of its own. Services take requests that arrive at times drawn "
        "once and used in every row; latency runs from the scheduled arrival, and a request that "
        "was not answered when the window closed counts with what it had waited. Targets are "
        "multiples of the p99 alone, measured in the same shard with the same arrivals. Rows are "
        "interleaved over the repeats; intervals in brackets are 95 %, from redrawn repeats. "
        "'Speed' is throughput over that alone. Efficiency is best effort over what would be left "
        "if the services' time alone were taken away. Goodput is the sum of the on-time shares of "
        f"services (target {RELAXED_FACTOR:g}× alone) and the speeds of all others, weights 1."
    )
    if scenarios:
        shortest = min(figures.seconds[0] for figures in scenarios)
        fewest = min((row.repeats for figures in scenarios for row in figures.rows), default=0)
        if shortest < FULL_SECONDS or fewest < FULL_REPEATS:
            text += (
                f"\n\n**Short**: windows of {shortest:g} s and {fewest} repeats at least, instead "
                f"of {FULL_SECONDS:g} s and {FULL_REPEATS}."
            )
    if machine.get("emulated"):
        text += "\n\n**Emulated**: the driver is a stand-in; figures say nothing of a real GPU."
    return text


def _interval(estimate: Estimate, digits: int = 2) -> str:
    if not estimate.known:
        return "–"
    text = number(estimate.value, digits)
    if estimate.repeats > 1:
        text += f" [{number(estimate.low, digits)}, {number(estimate.high, digits)}]"
    return text


def _grid(figures: ScenarioFigures) -> Grid:
    columns = ["sharing"]
    for tenant in figures.scenario.tenants:
        if tenant.serves:
            columns += [f"{tenant.name} p99 ms", "× alone", "on time"]
        columns += [f"{tenant.name}/s", "speed"]
    columns += ["efficiency", "goodput", "runs"]
    rows = [_alone_row(figures), *(_row(figures, row) for row in figures.rows)]
    return Grid(figures.scenario.title, tuple(columns), tuple(rows))


def _tenant_cells(serves: bool, tenant: TenantFigures, alone: TenantFigures) -> list[str]:
    cells = []
    if serves:
        ratio = tenant.p99_ms.value / alone.p99_ms.value if alone.p99_ms.value else None
        grows = " (grows)" if tenant.growing else ""
        on_time = percent(tenant.on_time.value) if tenant.on_time.known else "–"
        cells += [_interval(tenant.p99_ms) + grows, number(ratio, 2), on_time]
    return [*cells, _interval(tenant.per_s, 1), number(tenant.speed.value, 2)]


def _alone_row(figures: ScenarioFigures) -> tuple[str, ...]:
    cells = ["alone"]
    for tenant in figures.scenario.tenants:
        alone = figures.alone[tenant.name]
        cells += _tenant_cells(tenant.serves, alone, alone)
    repeats = min((alone.per_s.repeats for alone in figures.alone.values()), default=0)
    return (*cells, "–", "–", str(repeats))


def _row(figures: ScenarioFigures, row: RowFigures) -> tuple[str, ...]:
    cells = [row.title]
    for tenant, found in zip(figures.scenario.tenants, row.tenants, strict=True):
        cells += _tenant_cells(tenant.serves, found, figures.alone[tenant.name])
    return (
        *cells,
        _interval(row.efficiency),
        _interval(row.goodput),
        str(row.repeats),
    )


def _errors(scenarios: Sequence[ScenarioFigures]) -> list[Verdict]:
    """What went wrong, and how well kernels were predicted."""
    found = [
        Verdict(f"({figures.scenario.name}) {row} can be measured", why, passed=False)
        for figures in scenarios
        for row, why in figures.failed.items()
    ]
    return [*found, *_predicted(scenarios, "squad"), *_predicted(scenarios, "kernel")]


def _predicted(scenarios: Sequence[ScenarioFigures], what: str) -> list[Verdict]:
    """How well time was predicted, where the agent said it."""
    said = [
        f"({figures.scenario.name}) {row.row}: {error:.1%}"
        for figures in scenarios
        for row in figures.rows
        if (error := row.squad_error if what == "squad" else row.kernel_error) is not None
    ]
    return (
        [Verdict(f"median error of predicted {what} time", "; ".join(said), passed=None)]
        if said
        else []
    )


def _data(figures: ScenarioFigures) -> dict[str, Any]:
    return {
        "scenario": figures.scenario.name,
        "title": figures.scenario.title,
        "busy_share": figures.busy_share,
        "alone": {name: asdict(alone) for name, alone in figures.alone.items()},
        "rows": [asdict(row) for row in figures.rows],
        "failed": figures.failed,
    }
