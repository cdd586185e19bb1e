"""Desired sets of clusters, made from the database: whole ones and differences."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dure.api.clusters import ClusterSpec
from dure.domain.errors import DureError
from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.domain.fleet.protocol.desired import AttemptKey, Desired, Plan, Surroundings, Want
from dure.domain.ids import WorkloadId
from dure.server import specs
from dure.server.changes import Key
from dure.server.declared import read_declared
from dure.server.ports import State
from dure.server.records import CHECKPOINT, REPLACES, order_of
from dure.stores.repos.attempts import FIRST
from dure.stores.repos.base import in_parts
from dure.stores.rows import Attempt, Cluster, Job
from dure.stores.transaction import Transaction

_AT_A_TIME = 300
"""Attempts that are read or written in one go; in between, others have their turn."""


@dataclass(frozen=True, slots=True)
class Known:
    """The desired set that a member was last told; nothing at the begin of a link."""

    epoch: int = 0
    revision: int = -1

    @property
    def nothing(self) -> bool:
        """Whether it was told none."""
        return self.revision < 0


@dataclass
class _Found:
    """What the database said of a new desired set, at one moment."""

    cluster: Cluster
    base: int | None
    desired: dict[Key, Desired] = field(default_factory=dict)
    new: list[Key] = field(default_factory=list)
    """Of those, which the cluster was never told before."""
    removed: list[Key] = field(default_factory=list)
    surroundings: Surroundings | None = None

    def plan(self) -> Plan:
        """As it is told."""
        return Plan(
            epoch=self.cluster.desired_epoch,
            revision=self.cluster.desired_revision,
            base=self.base,
            desired=tuple(self.desired.values()),
            removed=() if self.base is None else _keys(self.removed),
            surroundings=self.surroundings,
        )


class PlanSource:
    """Reads what a cluster shall have."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def next(self, cluster: str, link_epoch: int, known: Known) -> Plan | None:
        """What is new since what is known; None: nothing. Refused where the link is over.

        What it contains counts as sent from here on, whether it arrives or not.
        """
        async with self._state.reading() as tx:
            found = await _find(tx, cluster, known)
        if found is None:
            return None
        for some in in_parts(found.new, _AT_A_TIME) if found.new else [()]:
            async with self._state.transaction() as tx:
                row = await tx.clusters.hold_link(cluster, link_epoch)
                if row.desired_epoch != found.cluster.desired_epoch:
                    return None  # Another server leads: its whole set is read at the next look.
                marked = await tx.attempts.mark_sent(some)
            for key in set(some) - marked:
                # It was given up before anybody heard of it.
                del found.desired[key]
        return found.plan()


async def _find(tx: Transaction, cluster: str, known: Known) -> _Found | None:
    """Read the set of one revision, some attempts at a time, so that others have their turn."""
    row = await tx.clusters.get(cluster)
    if (row.desired_epoch, row.desired_revision) == (known.epoch, known.revision):
        return None
    whole = known.nothing or known.epoch != row.desired_epoch
    found = _Found(row, None if whole else known.revision)
    spec, after = specs.cluster_spec(row), FIRST
    while page := await tx.attempts.in_set(cluster, since=found.base, after=after, most=_AT_A_TIME):
        after = (page[-1].job_id, page[-1].attempt)
        found.removed += [_key(each) for each in page if each.dropped_ns is not None]
        rest = [each for each in page if each.dropped_ns is None]
        jobs = {job.id: job for job in await tx.jobs.many({each.job_id for each in rest})}
        wanted = await _may_be_sent(tx, rest, jobs)
        await asyncio.to_thread(_want, found, spec, wanted, jobs)
    if found.base is None or row.surroundings_revision > found.base:
        found.surroundings = (await read_declared(tx)).surroundings(cluster)
    return found


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


def _want(
    found: _Found, spec: ClusterSpec, wanted: Iterable[Attempt], jobs: Mapping[str, Job]
) -> None:
    for attempt in wanted:
        job, key = jobs[attempt.job_id], _key(attempt)
        try:
            found.desired[key] = _desired(attempt, job, specs.namespace_of(spec, job.tenant))
        except DureError:
            # Its document cannot be read any more: better that it ends than that nothing works.
            found.removed.append(key)
            continue
        if attempt.sent_ns is None:
            found.new.append(key)


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
        checkpoint=0 if ends else int(attempt.spec.get(CHECKPOINT, 0)),
        gentle=REPLACES in attempt.spec and attempt.running_ns is None,
    )


def _key(attempt: Attempt) -> Key:
    return (attempt.job_id, attempt.attempt)


def _keys(keys: Iterable[Key]) -> tuple[AttemptKey, ...]:
    return tuple(AttemptKey(WorkloadId(job), attempt) for job, attempt in keys)
