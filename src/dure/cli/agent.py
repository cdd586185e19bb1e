"""`dure agent`: the process that shares this host's GPUs between tenants."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dure.domain.errors import InputError


def agent(
    sharing: Annotated[
        Literal["isolated", "mps"],
        typer.Option(
            help="isolated: tenants take turns, each process by itself. "
            "mps: their kernels overlap; for tenants that trust one another."
        ),
    ] = "isolated",
    policy: Annotated[
        str, typer.Option(help="The policy of GPUs for which none was set before.")
    ] = "hybrid",
    gpu: Annotated[
        list[str] | None,
        typer.Option(help="Index or UUID of a GPU to look after; all where none is named."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Also show status and take reports here. Nobody is asked who he is there.",
        ),
    ] = None,
    manage_containers: Annotated[
        bool,
        typer.Option(
            "--manage-containers",
            help="Also queue the containers of this host that share a GPU, by pausing them.",
        ),
    ] = False,
    strategy: Annotated[
        str | None,
        typer.Option(help="How containers are queued: dure, paper, paper-window or none."),
    ] = None,
    pause_with: Annotated[
        Literal["docker", "cuda-lock", "auto"] | None,
        typer.Option(
            help="docker: freeze the whole container. cuda-lock: hold its CUDA calls alone. "
            "auto: the lock where it works, else Docker."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Pause no container, only say what would be done.")
    ] = False,
    run_dir: Annotated[
        Path | None, typer.Option(help="Its folder of sockets and state; else DURE_RUN_DIR.")
    ] = None,
    log_file: Annotated[
        Path | None, typer.Option(help="Where it logs; standard error where none is named.")
    ] = None,
) -> None:
    """Share this host's GPUs between tenants, until it is told to end (SIGTERM or Ctrl-C)."""
    from dure.agent.main import run
    from dure.agent.options import AgentOptions, ContainerOptions
    from dure.client.places import own_places

    containers = None
    if manage_containers:
        containers = ContainerOptions(
            strategy=strategy or "dure", pause_with=pause_with or "auto", dry_run=dry_run
        )
    elif strategy is not None or pause_with is not None or dry_run:
        raise InputError(
            "--strategy, --pause-with and --dry-run are about containers",
            "add --manage-containers",
        )
    run(
        AgentOptions(
            places=own_places(run_dir),
            sharing=sharing,
            http=_host_and_port(http) if http is not None else None,
            policy=policy,
            gpus=tuple(gpu or ()),
            log_file=log_file,
            containers=containers,
        )
    )


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise InputError(
            f"'{text}' is not a host and port", "write it as 127.0.0.1:9400", field="--http"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
