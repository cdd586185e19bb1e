"""Virtual clusters, how they are in each cluster, and what is used of their pools."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dure.domain.fleet.lifecycle import AttemptState
from dure.stores import tables
from dure.stores.repos.base import Keyed, Versioned, upsert, values_of
from dure.stores.rows import Json, VirtualCluster, VirtualSpace

_UNHEARD = (AttemptState.RESERVED, AttemptState.COMMITTED)
"""Attempts whose devices their cluster may still count as free."""


@dataclass(frozen=True, slots=True)
class PoolUse:
    """An attempt that has, or is about to have, devices of a pool or of a cluster."""

    cluster: str
    state: AttemptState
    order: Json
    """The attempt's own document: its site and instances."""
    job: Json
    """The job's own document."""


class VirtualClusters(Versioned[VirtualCluster]):
    """By name. `put` changes what people decide, `say` what its process says."""

    table, noun, row = tables.virtual_clusters, "virtual cluster", VirtualCluster
    fixed = frozenset({"standing", "said_ns"})

    async def say(self, name: str, standing: Json) -> None:
        """Note what the process of a dedicated one says of it."""
        await self._link.execute(
            self.table.update()
            .where(self.table.c.name == name)
            .values(standing=standing, said_ns=self._link.now_ns),
            self._subject(name),
        )

    async def uses(self, pools: Iterable[str]) -> tuple[PoolUse, ...]:
        """Attempts of jobs that name these pools, and those of anybody that are about to start."""
        attempts, jobs = tables.attempts, tables.jobs
        named = jobs.c.spec["pool"].as_string().in_(sorted(pools))
        found = await self._link.execute(
            sa.select(
                attempts.c.cluster, attempts.c.state, attempts.c.spec.label("order"), jobs.c.spec
            )
            .join(jobs, jobs.c.id == attempts.c.job_id)
            .where(
                attempts.c.state != AttemptState.GONE,
                sa.or_(attempts.c.state.in_(_UNHEARD), named),
            ),
            "uses of pools",
        )
        return tuple(PoolUse(row[0], row[1], row[2], row[3]) for row in found)


class VirtualSpaces(Keyed[VirtualSpace]):
    """By virtual cluster and cluster."""

    table, noun, row = tables.virtual_spaces, "space of virtual cluster", VirtualSpace

    async def set_all(self, rows: Sequence[VirtualSpace]) -> None:
        """Store what holds from now on."""
        columns: list[dict[str, Any]] = [values_of(row) for row in rows]
        changing = tuple(name for name in (columns[0] if columns else {}) if name not in _KEY)
        await upsert(self._link, self.table, columns, changing, self.noun)


_KEY = ("name", "cluster")
