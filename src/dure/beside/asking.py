"""Asks the centre about batches of Workloads; one that it does not understand spoils no other."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dure.api.clusters import ClusterDocument
from dure.api.evaluations import (
    MOST_ASSUMED,
    MOST_JOBS,
    AssumedPlace,
    EvaluationDocument,
    EvaluationRequest,
    GuestCluster,
    JobEvaluation,
)
from dure.api.jobs import JobSpec
from dure.client.fleet import AsyncFleetClient, RefusedError, calls
from dure.kube.resources import ObjectKey

_PLACE = re.compile(r"(jobs|assuming)\[(\d+)\]")
_UNPROCESSABLE = range(400, 500)


class Ranker(Protocol):
    """Who knows all clusters."""

    async def evaluate(self, question: EvaluationRequest) -> EvaluationDocument:
        """Rank clusters for jobs; raises `DureError`."""

    async def clusters(self) -> list[ClusterDocument]:
        """All that have joined."""


class CentreRanker:
    """The centre, over REST."""

    def __init__(self, client: AsyncFleetClient) -> None:
        self._client = client

    async def evaluate(self, question: EvaluationRequest) -> EvaluationDocument:
        """Rank clusters for jobs."""
        return await self._client.do(calls.evaluate(question))

    async def clusters(self) -> list[ClusterDocument]:
        """All that have joined."""
        return [each async for each in self._client.each(calls.list_clusters)]


@dataclass(frozen=True)
class Batch:
    """Jobs to rank, and what they are ranked beside."""

    jobs: Mapping[ObjectKey, JobSpec]
    assuming: Sequence[tuple[JobSpec, str]] = ()
    guests: Sequence[GuestCluster] = ()


@dataclass
class Answers:
    """What the centre said."""

    found: dict[ObjectKey, JobEvaluation] = field(default_factory=dict)
    refused: dict[ObjectKey, str] = field(default_factory=dict)
    """Jobs that it did not understand, and why."""


async def ask(ranker: Ranker, batch: Batch) -> Answers:
    """Rank a batch; raises `DureError` where the centre cannot be asked."""
    answers = Answers()
    left = dict(list(batch.jobs.items())[:MOST_JOBS])
    assuming = list(batch.assuming)[:MOST_ASSUMED]
    while left:
        question = EvaluationRequest(
            jobs=list(left.values()),
            assuming=[AssumedPlace(job=job, cluster=cluster) for job, cluster in assuming],
            guests=list(batch.guests),
        )
        try:
            said = await ranker.evaluate(question)
        except RefusedError as error:
            if not _leave_out(error, left, assuming, answers):
                raise
            continue
        answers.found |= dict(zip(left, said.jobs, strict=True))
        return answers
    return answers


def _leave_out(
    error: RefusedError,
    left: dict[ObjectKey, JobSpec],
    assuming: list[tuple[JobSpec, str]],
    answers: Answers,
) -> bool:
    """Take out the one that a refusal is about; tells whether it is about one."""
    told = error.problem.fields[0] if error.problem.fields else None
    where = _PLACE.search(f"{told.field} {error.problem.detail}" if told else error.problem.detail)
    if error.status not in _UNPROCESSABLE or where is None:
        return False
    number = int(where[2])
    if where[1] == "assuming":
        if number >= len(assuming):
            return False
        del assuming[number]
        return True
    keys = list(left)
    if number >= len(keys):
        return False
    answers.refused[keys[number]] = str(error)
    del left[keys[number]]
    return True
