"""One Workload that the centre does not understand spoils no other's ranking."""

import asyncio
from collections.abc import Callable

import pytest

from dure.api.clusters import ClusterDocument
from dure.api.evaluations import EvaluationDocument, EvaluationRequest, JobEvaluation
from dure.api.jobs import JobSpec
from dure.api.problems import FieldProblem, Problem
from dure.beside.asking import Batch, ask
from dure.client.fleet import RefusedError
from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.resources import ObjectKey

Answer = Callable[[EvaluationRequest], str]


class PickyRanker:
    """Refuses the first place that a rule objects to, as the centre does."""

    def __init__(self, wrong: Answer) -> None:
        self._wrong = wrong
        self.asked: list[EvaluationRequest] = []

    async def evaluate(self, question: EvaluationRequest) -> EvaluationDocument:
        self.asked.append(question)
        field = self._wrong(question)
        if field:
            problem = FieldProblem(field=field, detail="there is none", remedy="correct it")
            detail = f"{field}: there is none; correct it"
            raise RefusedError(
                Problem(type="urn:x", title="", status=422, detail=detail, fields=[problem])
            )
        return EvaluationDocument(at="", jobs=[_evaluation(job) for job in question.jobs])

    async def clusters(self) -> list[ClusterDocument]:
        return []


def _evaluation(job: JobSpec) -> JobEvaluation:
    return JobEvaluation(
        name=job.name,
        tenant=job.tenant or "",
        kind=job.kind,
        cluster="osaka",
        start_at="",
        reason="",
        options=[],
        refusals=[],
    )


def job(name: str, tenant: str = "acme") -> JobSpec:
    return JobSpec(name=name, kind=WorkloadKind.BATCH, tenant=tenant, image="x")


def stranger(question: EvaluationRequest) -> str:
    for where, jobs in (
        ("jobs[{}].tenant", question.jobs),
        ("assuming[{}].job.tenant", [each.job for each in question.assuming]),
    ):
        for number, each in enumerate(jobs):
            if each.tenant == "nobody":
                return where.format(number)
    return ""


def test_the_rest_is_ranked_and_the_wrong_one_is_told() -> None:
    names = ["a", "b", "c"]
    jobs = {
        ObjectKey("team", name): job(name, "nobody" if name == "b" else "acme") for name in names
    }
    assuming = [(job("x", "nobody"), "osaka"), (job("y"), "osaka")]
    ranker = PickyRanker(stranger)
    answers = asyncio.run(ask(ranker, Batch(jobs, assuming)))
    assert [key.name for key in answers.found] == ["a", "c"]
    assert "there is none" in answers.refused[ObjectKey("team", "b")]
    assert [each.job.name for each in ranker.asked[-1].assuming] == ["y"]


def test_where_all_are_wrong_nobody_is_ranked() -> None:
    ranker = PickyRanker(stranger)
    answers = asyncio.run(ask(ranker, Batch({ObjectKey("t", "a"): job("a", "nobody")})))
    assert not answers.found
    assert len(answers.refused) == 1


def test_a_refusal_of_the_whole_question_is_raised() -> None:
    ranker = PickyRanker(lambda question: "guests[0].name")
    with pytest.raises(RefusedError):
        asyncio.run(ask(ranker, Batch({ObjectKey("t", "a"): job("a")})))
