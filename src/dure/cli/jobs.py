"""`dure jobs`, `wait`, `logs`, `explain`, `cancel`: what became of jobs of the fleet."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.centre import (
    AsJson,
    InContext,
    Sets,
    ago,
    centre,
    echo_json,
    echo_table,
    made_from,
)
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.api.job_views import ExplanationDocument, JobDocument, JobExplanation, JobSummary
    from dure.api.loads import SizeDocument
    from dure.client.fleet import FleetClient

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Its id.")]
JobArguments = Annotated[list[str], typer.Argument(metavar="JOB…", help="Their ids.")]
_EXIT_FAILED = 1
_EXIT_LATE = 3
"""Of `dure wait` whose time was over first."""


def jobs(
    job: Annotated[
        str | None, typer.Argument(metavar="[JOB]", help="Show everything about one job.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Of this tenant.")] = "",
    team: Annotated[str, typer.Option(help="Of this team.")] = "",
    service: Annotated[str, typer.Option(help="Of this service of a team.")] = "",
    name: Annotated[str, typer.Option(help="Of this name.")] = "",
    cluster: Annotated[str, typer.Option(help="In this cluster.")] = "",
    array: Annotated[str, typer.Option(help="Of this array.")] = "",
    phase: Annotated[list[str], typer.Option(help="In this phase; may repeat.")] = [],  # noqa: B006 - typer copies it
    label: Annotated[
        list[str], typer.Option(metavar="KEY=VALUE", help="With this label; may repeat.")
    ] = [],  # noqa: B006 - typer copies it
    limit: Annotated[int, typer.Option(min=1, help="Jobs at most, the newest first.")] = 100,
    watch: Annotated[
        bool, typer.Option("--watch", help="With a job: print its changes to its end.")
    ] = False,
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """List jobs of the fleet, or show one."""
    with centre(context) as client:
        if job is not None:
            _one(client, job, watch=watch, as_json=as_json)
            return
        from dure.api.job_views import JobSummary
        from dure.client.fleet import calls

        found: list[JobSummary] = []
        wanted = {
            "tenant": tenant, "team": team, "serviceName": service, "name": name,
            "cluster": cluster,
            "arrayId": array, "phase": phase, "label": label, "order": "newest",
        }  # fmt: skip
        cursor = ""
        while len(found) < limit:
            part = min(1000, limit - len(found))
            page = client.do(calls.list_jobs(**wanted, cursor=cursor, limit=part))
            found += page.items
            cursor = page.cursor
            if not cursor:
                break
        if as_json:
            echo_json({"jobs": [each.model_dump(mode="json") for each in found]})
        else:
            _print_jobs(found)


def _one(client: "FleetClient", job: str, *, watch: bool, as_json: bool) -> None:
    from dure.client.fleet import calls

    if watch:
        for said in client.watch(job):
            line = f"{said.updated_at}  {said.phase.value}  {said.cluster or ''}  {said.reason}"
            typer.echo(said.model_dump_json() if as_json else line.rstrip())
        return
    found = client.do(calls.get_job(job))
    if as_json:
        echo_json(found)
    else:
        _print_job(found)


def _print_jobs(found: "Sequence[JobSummary]") -> None:
    from dure.cli.fitting import Column

    columns: list[Column[JobSummary]] = [
        Column("job", lambda j: j.id, right=False),
        Column("name", _indexed, right=False),
        Column("tenant", lambda j: "/".join(filter(None, (j.tenant, j.team))), rank=3, right=False),
        Column("kind", lambda j: j.kind.value, rank=4, right=False),
        Column("phase", lambda j: j.phase.value, right=False),
        Column("cluster", lambda j: j.cluster or "", rank=1, right=False),
        Column("moving", lambda j: j.moving, rank=7, right=False),
        Column("size", _size, rank=3),
        Column("attempt", lambda j: str(j.attempt or ""), rank=5),
        Column("age", lambda j: ago(j.submitted_at), rank=2),
        Column("why", lambda j: j.reason, rank=6, right=False),
    ]
    echo_table(columns, found, "No jobs. Submit one: dure submit FILE")


def _indexed(job: "JobSummary") -> str:
    return job.name if job.array_index is None else f"{job.name}[{job.array_index}]"


def _size(job: "JobSummary") -> str:
    """Of a service: instances that take requests, of those that shall."""
    return "" if job.wanted is None else f"{job.ready}/{job.wanted}"


def _print_job(job: "JobDocument") -> None:
    owner = "/".join(filter(None, (job.tenant, job.team, job.service_name)))
    typer.echo(f"{job.name} ({job.kind.value}) of {owner}: {job.phase.value}")
    for label, value in (
        ("cluster", job.cluster),
        ("why", job.reason),
        ("submitted", job.submitted_at),
        ("ended", job.ended_at),
    ):
        if value:
            typer.echo(f"  {label}: {value}")
    if job.pinned:
        typer.echo("  pinned: it is not moved by itself")
    if job.migration is not None:
        from dure.cli.migrate import step_line

        typer.echo(f"  {step_line(job.migration)}")
    for each in job.attempts:
        reason = f": {each.reason}" if each.reason else ""
        typer.echo(f"  attempt {each.attempt} in {each.cluster}: {each.state.value}{reason}")
        if each.size is not None:
            for line in size_lines(each.size):
                typer.echo(f"    {line}")


def wait(
    jobs: JobArguments,
    timeout: Annotated[str, typer.Option(help="Give up after so long, as '10m'.")] = "",
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Wait until jobs have ended: exit code 0 if all succeeded, 1 if not, 3 if time was over."""
    from dure.cli.terminal import duration_option_ns
    from dure.domain.units import NS_PER_S

    timeout_s = duration_option_ns(timeout, "--timeout") / NS_PER_S if timeout else None
    with centre(context) as client:
        wait_for(client, jobs, timeout_s=timeout_s, as_json=as_json)


