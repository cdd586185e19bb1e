"""`dure bench monitor`: what it costs to watch the containers of a host."""

from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, run_bench
from dure.cli.terminal import duration_option_ns
from dure.domain.units import NS_PER_S


def monitor(
    processes: Annotated[int, typer.Option(help="Processes to look at.", min=1, max=4000)] = 200,
    containers: Annotated[int, typer.Option(help="Over so many containers.", min=1)] = 64,
    looks: Annotated[int, typer.Option(help="Looks to time.", min=1)] = 4000,
    duration: Annotated[str, typer.Option(help="Time to watch at each rate.")] = "10s",
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Time of a look at many GPU processes, and processor time of the monitor at each rate."""
    from dure.bench.monitor import bench_monitor

    seconds = duration_option_ns(duration, "--duration") / NS_PER_S
    run_bench(
        lambda tell: bench_monitor(
            processes=processes, containers=containers, looks=looks, seconds=seconds, tell=tell
        ),
        as_json=as_json,
        out=out,
    )
