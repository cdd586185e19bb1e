"""`dure agent`: the process that shares this host's GPUs between tenants."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from dure.cli.terminal import duration_option_ns, host_and_port
from dure.domain.adaptation import AdaptBy
from dure.domain.errors import InputError
from dure.domain.risks import WeightsBy

SERIES_TOKEN_VARIABLE = "DURE_SERIES_TOKEN"
_QUICKEST_S = 0.1

_Sharing = Annotated[
    Literal["isolated", "mps"],
    typer.Option(
        help="isolated: tenants take turns, each process by itself. "
        "mps: their kernels overlap; for tenants that trust one another."
    ),
]
_Policy = Annotated[
    str | None,
    typer.Option(
        help="The policy of GPUs for which none was set before; hybrid, or slo with --adapt auto.",
        show_default=False,
    ),
]
_Gpus = Annotated[
    list[str] | None,
    typer.Option(help="Index or UUID of a GPU to look after; all where none is named."),
]
_Http = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Also show status and take reports here. Nobody is asked who he is there.",
    ),
]
_ManageContainers = Annotated[
    bool,
    typer.Option(
        "--manage-containers",
        help="Also queue the containers of this host that share a GPU, by pausing them.",
    ),
]
_Strategy = Annotated[
    str | None,
    typer.Option(help="How containers are queued: dure, paper, paper-window or none."),
]
_PauseWith = Annotated[
    Literal["docker", "cuda-lock", "auto"] | None,
    typer.Option(
        help="docker: freeze the whole container. cuda-lock: hold its CUDA calls alone. "
        "auto: the lock where it works, else Docker."
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Pause no container, only say what would be done.")
]
_NoStartWatchdog = Annotated[
    bool,
    typer.Option(
        "--no-start-watchdog",
        help="Start no watchdog: it runs as a service of its own (`dure node watchdog`).",
    ),
]
_Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write down all that is seen of containers and decided; `dure sim node --replay` "
        "reads it.",
    ),
]
_Series = Annotated[
    str,
    typer.Option(
        metavar="STORE",
        help="Where measurements are kept: sqlite (a file in its folder), off, or the address of "
        f"a VictoriaMetrics or Prometheus; {SERIES_TOKEN_VARIABLE} is sent to it.",
    ),
]
_MeasureEvery = Annotated[str, typer.Option(help="Time between two measurements.")]
_Weights = Annotated[
    Literal["frozen", "measured", "foreseen"],
    typer.Option(
        help="What moves the weights of tenants: nothing, how promises are kept, or also risks "
        "that are foreseen.",
    ),
]
_Adapt = Annotated[
    Literal["off", "advise", "auto"],
    typer.Option(
        help="What is done about a policy that would do better: nothing, a proposal "
        "(`dure policy advice`), or a switch, undone if it made things worse.",
    ),
]
_Tuner = Annotated[
    Literal["rules", "bandit"],
    typer.Option(
        help="What dry runs try: every policy, or the policies and settings that a bandit has "
        "learned to prefer.",
    ),
]
_RunDir = Annotated[
    Path | None, typer.Option(help="Its folder of sockets and state; else DURE_RUN_DIR.")
]
_LogFile = Annotated[
    Path | None, typer.Option(help="Where it logs; standard error where none is named.")
]


def agent(
    sharing: _Sharing = "isolated",
    policy: _Policy = None,
    gpu: _Gpus = None,
    http: _Http = None,
    manage_containers: _ManageContainers = False,
    strategy: _Strategy = None,
    pause_with: _PauseWith = None,
    dry_run: _DryRun = False,
    no_start_watchdog: _NoStartWatchdog = False,
    record: _Record = None,
    series: _Series = "sqlite",
    measure_every: _MeasureEvery = "1s",
    weights: _Weights = "foreseen",
    adapt: _Adapt = "off",
    tuner: _Tuner = "rules",
    run_dir: _RunDir = None,
    log_file: _LogFile = None,
) -> None:
    """Share this host's GPUs between tenants, until it is told to end (SIGTERM or Ctrl-C)."""
    from dure.agent.main import run
    from dure.agent.options import AgentOptions, ContainerOptions, TelemetryOptions
    from dure.client.places import own_places
    from dure.kernel.chooser import FIRST_POLICY

    containers = ContainerOptions(
        strategy=strategy or "dure",
        pause_with=pause_with or "auto",
        dry_run=dry_run,
        start_watchdog=not no_start_watchdog,
        record=record,
    )
    if not manage_containers and (strategy or pause_with or containers != ContainerOptions()):
        raise InputError(
            "--strategy, --pause-with, --dry-run, --no-start-watchdog and --record are about "
            "containers",
            "add --manage-containers",
        )
    run(
        AgentOptions(
            places=own_places(run_dir),
            sharing=sharing,
            http=host_and_port(http, "--http") if http is not None else None,
            policy=policy or (FIRST_POLICY if adapt == "auto" else "hybrid"),
            gpus=tuple(gpu or ()),
            log_file=log_file,
            containers=containers if manage_containers else None,
            weights=WeightsBy(weights),
            adapt=AdaptBy(adapt),
            tuner=tuner,
            telemetry=TelemetryOptions(
                series=series,
                period_s=max(
                    _QUICKEST_S, duration_option_ns(measure_every, "--measure-every") / 1e9
                ),
                token=os.environ.get(SERIES_TOKEN_VARIABLE, ""),
            ),
        )
    )
