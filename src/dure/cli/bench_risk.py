"""`dure bench risk`; `dure.cli.bench` registers it."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, Workers, run_bench


def risk(
    runs: Annotated[int, typer.Option(help="Ramps to run.", min=1, max=1000)] = 50,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with recorded prices, carbon and requests; none unless given."),
    ] = None,
    brief: Annotated[
        bool, typer.Option("--brief", help="A small part of everything, to try it out.")
    ] = False,
    workers: Workers = 2,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Risks seen before violations, false alarms, and what weights that follow help."""
    from dure.sim.risk.bench import RiskPlan, bench_risk

    plan = RiskPlan(runs=runs, data=data, workers=workers)
    if brief:
        plan = RiskPlan(
            runs=runs,
            steps=2,
            quiet=3,
            wandering=1,
            measured=1,
            recorded=1,
            training=2,
            series=10,
            data=data,
            workers=workers,
        )
    run_bench(lambda tell: bench_risk(plan, tell=tell), as_json=as_json, out=out)
