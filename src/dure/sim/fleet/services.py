"""How services fare: requests meet warm instances; columns, a row for each service and cluster.

A service's requests are divided over its clusters by warm instances. Waiting follows the M/M/c
rule the autoscaler plans by, but with the true rate; where more arrives than can be served a queue
grows and every request waits for it. On queue units requests wait for their turns as well, see
`turns`. Time passes in steps of a round: within one, rates and warm instances are those of its
beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.series import DAY_NS
from dure.domain.fleet.workloads import Service, Workload
from dure.domain.ids import ClusterId, WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.fit import replica_rate, speed
from dure.fleet.queueing import LATE_SHARE, waits_p95_s
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.setting import LoadCurves
from dure.sim.fleet.turns import TurnPlace, Turns

GIVE_UP_S = 60.0
"""How long a request waits before whoever sent it goes away: the usual time-out of proxies. Bounds
the queue of an overloaded service, and the latency that stands for "never"."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ServiceNews:
    """What one cluster should be told of its services: rows that changed enough to matter."""

    cluster: int
    workloads: tuple[WorkloadId, ...]
    requests_per_s: Floats
    queue_length: Floats
    latency_ms: Floats


@dataclass(slots=True)
class Rows:
    """One row for each order of a service in a cluster; used again when the order is gone."""

    live: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    service: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Number of its service."""
    cluster: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    warm: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Instances that are ready now."""
    counted: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Those that were at the beginning of this step."""
    replica_rate: Floats = field(default_factory=lambda: np.zeros(0))
    """Requests a second one instance serves when always busy."""
    alone_ms: Floats = field(default_factory=lambda: np.zeros(0))
    """Of a request that does not wait."""
    way_ms: Floats = field(default_factory=lambda: np.zeros(0))
    """From its users to the cluster and back."""
    busy_w: Floats = field(default_factory=lambda: np.zeros(0))
    """Of one instance at full load, beyond idle."""
    drawn: Floats = field(default_factory=lambda: np.zeros(0))
    """Watt-ns beyond idle that are not on an account yet."""
    speed: Floats = field(default_factory=lambda: np.zeros(0))
    """Mean speed of its instances' slices, over that of the smallest that would do; it is in the
    columns above."""
    least_speed: Floats = field(default_factory=lambda: np.zeros(0))
    """Of the slowest of them: a twentieth of the requests meets it."""
    rate: Floats = field(default_factory=lambda: np.zeros(0))
    """Requests a second."""
    queue: Floats = field(default_factory=lambda: np.zeros(0))
    """Requests that wait because more came than could be served."""
    latency_ms: Floats = field(default_factory=lambda: np.zeros(0))
    """Within the cluster, at the 95th percentile."""
    slow: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    slow_ns: Floats = field(default_factory=lambda: np.zeros(0))
    """Violated time since it was last reported to the centre."""
    told_rate: Floats = field(default_factory=lambda: np.zeros(0))
    told_queue: Floats = field(default_factory=lambda: np.zeros(0))
    told_late: Floats = field(default_factory=lambda: np.zeros(0))
    centre_rate: Floats = field(default_factory=lambda: np.zeros(0))
    """What the centre was last told: the rate, the warm instances (-1: nothing), and the share of
    time in violation."""
    centre_warm: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    centre_slow: Floats = field(default_factory=lambda: np.zeros(0))

    def grow(self, more: int) -> None:
        """Make room for more rows."""
        for each in fields(self):
            column = getattr(self, each.name)
            setattr(self, each.name, np.concatenate((column, np.zeros(more, column.dtype))))
        self.replica_rate[-more:] = 1.0


class Services:
    """All services of a run, and their parts in each cluster."""

    def __init__(
        self, workloads: list[Workload], fleet: Fleet, loads: LoadCurves, start_ns: int
    ) -> None:
        self._fleet = fleet
        self._loads = loads
        self.workloads = workloads
        self.number = {workload.id: row for row, workload in enumerate(workloads)}
        count = len(workloads)
        curve_of = {name: row for row, name in enumerate(loads.services)}
        self._curve = np.array(
            [curve_of.get(workload.id, -1) for workload in workloads], dtype=np.int64
        )
        details = [_service(workload) for workload in workloads]
        self._expected = np.array([each.requests_per_s for each in details])
        self._target_ms = np.array([each.target_latency_ms for each in details])
        self._penalty = np.array([w.sla.penalty_per_violated_minute for w in workloads])
        self._cap = np.array([w.sla.penalty_cap for w in workloads])
        self._begins_ns = np.array([max(start_ns, w.submitted_ns) for w in workloads], np.int64)
        self.rates = np.zeros(count)
        """Requests a second of each service now."""
        self.minutes = np.zeros(count)
        """With requests."""
        self.violated_minutes = np.zeros(count)
        self.requests = np.zeros(count)
        self.penalty = np.zeros(count)
        """So far."""
        self._penalty_today = np.zeros(count)
        self._step = -1
        self._day = -1
        self._since_ns = start_ns
        self._refreshed_ns = start_ns - 1
        self._stale = True
        self._judged = False
        """Whether rows were judged anew since clusters last heard of them."""
        self.replica_s = 0.0
        """Seconds of warm instances."""
        self.rows = Rows()
        self._runs: list[Run | None] = []
        """The order each row is about."""
        self._spare: list[int] = []
        self._leaving: list[int] = []
        """Rows that are free from the next step on."""
        self._row_of: dict[Run, int] = {}
        self._turns = Turns()
        self.service_slow = np.zeros(count, dtype=np.bool_)
        self.hour_minutes = 0.0
        self.hour_violated = 0.0

    def add(self, run: Run, cluster: ClusterId, busy_w: float) -> int:
        """A service's order has reached a cluster; its instances become warm later."""
        row = self._spare.pop() if self._spare else self._grow()
        rows, workload = self.rows, run.workload
        self._runs[row] = run
        self._row_of[run] = row
        rows.service[row] = self.number[workload.id]
        rows.cluster[row] = run.cluster
        rows.warm[row] = rows.counted[row] = 0
        rows.replica_rate[row] = replica_rate(workload, run.profile)
        alone_ms = _service(workload).service_time_ms / speed(workload, run.profile)
        rows.alone_ms[row] = alone_ms
        rows.way_ms[row] = self._way_ms(workload, cluster)
        rows.busy_w[row] = busy_w
        rows.speed[row] = rows.least_speed[row] = 1.0
        for column in (rows.drawn, rows.rate, rows.queue, rows.latency_ms, rows.slow_ns):
            column[row] = 0.0
        for column in (rows.told_rate, rows.told_queue, rows.told_late):
            column[row] = -1.0
        rows.centre_warm[row] = -1
        rows.live[row] = True
        self._stale = True
        return row

    def _way_ms(self, workload: Workload, cluster: ClusterId) -> float:
        """From a service's users to a cluster and back; who has no known users is next door."""
        users = _service(workload).users
        total = sum(share for _, share in users)
        if not total:
            return 0.0
        weighted = sum(share * self._fleet.latency(region, cluster) for region, share in users)
        return weighted / total

    def remove(self, run: Run) -> None:
        """An order is gone from its cluster."""
        row = self._row_of.pop(run)
        self.rows.live[row] = False
        self.rows.warm[row] = 0
        self._turns.set(row, ())
        self._leaving.append(row)
        self._stale = True

    def set_warm(
        self,
        run: Run,
        speeds: tuple[float, float] = (1.0, 1.0),
        turns: Sequence[TurnPlace] = (),
    ) -> None:
        """A run's ready instances have changed: their number, the speed of their slices, or who
        they take turns with.

        Speeds are over that of the smallest slice that would do: the mean and the least of them.
        """
        row = self._row_of.get(run)
        if row is None:
            return
        rows = self.rows
        rows.warm[row] = run.warm
        self._turns.set(row, turns)
        if speeds[0] != rows.speed[row] or speeds[1] != rows.least_speed[row]:
            rows.replica_rate[row] *= speeds[0] / rows.speed[row]
            rows.busy_w[row] *= speeds[0] / rows.speed[row]
            rows.alone_ms[row] *= rows.least_speed[row] / speeds[1]
            rows.speed[row], rows.least_speed[row] = speeds
        self._stale = True

    def run_of(self, row: int) -> Run:
        """The order a row is about."""
        run = self._runs[row]
        assert run is not None
        return run

    def advance(self, now_ns: int) -> None:
        """Let time pass: rates, waits and queues hold from the last call to this one."""
        passed_ns = float(now_ns - self._since_ns)
        if passed_ns <= 0 or not len(self.rates):
            return
        minutes = passed_ns / MINUTE_NS
        asked = self.rates > 0
        self.minutes[asked] += minutes
        self.requests += self.rates * (passed_ns / NS_PER_S)
        violated = self.service_slow & asked
        self.violated_minutes[violated] += minutes
        self.hour_minutes += minutes * int(asked.sum())
        self.hour_violated += minutes * int(violated.sum())
        self._punish(violated, minutes)
        self._pass(passed_ns)
        self._since_ns = now_ns

    def _pass(self, passed_ns: float) -> None:
        """Rows serve, queue and draw power for a while."""
        rows, seconds = self.rows, passed_ns / NS_PER_S
        rows.slow_ns += rows.slow * passed_ns
        self.replica_s += float(rows.counted.sum()) * seconds
        growth = (rows.rate - rows.counted * rows.replica_rate) * seconds
        queued = bool((rows.queue > 0).any())
        rows.queue = np.clip(rows.queue + growth, 0.0, rows.rate * GIVE_UP_S)
        if queued or (rows.queue > 0).any():
            self._stale = True
        busy = np.minimum(rows.counted, rows.rate / rows.replica_rate)
        rows.drawn += rows.busy_w * busy * passed_ns

    def pay_energy(self) -> None:
        """Put what was drawn on the accounts of those who drew it, at the prices that hold now."""
        for row in np.flatnonzero(self.rows.drawn).tolist():
            self.run_of(row).account.add_energy(float(self.rows.drawn[row]))
        self.rows.drawn[:] = 0.0

    def news(self, change: float) -> list[ServiceNews]:
        """What each cluster should hear: rows whose load or latency moved by more than a share."""
        if not self._judged:
            return []
        self._judged = False
        rows = self.rows
        late = rows.latency_ms > self._target_ms[rows.service] - rows.way_ms
        moved = np.abs(rows.rate - rows.told_rate) > change * np.maximum(rows.told_rate, 1e-9)
        moved |= (rows.queue > 0) & (np.abs(rows.queue - rows.told_queue) > change * rows.queue)
        moved |= (rows.queue == 0) & (rows.told_queue > 0)
        moved |= late != (rows.told_late > 0)
        found = np.flatnonzero(moved & rows.live)
        if not len(found):
            return []
        rows.told_rate[found] = rows.rate[found]
        rows.told_queue[found] = rows.queue[found]
        rows.told_late[found] = late[found]
        found = found[np.argsort(rows.cluster[found], kind="stable")]
        clusters, firsts = np.unique(rows.cluster[found], return_index=True)
        return [
            ServiceNews(
                int(cluster),
                tuple(self.workloads[number].id for number in rows.service[part].tolist()),
                rows.rate[part],
                rows.queue[part],
                rows.latency_ms[part],
            )
            for cluster, part in zip(clusters, np.split(found, firsts[1:]), strict=True)
        ]

    def report(self, change: float, interval_ns: int) -> list[tuple[int, float, int, float]]:
        """What is news to the centre: row, rate, warm instances and share of time in violation.

        A rate is news when it moved by more than a share, the others when they moved at all.
        """
        rows = self.rows
        slow = np.minimum(1.0, rows.slow_ns / interval_ns)
        same = np.abs(rows.rate - rows.centre_rate) <= change * rows.centre_rate
        same &= (rows.warm == rows.centre_warm) & (slow == rows.centre_slow)
        found = np.flatnonzero(rows.live & ~same)
        rows.centre_rate[found] = rows.rate[found]
        rows.centre_warm[found] = rows.warm[found]
        rows.centre_slow[found] = slow[found]
        rows.slow_ns[:] = 0.0
        columns = (found, rows.rate[found], rows.warm[found], slow[found])
        return list(zip(*(column.tolist() for column in columns), strict=True))

    def penalty_of(self, name: WorkloadId) -> float:
        """What a service's violations have cost so far."""
        return float(self.penalty[self.number[name]])

    def refresh(self, now_ns: int) -> list[Run]:
        """Begin another step: rates, waits and who is too slow from now on.

        Returns the orders that left in the last one; they may owe energy for it.
        """
        step = self._loads.step(now_ns) if len(self._loads.services) else 0
        begins = (self._begins_ns > self._refreshed_ns) & (self._begins_ns <= now_ns)
        self._refreshed_ns = now_ns
        if not self._stale and step == self._step and not begins.any():
            return []
        self._step = step
        self._stale = False
        self._judged = len(self._runs) > 0
        left = [self.run_of(row) for row in self._leaving]
        for row, run in zip(self._leaving, left, strict=True):
            run.account.add_energy(float(self.rows.drawn[row]))
            self._runs[row] = None
            self.rows.queue[row] = self.rows.slow_ns[row] = self.rows.drawn[row] = 0.0
        self._spare.extend(reversed(self._leaving))
        self._leaving.clear()
        self.rows.counted = self.rows.warm.copy()
        self.rates = self._rates_at(step, now_ns)
        warm_all = self._divide()
        self._judge(warm_all)
        return left

    def _rates_at(self, step: int, now_ns: int) -> Floats:
        """Requests a second of every service that exists by now."""
        rates = self._expected.copy()
        known = self._curve >= 0
        if known.any():
            rates[known] = self._loads.requests_per_s[self._curve[known], step]
        rates[self._begins_ns > now_ns] = 0.0
        return rates

    def _divide(self) -> Floats:
        """Give every row its part of the requests: by warm instances, or equally without any.

        Returns the warm instances of each service.
        """
        rows, count = self.rows, len(self.rates)
        warm_all = np.bincount(rows.service, weights=rows.warm * 1.0, minlength=count)
        places = np.bincount(rows.service, weights=rows.live * 1.0, minlength=count)
        by_warm = rows.warm / np.maximum(warm_all[rows.service], 1.0)
        equally = 1.0 / np.maximum(places[rows.service], 1.0)
        share = np.where(warm_all[rows.service] > 0, by_warm, equally)
        rows.rate = np.where(rows.live, self.rates[rows.service] * share, 0.0)
        return np.asarray(warm_all, dtype=np.float64)

    def _judge(self, warm_all: Floats) -> None:
        """Latency of every row, and which services miss their target."""
        rows = self.rows
        waits_ms = waits_p95_s(rows.warm, rows.rate, rows.replica_rate) * 1000.0
        capacity = np.maximum(rows.warm * rows.replica_rate, 1e-12)
        backlog_ms = np.minimum(rows.queue / capacity * 1000.0, GIVE_UP_S * 1000.0)
        use = np.minimum(rows.rate / capacity, 1.0)
        waits_ms += self._turns.waits_ms(rows.alone_ms, use)
        latency = rows.alone_ms + np.minimum(waits_ms, GIVE_UP_S * 1000.0) + backlog_ms
        rows.latency_ms = latency
        target_ms = self._target_ms[rows.service]
        rows.slow = rows.live & (rows.rate > 0) & (latency + rows.way_ms > target_ms + 1e-9)
        # A target is of the 95th percentile: a slow part counts if it gets a 20th of the requests.
        whole = np.maximum(self.rates[rows.service], 1e-12)
        counted = rows.slow & (rows.rate >= LATE_SHARE * whole)
        slow = np.bincount(rows.service, weights=counted * 1.0, minlength=len(self.rates)) > 0
        self.service_slow = slow | ((warm_all <= 0) & (self.rates > 0))

    def _punish(self, violated: NDArray[np.bool_], minutes: float) -> None:
        """Penalties of violated minutes, to the cap of the day."""
        day = self._since_ns // DAY_NS
        if day != self._day:
            self._day = day
            self._penalty_today[:] = 0.0
        if not violated.any():
            return
        added = np.where(violated, self._penalty * minutes, 0.0)
        added = np.minimum(added, np.maximum(self._cap - self._penalty_today, 0.0))
        self._penalty_today += added
        self.penalty += added

    def _grow(self) -> int:
        """Make room for more rows; returns the first new one."""
        first = len(self._runs)
        more = max(16, first // 2)
        self.rows.grow(more)
        self._runs.extend([None] * more)
        self._spare.extend(range(first + more - 1, first, -1))
        return first


def _service(workload: Workload) -> Service:
    assert workload.service is not None
    return workload.service
