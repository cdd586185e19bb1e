"""What submissions are checked against: tenants, pools, clusters, budgets, quotas, read at once.

It is read again when it is older than a moment, when this server changed something, and before
anything is refused because of it: so a refusal is never the fault of an old reading, and accepting
costs no reading of its own.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dure.domain.fleet.accounts import TenantKind
from dure.server.ports import State
from dure.server.specs import cluster_spec, tenant_spec
from dure.stores.rows import Budget, Cluster, Json, Pool, Tenant, VirtualCluster
from dure.stores.submissions import Submission


@dataclass(frozen=True)
class Catalogue:
    """One reading."""

    tenants: dict[str, Tenant]
    pools: dict[str, Pool]
    clusters: dict[str, Cluster]
    budgets: tuple[Budget, ...]
    artefacts: frozenset[str]
    quotas: dict[str, int]
    """Jobs that have not ended, at most, by tenant."""
    live: Counter[str] = field(default_factory=Counter)
    """Of tenants with a quota; what this server accepts is added, also before it is stored."""
    virtual: tuple[VirtualCluster, ...] = ()


class Known:
    """The present catalogue."""

    def __init__(
        self, state: State, keep_s: float, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._state = state
        self._keep_s = keep_s
        self._monotonic_s = monotonic_s
        self._catalogue: Catalogue | None = None
        self._until_s = 0.0
        self._began_s = 0.0
        self._changes = 0
        self._reading = asyncio.Lock()
        self._coming: Counter[str] = Counter()
        """Jobs that are being stored, by tenant: a reading may not show them yet."""
        self._meanwhile: Counter[str] = Counter()
        """Those that came since the last reading began."""

    async def submit(self, submission: Submission) -> Json:
        """Store jobs that were checked; the answer, or the first one where the key came before.

        They count from before they are stored, so that whoever is checked meanwhile is checked
        with them; where nothing is stored they count no more. Nothing may be awaited between the
        check and this.
        """
        tenant, count = submission.jobs[0].tenant, len(submission.jobs)
        self._coming[tenant] += count
        self._meanwhile[tenant] += count
        self._count(tenant, count)
        stored = False
        try:
            given = await self._state.submit(submission)
            stored = given is submission.answer
            return given
        finally:
            self._coming[tenant] -= count
            if not stored:
                self._count(tenant, -count)

    def _count(self, tenant: str, count: int) -> None:
        if self._catalogue is not None:
            self._catalogue.live[tenant] += count

    def forget(self) -> None:
        """Something changed; a reading under way may not show it."""
        self._catalogue = None
        self._changes += 1

    async def catalogue(self, *, fresh: bool = False) -> Catalogue:
        """What is known, at most a moment old; `fresh`: read now."""
        if not fresh and self._catalogue is not None and self._monotonic_s() < self._until_s:
            return self._catalogue
        asked_s = self._monotonic_s()
        async with self._reading:
            # Those who waited for the same reading share it.
            if self._catalogue is None or self._began_s < asked_s:
                self._began_s, changes = self._monotonic_s(), self._changes
                coming, self._meanwhile = self._coming.copy(), Counter()
                self._catalogue = await self._read()
                self._catalogue.live.update(coming + self._meanwhile)
                fits = changes == self._changes
                self._until_s = self._began_s + self._keep_s if fits else 0.0
            return self._catalogue

    async def _read(self) -> Catalogue:
        async with self._state.reading() as tx:
            tenants = {row.path: row for row in await tx.tenants.all()}
            clusters = {row.name: row for row in await tx.clusters.all()}
            quotas = {
                row.path: limit
                for row in tenants.values()
                if row.kind is TenantKind.TENANT
                and (limit := tenant_spec(row).quota.jobs) is not None
            }
            live: Counter[str] = Counter()
            for tenant in quotas:
                counts = await tx.jobs.counts(tenant)
                live[tenant] = sum(n for phase, n in counts.items() if not phase.ended)
            return Catalogue(
                tenants,
                {row.name: row for row in await tx.pools.all()},
                clusters,
                await tx.budgets.all(),
                frozenset(
                    name for row in clusters.values() for name in cluster_spec(row).artefacts
                ),
                quotas,
                live,
                await tx.virtual.all(),
            )
