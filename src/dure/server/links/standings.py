"""How jobs stand that were declared in a cluster, for those who look at them there."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.money import ExchangeRates
from dure.domain.fleet.protocol.wishes import Standing
from dure.fleet.hourly import devices_of, hour_of, slices_of, spoken
from dure.server import specs
from dure.server.declared import read_member
from dure.server.ports import State
from dure.server.records import site_of, status_of
from dure.stores.repos.origins import Wished
from dure.stores.rows import Attempt
from dure.stores.transaction import Transaction

_COSTS_S = 10.0
"""How often it is looked what places cost; prices change by the hour."""
_DIGITS = 4
_IDLE_PARTS = 10
"""Looking takes one such part of the time at most."""


class StandingSource:
    """What one link was told, and what is new."""

    def __init__(self, state: State, cluster: str) -> None:
        self._state = state
        self._cluster = cluster
        self._told: dict[str, Standing | None] = {}
        """Of those who are not known to be over."""
        self._priced_s = 0.0
        self.pause_s = 0.0
        """How long it shall not be looked again."""

    def watch(self, uids: Iterable[str]) -> None:
        """Tell of these from now on, and once at any rate."""
        self._told |= dict.fromkeys(uids)

    async def news(self) -> tuple[Standing, ...]:
        """What differs from what was told."""
        if not self._told:
            return ()
        began_s = time.monotonic()
        async with self._state.reading() as tx:
            rows = await tx.origins.wished(self._cluster, self._told)
            fresh = await self._fresh(tx, rows.values())
        self._told |= {each.uid: each for each in fresh}
        for each in fresh:
            if each.withdrawn or each.phase.ended or not each.job:
                self._told.pop(each.uid, None)
        self.pause_s = _IDLE_PARTS * (time.monotonic() - began_s)
        return tuple(fresh)

    async def _fresh(self, tx: Transaction, rows: Iterable[Wished]) -> list[Standing]:
        now_s = time.monotonic()
        price = now_s - self._priced_s >= _COSTS_S
        if price:
            self._priced_s = now_s
        looked = [
            (row, bare)
            for row in rows
            if price or (told := self._told.get(row.uid)) is None or not _same(told, _bare(row))
            for bare in [_bare(row)]
        ]
        placed = {row.job_id: row for row, _ in looked if row.job_id and _has_place(row)}
        pricing = _Pricing(tx, await tx.attempts.unfinished_of(placed))
        found = []
        for row, bare in looked:
            standing = await pricing.priced(bare) if row.job_id in placed else bare
            if standing != self._told.get(row.uid):
                found.append(standing)
        return found


def _bare(row: Wished) -> Standing:
    """All but what its place costs."""
    if row.withdrawn_ns is not None or row.job_id is None:
        # Of a job that has gone from the books nobody can say more than that it is over.
        return Standing(row.uid, row.generation, withdrawn=True)
    return Standing(
        row.uid,
        row.generation,
        job=row.job_id,
        phase=row.phase or JobPhase.QUEUED,
        suspended=bool(row.suspended),
        attempt=row.attempt or 0,
        cluster=row.cluster or "",
        why=row.reason or "",
    )


def _same(told: Standing, bare: Standing) -> bool:
    """Whether only the place may differ."""
    return replace(told, slice="", cost_per_hour=0.0, currency="", g_co2_per_hour=0.0) == bare


def _has_place(row: Wished) -> bool:
    return row.phase in (JobPhase.PLACED, JobPhase.RUNNING, JobPhase.UNKNOWN, JobPhase.CANCELLING)


class _Pricing:
    """Prices of places, each cluster read once."""

    def __init__(self, tx: Transaction, attempts: Sequence[Attempt]) -> None:
        self._tx = tx
        self._attempts: dict[str, list[Attempt]] = {}
        for each in attempts:
            self._attempts.setdefault(each.job_id, []).append(each)
        self._clusters: dict[str, Cluster | None] = {}
        self._rates: ExchangeRates | None = None

    async def priced(self, standing: Standing) -> Standing:
        """A standing with what all places of the job are and cost."""
        money = grams = 0.0
        slices: Counter[str] = Counter()
        rates = await self._fleet_rates()
        for attempt in self._attempts.get(standing.job, ()):
            status, cluster = status_of(attempt), await self._cluster(attempt.cluster)
            if status is None:
                continue
            slices.update(slices_of(status.instances))
            if cluster is not None:
                devices = devices_of(status.instances)
                group = site_of(attempt).group
                cost, carbon = hour_of(cluster, group, devices, self._tx.now_ns)
                money += rates.to_base(cost, cluster.tariff.currency)
                grams += carbon
        return replace(
            standing,
            slice=spoken(slices),
            cost_per_hour=round(money, _DIGITS),
            currency=rates.base if slices else "",
            g_co2_per_hour=round(grams, _DIGITS),
        )

    async def _fleet_rates(self) -> ExchangeRates:
        if self._rates is None:
            self._rates = specs.fleet_of(await self._tx.policies.all(), ()).rates
        return self._rates

    async def _cluster(self, name: str) -> Cluster | None:
        if name not in self._clusters:
            self._clusters[name] = (await read_member(self._tx, name)).cluster
        return self._clusters[name]
