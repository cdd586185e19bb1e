"""`dure load`: say what is seen of a service's load, as a balancer or queue of one's own would."""

from typing import Annotated

import typer

from dure.cli.centre import AsJson, InContext, centre, echo_json, made_from
from dure.cli.jobs import JobArgument
from dure.domain.errors import InputError


def load(
    job: JobArgument,
    rate: Annotated[float | None, typer.Option(help="Requests that come in a second.")] = None,
    queue: Annotated[float | None, typer.Option(help="Requests that wait to be begun.")] = None,
    latency: Annotated[
        str, typer.Option(help="Of whole answers at the 95th percentile, as '20ms'.")
    ] = "",
    cluster: Annotated[
        str, typer.Option(help="Where that load is; else in all its clusters, as they share it.")
    ] = "",
    source: Annotated[
        str, typer.Option(help="Who says so: replaces what it said before, and adds to others.")
    ] = "",
    valid_for: Annotated[str, typer.Option(help="How long it counts.")] = "30s",
    as_json: AsJson = False,
    context: InContext = "",
) -> None:
    """Say what is seen of a service's load; its clusters make it larger or smaller by that."""
    from dure.api.loads import LoadReport
    from dure.client.fleet import calls

    if rate is None and queue is None and not latency:
        raise InputError("nothing is said of a load", "give --rate, --queue or --latency")
    given = {
        "requestsPerSecond": rate,
        "queue": queue,
        "latency": latency or None,
        "cluster": cluster or None,
        "source": source or None,
        "validFor": valid_for,
    }
    report = made_from(LoadReport, {name: each for name, each in given.items() if each is not None})
    with centre(context) as client:
        taken = client.do(calls.report_load(job, report))
    if as_json:
        echo_json(taken)
        return
    if taken.clusters:
        typer.echo(f"told {', '.join(taken.clusters)}")
    if taken.note:
        typer.echo(taken.note, err=True)
