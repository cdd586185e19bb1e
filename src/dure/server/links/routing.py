"""Where services answer, for clusters whose programs ask for them by a name of the cluster itself.

A cluster hears of every service that has, or had, a place there: who found it there goes on finding
it when it has moved.
"""

import re
from collections.abc import Sequence

from dure.domain.errors import DureError
from dure.domain.fleet.protocol.services import RouteBackend, Routes, ServiceRoute
from dure.domain.ids import WorkloadId
from dure.server import specs
from dure.server.handover import Pace, shares, weighted
from dure.server.ports import State
from dure.stores.rows import Attempt, Job
from dure.stores.transaction import Transaction

_DNS = re.compile(r"[a-z]([a-z0-9-]{0,50}[a-z0-9])?")
_TAIL = 6
"""Letters of a job's id that tell services of one name apart."""


class RouteSource:
    """What one link was told, and what is new."""

    def __init__(self, state: State, cluster: str, pace: Pace) -> None:
        self._state = state
        self._cluster = cluster
        self._pace = pace
        self._told: dict[str, ServiceRoute] | None = None

    async def news(self) -> Routes | None:
        """What differs from what was told; None: nothing. The first word is everything."""
        async with self._state.reading() as tx:
            found = await self._routes(tx)
        told, self._told = self._told, found
        if told is None:
            return Routes(tuple(found.values()), whole=True)
        changed = [route for job, route in found.items() if told.get(job) != route]
        over = [
            ServiceRoute(route.job, route.name, route.namespace, route.port, ended=True)
            for job, route in told.items()
            if job not in found
        ]
        return Routes((*changed, *over)) if changed or over else None

    async def _routes(self, tx: Transaction) -> dict[str, ServiceRoute]:
        ids = await tx.attempts.services_of(self._cluster)
        if not ids:
            return {}
        jobs = await tx.jobs.many(ids)
        attempts: dict[str, list[Attempt]] = {}
        for each in await tx.attempts.unfinished_of(ids):
            attempts.setdefault(each.job_id, []).append(each)
        now_ns = await tx.database_now_ns()
        spec = specs.cluster_spec(await tx.clusters.get(self._cluster))
        taken: set[tuple[str, str]] = set()
        found = {}
        for job in jobs:
            namespace = specs.namespace_of(spec, job.tenant)
            name = _name(job, taken, namespace)
            port = _port(job)
            if port is not None:
                backends = self._backends(attempts.get(job.id, ()), now_ns)
                route = ServiceRoute(WorkloadId(job.id), name, namespace, port, backends)
                found[job.id] = route
        return found

    def _backends(self, attempts: Sequence[Attempt], now_ns: int) -> tuple[RouteBackend, ...]:
        parts = shares(attempts, now_ns, self._pace)
        return tuple(
            RouteBackend(attempt.attempt, each.address, weight)
            for attempt, each, weight in weighted(attempts, parts)
        )


def _port(job: Job) -> int | None:
    try:
        return specs.job_terms(job).program.port
    except DureError:
        return None  # Its document cannot be read any more.


def _name(job: Job, taken: set[tuple[str, str]], namespace: str) -> str:
    """What it is called there: as its owner says, as far as Kubernetes can; the oldest of a name
    has it for itself."""
    plain = job.name.lower().replace("_", "-").replace(".", "-")
    name = plain if _DNS.fullmatch(plain) else f"job-{job.id[-_TAIL:]}"
    if (namespace, name) in taken:
        name = f"{name}-{job.id[-_TAIL:]}"
    taken.add((namespace, name))
    return name
