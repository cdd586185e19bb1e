"""`dure bench` for the fleet level; `dure.cli.bench` registers these commands."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, Workers, numbers, run_bench
from dure.domain.errors import InputError


def packing(
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the openb lists, or the one above it; made lists unless given.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        list[str] | None,
        typer.Option(help="Pod list, as 'default'; may be repeated; all unless given."),
    ] = None,
    seeds: Annotated[str, typer.Option(help="Orders of arrival, as '42-51'.")] = "42-51",
    defrag: Annotated[
        bool, typer.Option("--defrag", help="Also with a bounded number of moves.")
    ] = False,
    workers: Workers = 1,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Elastic Slice Packing beside random, best-fit and FGD."""
    from dure.sim.fleet.benches.packing import bench_packing

    chosen = numbers(seeds, "--seeds")
    run_bench(
        lambda tell: bench_packing(
            data, trace or [], chosen, defrag=defrag, workers=workers, tell=tell
        ),
        as_json=as_json,
        out=out,
    )


def fleet(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with traces and price lists; made ones unless given."),
    ] = None,
    loads: Annotated[str, typer.Option(help="Mean loads, as '0.6,0.8'.")] = "0.6,0.8,0.95",
    seeds: Annotated[str, typer.Option(help="Draws of rules and services, as '1-5'.")] = "1-5",
    side_seeds: Annotated[
        int, typer.Option(help="Seeds of sweeps, references and trailing heuristics.", min=1)
    ] = 5,
    sweeps: Annotated[
        bool, typer.Option(help="Penalty rates, carbon budgets and ablation too.")
    ] = True,
    keep: Annotated[
        Path | None,
        typer.Option(help="Folder where each run is kept, so that a bench can be gone on with."),
    ] = None,
    kept_only: Annotated[
        bool, typer.Option("--kept-only", help="Show what was kept so far, run nothing.")
    ] = False,
    workers: Workers = 2,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """The month: Dure beside baselines and the offline bound."""
    from dure.sim.fleet.benches.month import MonthPlan, bench_month

    if kept_only and keep is None:
        raise InputError("there is no folder to show runs of", "name it with --keep")
    plan = MonthPlan(
        _shares(loads, "--loads"), numbers(seeds, "--seeds"), side_seeds, sweeps, kept_only
    )
    run_bench(
        lambda tell: bench_month(data, plan, keep, workers=workers, tell=tell),
        as_json=as_json,
        out=out,
    )


def week(
    scale: Annotated[
        float,
        typer.Option(help="Part of the full size, in everything but the days.", min=0.001, max=1.0),
    ] = 1.0,
    days: Annotated[float, typer.Option(help="Virtual days.", min=0.05, max=31.0)] = 7.0,
    seed: Annotated[int, typer.Option(help="Draw of fleet and work.", min=0)] = 1,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Seven days of a large fleet, every feature on: wall time and memory."""
    from dure.sim.fleet.benches.week import bench_week

    run_bench(lambda tell: bench_week(scale, days, seed, tell=tell), as_json=as_json, out=out)


def _shares(text: str, field: str) -> list[float]:
    """Loads as people list them: '0.6,0.8'."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0.05 <= share <= 2.0 for share in found):
        raise InputError(f"'{text}' is no list of loads", "write '0.6,0.8'", field=field)
    return found


def global_stage(
    jobs: Annotated[int, typer.Option(help="Jobs of a round.", min=1)] = 10_000,
    clusters: Annotated[int, typer.Option(help="Clusters to choose from.", min=1)] = 100,
    instance: Annotated[str, typer.Option(help="'plain', 'full' or 'both'.")] = "plain",
    seeds: Annotated[str, typer.Option(help="Made rounds, as '1-5'.")] = "1-5",
    exact: Annotated[
        bool, typer.Option("--exact", help="Also ask a general solver, for small rounds.")
    ] = False,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Also 10,000 to 100,000 jobs, one seed each.")
    ] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Time of a round of the global stage, and its gap to the bound."""
    from dure.sim.fleet.benches.global_instances import INSTANCES
    from dure.sim.fleet.benches.global_stage import bench_global

    if instance not in (*INSTANCES, "both"):
        raise InputError(
            f"no instance is called '{instance}'",
            f"use {', '.join(INSTANCES)} or both",
            field="--instance",
        )
    instances = INSTANCES if instance == "both" else (instance,)
    chosen = numbers(seeds, "--seeds")
    run_bench(
        lambda tell: bench_global(
            (jobs, clusters), instances, chosen, exact=exact, sweep=sweep, tell=tell
        ),
        as_json=as_json,
        out=out,
    )
