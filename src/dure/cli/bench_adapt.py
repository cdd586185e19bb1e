"""`dure bench adapt`; `dure.cli.bench` registers it."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, run_bench


def adapt(
    runs: Annotated[int, typer.Option(help="Changing mixes to run.", min=1, max=1000)] = 100,
    tuned: Annotated[
        int | None, typer.Option(help="Of those, with the learned tuner, too; all.", min=0)
    ] = None,
    river: Annotated[
        int,
        typer.Option(help="Of those, with the bandit of river (`pip install '.[learn]'`).", min=0),
    ] = 0,
    training: Annotated[int, typer.Option(help="Other runs the tuner learns from.", min=0)] = 8,
    shards: Annotated[
        Path | None,
        typer.Option(
            help="Folder where each run is kept; one that is there is not run again. "
            "Empty it when the code changed."
        ),
    ] = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Policies switched by the advisor while the mix changes, beside each that stays."""
    from dure.sim.kernel.benches.adapt import AdaptPlan, bench_adapt

    plan = AdaptPlan(runs, runs if tuned is None else tuned, river, training, shards)
    run_bench(lambda tell: bench_adapt(plan, tell=tell), as_json=as_json, out=out)
