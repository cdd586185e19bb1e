"""`dure shadow`: watches another scheduler's decisions and reports what Dure would have done."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.centre import AsJson, document, echo_json, echo_table
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.beside.shadow.report import ShadowReport, Side

app = typer.Typer(
    help="Watch another scheduler, touching nothing, and report what Dure would have done.",
    no_args_is_help=True,
)
_LISTED = 20
_LogFile = Annotated[Path, typer.Argument(metavar="FILE", help="Of `dure shadow watch`.")]


@app.command("watch")
def watch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The log, new or to go on with.")],
    cluster: Annotated[
        list[str],
        typer.Option(
            "--cluster",
            metavar="NAME=CONTEXT",
            help="A cluster and its kubeconfig context (NAME alone: the same); may repeat.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    kubeconfig: Annotated[
        Path | None, typer.Option(help="As kubectl finds it, or the Pod's account, otherwise.")
    ] = None,
    most_pods: Annotated[
        int, typer.Option(min=1000, help="Pods kept at most; the oldest that ended go first.")
    ] = 200_000,
    for_: Annotated[
        str, typer.Option("--for", help="Watch so long, as '8h'; else to the end.")
    ] = "",
) -> None:
    """Keep in a log which Pods asked for accelerators and where they were bound. Reads only."""
    from dure.beside.main import ShadowOptions, run_shadow
    from dure.cli.terminal import duration_option_ns
    from dure.domain.units import NS_PER_S

    clusters = {}
    for each in cluster or ["cluster="]:
        name, equals, context = each.partition("=")
        if not name or name in clusters:
            raise InputError(f"'{each}' is no cluster", "write NAME=CONTEXT, each name once")
        clusters[name] = (kubeconfig, context if equals else name)
    for_s = duration_option_ns(for_, "--for") / NS_PER_S if for_ else None
    run_shadow(ShadowOptions(clusters, file, most_pods, for_s))


@app.command("report")
def report(
    file: _LogFile,
    prices: Annotated[
        Path | None,
        typer.Option(help="YAML file: currency, rates, and tariff and carbon of each cluster."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was decided with what Dure would have decided: money, carbon, waiting, waste."""
    from dure.beside.shadow.log import ShadowLog
    from dure.beside.shadow.prices import ShadowPrices
    from dure.beside.shadow.report import make_report
    from dure.cli.terminal import progress_bar

    given = ShadowPrices() if prices is None else document(prices, ShadowPrices)
    with ShadowLog(file, new=False) as log:
        watched = log.watched()
    with progress_bar() as tell:
        told = None if tell is None else partial(tell, "deciding anew")
        made = make_report(watched, given, told)
    if as_json:
        echo_json(made)
    else:
        _print(made)


def _print(report: "ShadowReport") -> None:
    from dure.cli.fitting import Column

    typer.echo(f"{report.jobs} jobs from {report.since} to {report.until}")
    columns: list[Column[tuple[str, str, str, str]]] = [
        Column("", lambda row: row[0], right=False),
        Column("observed", lambda row: row[1]),
        Column("Dure (modelled)", lambda row: row[2]),
        Column("saved", lambda row: row[3]),
    ]
    echo_table(columns, _rows(report), "")
    typer.echo(
        f"{report.same_cluster} jobs would have gone to the same cluster, {report.elsewhere} "
        "elsewhere."
    )
    for line in report.lines[:_LISTED]:
        if line.dure_cluster != line.cluster:
            where = line.dure_cluster or f"nowhere: {line.why}"
            typer.echo(f"  {line.namespace}/{line.job}: {line.cluster} -> {where}")
    for why, count in report.unread.items():
        typer.echo(f"{count} Pods left out: {why}")
    if report.dropped:
        typer.echo(f"The log has forgotten {report.dropped} Pods.")
    if not report.priced:
        typer.echo("No prices were given, so money and carbon say nothing: add --prices FILE.")
    for note in report.notes:
        typer.echo(f"- {note}")


def _rows(report: "ShadowReport") -> list[tuple[str, str, str, str]]:
    def row(name: str, pick: "Callable[[Side], float]", digits: int = 2) -> tuple[str, ...]:
        was, would = pick(report.observed), pick(report.dure)
        return name, f"{was:.{digits}f}", f"{would:.{digits}f}", f"{was - would:.{digits}f}"

    found = (
        row(f"money ({report.currency})", lambda side: side.money),
        row("kg CO2", lambda side: side.g_co2 / 1000.0),
        row("mean wait (s)", lambda side: side.mean_wait_s, 0),
        row("95 % wait at most (s)", lambda side: side.p95_wait_s, 0),
        row("node-hours in use", lambda side: side.node_hours),
        row("free devices on nodes in use (%)", lambda side: 100.0 * side.fragmentation, 1),
        row("jobs started", lambda side: float(side.started), 0),
    )
    return [(each[0], each[1], each[2], each[3]) for each in found]
