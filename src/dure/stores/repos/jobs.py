"""Jobs: added, found, changed by those who saw the latest revision, listed page by page."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from dure.domain.fleet.lifecycle import JobPhase
from dure.stores import tables
from dure.stores.repos.base import Page, Versioned, in_parts, values_of
from dure.stores.rows import Job

_JOBS, _LABELS = tables.jobs, tables.job_labels
_STEPPED = ("phase", "attempt", "cluster", "failures", "reason", "ended_ns")


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are wanted; what is left empty does not matter."""

    tenant: str | None = None
    team: str | None = None
    service: str | None = None
    name: str | None = None
    cluster: str | None = None
    array_id: str | None = None
    phases: frozenset[JobPhase] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)


class Standing(NamedTuple):
    """Where a job stands, without what its owner wrote."""

    id: str
    tenant: str
    team: str
    service: str
    phase: JobPhase
    attempt: int
    cluster: str | None
    failures: int
    reason: str
    suspended: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of a job."""

    id: str
    phase: JobPhase
    attempt: int
    cluster: str | None
    failures: int
    reason: str = ""


class Jobs(Versioned[Job]):
    """Jobs of all tenants. `put` is for people's changes, steps are what happens to a job."""

    table, noun, row = tables.jobs, "job", Job
    fixed = frozenset(
        {"tenant", "team", "service", "name", "spec", "labels", "array_id", "array_index"}
        | {"submitted_ns"}
    )

    async def add(self, row: Job) -> Job:
        """Store a new job."""
        return (await self.add_all([row]))[0]

    async def add_all(self, rows: Sequence[Job]) -> tuple[Job, ...]:
        """Store new jobs, all or none."""
        now_ns = self._link.now_ns
        stamped = tuple(
            replace(row, submitted_ns=row.submitted_ns or now_ns, updated_ns=now_ns) for row in rows
        )
        if not stamped:
            return stamped
        subject = self._subject(stamped[0].id) + ("" if len(stamped) == 1 else " or one beside it")
        await self._link.execute(_JOBS.insert(), subject, [values_of(row) for row in stamped])
        labels = [
            {"job_id": row.id, "label": label, "value": value}
            for row in stamped
            for label, value in row.labels.items()
        ]
        if labels:
            await self._link.execute(_LABELS.insert(), subject, labels)
        return stamped

    async def put(self, row: Job) -> Job:
        """Store a changed job; refused if it changed since it was read."""
        ended_ns = (row.ended_ns or self._link.now_ns) if row.phase.ended else None
        return await super().put(replace(row, updated_ns=self._link.now_ns, ended_ns=ended_ns))

    async def many(self, ids: Collection[str]) -> tuple[Job, ...]:
        """Those that are there, by id."""
        found: list[Job] = []
        for part in in_parts(sorted(ids)):
            found += await self._rows(
                sa.select(_JOBS).where(_JOBS.c.id.in_(part)).order_by(_JOBS.c.id)
            )
        return tuple(found)

    async def live(self, after: str = "", limit: int = 1000) -> tuple[Job, ...]:
        """Jobs that have not ended, by id, from the one after."""
        phases = [phase for phase in JobPhase if not phase.ended]
        # One walk along the index for each phase: the ended ones are by far the most.
        return (
            await self.page(JobFilter(phases=frozenset(phases)), cursor=after, limit=limit)
        ).rows

    async def lock(self, ids: Collection[str]) -> dict[str, Standing]:
        """Where jobs stand, which nobody else changes until this transaction ends."""
        columns = [_JOBS.c[name] for name in Standing._fields]
        found: dict[str, Standing] = {}
        for part in in_parts(sorted(ids)):
            rows = await self._link.execute(
                sa.select(*columns)
                .where(_JOBS.c.id.in_(part))
                .order_by(_JOBS.c.id)
                .with_for_update(key_share=True),
                self.noun,
            )
            found |= {row.id: Standing(*row) for row in rows}
        return found

    async def step_all(self, steps: Sequence[Step]) -> None:
        """Let jobs, which were locked, take a step."""
        if not steps:
            return
        now_ns = self._link.now_ns
        statement = (
            _JOBS.update()
            .where(_JOBS.c.id == sa.bindparam("key"))
            .values(
                {name: sa.bindparam(f"new_{name}") for name in _STEPPED}
                | {"updated_ns": now_ns, "revision": _JOBS.c.revision + 1}
            )
        )
        rows = [
            {f"new_{name}": value for name, value in values_of(step).items() if name != "id"}
            | {"key": step.id, "new_ended_ns": now_ns if step.phase.ended else None}
            for step in steps
        ]
        await self._link.execute(statement, self.noun, rows)

    async def edit(self, job_id: str, changed: Mapping[str, int | bool]) -> None:
        """Change what its owner may change of a job, which was locked."""
        await self._link.execute(
            _JOBS.update()
            .where(_JOBS.c.id == job_id)
            .values(
                **changed,
                updated_ns=self._link.now_ns,
                revision=_JOBS.c.revision + 1,
            ),
            self._subject(job_id),
        )

    async def tell_why(self, reasons: Mapping[str, str]) -> None:
        """Say why jobs wait that still do; that is no change that others would have to see."""
        if not reasons:
            return
        statement = (
            _JOBS.update()
            .where(_JOBS.c.id == sa.bindparam("key"), _JOBS.c.phase == JobPhase.QUEUED)
            .values(reason=sa.bindparam("why"))
        )
        rows = [{"key": each, "why": why} for each, why in sorted(reasons.items())]
        await self._link.execute(statement, self.noun, rows)

    async def page(
        self,
        wanted: JobFilter | None = None,
        *,
        cursor: str = "",
        limit: int = 100,
        newest_first: bool = False,
    ) -> Page[Job]:
        """Jobs in the order of submission, or against it, from where the cursor points.

        The last page is the first one against the order.
        """
        ids = _ids(wanted or JobFilter(), cursor, limit + 1, newest_first)
        order = _JOBS.c.id.desc() if newest_first else _JOBS.c.id
        rows = await self._rows(
            sa.select(_JOBS).where(_JOBS.c.id.in_(ids)).order_by(order).limit(limit + 1)
        )
        more = len(rows) > limit
        return Page(rows[:limit], rows[limit - 1].id if more else "")

    async def counts(self, tenant: str | None = None) -> dict[JobPhase, int]:
        """How many jobs are in each phase."""
        which = [] if tenant is None else [_JOBS.c.tenant == tenant]
        found = await self._link.execute(
            sa.select(_JOBS.c.phase, sa.func.count()).where(*which).group_by(_JOBS.c.phase),
            "counts of jobs",
        )
        return {row[0]: int(row[1]) for row in found}


