"""Figures of one scenario's rows, from the cells that were kept."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dure.bench.common.statistics import (
    UNKNOWN,
    Estimate,
    bootstrap,
    efficiency,
    mean,
    on_time_share,
    percentile,
)
from dure.bench.kernel.orders import POISSON
from dure.bench.kernel.rows import ROWS, Row
from dure.bench.kernel.scenarios import RELAXED_FACTOR, BenchScenario, BenchTenant, Role
from dure.bench.kernel.shard import SOLO_AGAIN, alone_p99_ms, solo_row, waited_ms
from dure.bench.kernel.store import CALIBRATION, Cell, Store

GROWING_SHARE = 0.05
"""A queue of which more than this is unanswered when the window closes grows."""


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """One tenant under one row."""

    name: str
    per_s: Estimate
    speed: Estimate
    """Its throughput over that alone."""
    p50_ms: Estimate
    p99_ms: Estimate
    target_ms: float
    """It is judged by; not a number: none."""
    on_time: Estimate
    """Share of its requests within the target."""
    growing: bool
    """Its queue grew."""


@dataclass(frozen=True, slots=True)
class RowFigures:
    """One row of a scenario."""

    row: str
    title: str
    repeats: int
    tenants: tuple[TenantFigures, ...]
    best_effort: Estimate
    """Mean over best-effort tenants of throughput over that alone."""
    efficiency: Estimate
    goodput: Estimate
    """Eq. 2 with weights of 1: on-time share of services, throughput over that alone of others."""
    kernel_error: float | None
    """Of predicted time, a median over tenants and cells, as the agent said."""
    squad_error: float | None


@dataclass(frozen=True, slots=True)
class ScenarioFigures:
    """One scenario."""

    scenario: BenchScenario
    alone: dict[str, TenantFigures]
    busy_share: float
    """Of the services together: what they serve over what they could serve alone."""
    rows: tuple[RowFigures, ...]
    failed: dict[str, str]
    seconds: tuple[float, float]
    """Shortest and longest window."""
    again_p99_ms: dict[str, float]
    """p99 of services alone with the first draw once more at the end, over that before."""

    def row(self, name: str) -> RowFigures | None:
        """A row, if it was measured."""
        return next((row for row in self.rows if row.row == name), None)


def figures_of(scenario: BenchScenario, store: Store) -> ScenarioFigures | None:
    """All figures of a scenario; None where nothing was measured."""
    cells = list(store.cells())
    if not cells:
        return None
    reader = _Reader(scenario, store, cells)
    return ScenarioFigures(
        scenario,
        {tenant.name: reader.alone(tenant) for tenant in scenario.tenants},
        reader.busy_share,
        tuple(reader.row(row) for row in ROWS.values() if reader.of(row.name)),
        store.failed(),
        (min(cell.seconds for cell in cells), max(cell.seconds for cell in cells)),
        reader.again(),
    )


class _Reader:
    """Reads the cells of one scenario."""

    def __init__(self, scenario: BenchScenario, store: Store, cells: Sequence[Cell]) -> None:
        self.scenario = scenario
        self.cells = cells
        self.alone_p99_ms = {
            tenant.name: alone_p99_ms(store, tenant) for tenant in scenario.tenants if tenant.serves
        }
        self.alone_per_s = {
            tenant.name: mean(
                [cell.tenants[tenant.name].per_s for cell in self.of(solo_row(tenant))]
            )
            for tenant in scenario.tenants
        }
        capacity = (store.noted(CALIBRATION) or {}).get("capacity_per_s", {})
        self.busy_share = sum(
            self.alone_per_s[tenant.name] / capacity[tenant.name]
            for tenant in scenario.tenants
            if tenant.load == POISSON and capacity.get(tenant.name)
        )

    def of(self, row: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.row == row]

    def alone(self, tenant: BenchTenant) -> TenantFigures:
        """A tenant alone."""
        target_ms = RELAXED_FACTOR * self.alone_p99_ms.get(tenant.name, float("nan"))
        return self._tenant(tenant, self.of(solo_row(tenant)), target_ms)

    def again(self) -> dict[str, float]:
        """How services alone fared at the end, over how they fared before."""
        found = {}
        for tenant in self.scenario.with_role(Role.SERVICE):
            last = self.of(f"{SOLO_AGAIN}+{tenant.name}")
            first = [cell for cell in self.of(solo_row(tenant)) if cell.repeat == 0]
            if last and first:
                tails = [
                    percentile(waited_ms(cell.tenants[tenant.name]), 99.0)
                    for cell in (last[0], first[0])
                ]
                found[tenant.name] = tails[0] / tails[1]
        return found

    def row(self, row: Row) -> RowFigures:
        """One way of sharing."""
        cells = self.of(row.name)
        factor = row.factor(self.scenario)
        tenants = tuple(
            self._tenant(
                tenant,
                cells,
                factor * self.alone_p99_ms[tenant.name]
                if factor and tenant.role is Role.SERVICE
                else float("nan"),
            )
            for tenant in self.scenario.tenants
        )
        has_best_effort = bool(self.scenario.with_role(Role.BEST_EFFORT))
        best_effort = self._each(cells, self._best_effort) if has_best_effort else UNKNOWN
        return RowFigures(
            row.name,
            row.title,
            len(cells),
            tenants,
            best_effort,
            self._each(cells, lambda cell: efficiency(self._best_effort(cell), self.busy_share))
            if has_best_effort and self.scenario.promises
            else UNKNOWN,
            self._each(cells, self._goodput),
            _median_said(cells, "prediction_error"),
            _median_said(cells, "squad_error"),
        )

    def _each(self, cells: Sequence[Cell], figure: Callable[[Cell], float]) -> Estimate:
        return bootstrap([[figure(cell)] for cell in cells], mean)

    def _speed(self, cell: Cell, tenant: BenchTenant) -> float:
        alone = self.alone_per_s[tenant.name]
        return cell.tenants[tenant.name].per_s / alone if alone else float("nan")

    def _best_effort(self, cell: Cell) -> float:
        return mean(
            [self._speed(cell, tenant) for tenant in self.scenario.with_role(Role.BEST_EFFORT)]
        )

    def _goodput(self, cell: Cell) -> float:
        total = 0.0
        for tenant in self.scenario.tenants:
            if tenant.role is Role.SERVICE:
                answer = cell.tenants[tenant.name]
                target_ms = RELAXED_FACTOR * self.alone_p99_ms[tenant.name]
                total += on_time_share(answer.latencies_ms, answer.unserved_ms, target_ms)
            else:
                total += self._speed(cell, tenant)
        return total

    def _tenant(
        self, tenant: BenchTenant, cells: Sequence[Cell], target_ms: float
    ) -> TenantFigures:
        answers = [cell.tenants[tenant.name] for cell in cells]
        waits = [waited_ms(answer) for answer in answers if waited_ms(answer)]
        arrived = sum(len(wait) for wait in waits)
        unserved = sum(len(answer.unserved_ms) for answer in answers)
        has_target = tenant.serves and not math.isnan(target_ms)
        return TenantFigures(
            tenant.name,
            bootstrap([[answer.per_s] for answer in answers], mean),
            self._each(cells, lambda cell: self._speed(cell, tenant)),
            bootstrap(waits, lambda values: percentile(values, 50.0)),
            bootstrap(waits, lambda values: percentile(values, 99.0)),
            target_ms,
            bootstrap(
                [
                    [on_time_share(answer.latencies_ms, answer.unserved_ms, target_ms)]
                    for answer in answers
                ],
                mean,
            )
            if has_target
            else UNKNOWN,
            arrived > 0 and unserved / arrived > GROWING_SHARE,
        )


def _median_said(cells: Sequence[Cell], figure: str) -> float | None:
    found = [
        tenant[figure]
        for cell in cells
        for tenant in cell.status.get("tenants", [])
        if tenant.get(figure) is not None
    ]
    return percentile(found, 50.0) if found else None
