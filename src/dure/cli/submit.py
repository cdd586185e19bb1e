"""`dure submit`: jobs from YAML files to the centre."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dure.cli.centre import AsJson, InContext, Sets, centre, documents, echo_json

EXIT_NOT_SUCCEEDED = 1


def submit(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="YAML, one job to a document; - is standard input."),
    ],
    sets: Sets = [],  # noqa: B006 - typer copies it
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until all have ended; fails unless all succeed.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the centre check them; nothing is stored.")
    ] = False,
    key: Annotated[
        str,
        typer.Option(help="Sent again under the same key, a job is stored once."),
    ] = "",
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Submit jobs. All files are read and checked before the first is sent."""
    from dure.api.jobs import JobSpec
    from dure.client.fleet import calls

    specs = [spec for file in files for spec in documents(file, JobSpec, sets)]
    with centre(context) as client:
        if dry_run:
            checked = [client.do(calls.check(spec)) for spec in specs]
            _show_checked(checked, as_json=as_json)
            return
        keys = [f"{key}-{number}" if key else None for number in range(len(specs))]
        sent = [client.do(calls.submit(spec, one)) for spec, one in zip(specs, keys, strict=True)]
        ids = [job for each in sent for job in each.ids]
        if as_json and not wait:
            echo_json({"ids": ids})
        elif not as_json:
            for job in ids:
                typer.echo(job)
        if wait:
            from dure.cli.jobs import wait_for

            wait_for(client, ids, timeout_s=None, as_json=as_json)


def _show_checked(checked: list[Any], *, as_json: bool) -> None:
    if as_json:
        echo_json([each.model_dump(mode="json") for each in checked])
        return
    for each in checked:
        several = f" ({each.count} jobs)" if each.count > 1 else ""
        typer.echo(f"{each.spec.name}: would be accepted{several}")
