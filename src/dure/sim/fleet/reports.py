"""What the centre hears from time to time: services, progress, spending, prices to come."""

from collections.abc import Iterator
from dataclasses import replace

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.events import (
    GlobalEvent,
    SeriesExtended,
    ServiceObserved,
    SpendObserved,
    WorkloadProgressed,
)
from dure.domain.fleet.series import Series
from dure.domain.ids import ClusterId
from dure.fleet.bills import Ledger
from dure.sim.fleet.jobs import Run
from dure.sim.fleet.services import Services
from dure.sim.fleet.setting import Setting


class ServiceReports:
    """Tells how services fare, where that is news."""

    def __init__(self, setting: Setting, services: Services) -> None:
        self._setting = setting
        self._services = services
        self._next_ns = setting.start_ns + setting.physics.service_report_ns

    def due(self, now_ns: int) -> bool:
        """Whether it is time for the next one."""
        return now_ns >= self._next_ns

    def events(self, now_ns: int) -> Iterator[tuple[ServiceObserved, int]]:
        """One for each service and cluster with news, and the number of the cluster."""
        services, physics = self._services, self._setting.physics
        self._next_ns += physics.service_report_ns
        names = [cluster.id for cluster in self._setting.fleet.clusters]
        for row, rate, replicas, violated in services.report(
            physics.report_change, physics.service_report_ns
        ):
            run = services.run_of(row)
            name = run.workload.id
            event = ServiceObserved(now_ns, name, names[run.cluster], rate, replicas, violated)
            yield event, run.cluster


def progress(run: Run, now_ns: int) -> WorkloadProgressed:
    """How far a job is."""
    done, saved = run.done_at(now_ns), run.saved_at(now_ns)
    return WorkloadProgressed(now_ns, run.workload.id, done, saved, run.warm)


def spending(ledger: Ledger, now_ns: int) -> list[GlobalEvent]:
    """What each team has used up since last time, and what the fleet drew for nobody."""
    return [
        SpendObserved(now_ns, spend.tenant, spend.money, spend.g_co2, spend.team)
        for spend in ledger.spent()
    ]


def as_known(cluster: Cluster, setting: Setting, now_ns: int) -> Cluster:
    """A cluster with its prices and carbon as far as they are published at a moment."""
    return replace(
        cluster,
        carbon_g_per_kwh=_until(cluster.carbon_g_per_kwh, now_ns + setting.carbon_known_ahead_ns),
        electricity_per_mwh=_until(
            cluster.electricity_per_mwh, now_ns + setting.prices_known_ahead_ns
        ),
    )


class SeriesReports:
    """Tells new hours of prices and carbon."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._told: dict[ClusterId, tuple[int, int]] = {}

    def events(self, now_ns: int) -> Iterator[SeriesExtended]:
        """One for each cluster of which more is known than last time."""
        for cluster in self._setting.fleet.clusters:
            known = as_known(cluster, self._setting, now_ns)
            carbon, power = known.carbon_g_per_kwh, known.electricity_per_mwh
            lengths = (len(carbon.values), len(power.values))
            if self._told.get(cluster.id) != lengths:
                self._told[cluster.id] = lengths
                yield SeriesExtended(now_ns, cluster.id, carbon, power)


def _until(series: Series, until_ns: int) -> Series:
    """The part of a series that begins before a moment; at least one value."""
    steps = max(1, (until_ns - series.start_ns) // series.step_ns + 1)
    if steps >= len(series.values):
        return series
    return Series(series.values[:steps], series.start_ns, series.step_ns)
