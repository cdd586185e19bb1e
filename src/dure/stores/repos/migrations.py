"""Migrations of jobs: one unfinished at a time for each, and a leader that goes on from its row."""

from collections.abc import Collection, Sequence

import sqlalchemy as sa

from dure.domain.fleet.migrations import MoveStep
from dure.stores import tables
from dure.stores.errors import ConflictError
from dure.stores.repos.base import Keyed, changed_rows, in_parts, values_of
from dure.stores.rows import Migration

_ROWS = tables.migrations
_OWN = frozenset({"id", "job_id", "acked", "abort_by", "begun_ns"})
"""Not the leader's to change."""


class Migrations(Keyed[Migration]):
    """By id. The leader alone takes steps; others ask for one, call it off, or say that a
    checkpoint is there."""

    table, noun, row = _ROWS, "migration", Migration

    async def unfinished(self, jobs: Collection[str] | None = None) -> tuple[Migration, ...]:
        """Those that have not ended, of these jobs or of all."""
        wanted = sa.select(_ROWS).where(_ROWS.c.ended_ns.is_(None)).order_by(_ROWS.c.id)
        if jobs is None:
            return await self._rows(wanted)
        found: list[Migration] = []
        for part in in_parts(sorted(jobs)):
            found += await self._rows(wanted.where(_ROWS.c.job_id.in_(part)))
        return tuple(found)

    async def latest(self, job_id: str) -> Migration | None:
        """The last of a job, under way or over; None: it never moved."""
        found = await self._rows(
            sa.select(_ROWS).where(_ROWS.c.job_id == job_id).order_by(_ROWS.c.id.desc()).limit(1)
        )
        return found[0] if found else None

    async def step_all(self, rows: Sequence[Migration]) -> None:
        """Store what became of migrations; refused where one was called off since it was read:
        then nothing of what belongs to the step may be stored either."""
        for row in rows:
            subject, values = self._subject(row.id), values_of(row)
            if await self.find(row.id) is None:
                await self._link.execute(_ROWS.insert().values(values), subject)
                continue
            changed = {name: value for name, value in values.items() if name not in _OWN}
            written = await self._link.execute(
                _ROWS.update()
                .where(_ROWS.c.id == row.id, _ROWS.c.abort_by == row.abort_by)
                .values(changed),
                subject,
            )
            if changed_rows(written) == 0:
                raise ConflictError(f"{subject} was called off meanwhile", "look at it again")

    async def abort(self, row: Migration, who: str) -> bool:
        """Have a migration called off; False where it is too late."""
        steps = [step for step in MoveStep if step.abortable]
        written = await self._link.execute(
            _ROWS.update()
            .where(_ROWS.c.id == row.id, _ROWS.c.ended_ns.is_(None), _ROWS.c.step.in_(steps))
            .values(abort_by=who),
            self._subject(row.id),
        )
        return changed_rows(written) > 0

    async def acknowledge(self, row: Migration, number: int) -> None:
        """The job's program says that a checkpoint is saved."""
        await self._link.execute(
            _ROWS.update().where(_ROWS.c.id == row.id, _ROWS.c.acked < number).values(acked=number),
            self._subject(row.id),
        )
