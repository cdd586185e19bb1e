"""`dure front`: a stable address before a service of the fleet."""

from typing import Annotated

import typer

from dure.cli.centre import InContext
from dure.cli.terminal import host_and_port
from dure.domain.errors import InputError
from dure.domain.units import parse_duration_ns

_Service = Annotated[
    str,
    typer.Argument(metavar="SERVICE", help="Id or name of a service; a name may come later."),
]
_Listen = Annotated[str, typer.Option(metavar="HOST:PORT", help="Where people ask.")]
_Patience = Annotated[
    str, typer.Option(help="How long a request waits for an instance that is ready.")
]
_Answer = Annotated[str, typer.Option(help="How long an instance may be silent.")]


def front(
    service: _Service,
    listen: _Listen = "127.0.0.1:8080",
    patience: _Patience = "10s",
    answer: _Answer = "10m",
    context: InContext = "",
) -> None:
    """Answer HTTP requests for a service wherever it runs now, until told to end.

    Instances come, go and move between clusters; who asks here does not notice. While the centre
    is away, the front goes on with the instances it knows.
    """
    from dure.client.fleet import load_context
    from dure.front.main import FrontOptions, run

    centre = load_context(context)
    if not centre.token:
        raise InputError(
            f"no token is known for {centre.servers[0]}",
            "run `dure login URL`, or set DURE_SERVER and DURE_TOKEN",
        )
    host, port = host_and_port(listen, "--listen")
    waits = (parse_duration_ns(each) / 1e9 for each in (patience, answer))
    run(FrontOptions(centre, service, host, port, *waits))
