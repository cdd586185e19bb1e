"""`dure bench centre`: the centre under load, from submissions to Pods."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.measuring import Json, Out, numbers, run_bench
from dure.cli.terminal import duration_option_ns
from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S

_Part = Annotated[
    str, typer.Option(help="Of 'submits,pages,pods', those to measure, as 'submits,pages'.")
]
_Duration = Annotated[
    str | None,
    typer.Option(
        help="Of each rush of submissions and of the load of Pods; 30s and 5m unless stated.",
        show_default=False,
    ),
]
_Clients = Annotated[str, typer.Option(help="Clients that submit at once, as '1,64'.")]
_Jobs = Annotated[int, typer.Option(help="Jobs whose pages are asked for.", min=100)]
_Live = Annotated[int, typer.Option(help="Of them, so many live.", min=1)]
_Rate = Annotated[float, typer.Option(help="Jobs a second that become Pods.", min=0.1)]
_Postgresql = Annotated[
    str,
    typer.Option(
        metavar="URL",
        envvar="DURE_BENCH_POSTGRESQL",
        help="A PostgreSQL server where databases may be made, beside SQLite.",
    ),
]
_Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        envvar="DURE_BENCH_KUBECONFIG",
        help="Of a cluster with nodes on paper (KWOK); bench/centre.py starts one.",
    ),
]
_Processes = Annotated[
    list[str] | None,
    typer.Option(
        "--process",
        metavar="NAME=PID",
        envvar="DURE_BENCH_PROCESSES",
        help="A process of the cluster, to count what it uses.",
    ),
]


def centre(
    part: _Part = "submits,pages,pods",
    duration: _Duration = None,
    clients: _Clients = "1,16,64",
    jobs: _Jobs = 100_000,
    live: _Live = 20_000,
    rate: _Rate = 20.0,
    postgresql: _Postgresql = "",
    kubeconfig: _Kubeconfig = None,
    process: _Processes = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Submissions a second, pages of many jobs, and how soon a job has its Pod."""
    from dure.bench.centre.run import Wanted, bench_centre

    wanted = Wanted(
        parts=_parts(part),
        seconds=duration_option_ns(duration, "--duration") / NS_PER_S if duration else None,
        clients=tuple(numbers(clients, "--clients", least=1)),
        jobs=jobs,
        live=min(live, jobs),
        per_s=rate,
        postgresql=postgresql,
        kubeconfig=kubeconfig,
        processes=dict(_process(each) for each in process or ()),
    )
    run_bench(lambda tell: bench_centre(wanted, tell), as_json=as_json, out=out)


def _parts(text: str) -> tuple[str, ...]:
    from dure.bench.centre.run import PARTS

    chosen = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for part in chosen:
        if part not in PARTS:
            raise InputError(
                f"there is no part '{part}'", f"use some of {', '.join(PARTS)}", field="--part"
            )
    return chosen


def _process(text: str) -> tuple[str, int]:
    name, _, pid = text.partition("=")
    if not name or not pid.isdecimal():
        raise InputError(f"'{text}' names no process", "write NAME=PID", field="--process")
    return name, int(pid)
