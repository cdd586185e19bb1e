"""`dure metrics`: what was measured, over time: names, tables, little charts."""

from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.centre import InContext, echo_json
from dure.cli.terminal import output_console
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from dure.api.measurements import SeriesDocument, SeriesList
    from dure.client.telemetry import SeriesAnswer, SeriesFound

_WIDTH = 120
_BARS = "▁▂▃▄▅▆▇█"
_CHART = 40


def metrics(
    name: Annotated[
        str, typer.Argument(help="A series; without one all names are listed.", metavar="[NAME]")
    ] = "",
    label: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", metavar="NAME=VALUE", help="Only these; may be repeated."),
    ] = None,
    since: Annotated[str, typer.Option(help="How far back.")] = "5m",
    step: Annotated[str, typer.Option(help="What one point sums up; else what fits.")] = "",
    rate: Annotated[
        bool, typer.Option("--rate", help="Growth a second, of what only grows (…_total).")
    ] = False,
    fleet: Annotated[bool, typer.Option("--fleet", help="Ask the centre, not the agent.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every point as JSON.")] = False,
    context: InContext = "",
) -> None:
    """Show what was measured: on this host's GPUs, or with --fleet at the centre."""
    answer: SeriesAnswer | SeriesList | None
    if fleet or context:
        from dure.cli.centre import centre
        from dure.client.fleet import calls

        with centre(context) as client:
            names = () if name else tuple(client.do(calls.list_series_names()).names)
            asked = calls.get_series(name, _labels(label), since=since, step=step)
            answer = client.do(asked) if name else None
    else:
        from dure.client.api import find_agent

        with find_agent() as agent:
            names = () if name else agent.series_names()
            answer = agent.series(name, _labels(label), since=since, step=step) if name else None
    if answer is None and as_json:
        echo_json(list(names))
    elif answer is None:
        for each in names:
            typer.echo(each)
    elif as_json:
        typer.echo(answer.model_dump_json(indent=2))
    elif not answer.series:
        typer.echo(f"Nothing of {name} in the last {since}; `dure metrics` lists all names.")
    else:
        output_console(_WIDTH).print(_table(answer, rate=rate))


def _labels(given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for each in given or ():
        label, equals, value = each.partition("=")
        if not equals or not label:
            raise InputError(f"'{each}' is no label", "write NAME=VALUE", field="--label")
        pairs[label] = value
    return pairs


def _table(answer: "SeriesAnswer | SeriesList", *, rate: bool) -> "Table":
    from rich import box
    from rich.table import Table

    columns = sorted({label for each in answer.series for label in each.labels})
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column)
    for column in ("least", "mean", "most", "last"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column(f"each {answer.step_ms / 1000:g} s", no_wrap=True)
    for each in answer.series:
        values = _values(each, rate=rate)
        if not values:
            continue
        figures = (min(values), sum(values) / len(values), max(values), values[-1])
        table.add_row(
            *(each.labels.get(column, "") for column in columns),
            *(f"{figure:.4g}" for figure in figures),
            _chart(values),
        )
    return table


def _values(found: "SeriesFound | SeriesDocument", *, rate: bool) -> list[float]:
    """One value of each point: its mean, or the growth a second since the one before."""
    if not rate:
        return [point.sum / point.samples for point in found.points]
    from dure.domain.series import Point, rate_per_s

    points = (Point(p.at_ms, p.samples, p.sum, p.min, p.max, p.last) for p in found.points)
    return [growth for _, growth in rate_per_s(points)]


def _chart(values: list[float]) -> str:
    """The newest values as bars between the least and the most of them."""
    shown = values[-_CHART:]
    least, most = min(shown), max(shown)
    if most <= least:
        return _BARS[0] * len(shown)
    scale = (len(_BARS) - 1) / (most - least)
    return "".join(_BARS[round((value - least) * scale)] for value in shown)
