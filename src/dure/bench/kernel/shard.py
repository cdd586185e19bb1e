"""Runs one scenario: every row, every repeat, interleaved; what was measured before is kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dure.bench.common.shelf import MACHINE
from dure.bench.common.statistics import percentile
from dure.bench.kernel.bed import Bed, Surroundings, worker_name
from dure.bench.kernel.budget import Budget
from dure.bench.kernel.orders import CLOSED, POISSON, Answer, Order
from dure.bench.kernel.rows import ROWS, SOLO, TIME_SLICE, Row, Substrate, rows_for
from dure.bench.kernel.scenarios import BenchScenario, BenchTenant, Role
from dure.bench.kernel.store import CALIBRATION, Cell, Store
from dure.domain.errors import DureError

Tell = Callable[[str], None]

CALIBRATE_S = 3.0
SEED = 7
_SEEDS_PER_REPEAT = 100
_CELL_SLACK_S = 3.0
_START_S = 40.0
"""To start, build and warm up the tenants of a block."""
_FIRST_TARGET_MS = 1000.0
"""Of every service until a cell sets that of its row. Under MPS a process keeps the priority it was
started with: one that was promised nothing by then would stay behind for its life."""
SOLO_AGAIN = "solo-again"
"""A service alone once more at the end, to see whether the machine drifted."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how often."""

    seconds: float = 12.0
    repeats: int = 5
    ramp_s: float = 1.0
    rows: tuple[str, ...] = ()
    """All where none is named."""
    limit_s: float = float("inf")
    """No cell is begun that would end later than this."""
    apart: bool = False
    """One substrate after another instead of all at once."""
    scale: float = 1.0
    """Part of the full size: length of finite jobs, number of switches and kills."""


def seed_of(repeat: int, index: int) -> int:
    """The draw of arrivals of the index-th tenant: the same in every row."""
    return SEED + _SEEDS_PER_REPEAT * repeat + index


def solo_row(tenant: BenchTenant) -> str:
    """The name under which a tenant alone is kept."""
    return f"{SOLO}+{tenant.name}"