def wait_for(
    client: "FleetClient", jobs: Sequence[str], *, timeout_s: float | None, as_json: bool
) -> None:
    """Wait for jobs, say how each ended, and exit unless all succeeded."""
    import time

    from dure.domain.fleet.lifecycle import JobPhase

    until_s = None if timeout_s is None else time.monotonic() + timeout_s
    found = []
    for job in jobs:
        left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
        ended = client.wait(job, left_s)
        found.append(ended)
        if not as_json:
            why = f" ({ended.reason})" if ended.reason else ""
            typer.echo(f"{job} {ended.phase.value}{why}", err=True)
    if as_json:
        echo_json({"jobs": [each.model_dump(mode="json") for each in found]})
    if not all(each.phase.ended for each in found):
        raise typer.Exit(_EXIT_LATE)
    if any(each.phase is not JobPhase.SUCCEEDED for each in found):
        raise typer.Exit(_EXIT_FAILED)


def logs(
    job: JobArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more comes.")] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, help="Lines from the end; else all there are.")
    ] = None,
    index: Annotated[int, typer.Option(min=0, help="Of the worker or replica.")] = 0,
    attempt: Annotated[int | None, typer.Option(min=1, help="Else the latest.")] = None,
    context: InContext = "",
) -> None:
    """Print what an instance of a job wrote."""
    given = {"follow": follow or None, "tail": tail, "index": index or None, "attempt": attempt}
    wanted = {name: str(value).lower() for name, value in given.items() if value is not None}
    with centre(context) as client:
        for chunk in client.logs(job, **wanted):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


