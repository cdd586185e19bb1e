"""The fleet as the database has it: jobs, clusters, sites, prices, budgets, read at once."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.lifecycle import AttemptState
from dure.domain.metrics import fleet as m
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.units import NS_PER_S
from dure.server.records import sites_of
from dure.server.services import Services
from dure.server.telemetry.waits import JobWaits
from dure.stores.rows import Budget, Cluster, Price
from dure.stores.transaction import Transaction

_DRIFTING = (AttemptState.RESERVED, AttemptState.COMMITTED, AttemptState.RELEASING)


class FleetReader:
    """Reads everything that `/metrics` shows of the fleet."""

    def __init__(
        self,
        services: Services,
        links: Callable[[], int] = lambda: 0,
        epoch: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._services = services
        self._links = links
        self._epoch = epoch
        self._waits = JobWaits(services)
        self._behind_ns: dict[str, int] = {}
        """Clusters that have not accepted the newest plan, and since when."""

    async def read(self) -> Sequence[Reading | Spread]:
        """All of it; what cannot be read raises, so that nothing old is shown."""
        began_s = time.monotonic()
        leads = self._services.leads()
        found: list[Reading | Spread] = []
        async with self._services.state.reading() as tx:
            if leads:
                await self._waits.follow(tx)
            else:
                self._waits.forget()
            found += await self._jobs(tx)
            now_ns = await tx.database_now_ns()
            found += self._clusters(await tx.clusters.all(), now_ns)
            found += await self._attempts(tx)
            for sites in await tx.news.sites():
                found += _sites(sites_of(sites))
            found += _prices(await tx.prices.all())
            found += _budgets(await tx.budgets.all())
        found += self.own(time.monotonic() - began_s)
        return found

    async def _jobs(self, tx: Transaction) -> list[Reading]:
        phases, last = await tx.jobs.counts(), await tx.events.last()
        found = [Reading(m.JOBS, (phase.value,), float(n)) for phase, n in phases.items()]
        found.append(Reading(m.EVENTS, (), float(last)))
        if self._services.leads():
            behind = max(0, last - self._services.figures.planned_seq)
            found.append(Reading(m.PLANNER_BEHIND, (), float(behind)))
            oldest_ns = self._waits.oldest_ns()
            age_s = 0.0 if oldest_ns is None else (tx.now_ns - oldest_ns) / NS_PER_S
            found.append(Reading(m.JOB_OLDEST, (), max(0.0, age_s)))
        return found

    def _clusters(self, rows: Sequence[Cluster], now_ns: int) -> Iterator[Reading]:
        for row in rows:
            label = (row.name,)
            yield Reading(m.CLUSTER_STATE, (row.name, row.state.value), 1.0)
            yield Reading(m.CLUSTER_LINKED, label, float(bool(row.linked_url)))
            if row.last_contact_ns is not None:
                silent_s = max(0, now_ns - row.last_contact_ns) / NS_PER_S
                yield Reading(m.CLUSTER_SILENT, label, silent_s)
            behind = max(0, row.desired_revision - row.accepted_revision)
            yield Reading(m.CLUSTER_BEHIND, label, float(behind))
            since_ns = self._behind_ns.setdefault(row.name, now_ns)
            if not behind:
                self._behind_ns[row.name] = since_ns = now_ns
            yield Reading(m.CLUSTER_LAG, label, max(0, now_ns - since_ns) / NS_PER_S)
        for gone in self._behind_ns.keys() - {row.name for row in rows}:
            del self._behind_ns[gone]

    async def _attempts(self, tx: Transaction) -> list[Reading]:
        found, drift = [], defaultdict[str, int](int)
        for (cluster, state), count in (await tx.attempts.counts()).items():
            found.append(Reading(m.ATTEMPTS, (cluster, state.value), float(count)))
            drift[cluster] += count if state in _DRIFTING else 0
        found += [Reading(m.DRIFT, (cluster,), float(n)) for cluster, n in drift.items()]
        return found

    def own(self, took_s: float | None) -> Iterator[Reading | Spread]:
        """What is known without the database; `took_s`: how long it took to be read."""
        yield from self._services.figures.read()
        yield Reading(m.LEADS, (), float(self._services.leads()))
        epoch = self._epoch()
        if epoch is not None:
            yield Reading(m.LEADER_EPOCH, (), float(epoch))
        yield Reading(m.LINKS, (), float(self._links()))
        yield Reading(m.BUS_UP, (), float(self._services.bus.healthy))
        if took_s is not None:
            yield Reading(m.STORE_SECONDS, (), took_s)


def _sites(sites: Sequence[SiteSummary]) -> Iterator[Reading]:
    for each in sites:
        label = (each.site.cluster, str(each.site))
        yield Reading(m.SITE_DEVICES, label, float(each.devices))
        yield Reading(m.SITE_FREE, label, float(each.free_devices))
        yield Reading(m.SITE_WAITING, label, float(each.waiting_devices))
        yield Reading(m.SITE_FRAGMENTATION, label, each.fragmentation)


def _prices(rows: Sequence[Price]) -> list[Reading]:
    return [Reading(m.SITE_PRICE, (row.site,), row.per_device_hour) for row in rows]


def _budgets(rows: Sequence[Budget]) -> Iterator[Reading]:
    for row in rows:
        label = (row.tenant, row.name, row.unit)
        yield Reading(m.BUDGET_SPENT, label, row.spent_amount)
        yield Reading(m.BUDGET_LIMIT, label, row.limit_amount)