def _ids(
    wanted: JobFilter, cursor: str, limit: int, newest_first: bool
) -> sa.ScalarSelect[Any] | sa.Select[Any]:
    """The ids of a page. Each phase is a walk along its own index, then the walks are merged."""
    walks = [
        _walk(wanted, phase, cursor, limit, newest_first) for phase in (wanted.phases or [None])
    ]
    if len(walks) == 1:
        return sa.select(walks[0].subquery().c.id)
    merged = sa.union_all(*(sa.select(walk.subquery().c.id) for walk in walks)).subquery()
    order = merged.c.id.desc() if newest_first else merged.c.id
    return sa.select(sa.select(merged.c.id).order_by(order).limit(limit).subquery().c.id)


def _walk(
    wanted: JobFilter, phase: JobPhase | None, cursor: str, limit: int, newest_first: bool
) -> sa.Select[Any]:
    columns = ("tenant", "team", "service", "name", "cluster", "array_id")
    asked = {name: getattr(wanted, name) for name in columns} | {"phase": phase}
    where = [_JOBS.c[name] == value for name, value in asked.items() if value is not None]
    source, key = sa.select(_JOBS.c.id.label("id")), _JOBS.c.id
    for number, (label, value) in enumerate(wanted.labels.items()):
        labels = _LABELS.alias(f"label_{number}")
        source = source.join(labels, labels.c.job_id == _JOBS.c.id)
        where += [labels.c.label == label, labels.c.value == value]
        key = labels.c.job_id
    if cursor:
        where.append(key < cursor if newest_first else key > cursor)
    return source.where(*where).order_by(key.desc() if newest_first else key).limit(limit)
