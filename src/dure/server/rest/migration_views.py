"""Rows of migrations as documents, and beside the jobs they belong to."""

from typing import TypeVar

from dure.api.base import maybe_moment, moment_text
from dure.api.job_views import JobDocument, JobExplanation, JobSummary
from dure.api.migrations import MigrationDocument
from dure.stores.rows import Migration

SummaryT = TypeVar("SummaryT", bound=JobSummary)
ShownT = TypeVar("ShownT", JobDocument, JobExplanation)


def migration_document(row: Migration) -> MigrationDocument:
    """A migration, under way or over."""
    return MigrationDocument(
        id=row.id,
        job=row.job_id,
        kind=row.kind,
        step=row.step,
        reason=row.reason,
        from_attempt=row.old_attempt,
        from_cluster=row.old_cluster,
        to_attempt=row.new_attempt,
        to_cluster=row.new_cluster,
        checkpoint=row.request,
        asked_by=row.asked_by,
        why=row.why,
        saving=row.saving,
        egress=row.egress,
        carbon_saved_g=row.carbon_saved_g,
        aborted_by=row.abort_by,
        begun_at=moment_text(row.begun_ns),
        since=moment_text(row.since_ns),
        ended_at=maybe_moment(row.ended_ns),
    )


def with_step(job: SummaryT, row: Migration | None) -> SummaryT:
    """A job, with the step of a migration that is under way."""
    if row is None or row.step.ended:
        return job
    where = f" → {row.new_cluster}" if row.new_cluster else ""
    return job.model_copy(update={"moving": f"{row.step.value}{where}"})


def with_migration(shown: ShownT, row: Migration | None) -> ShownT:
    """What is shown of a job, with its last migration."""
    if row is None:
        return shown
    return shown.model_copy(update={"migration": migration_document(row)})
