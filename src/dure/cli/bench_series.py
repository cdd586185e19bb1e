"""`dure bench series` and `telemetry`: what keeping series gives, and what measuring costs."""

from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, run_bench
from dure.cli.terminal import duration_option_ns
from dure.domain.units import NS_PER_S


def series(
    minutes: Annotated[int, typer.Option(help="Minutes of samples.", min=2, max=600)] = 65,
    count: Annotated[int, typer.Option(help="Series in the first run.", min=10)] = 2_000,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Samples a second the embedded store takes, and the time of an hour's question."""
    from dure.bench.series import bench_series

    run_bench(
        lambda tell: bench_series(minutes=minutes, series=count, tell=tell),
        as_json=as_json,
        out=out,
    )


def telemetry(
    duration: Annotated[str, typer.Option(help="Time to watch each agent.")] = "20s",
    repeats: Annotated[int, typer.Option(help="Runs of each kind of agent.", min=1)] = 3,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Processor time that measuring takes of an agent, and whether launches notice."""
    from dure.bench.telemetry import bench_telemetry

    seconds = duration_option_ns(duration, "--duration") / NS_PER_S
    run_bench(
        lambda tell: bench_telemetry(seconds=seconds, repeats=repeats, tell=tell),
        as_json=as_json,
        out=out,
    )