class Shard:
    """One scenario being measured."""

    def __init__(
        self, scenario: BenchScenario, settings: Settings, folder: Path, tell: Tell
    ) -> None:
        self.scenario = scenario
        self.settings = settings
        self.store = Store(folder / scenario.name)
        self.tell = tell
        self._budget = Budget.of(settings.limit_s)
        self._rows = rows_for(scenario, settings.rows)

    def run(self, surroundings: Surroundings, machine: dict[str, Any]) -> bool:
        """Measure what is missing; whether nothing is missing any more."""
        if not self._missing():
            return True
        for block in self._blocks():
            if not self._time_left(_START_S):
                self.tell("no time to start its tenants: run the same command again")
                break
            shares = Substrate.MPS in block and Substrate.DURE_MPS in block
            with Bed(self.scenario, surroundings, shares_daemon=shares) as bed:
                self._run_block(bed, block, machine)
        return not self._missing()

    def _blocks(self) -> list[set[Substrate]]:
        wanted = [row.substrate for row in self._rows]
        if not self.settings.apart:
            return [{Substrate.PLAIN, *wanted}]
        later = [item for item in Substrate if item in wanted and item is not Substrate.PLAIN]
        blocks: list[set[Substrate]] = [{Substrate.PLAIN}]
        return blocks + [{item} for item in later]

    def _missing(self) -> list[tuple[str, int]]:
        names = [solo_row(tenant) for tenant in self.scenario.tenants]
        names += [row.name for row in self._rows]
        return [
            (name, repeat)
            for repeat in range(self.settings.repeats)
            for name in names
            if not self.store.has(name, repeat)
        ]

    def _run_block(self, bed: Bed, block: set[Substrate], machine: dict[str, Any]) -> None:
        rows = [row for row in self._rows if row.substrate in block and self._misses(row)]
        if Substrate.PLAIN in block:
            rows = [ROWS[TIME_SLICE], *(row for row in rows if row.name != TIME_SLICE)]
        warm = self._ready(bed, rows, machine)
        if Substrate.PLAIN in block:
            if ROWS[TIME_SLICE] not in warm:
                return
            if not self._calibrate(bed):
                return
            self._alone_first(bed)
        if not self._targets_known():
            return
        ready = [row for row in self._rows if row in warm and self._misses(row)]
        for repeat in range(self.settings.repeats):
            if Substrate.PLAIN in block:
                self._alone(bed, repeat, Role.BEST_EFFORT, Role.PEER)
            for row in list(ready):
                if row in ready and not self._works(
                    row.name, partial(self._measure, bed, row, repeat)
                ):
                    ready = [other for other in ready if other.substrate is not row.substrate]
        if Substrate.PLAIN in block:
            for tenant in self.scenario.with_role(Role.SERVICE):
                self._measure_alone(bed, tenant, 0, f"{SOLO_AGAIN}+{tenant.name}")

    def _misses(self, row: Row) -> bool:
        return any(not self.store.has(row.name, at) for at in range(self.settings.repeats))

    def _ready(self, bed: Bed, rows: Sequence[Row], machine: dict[str, Any]) -> list[Row]:
        """The rows whose workers start and warm up.

        All start and build at once, which takes the processor; only to warm up, which tunes, each
        needs the GPU alone. Targets are not known yet: each cell sets those of its row, and until
        then services have some.
        """
        self.tell(f"starting tenants of {', '.join(row.name for row in rows)}")
        # who asks a worker for its surroundings waits for it to start: those come last
        by_wait = sorted(rows, key=lambda row: row.substrate is Substrate.MPS)
        services = [tenant.name for tenant in self.scenario.with_role(Role.SERVICE)]
        first = dict.fromkeys(services if self.scenario.promises else (), _FIRST_TARGET_MS)
        started = [row for row in by_wait if self._works(row.name, partial(bed.start, row, first))]
        bed.build(started)
        self.tell("built")
        warm = []
        for row in rows:
            if row not in started:
                continue
            if self._works(row.name, partial(self._warm, bed, row, machine)):
                warm.append(row)
        self.tell("warm")
        return warm

    def _works(self, row: str, work: Callable[[], object]) -> bool:
        """Whether that worked; why not is kept and told."""
        try:
            work()
        except (DureError, OSError) as error:
            self.store.fail(row, str(error))
            self.tell(f"{row} cannot run: {error}")
            return False
        return True

    def _warm(self, bed: Bed, row: Row, machine: dict[str, Any]) -> None:
        if seen := bed.warm(row):
            self.store.note(MACHINE, {**machine, **seen, "scenario": self.scenario.name})

    def _calibrate(self, bed: Bed) -> bool:
        """What each service can serve alone, in a closed loop; it sets the arrivals of all rows."""
        known: dict[str, float] = (self.store.noted(CALIBRATION) or {}).get("capacity_per_s", {})
        for tenant in self.scenario.tenants:
            if tenant.serves and tenant.name not in known:
                window_s = min(CALIBRATE_S, 2.0 * self.settings.seconds)
                order = Order(CLOSED, 0.0, window_s, self.settings.ramp_s, steps=tenant.steps)
                name = worker_name(ROWS[TIME_SLICE], tenant)
                try:
                    known[tenant.name] = bed.workers.measure({name: order})[name].per_s
                except DureError as error:
                    self.store.fail(solo_row(tenant), str(error))
                    self.tell(f"{tenant.name} alone cannot run: {error}")
                    return False
                self.tell(f"{tenant.name} alone serves {known[tenant.name]:.1f}/s")
        self.store.note(CALIBRATION, {"capacity_per_s": known})
        return True

    def _alone_first(self, bed: Bed) -> None:
        """Services alone, all draws: the targets come from them."""
        for repeat in range(self.settings.repeats):
            self._alone(bed, repeat, Role.SERVICE)

    def _targets_known(self) -> bool:
        return all(
            self.store.has(solo_row(tenant), repeat)
            for tenant in self.scenario.with_role(Role.SERVICE)
            for repeat in range(self.settings.repeats)
        )

    def _alone(self, bed: Bed, repeat: int, *roles: Role) -> None:
        for tenant in self.scenario.tenants:
            if tenant.role in roles:
                self._measure_alone(bed, tenant, repeat, solo_row(tenant))

    def _measure_alone(self, bed: Bed, tenant: BenchTenant, repeat: int, row: str) -> None:
        if self.store.has(row, repeat) or not self._time_left():
            return
        name = worker_name(ROWS[TIME_SLICE], tenant)

        def measure() -> None:
            answers = bed.workers.measure({name: self._order(tenant, repeat)})
            self._keep(row, repeat, {tenant.name: answers[name]}, {}, {})

        self._works(row, measure)

    def _measure(self, bed: Bed, row: Row, repeat: int) -> None:
        if self.store.has(row.name, repeat) or not self._time_left():
            return
        targets_ms = self._targets_ms(row)
        if row.substrate.managed:
            agent = bed.agent(row.substrate)
            agent.set_policy(row.policy)
            for name, target_ms in targets_ms.items():
                agent.set_target(name, target_ms)
        names = {tenant.name: worker_name(row, tenant) for tenant in self.scenario.tenants}
        orders = {
            names[tenant.name]: self._order(tenant, repeat) for tenant in self.scenario.tenants
        }
        answers = bed.workers.measure(orders)
        status = bed.agent(row.substrate).status() if row.substrate.managed else {}
        found = {name: answers[worker] for name, worker in names.items()}
        self._keep(row.name, repeat, found, targets_ms, status)

    def _keep(
        self,
        row: str,
        repeat: int,
        answers: dict[str, Answer],
        targets_ms: dict[str, float],
        status: dict[str, Any],
    ) -> None:
        setting = self.settings
        cell = Cell(row, repeat, setting.seconds, setting.ramp_s, answers, targets_ms, status)
        self.store.keep(cell)
        self.tell(f"{row} {repeat + 1}/{setting.repeats}: {_brief(answers)}")

    def _order(self, tenant: BenchTenant, repeat: int) -> Order:
        capacity = (self.store.noted(CALIBRATION) or {})["capacity_per_s"]
        per_s = tenant.per_s
        if tenant.load == POISSON and not per_s:
            per_s = tenant.capacity_share * capacity[tenant.name]
        return Order(
            tenant.load,
            0.0,
            self.settings.seconds,
            self.settings.ramp_s,
            per_s,
            seed_of(repeat, self.scenario.tenants.index(tenant)),
            tenant.steps,
            tenant.sync_every,
        )

    def _targets_ms(self, row: Row) -> dict[str, float]:
        """The row's latency targets, from the services alone."""
        factor = row.factor(self.scenario)
        if not factor:
            return {}
        return {
            tenant.name: factor * alone_p99_ms(self.store, tenant)
            for tenant in self.scenario.with_role(Role.SERVICE)
        }

    def _time_left(self, before_s: float = 0.0) -> bool:
        """Whether a cell that begins so much later would end in time."""
        cell_s = self.settings.seconds + self.settings.ramp_s + _CELL_SLACK_S
        return self._budget.holds(before_s + cell_s)


def alone_p99_ms(store: Store, tenant: BenchTenant) -> float:
    """p99 of a service alone, over all draws."""
    cells = store.of_row(solo_row(tenant))
    return percentile([ms for cell in cells for ms in waited_ms(cell.tenants[tenant.name])], 99.0)


def waited_ms(answer: Answer) -> tuple[float, ...]:
    """Latencies; a request that was not answered counts with what it had waited."""
    return (*answer.latencies_ms, *answer.unserved_ms)


def _brief(answers: dict[str, Answer]) -> str:
    parts = []
    for name, answer in answers.items():
        latency = (
            f", p99 {percentile(waited_ms(answer), 99.0):.2f} ms" if answer.latencies_ms else ""
        )
        parts.append(f"{name} {answer.per_s:.2f}/s{latency}")
    return "; ".join(parts)
