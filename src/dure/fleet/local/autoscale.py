"""How many replicas each service should have: from its load, its queue and its latency.

Services lie in columns and are judged together. The load sets the base, by the same queueing rule
the global stage plans with: the load that is observed, and the load that may come before replicas
can follow, as learned from the service's own bursts. A latency near its target adds replicas for a
while, which then go one by one. Fewer are wanted only after fewer have been enough for some time.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.events import LoadsObserved
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.fit import replica_rate, speed
from dure.fleet.local import scaling
from dure.fleet.local.instances import Task
from dure.fleet.local.reasons import Observed, why_sized
from dure.fleet.local.scaling import Floats, Ints, Margin, Pace
from dure.fleet.local.settings import ScalingRules
from dure.fleet.queueing import least_replicas, least_replicas_each


def latency_budget_ms(task: Task, round_trip_ms: Mapping[str, float]) -> float:
    """What is left of a service's target after the way of its users to this cluster and back."""
    service = task.order.workload.service
    if service is None:
        return 0.0
    total = sum(share for _, share in service.users)
    if total <= 0:
        return service.target_latency_ms
    way = sum(share * round_trip_ms.get(region, 0.0) for region, share in service.users) / total
    return service.target_latency_ms - way


def replica_hour_cost(
    cluster: Cluster, rates: ExchangeRates, profile: DeviceProfile, task: Task
) -> float:
    """What one replica of a service costs in an hour: its part of the rent, or its energy."""
    share = task.footprint.device_share
    price = cluster.tariff.device_hour.get(profile.name)
    if price is None:
        mwh = profile.power_w(1.0) * cluster.pue / _W_PER_MW
        price = mwh * cluster.electricity_per_mwh.at(task.given_ns)
    return rates.to_base(share * price, cluster.tariff.currency)


_W_PER_MW = 1e6
_LEAST_COST = 1e-9
"""Of a minute: nothing is for free, nor without any worth."""
_MINUTES_PER_HOUR = 60.0


