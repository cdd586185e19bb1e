"""Loads of services: what was last observed, and the peak to provide for in the next hour.

Clusters report the load of each service from time to time. Of every hour the highest load is
learned, and predicted for the present hour and the next: what is placed now serves then.
"""

from dataclasses import dataclass, field

import numpy as np

from dure.domain.fleet.series import HOUR_NS
from dure.domain.ids import ClusterId, WorkloadId
from dure.fleet.forecasts import Forecaster, ForecastError

_HOURS_AHEAD = 2
"""The hour that it is and the next."""
_MOST_QUIET_H = 48
"""Hours without news that are learned from, at most: after that clusters may be out of reach."""
UNSEEN_PEAK = 1.5
"""Highest load of an hour over the expected mean, before anything was observed. Within the hour,
rates of the Azure LLM traces at five-minute steps rise to 1.3 to 2 times their mean."""


@dataclass(slots=True)
class LoadBook:
    """Requests per second of all services, over all their clusters."""

    _rows: dict[WorkloadId, int] = field(default_factory=dict)
    _by_cluster: dict[WorkloadId, dict[ClusterId, float]] = field(default_factory=dict)
    _now: list[float] = field(default_factory=list)
    """By service: last observed. Lists, since observations come one by one."""
    _peak: list[float] = field(default_factory=list)
    """By service: highest of this hour so far."""
    _hour: int = -1
    _usual: Forecaster = field(default_factory=lambda: Forecaster(0))
    """Learns the peaks of hours that are over."""
    _expected: list[float] | None = None
    """By service: peak of this hour and the next, as predicted when this hour began."""

    def observe(
        self, now_ns: int, workload: WorkloadId, cluster: ClusterId, requests_per_s: float
    ) -> None:
        """A cluster says what a service gets there."""
        self._pass_hours(now_ns)
        parts = self._by_cluster.get(workload)
        if parts is None:
            parts = self._by_cluster[workload] = {}
        parts[cluster] = requests_per_s
        now = requests_per_s if len(parts) == 1 else sum(parts.values())
        row = self._rows.get(workload)
        if row is None:
            self._rows[workload] = len(self._now)
            self._now.append(now)
            self._peak.append(now)
            return
        self._now[row] = now
        self._peak[row] = max(self._peak[row], now)

    def left(self, workload: WorkloadId, cluster: ClusterId) -> None:
        """A service is no longer in a cluster: others have got its requests."""
        self._by_cluster.get(workload, {}).pop(cluster, None)

    def last(self, workload: WorkloadId) -> float | None:
        """Requests per second as last observed; None: never."""
        row = self._rows.get(workload)
        return None if row is None else self._now[row]

    def peak(self, now_ns: int, workload: WorkloadId, *, forecast: bool) -> float | None:
        """The load to provide for; without forecast the last one. None: nothing was observed."""
        row = self._rows.get(workload)
        if row is None:
            return None
        if not forecast:
            return self._now[row]
        self._pass_hours(now_ns)
        if self._expected is None:
            self._expected = self._predict(now_ns)
        highest = max(self._now[row], self._peak[row])
        return max(highest, self._expected[row]) if row < len(self._expected) else highest

    def errors(self) -> tuple[ForecastError, ...]:
        """How far off predicted peaks were."""
        return self._usual.errors()

    def _predict(self, now_ns: int) -> list[float]:
        """By service: the higher of this hour's and the next hour's peak; NaN: not known yet."""
        if not len(self._usual):
            return []
        ahead = self._usual.ahead(now_ns, _HOURS_AHEAD)
        peaks: list[float] = (ahead.mean + ahead.spread).max(axis=1).tolist()
        return peaks

    def _pass_hours(self, now_ns: int) -> None:
        """Learn the peaks of the hour that is over."""
        hour = now_ns // HOUR_NS
        if hour <= self._hour:
            return
        if self._hour >= 0 and len(self._now):
            if len(self._usual) < len(self._now):
                self._usual.grow(len(self._now))
            now = np.array(self._now)
            self._usual.observe(self._hour * HOUR_NS, np.array(self._peak))
            # Clusters tell what changed: in hours without news loads were as last observed.
            for quiet in range(max(self._hour + 1, hour - _MOST_QUIET_H), hour):
                self._usual.observe(quiet * HOUR_NS, now)
        self._hour = hour
        self._peak = list(self._now)
        self._expected = None
