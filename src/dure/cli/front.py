"""`dure front`: a stable address before a service of the fleet."""

from typing import Annotated

import typer

from dure.cli.centre import InContext, known_context
from dure.cli.terminal import duration_option_ns, host_and_port
from dure.domain.units import NS_PER_S

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
    from dure.front.main import FrontOptions, run

    host, port = host_and_port(listen, "--listen")
    patience_s = duration_option_ns(patience, "--patience") / NS_PER_S
    answer_s = duration_option_ns(answer, "--answer") / NS_PER_S
    run(FrontOptions(known_context(context), service, host, port, patience_s, answer_s))
