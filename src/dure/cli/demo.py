"""`dure demo`: all three levels on emulated hardware, with the dashboard; no GPU needed."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.terminal import output_console, refuse_unwritable

_WIDTH = 100
_INTERRUPTED = 130
"""128 + SIGINT, as shells say it."""

_Out = Annotated[Path, typer.Option(metavar="FILE", help="Where the report is written.")]
_Seed = Annotated[int, typer.Option(help="Of the requests that arrive.", min=0)]
_Keep = Annotated[
    bool, typer.Option("--keep", help="Leave everything up afterwards, until Ctrl-C.")
]
_Docker = Annotated[
    bool,
    typer.Option("--docker", help="Let real containers share a GPU instead of simulated ones."),
]


def demo(
    out: _Out = Path("out/demo/report.html"),
    seed: _Seed = 1,
    keep: _Keep = False,
    docker: _Docker = False,
) -> None:
    """Show kernels, containers and a fleet at work on emulated GPUs, in about a minute and a half.

    Starts a centre, three clusters and an agent on each GPU, prints the addresses of the dashboard,
    and tells what happens line by line. Everything it started is gone when it ends.
    """
    from dure.demo.main import DemoOptions, run

    refuse_unwritable(out, "--out")
    try:
        run(DemoOptions(out, seed, keep, docker), output_console(_WIDTH))
    except KeyboardInterrupt:
        raise typer.Exit(_INTERRUPTED) from None
