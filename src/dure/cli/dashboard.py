"""`dure dashboard`: the pages of this host's agent and of the centre, in a browser."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.centre import InContext
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.web.door import Upstream

_LOOPBACK = "127.0.0.1"

_Open = Annotated[bool, typer.Option("--open", help="Open a browser there.")]
_Port = Annotated[int, typer.Option(help="Port on this machine; 0: any that is free.", min=0)]
_RunDir = Annotated[
    Path | None, typer.Option(help="The agent's folder; else where `dure top` finds it.")
]


def dashboard(
    open_: _Open = False,
    port: _Port = 0,
    run_dir: _RunDir = None,
    context: InContext = "",
) -> None:
    """Show kernels, containers and the fleet in a browser, until told to end (Ctrl-C).

    Asks the agent of this host as you, and the centre you are logged in to. The address that is
    printed holds a key: whoever has it may do there what you may.
    """
    import webbrowser

    from dure.web.door import Door
    from dure.web.serving import listen, open_browser, serve

    agent, fleet = _agent(run_dir), _fleet(context)
    if agent is None and fleet is None:
        raise InputError(
            "there is nothing to show: no agent runs here, and you are logged in to no centre",
            "start `dure agent`, or log in with `dure login URL`",
        )
    listener = listen(_LOOPBACK, port)
    door = Door(agent, fleet, f"{_LOOPBACK}:{listener.getsockname()[1]}")
    typer.echo(f"The dashboard is at {door.url} (Ctrl-C ends it)")
    page = open_browser(door.url, webbrowser.open) if open_ else None
    try:
        serve(door, listener)
    finally:
        if page is not None:
            page.unlink(missing_ok=True)


def _agent(run_dir: Path | None) -> "Upstream | None":
    """The agent that `dure top` would ask; None: none was started."""
    from dure.client.places import candidate_places
    from dure.web.door import Upstream

    candidates = candidate_places(run_dir)
    found = next((each for each in candidates if each.api_socket.exists()), None)
    if found is None:
        if run_dir is None:
            return None
        found = candidates[0]  # it was named: it may start later
    remedy = "start it with `dure agent`; this page goes on by itself"
    return Upstream("http://agent", "the agent", remedy, socket=found.api_socket)


def _fleet(context: str) -> "Upstream | None":
    """The centre that `dure jobs` would ask; None: nobody is logged in."""
    from dure.client.fleet.config import load_context
    from dure.web.door import Upstream

    found = load_context(context)
    if not found.token:
        return None
    return Upstream(
        found.servers[0],
        "the centre",
        "see whether `dure server` runs; this page goes on by itself",
        headers={"Authorization": f"Bearer {found.token}"},
        ca_file=found.ca_file,
    )
