"""`dure explain --file`: which clusters would take jobs that are not submitted, and why."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dure.cli.centre import centre, documents, echo_json, echo_table
from dure.cli.fitting import Column

if TYPE_CHECKING:
    from dure.api.evaluations import ClusterOption, JobEvaluation


def explain_files(file: Path, sets: Sequence[str], *, as_json: bool, context: str) -> None:
    """Ask the centre what would become of the jobs of a file."""
    from dure.api.evaluations import EvaluationRequest
    from dure.api.jobs import JobSpec
    from dure.client.fleet import calls

    specs = documents(file, JobSpec, sets)
    with centre(context) as client:
        found = client.do(calls.evaluate(EvaluationRequest(jobs=specs)))
    if as_json:
        echo_json(found)
        return
    for each in found.jobs:
        _print(each)


def _print(job: "JobEvaluation") -> None:
    where = f"would go to {job.cluster}" if job.cluster else f"would wait: {job.reason}"
    typer.echo(f"{job.name} ({job.kind.value}) {where}")
    echo_table(_columns(), list(enumerate(job.options, start=1)), "No cluster could take it.")
    for refusal in job.refusals:
        typer.echo(f"  {refusal.cluster}: {refusal.why}")


def _columns() -> "list[Column[tuple[int, ClusterOption]]]":
    return [
        Column("rank", lambda each: str(each[0])),
        Column("cluster", lambda each: each[1].cluster, right=False),
        Column("room", lambda each: "yes" if each[1].has_room else "no", right=False),
        Column("total", lambda each: f"{each[1].explanation.total:.2f}"),
        Column("money", lambda each: f"{each[1].explanation.money:.2f}", rank=1),
        Column("congestion", lambda each: f"{each[1].explanation.congestion:.2f}", rank=2),
        Column("g CO2", lambda each: f"{each[1].explanation.g_co2:.0f}", rank=1),
        Column("penalty", lambda each: f"{each[1].explanation.sla_risk:.2f}", rank=3),
        Column("hours", lambda each: f"{each[1].run_hours:.2f}", rank=4),
    ]
