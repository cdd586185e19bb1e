"""`dure bench elastic`: a service whose load is three times as large for a while."""

from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, run_bench

_Rate = Annotated[float, typer.Option(help="Requests a second before and after.", min=1.0)]
_Repeats = Annotated[int, typer.Option(help="Steps of each kind.", min=1)]


def elastic(
    rate: _Rate = 12.0, repeats: _Repeats = 3, as_json: Json = False, out: Out = None
) -> None:
    """How soon a service of processes follows its load, and whether noise makes it tremble."""
    from dure.bench.centre.elastic import Step
    from dure.bench.centre.elastic_page import bench_elastic

    run_bench(lambda tell: bench_elastic(Step(rate), repeats, tell), as_json=as_json, out=out)
