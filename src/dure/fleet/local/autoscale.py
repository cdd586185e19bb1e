"""How many replicas each service should have: from its load, its queue and its latency.

Services lie in columns and are judged together. The load sets the base, by the same queueing rule
the global stage plans with. A latency near its target adds replicas for a while, which then go one
by one. Fewer replicas are wanted only after fewer have been enough for some time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.events import LoadsObserved
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.ids import WorkloadId
from dure.fleet.fit import replica_rate, speed
from dure.fleet.local import scaling
from dure.fleet.local.instances import Task
from dure.fleet.local.scaling import Floats, Ints, Pace
from dure.fleet.local.settings import ScalingRules
from dure.fleet.queueing import least_replicas_each


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


def _no_rows() -> Ints:
    return np.zeros(0, dtype=np.int64)


@dataclass(slots=True)
class Autoscaler:
    """The services of a cluster in columns."""

    rules: ScalingRules
    round_trip_ms: Mapping[str, float]
    tasks: list[Task | None] = field(default_factory=list)
    """By row; None: a free row."""
    figures: Floats = field(default_factory=lambda: np.zeros((0, scaling.FIGURES)))
    counts: Ints = field(default_factory=lambda: np.zeros((0, scaling.COUNTS), dtype=np.int64))
    free: list[int] = field(default_factory=list)
    """Rows that can be used again."""
    _names: tuple[WorkloadId, ...] = ()
    """Of the last observation, with the rows it meant and where in it they were."""
    _rows: Ints = field(default_factory=_no_rows)
    _kept: Ints = field(default_factory=_no_rows)

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
        counts[:] = 0
        counts[scaling.FLOOR] = min(service.warm_minimum, task.order.instances)
        counts[scaling.MOST] = service.most_replicas
        counts[scaling.WANTED] = task.wanted
        counts[scaling.ENOUGH_SINCE_NS] = counts[scaling.IDLE_SINCE_NS] = scaling.NEVER_NS
        task.row = row
        self.tasks[row] = task
        self._names = ()

    def drop(self, task: Task) -> None:
        """A service is gone."""
        if task.row >= 0:
            self.tasks[task.row] = None
            self.free.append(task.row)
            task.row = -1
            self._names = ()

    def warming(self, task: Task, change: int) -> None:
        """So many more of its replicas are on their way (or fewer)."""
        if task.row >= 0:
            self.counts[task.row, scaling.WARMING] += change

    def observe(self, event: LoadsObserved, tasks: Mapping[WorkloadId, Task]) -> list[Task]:
        """Take in loads; returns the services that should change, with `wanted` set."""
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
        figures, counts = self.figures[rows], self.counts
        rate, most_wait_s = figures[:, scaling.RATE], figures[:, scaling.MOST_WAIT_S]
        most, drain = counts[rows, scaling.MOST], observed[1] / rules.drain_s
        base = np.empty((2, len(rows)), dtype=np.int64)
        for line, headroom in enumerate((rules.headroom, rules.shrink_headroom)):
            load = observed[0] * headroom + drain
            base[line] = least_replicas_each(load, rate, most_wait_s, most)
        pace = _pace(rules)
        changed = scaling.judge(event.now_ns, rows, observed, base, counts, pace)
        return [task for row in changed.tolist() if (task := self._told(row)) is not None]

    def _told(self, row: int) -> Task | None:
        task = self.tasks[row]
        if task is not None:
            task.wanted = int(self.counts[row, scaling.WANTED])
            task.level = int(self.counts[row, scaling.LEVEL])
        return task

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


def _pace(rules: ScalingRules) -> Pace:
    return Pace(
        float(rules.grow_share),
        int(rules.grow_hold_ns),
        float(rules.most_growth),
        int(rules.shrink_hold_ns),
        float(rules.shrink_share),
        int(rules.zero_after_ns),
        bool(rules.larger_slices),
    )
