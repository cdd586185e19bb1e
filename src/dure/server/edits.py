"""What owners change of jobs that are stored: their end, their rank, whether they wait."""

from dataclasses import replace

from dure.domain.fleet.lifecycle import AttemptState, JobPhase
from dure.server.changes import read_changes
from dure.stores.repos.jobs import Step
from dure.stores.rows import Job, NewEvent
from dure.stores.transaction import Transaction

EDITED = "job.changed"
"""Without a phase: its owner changed it."""


async def cancel(tx: Transaction, job_id: str, who: str) -> NewEvent | None:
    """Let a job end; the event that tells of it is to be stored, None: it ends or has ended."""
    standing = (await tx.jobs.lock([job_id]))[job_id]
    if standing.phase.ended or standing.phase is JobPhase.CANCELLING:
        return None
    step = Step(
        job_id,
        JobPhase.CANCELLING,
        standing.attempt,
        standing.cluster,
        standing.failures,
        f"cancelled by {who}",
    )
    await tx.jobs.step_all([step])
    return NewEvent("job.cancelled", job_id, standing.tenant)


async def edit(
    tx: Transaction,
    job: Job,
    *,
    priority: int | None = None,
    suspended: bool | None = None,
    pinned: bool | None = None,
) -> NewEvent | None:
    """Give a job another rank, suspend it or let it go on, pin it or not any more; what is not said
    stays as somebody else may have changed it meanwhile. None: nothing is to be changed."""
    changed: dict[str, int | bool] = {}
    if priority not in (None, job.priority):
        changed["priority"] = priority
    if suspended not in (None, job.suspended):
        changed["suspended"] = suspended
    if pinned not in (None, job.pinned):
        changed["pinned"] = pinned
    if job.phase.ended or not changed:
        return None
    if "priority" in changed:
        await _tell_members(tx, job.id)
    else:
        await tx.jobs.lock([job.id])
    await tx.jobs.edit(job.id, changed)
    return NewEvent(EDITED, job.id, job.tenant, changed)


async def _tell_members(tx: Transaction, job_id: str) -> None:
    """Let the clusters of a job hear of it anew: an order names the priority."""
    clusters = {each.cluster for each in await tx.attempts.unfinished_of([job_id])}
    revisions = {name: await tx.clusters.next_revision(name) for name in sorted(clusters)}
    changes = await read_changes(tx, (), [job_id])
    await tx.attempts.put_all(
        [
            replace(each, desired_revision=revisions[each.cluster])
            for each in changes.attempts.values()
            if each.cluster in revisions and each.state is not AttemptState.GONE
        ]
    )
