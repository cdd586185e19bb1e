"""Attempts of jobs: only legal steps, and one live attempt of a training or batch job at most."""

import sqlalchemy as sa

from dure.domain.fleet.lifecycle import LEGAL_STEPS, LIVE_STATES, AttemptState
from dure.stores import tables
from dure.stores.errors import ConflictError, DuplicateError, IllegalStepError
from dure.stores.repos.base import Keyed, changed_rows
from dure.stores.rows import Attempt

_ATTEMPTS = tables.attempts


class Attempts(Keyed[Attempt]):
    """Attempts of all jobs; the schema itself refuses illegal steps and a second live attempt."""

    table, noun, row = tables.attempts, "attempt", Attempt

    async def add(self, row: Attempt) -> Attempt:
        """Reserve a new attempt; its number must be greater than all before, since it fences."""
        if row.state is not AttemptState.RESERVED:
            raise IllegalStepError(
                f"{self._subject(row.job_id, row.attempt)} must begin as reserved", "advance it"
            )
        found = await self._link.execute(
            sa.select(sa.func.max(_ATTEMPTS.c.attempt)).where(_ATTEMPTS.c.job_id == row.job_id),
            self.noun,
        )
        latest = found.scalar_one()
        if latest is not None and latest >= row.attempt:
            raise ConflictError(
                f"job {row.job_id} has had attempt {latest}; {row.attempt} is not newer",
                "read the job again",
            )
        stamped = Attempt(
            row.job_id,
            row.attempt,
            row.cluster,
            row.epoch,
            row.desired_revision,
            row.exclusive,
            spec=row.spec,
            reserved_ns=self._link.now_ns,
        )
        return await super().add(stamped)

    async def advance(
        self, job_id: str, attempt: int, to: AttemptState, *, reason: str = ""
    ) -> Attempt:
        """Take an attempt to its next state; nothing happens where it is there already."""
        stored = await self.get(job_id, attempt)
        if stored.state is to:
            return stored
        subject = self._subject(job_id, attempt)
        if to not in LEGAL_STEPS[stored.state]:
            raise IllegalStepError(
                f"{subject} cannot go from {stored.state.value} to {to.value}",
                "read its state again",
            )
        if to is AttemptState.COMMITTED and stored.exclusive:
            await self._must_be_alone(stored)
        changes = {"state": to, f"{to.value}_ns": self._link.now_ns}
        if reason:
            changes["reason"] = reason
        try:
            written = await self._link.execute(
                _ATTEMPTS.update()
                .where(self._is((job_id, attempt)), _ATTEMPTS.c.state == stored.state)
                .values(changes),
                subject,
            )
        except DuplicateError as error:
            raise _not_alone(stored) from error
        if changed_rows(written) == 0:
            raise ConflictError(f"{subject} was changed meanwhile", "read its state again")
        return await self.get(job_id, attempt)

    async def of_job(self, job_id: str) -> tuple[Attempt, ...]:
        """All attempts of a job, the oldest first."""
        return await self.all(job_id=job_id)

    async def unfinished(self, cluster: str | None = None) -> tuple[Attempt, ...]:
        """Attempts that are not gone, of one cluster or of all."""
        states = [state for state in AttemptState if state is not AttemptState.GONE]
        where: list[sa.ColumnElement[bool]] = [_ATTEMPTS.c.state.in_(states)]
        if cluster is not None:
            where.append(_ATTEMPTS.c.cluster == cluster)
        return await self._rows(sa.select(_ATTEMPTS).where(*where).order_by(*_ATTEMPTS.primary_key))

    async def _must_be_alone(self, asked: Attempt) -> None:
        found = await self._link.execute(
            sa.select(_ATTEMPTS.c.attempt).where(
                _ATTEMPTS.c.job_id == asked.job_id,
                _ATTEMPTS.c.exclusive,
                _ATTEMPTS.c.state.in_(list(LIVE_STATES)),
            ),
            self.noun,
        )
        if found.first() is not None:
            raise _not_alone(asked)


def _not_alone(asked: Attempt) -> ConflictError:
    return ConflictError(
        f"attempt {asked.attempt} of job {asked.job_id} cannot be committed while an older one is "
        "not gone",
        "release the older one and wait until it is gone",
    )
