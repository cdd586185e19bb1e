"""`dure migrate`, `pin`, `unpin`: jobs brought to another cluster, or kept where they are."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.centre import AsJson, InContext, ago, centre, echo_json, echo_table, made_from
from dure.cli.jobs import JobArguments
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.api.migrations import MigrationDocument, MigrationPreview
    from dure.client.fleet import FleetClient

_LOOK_S = 0.5
_EXIT_UNDONE = 1
"""Of `dure migrate --wait` after which the job is where it was."""


def migrate(
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Its id; left out: list what is under way."),
    ] = None,
    to: Annotated[str, typer.Option(help="The cluster; left out: where it is cheapest.")] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would come to; begin nothing.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Call it off: the job stays where it is.")
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Also while no maintenance window is open.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Tell every step, to the end; exit 1 if it stayed.")
    ] = False,
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Bring a job to another cluster, say what that would come to, or call it off."""
    from dure.api.migrations import MigrationRequest
    from dure.client.fleet import calls

    if job is None:
        if to or dry_run or abort or now or wait:
            raise InputError("no job is named", "dure migrate JOB …; without options it lists")
        _list(context, as_json=as_json)
        return
    if abort and (to or dry_run or now):
        raise InputError("--abort goes with no other wish", "leave --to, --dry-run and --now out")
    wish = made_from(MigrationRequest, {"to": to or None, "now": now})
    with centre(context) as client:
        if dry_run:
            preview = client.do(calls.preview_migration(job, wish))
            if as_json:
                echo_json(preview)
            else:
                _print_preview(preview)
            return
        ask = calls.abort_migration(job) if abort else calls.migrate_job(job, wish)
        found = client.do(ask)
        if wait:
            found = _follow(client, found, quiet=as_json)
    if as_json:
        echo_json(found)
    elif not wait:
        typer.echo(step_line(found))
    if wait and not abort and found.step.value != "done":
        raise typer.Exit(_EXIT_UNDONE)


def _list(context: str, *, as_json: bool) -> None:
    from dure.cli.fitting import Column
    from dure.client.fleet import calls

    with centre(context) as client:
        found = client.do(calls.list_migrations())
    if as_json:
        echo_json(found)
        return
    columns: list[Column[MigrationDocument]] = [
        Column("job", lambda m: m.job, right=False),
        Column("kind", lambda m: m.kind.value, right=False),
        Column("step", lambda m: m.step.value, right=False),
        Column("from", lambda m: m.from_cluster, right=False),
        Column("to", lambda m: m.to_cluster, right=False),
        Column("for", lambda m: ago(m.since), rank=1),
        Column("why", lambda m: m.reason or m.why, rank=2, right=False),
    ]
    echo_table(columns, found.items, "Nothing moves.")


def step_line(found: "MigrationDocument") -> str:
    """Where a migration stands, in one line."""
    where = f"{found.from_cluster} → {found.to_cluster or '?'}"
    why = f": {found.reason}" if found.reason else ""
    return f"migration ({found.kind.value}) {where}: {found.step.value}{why}"


def _follow(
    client: "FleetClient", found: "MigrationDocument", *, quiet: bool
) -> "MigrationDocument":
    from dure.client.fleet import calls

    said = ""
    while True:
        line = step_line(found)
        if line != said and not quiet:
            typer.echo(line)
        said = line
        if found.ended_at is not None:
            return found
        time.sleep(_LOOK_S)
        found = client.do(calls.get_migration(found.job))


def _print_preview(found: "MigrationPreview") -> None:
    typer.echo(f"{found.kind.value}: {found.from_site} → {found.to_site}")
    typer.echo(f"  steps: {' → '.join(step.value for step in found.steps)}")
    typer.echo(f"  expected pause: {found.pause_seconds:.0f} s")
    if found.checkpoint_wait_seconds is not None:
        typer.echo(f"  waits for a checkpoint: {found.checkpoint_wait_seconds:.0f} s at most")
    typer.echo(f"  egress: {found.egress:.2f}")
    typer.echo(f"  {'stay':<22}{found.stay:>12.2f}")
    for term in found.terms:
        if term.amount:
            typer.echo(f"  {term.name:<22}{term.amount:>12.2f}")
    typer.echo(f"  {'saves':<22}{found.saving:>12.2f}")
    typer.echo(f"  {'saves, g CO2':<22}{found.carbon_saved_g:>12.0f}")
    if found.hindrance:
        typer.echo(f"It would be refused: {found.hindrance}")


def pin(jobs: JobArguments, as_json: AsJson = False, context: InContext = "") -> None:
    """Keep jobs where they are: they are not moved by themselves any more."""
    _set_pinned(jobs, True, context, as_json=as_json)


def unpin(jobs: JobArguments, as_json: AsJson = False, context: InContext = "") -> None:
    """Let jobs be moved by themselves again where that saves something."""
    _set_pinned(jobs, False, context, as_json=as_json)


def _set_pinned(jobs: list[str], pinned: bool, context: str, *, as_json: bool) -> None:
    from dure.api.job_views import JobEdit
    from dure.client.fleet import calls

    with centre(context) as client:
        found = [client.do(calls.edit_job(job, JobEdit(pinned=pinned))) for job in jobs]
    if as_json:
        echo_json({"jobs": [each.model_dump(mode="json") for each in found]})
        return
    for each in found:
        typer.echo(f"{each.id} {each.phase.value}{' pinned' if each.pinned else ''}")
