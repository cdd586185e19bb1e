"""Rows of jobs and attempts as documents."""

from collections.abc import Iterable
from typing import Any

from dure.api.base import maybe_moment, moment_text
from dure.api.job_views import (
    AlternativeDocument,
    AttemptDocument,
    CostTerm,
    ExplainedAttempt,
    ExplanationDocument,
    JobDocument,
    JobExplanation,
    JobSummary,
)
from dure.domain.fleet.decisions import Alternative, Explanation
from dure.domain.fleet.workloads import WorkloadKind
from dure.server.records import explanation_of
from dure.server.rest.sizes import instances_of, size_document
from dure.server.specs import job_spec
from dure.stores.rows import Attempt, Job


def job_summary(row: Job, attempts: Iterable[Attempt] | None = None) -> JobSummary:
    """A job in a list; with its unfinished attempts also how large a service is."""
    sizes = instances_of(row, attempts) if attempts is not None else {}
    return JobSummary(**_summary(row), **sizes)


def job_document(row: Job, attempts: Iterable[Attempt]) -> JobDocument:
    """A job with everything that is known of it."""
    known = tuple(attempts)
    return JobDocument(
        **_summary(row),
        **instances_of(row, known),
        spec=job_spec(row),
        attempts=[_attempt(each) for each in known],
    )


def _summary(row: Job) -> dict[str, Any]:
    return {
        "id": row.id,
        "tenant": row.tenant,
        "team": row.team,
        "service_name": row.service,
        "name": row.name,
        "kind": WorkloadKind(row.spec["kind"]),
        "phase": row.phase,
        "priority": row.priority,
        "attempt": row.attempt,
        "cluster": row.cluster,
        "reason": row.reason,
        "suspended": row.suspended,
        "pinned": row.pinned,
        "labels": dict(row.labels),
        "array_id": row.array_id,
        "array_index": row.array_index,
        "revision": row.revision,
        "submitted_at": moment_text(row.submitted_ns),
        "updated_at": moment_text(row.updated_ns),
        "ended_at": maybe_moment(row.ended_ns),
    }


def _attempt(row: Attempt) -> AttemptDocument:
    return AttemptDocument(
        attempt=row.attempt,
        cluster=row.cluster,
        state=row.state,
        reason=row.reason,
        reserved_at=moment_text(row.reserved_ns),
        committed_at=maybe_moment(row.committed_ns),
        running_at=maybe_moment(row.running_ns),
        releasing_at=maybe_moment(row.releasing_ns),
        gone_at=maybe_moment(row.gone_ns),
        size=size_document(row),
        exit_code=row.status.get("exit_code"),
    )


def job_explanation(row: Job, attempts: Iterable[Attempt]) -> JobExplanation:
    """Why a job is where it is, its latest attempt first."""
    return JobExplanation(
        id=row.id,
        phase=row.phase,
        reason=row.reason,
        attempts=[
            ExplainedAttempt(
                attempt=each.attempt,
                cluster=each.cluster,
                state=each.state,
                reason=each.reason,
                explanation=_explanation(each),
                size=size_document(each),
            )
            for each in sorted(attempts, key=lambda each: -each.attempt)
        ],
    )


def _explanation(row: Attempt) -> ExplanationDocument | None:
    return explanation_document(explanation_of(row)) if row.spec.get("explanation") else None


def explanation_document(why: Explanation) -> ExplanationDocument:
    """The sum behind a place, term by term."""
    return ExplanationDocument(
        terms=[CostTerm(name=name, amount=amount) for name, amount in why.terms],
        money=why.money,
        g_co2=why.g_co2,
        sla_risk=why.sla_risk,
        congestion=why.congestion,
        total=why.total,
        runner_up=_alternative(why.runner_up),
        note=why.note,
    )


def _alternative(other: Alternative | None) -> AlternativeDocument | None:
    if other is None:
        return None
    return AlternativeDocument(
        site=str(other.site),
        start_at=moment_text(other.start_ns),
        total=other.total,
        why=other.why,
    )