def explain(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="Its id.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="Jobs not submitted yet: what would become of them; - is stdin.",
        ),
    ] = None,
    sets: Sets = [],  # noqa: B006 - typer copies it
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Say why a job is where it is: what it costs there, what else there was, why it waits."""
    from dure.client.fleet import calls

    if (job is None) == (file is None):
        raise InputError("name a job, or a file of jobs", "dure explain JOB, or --file job.yaml")
    if file is not None:
        from dure.cli.evaluating import explain_files

        explain_files(file, sets, as_json=as_json, context=context)
        return
    assert job is not None
    with centre(context) as client:
        found = client.do(calls.explain_job(job))
    if as_json:
        echo_json(found)
    else:
        _print_explanation(found)


def _print_explanation(found: "JobExplanation") -> None:
    typer.echo(f"{found.phase.value}{': ' + found.reason if found.reason else ''}")
    if found.migration is not None:
        from dure.cli.migrate import step_line

        typer.echo(step_line(found.migration))
    for each in found.attempts:
        why = f" ({each.reason})" if each.reason else ""
        typer.echo(f"attempt {each.attempt} in {each.cluster}: {each.state.value}{why}")
        if each.explanation is not None:
            for line in sum_lines(each.explanation):
                typer.echo(f"  {line}")
        if each.size is not None:
            for line in size_lines(each.size):
                typer.echo(f"  {line}")


def size_lines(size: "SizeDocument") -> list[str]:
    """How large a service is in a cluster, why, and what was last heard of its load."""
    beside = f", {size.standby} kept warm beside them" if size.standby else ""
    begun = f", {size.starting} not ready" if size.starting else ""
    steps = f", {size.level} steps larger than asked for" if size.level else ""
    lines = [
        f"size: {size.ready} of {size.serving} take requests{beside}{begun}",
        f"each: {size.slice or 'none yet'}{steps}",
        f"since {ago(size.changed_at)}: {size.why}",
    ]
    if size.heard_at is not None:
        told = f"{size.requests_per_second:g} requests/s, {size.queue:g} wait"
        lines.append(f"load: {told}, p95 {size.latency_ms:g} ms ({ago(size.heard_at)} ago)")
    return lines


def sum_lines(sums: "ExplanationDocument") -> list[str]:
    """What a place costs, term by term."""
    lines = [f"{term.name:<18}{term.amount:>12.2f}" for term in sums.terms]
    lines.append(f"{'money':<18}{sums.money:>12.2f}")
    if sums.congestion:
        lines.append(f"{'congestion':<18}{sums.congestion:>12.2f}")
    lines.append(f"{'g CO2':<18}{sums.g_co2:>12.0f}")
    if sums.sla_risk:
        lines.append(f"{'penalty expected':<18}{sums.sla_risk:>12.2f}")
    if sums.runner_up is not None:
        other = sums.runner_up
        why = f", {other.why}" if other.why else ""
        lines.append(f"next best: {other.site} at {other.total:.2f}{why}")
    if sums.note:
        lines.append(sums.note)
    return lines


def edit(
    jobs: JobArguments,
    priority: Annotated[
        int | None, typer.Option(help="Higher goes first and may displace lower.")
    ] = None,
    suspend: Annotated[
        bool | None,
        typer.Option("--suspend/--resume", help="Take its places from it, or let it go on."),
    ] = None,
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Change the priority of jobs, suspend them or let them go on."""
    from dure.api.job_views import JobEdit
    from dure.client.fleet import calls

    if priority is None and suspend is None:
        raise InputError("nothing is to be changed", "give --priority, --suspend or --resume")
    changes = made_from(JobEdit, {"priority": priority, "suspend": suspend})
    with centre(context) as client:
        found = [client.do(calls.edit_job(job, changes)) for job in jobs]
    if as_json:
        echo_json({"jobs": [each.model_dump(mode="json") for each in found]})
        return
    for each in found:
        waits = " suspended" if each.suspended else ""
        typer.echo(f"{each.id} {each.phase.value} priority {each.priority}{waits}")


def cancel(jobs: JobArguments, as_json: AsJson = False, context: InContext = "") -> None:
    """Let jobs end; their programs are asked to stop, then killed after their grace."""
    from dure.client.fleet import calls

    if len(set(jobs)) < len(jobs):
        raise InputError("a job is named twice", "name each once", field="JOB")
    with centre(context) as client:
        found = [client.do(calls.cancel_job(job)) for job in jobs]
    if as_json:
        echo_json({"jobs": [each.model_dump(mode="json") for each in found]})
        return
    for each in found:
        typer.echo(f"{each.id} {each.phase.value}")
