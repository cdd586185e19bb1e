"""`dure agent`: the process that shares this host's GPUs between tenants."""

from pathlib import Path
from typing import Annotated, Literal

import typer


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
    run_dir: Annotated[
        Path | None, typer.Option(help="Its folder of sockets and state; else DURE_RUN_DIR.")
    ] = None,
    log_file: Annotated[
        Path | None, typer.Option(help="Where it logs; standard error where none is named.")
    ] = None,
) -> None:
    """Share this host's GPUs between tenants, until it is told to end (SIGTERM or Ctrl-C)."""
    from dure.agent.main import run
    from dure.agent.options import AgentOptions
    from dure.client.places import own_places

    run(
        AgentOptions(
            places=own_places(run_dir),
            sharing=sharing,
            http=_host_and_port(http) if http is not None else None,
            policy=policy,
            gpus=tuple(gpu or ()),
            log_file=log_file,
        )
    )


def _host_and_port(text: str) -> tuple[str, int]:
    from dure.domain.errors import InputError

    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise InputError(
            f"'{text}' is not a host and port", "write it as 127.0.0.1:9400", field="--http"
        )
    return host.strip("[]") or "127.0.0.1", int(port)
