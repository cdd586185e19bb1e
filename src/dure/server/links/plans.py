"""Desired sets of clusters, made from the database: whole ones and differences."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dure.domain.errors import DureError
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol import AttemptKey, Desired, Plan, Surroundings, Want
from dure.domain.ids import WorkloadId
from dure.server import specs
from dure.server.declared import read_declared
from dure.server.ports import State
from dure.server.records import order_of
from dure.stores.rows import Attempt, Cluster, Job
from dure.stores.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Known:
    """The desired set that a member was last told; nothing at the begin of a link."""

    epoch: int = 0
    revision: int = -1

    @property
    def nothing(self) -> bool:
        """Whether it was told none."""
        return self.revision < 0


@dataclass(frozen=True)
class _Found:
    """What the database says of a new desired set."""

    cluster: Cluster
    base: int | None
    wanted: tuple[Attempt, ...]
    gone: tuple[Attempt, ...]
    jobs: dict[str, Job]
    surroundings: Surroundings | None


class PlanSource:
    """Reads what a cluster shall have."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def newer(self, cluster: str, known: Known) -> bool:
        """Whether there is something that the member was not told."""
        async with self._state.reading() as tx:
            row = await tx.clusters.get(cluster)
        return (row.desired_epoch, row.desired_revision) != (known.epoch, known.revision)

    async def next(self, cluster: str, link_epoch: int, known: Known) -> Plan | None:
        """What is new since what is known; None: nothing. Refused where the link is over.

        What it contains counts as sent from here on, whether it arrives or not.
        """
        if not await self.newer(cluster, known):
            return None
        async with self._state.transaction() as tx:
            found = await _find(tx, cluster, link_epoch, known)
        return await asyncio.to_thread(_plan, found)


async def _find(tx: Transaction, cluster: str, link_epoch: int, known: Known) -> _Found:
    # Whoever changes what a cluster shall have changes its row in the same transaction, and waits
    # for this one to end: the set is the one of the revision.
    row = await tx.clusters.hold_link(cluster, link_epoch)
    whole = known.nothing or known.epoch != row.desired_epoch
    base = None if whole else known.revision
    if base is None:
        changed = await tx.attempts.in_set(cluster)
    else:
        changed = await tx.attempts.changed_since(cluster, base)
    gone = tuple(each for each in changed if each.dropped_ns is not None)
    rest = [each for each in changed if each.dropped_ns is None]
    jobs = {job.id: job for job in await tx.jobs.many({each.job_id for each in rest})}
    wanted = await _may_be_sent(tx, rest, jobs)
    new = [each for each in wanted if each.sent_ns is None]
    await tx.attempts.mark_sent([(each.job_id, each.attempt) for each in new])
    surroundings = None
    if base is None or row.surroundings_revision > base:
        surroundings = (await read_declared(tx)).surroundings(cluster)
    return _Found(row, base, wanted, gone, jobs, surroundings)


async def _may_be_sent(
    tx: Transaction, attempts: Sequence[Attempt], jobs: dict[str, Job]
) -> tuple[Attempt, ...]:
    """All but reservations that wait for an older attempt to end, or whose job is not wanted."""
    waiting = {
        each.job_id
        for each in attempts
        if each.state is AttemptState.RESERVED and each.exclusive and each.attempt > 1
    }
    oldest: dict[str, int] = {}
    for each in await tx.attempts.unfinished_of(waiting):
        oldest[each.job_id] = min(each.attempt, oldest.get(each.job_id, each.attempt))
    return tuple(
        each
        for each in attempts
        if each.state is not AttemptState.RESERVED
        or each.sent_ns is not None
        or (
            oldest.get(each.job_id, each.attempt) == each.attempt
            and jobs[each.job_id].phase is not JobPhase.CANCELLING
        )
    )


def _plan(found: _Found) -> Plan:
    spec = specs.cluster_spec(found.cluster)
    desired, unreadable = [], []
    for attempt in found.wanted:
        job = found.jobs[attempt.job_id]
        try:
            desired.append(_desired(attempt, job, specs.namespace_of(spec, job.tenant)))
        except DureError:
            # Its document cannot be read any more: better that it ends than that nothing works.
            unreadable.append(attempt)
    return Plan(
        epoch=found.cluster.desired_epoch,
        revision=found.cluster.desired_revision,
        base=found.base,
        desired=tuple(desired),
        removed=() if found.base is None else _keys([*found.gone, *unreadable]),
        surroundings=found.surroundings,
    )


def _desired(attempt: Attempt, job: Job, namespace: str) -> Desired:
    terms = specs.job_terms(job)
    ends = attempt.state in (AttemptState.RELEASING, AttemptState.GONE)
    return Desired(
        order=order_of(attempt, replace(terms.workload, priority=job.priority)),
        program=terms.program,
        namespace=namespace,
        want=Want.RELEASE if ends else Want.RUN,
        why=attempt.reason if ends else "",
        fence_after_s=terms.fence_after_s,
    )


def _keys(attempts: Iterable[Attempt]) -> tuple[AttemptKey, ...]:
    return tuple(AttemptKey(WorkloadId(each.job_id), each.attempt) for each in attempts)
