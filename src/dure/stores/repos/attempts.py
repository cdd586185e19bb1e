"""Attempts of jobs: only legal steps, and one live attempt of a training or batch job at most."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import sqlalchemy as sa

from dure.domain.fleet.lifecycle import LEGAL_STEPS, LIVE_STATES, AttemptState, JobPhase
from dure.stores import tables
from dure.stores.errors import ConflictError, DuplicateError, IllegalStepError
from dure.stores.repos.base import Keyed, changed_rows, in_parts, values_of
from dure.stores.rows import Attempt

_ATTEMPTS, _GONE = tables.attempts, AttemptState.GONE
FIRST = ("", 0)
"""Before every key."""
_CHANGING = (
    *("state", "reason", "spec", "status", "desired_revision", "dropped_ns"),
    *(f"{state.value}_ns" for state in AttemptState),
)


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

    async def counts(self) -> dict[tuple[str, AttemptState], int]:
        """How many attempts that are not gone each cluster has in each state."""
        found = await self._link.execute(
            sa.select(_ATTEMPTS.c.cluster, _ATTEMPTS.c.state, sa.func.count())
            .where(_ATTEMPTS.c.state != _GONE)
            .group_by(_ATTEMPTS.c.cluster, _ATTEMPTS.c.state),
            "counts of attempts",
        )
        return {(row[0], row[1]): int(row[2]) for row in found}

    async def add_all(self, rows: Sequence[Attempt]) -> None:
        """Reserve new attempts of jobs that are locked, each numbered above its job's latest."""
        now_ns = self._link.now_ns
        stamped = [values_of(replace(row, reserved_ns=now_ns)) for row in rows]
        if any(row.state is not AttemptState.RESERVED for row in rows):
            raise IllegalStepError("new attempts must begin as reserved", "advance them later")
        if stamped:
            await self._link.execute(_ATTEMPTS.insert(), self.noun, stamped)

    async def lock(self, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], Attempt]:
        """Those that are there, which nobody else changes until this transaction ends."""
        found: dict[tuple[str, int], Attempt] = {}
        key = sa.tuple_(_ATTEMPTS.c.job_id, _ATTEMPTS.c.attempt)
        for part in in_parts(sorted(keys), 200):
            rows = await self._rows(
                sa.select(_ATTEMPTS)
                .where(key.in_(part))
                .order_by(*_ATTEMPTS.primary_key)
                .with_for_update(key_share=True)
            )
            found |= {(row.job_id, row.attempt): row for row in rows}
        return found

    async def put_all(self, rows: Sequence[Attempt]) -> None:
        """Store what became of attempts that are locked; the time of a new state is filled in."""
        if not rows:
            return
        now_ns = self._link.now_ns
        statement = (
            _ATTEMPTS.update()
            .where(
                _ATTEMPTS.c.job_id == sa.bindparam("key_job"),
                _ATTEMPTS.c.attempt == sa.bindparam("key_attempt"),
            )
            .values({name: sa.bindparam(f"new_{name}") for name in _CHANGING})
        )
        values = []
        for row in rows:
            stamped = values_of(row)
            stamp = f"{row.state.value}_ns"
            if stamped[stamp] is None:
                stamped[stamp] = now_ns
            values.append(
                {f"new_{name}": stamped[name] for name in _CHANGING}
                | {"key_job": row.job_id, "key_attempt": row.attempt}
            )
        try:
            await self._link.execute(statement, self.noun, values)
        except DuplicateError as error:
            raise _not_alone(rows[0]) from error

    async def of_jobs(self, job_ids: Collection[str]) -> tuple[Attempt, ...]:
        """All attempts of these jobs, by job, the oldest first."""
        found: list[Attempt] = []
        for part in in_parts(sorted(job_ids)):
            found += await self._rows(
                sa.select(_ATTEMPTS)
                .where(_ATTEMPTS.c.job_id.in_(part))
                .order_by(*_ATTEMPTS.primary_key)
            )
        return tuple(found)

    async def unfinished_of(self, job_ids: Collection[str]) -> tuple[Attempt, ...]:
        """Attempts of these jobs that are not gone."""
        found: list[Attempt] = []
        for part in in_parts(sorted(job_ids)):
            found += await self._rows(
                sa.select(_ATTEMPTS)
                .where(_ATTEMPTS.c.job_id.in_(part), _ATTEMPTS.c.state != AttemptState.GONE)
                .order_by(*_ATTEMPTS.primary_key)
            )
        return tuple(found)

    async def services_of(self, cluster: str) -> set[str]:
        """Services that have not ended and have, or had, a place in a cluster."""
        c, jobs = _ATTEMPTS.c, tables.jobs
        live = [phase for phase in JobPhase if not phase.ended]
        found = await self._link.execute(
            sa.select(c.job_id)
            .distinct()
            .join(jobs, jobs.c.id == c.job_id)
            .where(c.cluster == cluster, ~c.exclusive, jobs.c.phase.in_(live)),
            self.noun,
        )
        return {row[0] for row in found}

    async def jobs_unseen(self, cluster: str) -> set[str]:
        """Jobs with a place in a cluster of which nobody knows how they are."""
        c, jobs = _ATTEMPTS.c, tables.jobs
        found = await self._link.execute(
            sa.select(c.job_id)
            .distinct()
            .join(jobs, jobs.c.id == c.job_id)
            .where(
                c.cluster == cluster,
                c.state != AttemptState.GONE,
                jobs.c.phase == JobPhase.UNKNOWN,
            ),
            self.noun,
        )
        return {row[0] for row in found}

    async def in_set(
        self, cluster: str, *, since: int | None = None, after: tuple[str, int] = FIRST, most: int
    ) -> tuple[Attempt, ...]:
        """Some of a cluster's desired set, by key: unfinished ones, and those kept for a while.

        With `since`, all of which it shall hear something since that revision of the set.
        """
        c = _ATTEMPTS.c
        if since is None:
            asked = sa.or_(
                c.state.in_([each for each in AttemptState if each is not _GONE]),
                sa.and_(c.state == _GONE, c.dropped_ns.is_(None)),
            )
        else:
            asked = c.desired_revision > since
        return await self._rows(
            sa.select(_ATTEMPTS)
            .where(c.cluster == cluster, asked, sa.tuple_(c.job_id, c.attempt) > sa.tuple_(*after))
            .order_by(*_ATTEMPTS.primary_key)
            .limit(most)
        )

    async def kept(self, cluster: str) -> tuple[tuple[str, int, int], ...]:
        """Attempts that are gone and kept, the newest first: job, attempt, when it went."""
        c = _ATTEMPTS.c
        found = await self._link.execute(
            sa.select(c.job_id, c.attempt, c.gone_ns)
            .where(c.cluster == cluster, c.state == _GONE, c.dropped_ns.is_(None))
            .order_by(c.gone_ns.desc()),
            self.noun,
        )
        return tuple((row[0], row[1], row[2]) for row in found)

    async def drop(self, keys: Collection[tuple[str, int]], revision: int) -> None:
        """Let attempts that are gone leave their cluster's desired set with a revision of it."""
        key = sa.tuple_(_ATTEMPTS.c.job_id, _ATTEMPTS.c.attempt)
        for part in in_parts(sorted(keys), 200):
            await self._link.execute(
                _ATTEMPTS.update()
                .where(key.in_(part), _ATTEMPTS.c.state == _GONE)
                .values(dropped_ns=self._link.now_ns, desired_revision=revision),
                self.noun,
            )

    async def saved_shares(self, job_ids: Collection[str]) -> dict[str, float]:
        """How much of their work a checkpoint has saved, of jobs whose attempts said so."""
        shares: dict[str, float] = {}
        columns = (_ATTEMPTS.c.job_id, _ATTEMPTS.c.status)
        for part in in_parts(sorted(job_ids)):
            found = await self._link.execute(
                sa.select(*columns).where(_ATTEMPTS.c.job_id.in_(part)), self.noun
            )
            for job_id, status in found:
                share = float(status.get("saved_share", 0.0))
                shares[job_id] = max(share, shares.get(job_id, 0.0))
        return shares

    async def mark_sent(self, keys: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
        """Note, before it is said, that a cluster may hear of reservations; those still there."""
        marked: set[tuple[str, int]] = set()
        key = sa.tuple_(_ATTEMPTS.c.job_id, _ATTEMPTS.c.attempt)
        for part in in_parts(sorted(keys), 200):
            found = await self._link.execute(
                _ATTEMPTS.update()
                .where(key.in_(part), _ATTEMPTS.c.state == AttemptState.RESERVED)
                .values(sent_ns=sa.func.coalesce(_ATTEMPTS.c.sent_ns, self._link.now_ns))
                .returning(_ATTEMPTS.c.job_id, _ATTEMPTS.c.attempt),
                self.noun,
            )
            marked |= {(row.job_id, row.attempt) for row in found}
        return marked

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
