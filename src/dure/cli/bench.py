"""`dure bench`: reproduce a published figure, and say whether it shows what it should."""

from typing import Annotated

import typer

from dure.cli import (
    bench_adapt,
    bench_centre,
    bench_containers,
    bench_elastic,
    bench_fleet,
    bench_kernel,
    bench_monitor,
    bench_moves,
    bench_node,
    bench_risk,
    bench_series,
)
from dure.cli.measuring import Json, Out, Workers, numbers, run_bench
from dure.cli.terminal import duration_option_ns
from dure.domain.units import NS_PER_S

app = typer.Typer(help="Reproduce a published figure.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Reproduce a published figure."""


@app.command("pairs")
def pairs(
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Draws of arrivals, as '1-8' or '1,3'; 1-8 unless stated, to fit 1-4.",
            show_default=False,
        ),
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Search the fitted parameters on pair (a) instead.")
    ] = False,
    duration: Annotated[str, typer.Option(help="Virtual time of a run.")] = "7.5s",
    workers: Workers = 2,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Simulated H200 pairs next to the measured table."""
    from dure.sim.kernel.benches.pairs import bench_pairs
    from dure.sim.kernel.benches.pairs_fit import fit_pairs

    run_s = duration_option_ns(duration, "--duration") / NS_PER_S
    chosen = numbers(seeds or ("1-4" if fit else "1-8"), "--seeds")
    bench = fit_pairs if fit else bench_pairs
    run_bench(
        lambda tell: bench(seeds=chosen, run_s=run_s, workers=workers, tell=tell),
        as_json=as_json,
        out=out,
    )


@app.command("mixes")
def mixes(
    seeds: Annotated[str, typer.Option(help="Mixes to run, as '1-20' or '3,7'.")] = "1-20",
    duration: Annotated[str, typer.Option(help="Virtual time in which work arrives.")] = "20s",
    workers: Workers = 2,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Every baseline and every policy on made mixes of tenants."""
    from dure.sim.kernel.benches.mixes import bench_mixes

    chosen = numbers(seeds, "--seeds")
    duration_ns = duration_option_ns(duration, "--duration")
    run_bench(
        lambda tell: bench_mixes(chosen, duration_ns=duration_ns, workers=workers, tell=tell),
        as_json=as_json,
        out=out,
    )


@app.command("search")
def search(
    tenants: Annotated[str, typer.Option(help="Numbers of tenants, as '5-8'.")] = "5-8",
    cases: Annotated[int, typer.Option(help="Made states for each number.", min=1)] = 50,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Loss of the bounded search for squads against trying every set."""
    from dure.sim.kernel.benches.search import MOST_TENANTS, bench_search

    counts = numbers(tenants, "--tenants", least=2, most=MOST_TENANTS)
    run_bench(lambda tell: bench_search(counts, cases=cases, tell=tell), as_json=as_json, out=out)


@app.command("decide")
def decide(
    tenants: Annotated[str, typer.Option(help="Numbers of tenants, as '4,16'.")] = "4,16",
    events: Annotated[int, typer.Option(help="Decisions to time for each.", min=1)] = 500,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Time of a decision, on one core."""
    from dure.sim.kernel.benches.decide import MOST_TENANTS, bench_decide

    counts = numbers(tenants, "--tenants", least=1, most=MOST_TENANTS)
    run_bench(lambda tell: bench_decide(counts, events=events, tell=tell), as_json=as_json, out=out)


@app.command("speed")
def speed(
    duration: Annotated[str, typer.Option(help="Virtual time of the shortest run.")] = "2s",
    repeats: Annotated[int, typer.Option(help="Runs of which the fastest counts.", min=1)] = 3,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Kernels simulated per second of wall time, for runs of growing length."""
    from dure.sim.kernel.benches.speed import bench_speed

    base_ns = duration_option_ns(duration, "--duration")
    run_bench(
        lambda tell: bench_speed(base_ns=base_ns, repeats=repeats, tell=tell),
        as_json=as_json,
        out=out,
    )


@app.command("switch")
def switch(
    switches: Annotated[int, typer.Option(help="Switches to make.", min=1)] = 100,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Policy switches at random times while work runs."""
    from dure.sim.kernel.benches.switch import bench_switch

    run_bench(lambda tell: bench_switch(switches=switches, tell=tell), as_json=as_json, out=out)


app.command("packing")(bench_fleet.packing)
app.command("fleet")(bench_fleet.fleet)
app.command("global")(bench_fleet.global_stage)
app.command("week")(bench_fleet.week)
app.command("kernel")(bench_kernel.kernel)
app.command("node")(bench_node.node)
app.command("containers")(bench_containers.containers)
app.command("monitor")(bench_monitor.monitor)
app.command("centre")(bench_centre.centre)
app.command("elastic")(bench_elastic.elastic)
app.command("moves")(bench_moves.moves)
app.command("series")(bench_series.series)
app.command("telemetry")(bench_series.telemetry)
app.command("risk")(bench_risk.risk)
app.command("adapt")(bench_adapt.adapt)
