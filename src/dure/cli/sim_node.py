"""`dure sim node`: what a way to share GPUs would do to containers on a host, in virtual time."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.measuring import Json
from dure.cli.scenarios import needed, refuse_scenario
from dure.cli.terminal import output_console, progress_bar

if TYPE_CHECKING:
    from dure.sim.node.compare import Comparison


def node(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="What to run: GPUs, containers, modes; docs/guide/sim-node.md explains it.",
            metavar="SCENARIO.yaml",
            show_default=False,
        ),
    ] = None,
    modes: Annotated[
        str,
        typer.Option(help="Modes to run instead of the scenario's, as in 'plain,dure-docker'."),
    ] = "",
    seed: Annotated[
        int | None, typer.Option(help="Seed of random arrivals, instead of the scenario's.", min=0)
    ] = None,
    as_json: Json = False,
    decisions: Annotated[
        bool,
        typer.Option("--decisions", help="Print every pause and resume, with the reason."),
    ] = False,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Instead of a scenario, what `dure agent --record` wrote, decided anew.",
        ),
    ] = None,
) -> None:
    """Compare ways to share a host's GPUs among containers, or replay a recording."""
    if replay is not None:
        refuse_scenario(scenario)
        _replay(replay, as_json=as_json)
        return
    scenario = needed(scenario)
    from dure.sim.node.compare import compare
    from dure.sim.node.scenario import Overrides, read_scenario

    wanted = tuple(name.strip() for name in modes.split(",") if name.strip())
    described = read_scenario(scenario, Overrides(seed, wanted))
    with progress_bar() as tell:
        comparison = compare(described, progress=tell)
    _show(comparison, as_json=as_json, decisions=decisions)


def _replay(path: Path, *, as_json: bool) -> None:
    from dure.sim.node.replay import replay

    found = replay(path)
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return
    told = [*((deed, "recorded") for deed in found.recorded if deed not in found.replayed)]
    told += [(deed, "today" if deed not in found.recorded else "") for deed in found.replayed]
    for deed, mark in sorted(told, key=lambda each: each[0].at_s):
        typer.echo(f"{deed.at_s:10.3f} s  {mark:<9} {deed.container:<24} {deed.what}")
    typer.echo(
        f"{found.events} events of strategy '{found.strategy}': "
        f"{found.differing} are answered otherwise today"
    )


def _show(comparison: "Comparison", *, as_json: bool, decisions: bool) -> None:
    if as_json:
        from dure.sim.node.export import comparison_data

        data = comparison_data(comparison)
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
        return
    from dure.sim.node.tables import WIDTH, comparison_tables, decision_tables

    console = output_console(WIDTH)
    if decisions:
        console.print(decision_tables(comparison), soft_wrap=True)
    else:
        console.print(comparison_tables(comparison))