def _no_rows() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Autoscaler:
    """The services of a cluster in columns."""

    rules: ScalingRules
    round_trip_ms: Mapping[str, float]
    cluster: Cluster
    rates: ExchangeRates
    tasks: list[Task | None] = field(default_factory=list)
    """By row; None: a free row."""
    figures: Floats = field(default_factory=lambda: np.zeros((0, scaling.FIGURES)))
    counts: Ints = field(default_factory=lambda: np.zeros((0, scaling.COUNTS), dtype=np.int64))
    free: list[int] = field(default_factory=list)
    """Rows that can be used again."""
    _margin: Margin = field(init=False)
    _pace: Pace = field(init=False)
    _names: tuple[WorkloadId, ...] | None = None
    """Of the last observation, with the rows it meant and where in it they were."""
    _rows: Ints = field(default_factory=_no_rows)
    _kept: Ints = field(default_factory=_no_rows)

    def __post_init__(self) -> None:
        self._margin, self._pace = _margin(self.rules), _pace(self.rules)

    def add(self, task: Task, profile: DeviceProfile) -> None:
        """A service is here."""
        workload = task.order.workload
        service = workload.service
        if service is None:
            return
        row = self.free.pop() if self.free else self._new_row()
        budget_ms = latency_budget_ms(task, self.round_trip_ms)
        alone_ms = service.service_time_ms / speed(workload, profile)
        figures, counts = self.figures[row], self.counts[row]
        figures[scaling.RATE] = replica_rate(workload, profile)
        figures[scaling.MOST_WAIT_S] = max(0.0, budget_ms - alone_ms) / 1000.0
        figures[scaling.BUDGET_MS] = budget_ms
        cost = replica_hour_cost(self.cluster, self.rates, profile, task) / _MINUTES_PER_HOUR
        penalty = workload.sla.penalty_per_violated_minute
        figures[scaling.WORTH] = max(penalty, _LEAST_COST) / max(cost, _LEAST_COST)
        figures[scaling.MEAN :] = 0.0
        most_margin = 0.0 if service.forgets_bursts else self.rules.most_margin
        figures[scaling.MOST_MARGIN] = most_margin
        figures[scaling.MARGIN] = min(self.rules.first_margin, most_margin)
        figures[scaling.SMALLER_SPEED] = 1.0
        counts[:] = 0
        counts[scaling.LAST_NS] = -1
        counts[scaling.FLOOR] = min(service.warm_minimum, task.order.instances)
        counts[scaling.MOST] = service.most_replicas
        counts[scaling.WANTED] = task.wanted
        counts[scaling.ENOUGH_SINCE_NS] = counts[scaling.IDLE_SINCE_NS] = scaling.NEVER_NS
        counts[scaling.GREW_NS] = -scaling.NEVER_NS // 2
        hold_ns, own_s = self.rules.shrink_hold_ns, service.shrink_after_s
        if own_s is not None:
            hold_ns = min(round(own_s * NS_PER_S), scaling.NEVER_NS // 4)
        counts[scaling.SHRINK_HOLD_NS] = hold_ns
        kept = self.rules.grow_hold_ns / max(1, self.rules.shrink_hold_ns)
        counts[scaling.GROW_HOLD_NS] = round(hold_ns * kept)
        task.row = row
        self.tasks[row] = task
        self._names = None

    def found(self, task: Task, now_ns: int) -> None:
        """A service has replicas already: as many, on slices as large, as it should.

        Slices that are larger than asked for stay so for as long as after a warning.
        """
        if task.row >= 0:
            row = self.counts[task.row]
            row[scaling.WANTED], row[scaling.LEVEL] = task.wanted, task.level
            if task.level > 0:
                row[scaling.EXTRA_UNTIL_NS] = now_ns + row[scaling.GROW_HOLD_NS]

    def drop(self, task: Task) -> None:
        """A service is gone."""
        if task.row >= 0:
            self.tasks[task.row] = None
            self.free.append(task.row)
            task.row = -1
            self._names = None

    def resized(self, task: Task, smaller_speed: float) -> None:
        """Its slices have another size; one step smaller they would be so fast, over the least."""
        if task.row >= 0:
            self.figures[task.row, scaling.SMALLER_SPEED] = smaller_speed

    def grows_in_place(self, task: Task, levels: int) -> None:
        """Its slices can be so many steps larger than the least while they are in use."""
        if task.row >= 0:
            self.counts[task.row, scaling.IN_PLACE] = levels

    def set_level(self, task: Task, level: int) -> None:
        """Its slices are of another size than was judged, since there is no room for that."""
        task.level = level
        if task.row >= 0:
            self.counts[task.row, scaling.LEVEL] = level

    def warming(self, task: Task, change: int) -> None:
        """So many more of its replicas are on their way (or fewer)."""
        if task.row >= 0:
            self.counts[task.row, scaling.WARMING] += change

    def needed(self, task: Task, headroom: float = 1.0) -> int:
        """Replicas that the load of a service alone needs, as last observed (else as expected)."""
        service = task.order.workload.service
        if service is None or task.row < 0:
            return len(task.instances)
        figures = self.figures[task.row]
        rate = service.requests_per_s
        if self.counts[task.row, scaling.LAST_NS] >= 0:
            rate = math.exp(figures[scaling.LAST])
        return least_replicas(
            rate * headroom,
            figures[scaling.RATE],
            figures[scaling.MOST_WAIT_S],
            service.most_replicas,
        )

    def observe(
        self, event: LoadsObserved, tasks: Mapping[WorkloadId, Task]
    ) -> list[tuple[Task, str]]:
        """Take in loads; returns the services that should change, with `wanted` set, and why."""
        if event.workloads is not self._names:
            self._find_rows(event.workloads, tasks)
        rows, kept, rules = self._rows, self._kept, self.rules
        if not len(rows):
            return []
        observed = np.empty((4, len(rows)))
        observed[0] = event.requests_per_s[kept]
        observed[1] = event.queue_length[kept]
        observed[2] = event.latency_ms[kept]
        observed[3] = self.figures[rows, scaling.BUDGET_MS] * rules.warn_share
        now_ns, counts = event.now_ns, self.counts
        loads = scaling.provide(now_ns, rows, observed, self.figures, counts, self._margin)
        figures, drain = self.figures[rows], observed[1] / rules.drain_s
        rate, most_wait_s = figures[:, scaling.RATE], figures[:, scaling.MOST_WAIT_S]
        most = counts[rows, scaling.MOST]
        base = np.empty((3, len(rows)), dtype=np.int64)
        for line, load in enumerate(loads):
            base[line] = least_replicas_each(load + drain, rate, most_wait_s, most)
        slower = rate * figures[:, scaling.SMALLER_SPEED]
        base[2] = least_replicas_each(loads[0] + drain, slower, most_wait_s, most + 1)
        changed = scaling.judge(now_ns, rows, observed, base, counts, self._pace)
        at = {int(row): place for place, row in enumerate(rows)} if len(changed) else {}
        told = (self._told(row, observed[:, at[row]]) for row in changed.tolist())
        return [each for each in told if each is not None]

    def _told(self, row: int, observed: Floats) -> tuple[Task, str] | None:
        task = self.tasks[row]
        if task is None:
            return None
        before = (task.wanted, task.level)
        task.wanted = int(self.counts[row, scaling.WANTED])
        task.level = int(self.counts[row, scaling.LEVEL])
        requests_per_s, queue_length, latency_ms, warn_ms = observed.tolist()
        seen = Observed(
            requests_per_s=requests_per_s,
            queue_length=queue_length,
            latency_ms=latency_ms,
            warn_ms=warn_ms,
            budget_ms=float(self.figures[row, scaling.BUDGET_MS]),
        )
        return task, why_sized(before, (task.wanted, task.level), seen)

    def _find_rows(self, names: tuple[WorkloadId, ...], tasks: Mapping[WorkloadId, Task]) -> None:
        rows = [tasks[name].row if name in tasks else -1 for name in names]
        self._kept = np.array([at for at, row in enumerate(rows) if row >= 0], dtype=np.int64)
        self._rows = np.array([row for row in rows if row >= 0], dtype=np.int64)
        self._names = names

    def _new_row(self) -> int:
        row = len(self.tasks)
        self.tasks.append(None)
        if row >= len(self.counts):
            more = max(16, row)
            self.figures = np.concatenate([self.figures, np.zeros((more, scaling.FIGURES))])
            blank = np.zeros((more, scaling.COUNTS), dtype=np.int64)
            self.counts = np.concatenate([self.counts, blank])
        return row


def _margin(rules: ScalingRules) -> Margin:
    return Margin(
        float(rules.headroom),
        float(rules.shrink_headroom),
        float(rules.mean_ns),
        float(rules.spread_ns),
        float(rules.learn_per_h),
        float(rules.least_late),
        float(rules.most_late),
        math.log(rules.most_factor),
    )


def _pace(rules: ScalingRules) -> Pace:
    return Pace(
        float(rules.grow_share),
        float(rules.most_growth),
        float(rules.shrink_share),
        int(rules.zero_after_ns),
        bool(rules.larger_slices),
        int(rules.settle_ns),
    )
