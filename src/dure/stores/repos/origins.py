"""Where jobs came from that people declared in clusters; also those that were withdrawn there."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from dure.domain.fleet.lifecycle import JobPhase
from dure.stores import tables
from dure.stores.repos.base import Keyed, in_parts, values_of
from dure.stores.rows import Origin

_ORIGINS, _JOBS = tables.origins, tables.jobs


class Wished(NamedTuple):
    """An origin with where its job stands; of no job: one that has gone from the books."""

    uid: str
    generation: int
    withdrawn_ns: int | None
    job_id: str | None
    tenant: str | None
    phase: JobPhase | None
    suspended: bool | None
    attempt: int | None
    cluster: str | None
    """Where the job is, not where it came from."""
    reason: str | None


class Origins(Keyed[Origin]):
    """By cluster and UID, for ever unique: what is there once never becomes a second job."""

    table, noun, row = tables.origins, "origin", Origin

    async def add_all(self, rows: Sequence[Origin]) -> None:
        """Store where new jobs come from; `DuplicateError` where one is known already."""
        if rows:
            values = [
                values_of(each) | {"created_ns": each.created_ns or self._link.now_ns}
                for each in rows
            ]
            await self._link.execute(
                _ORIGINS.insert(), self._subject(*self._key_of(rows[0])), values
            )

    async def wished(self, cluster: str, uids: Collection[str]) -> dict[str, Wished]:
        """What has become of wishes, of those that are known."""
        columns = [
            *(_ORIGINS.c[name] for name in ("uid", "generation", "withdrawn_ns", "job_id")),
            *(_JOBS.c[name] for name in ("tenant", "phase", "suspended", "attempt", "cluster")),
            _JOBS.c.reason,
        ]
        found: dict[str, Wished] = {}
        for part in in_parts(sorted(uids)):
            rows = await self._link.execute(
                sa.select(*columns)
                .select_from(_ORIGINS.outerjoin(_JOBS, _JOBS.c.id == _ORIGINS.c.job_id))
                .where(_ORIGINS.c.cluster == cluster, _ORIGINS.c.uid.in_(part)),
                self.noun,
            )
            found |= {row.uid: Wished(*row) for row in rows}
        return found

    async def hold(self, cluster: str, uid: str) -> Origin | None:
        """One that nobody else changes until this transaction ends; None: it is not known."""
        rows = await self._rows(
            sa.select(_ORIGINS).where(self._is((cluster, uid))).with_for_update()
        )
        return rows[0] if rows else None

    async def heard(self, cluster: str, uid: str, generation: int, *, withdrawn: bool) -> None:
        """Note up to which of its changes the object is known here, and whether it is gone."""
        gone_ns = self._link.now_ns if withdrawn else None
        await self._link.execute(
            _ORIGINS.update()
            .where(self._is((cluster, uid)))
            .values(generation=generation, withdrawn_ns=gone_ns),
            self._subject(cluster, uid),
        )
