"""`dure sim fleet`: what a way to place work would do to a fleet of clusters, in virtual time."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import Json, Workers
from dure.cli.scenarios import needed, refuse_scenario
from dure.cli.terminal import (
    duration_option_ns,
    output_console,
    progress_bar,
    refuse_unwritable,
)
from dure.domain.errors import DureError, InputError
from dure.kit.files import write_text

if TYPE_CHECKING:
    from dure.sim.fleet.compare import Comparison


def fleet(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="What to run: clusters, tenants, work; docs/guide/fleet-scenarios.md explains it.",
            metavar="SCENARIO.yaml",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with traces, price lists and series the scenario refers to."),
    ] = None,
    modes: Annotated[
        str, typer.Option(help="Modes to run instead of the scenario's, as in 'first-fit,dure'.")
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Seed of everything drawn, instead of the scenario's.", min=0)
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Virtual time to run instead of the scenario's, as '2d'.")
    ] = None,
    as_json: Json = False,
    html: Annotated[
        Path | None, typer.Option(help="Also write a report with charts over time there.")
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            help="Print why this workload is where it is, or why it waits; without its number, "
            "of all that are alike.",
            metavar="WORKLOAD",
        ),
    ] = None,
    signals: Annotated[
        bool,
        typer.Option("--signals", help="Let weights follow trouble that is seen coming."),
    ] = False,
    bills: Annotated[
        bool, typer.Option("--bills", help="Print the tenants' bills of every mode.")
    ] = False,
    workers: Workers = 1,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of a scenario, what `dure record --level fleet` wrote, decided anew.",
        ),
    ] = None,
) -> None:
    """Compare ways to place work on a fleet of clusters, under one load; or replay a recording."""
    if replay is not None:
        refuse_scenario(scenario)
        _replay(replay, as_json=as_json)
        return
    scenario = needed(scenario)
    from dure.sim.fleet.compare import compare
    from dure.sim.fleet.scenario import Overrides, read_scenario

    if html is not None and html.resolve() == scenario.resolve():
        raise InputError(f"{html} is the scenario itself", "name another file", field="--html")
    refuse_unwritable(html, "--html")
    wanted = tuple(name.strip() for name in modes.split(",") if name.strip())
    length_ns = None if duration is None else duration_option_ns(duration, "--duration")
    described = read_scenario(scenario, Overrides(data, seed, length_ns, wanted))
    if signals:
        described = replace(described, setting=replace(described.setting, signals=True))
    with progress_bar() as tell:
        comparison = compare(described, workers=workers, explain=explain, progress=tell)
    if html is not None:
        from dure.sim.fleet.report import html_report

        write_text(html, html_report(comparison))
    _show(comparison, as_json=as_json, explain=explain, bills=bills)


def _replay(path: Path, *, as_json: bool) -> None:
    from dure.sim.fleet.replay import replay

    found = replay(path)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
    else:
        typer.echo(", ".join(f"{kind} {count:,}" for kind, count in found.kinds))
        typer.echo(
            f"{found.events:,} events of {found.seconds:.1f} s, {found.placements:,} placements "
            f"and {found.moves:,} moves, recorded by Dure {found.recorded_by}: "
            + ("identical." if not found.differing else f"{found.differing:,} answers differ.")
        )
        if found.note:
            typer.echo(f"note: {found.note}", err=True)
    if found.differences:
        first = found.differences[0]
        raise DureError(
            f"{path}: the replay differs first at line {first.line}, {first.event} after "
            f"{first.at_s:.3f} s: recorded {first.recorded}, replayed {first.replayed}",
            "replay with the version of Dure that recorded it",
        )


def _show(comparison: "Comparison", *, as_json: bool, explain: str | None, bills: bool) -> None:
    if as_json:
        from dure.sim.fleet.export import comparison_data

        data = comparison_data(comparison)
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
        return
    from dure.sim.fleet.tables import WIDTH, comparison_tables, explanation_tables

    console = output_console(WIDTH)
    if explain is not None:
        found = comparison.explanations(explain)
        console.print(explanation_tables(explain, found, comparison.scenario.modes))
        return
    console.print(comparison_tables(comparison, all_bills=bills))
