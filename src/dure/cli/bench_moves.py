"""`dure bench moves`: a service that moves between clusters while people ask it."""

from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, run_bench

_Rate = Annotated[float, typer.Option(help="Requests a second.", min=1.0)]
_Repeats = Annotated[int, typer.Option(help="Moves, each with a fleet of its own.", min=1)]


def moves(
    rate: _Rate = 200.0, repeats: _Repeats = 3, as_json: Json = False, out: Out = None
) -> None:
    """Requests through the move of a service between two clusters of processes."""
    from dure.bench.centre.moves import Load
    from dure.bench.centre.moving import bench_moves

    run_bench(lambda tell: bench_moves(Load(rate), repeats, tell), as_json=as_json, out=out)
