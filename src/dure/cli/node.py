"""`dure node`: the containers that share this host's GPUs, and what people may say of them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import output_console
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from dure.client.containers import ContainerStatus

_WIDTH = 140

app = typer.Typer(
    help="Containers that share this host's GPUs: who runs, who waits and why.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="Print every figure as JSON instead of text.")]
Named = Annotated[
    str, typer.Argument(help="Its name, or the beginning of its id.", metavar="CONTAINER")
]
RunDir = Annotated[
    Path | None, typer.Option(help="The agent's folder of sockets and state; else DURE_RUN_DIR.")
]


@app.command("ps")
def ps(as_json: Json = False) -> None:
    """List containers with a GPU: state and reason, queue place, wait, SM use, memory, deadline."""
    from dure.cli.node_view import containers_view
    from dure.client.api import find_agent

    with find_agent() as client:
        status = client.containers()
    if as_json:
        typer.echo(status.model_dump_json(indent=2, by_alias=True))
        return
    console = output_console(_WIDTH)
    console.print(containers_view(status, console.width))


@app.command("pause")
def pause(container: Named, as_json: Json = False) -> None:
    """Keep a container from the GPU until `dure node resume`; nothing else lets it go."""
    from dure.client.api import find_agent

    with find_agent() as client:
        after = client.pause_container(container)
    _say(after, as_json)


@app.command("resume")
def resume(container: Named, as_json: Json = False) -> None:
    """Let a container go at once, and leave it alone for a while."""
    from dure.client.api import find_agent

    with find_agent() as client:
        after = client.resume_container(container)
    _say(after, as_json)


@app.command("exempt")
def exempt(
    container: Named,
    off: Annotated[bool, typer.Option("--off", help="Manage it again.")] = False,
    as_json: Json = False,
) -> None:
    """Never pause a container, as its label dure.exempt=true would; it is let go if it waits."""
    from dure.client.api import find_agent

    with find_agent() as client:
        after = client.exempt_container(container, exempt=not off)
    _say(after, as_json)


@app.command("why")
def why(container: Named, as_json: Json = False) -> None:
    """Say why a container runs or waits: for whom, since when, until when at most."""
    from dure.client.api import find_agent

    with find_agent() as client:
        answer = client.why_container(container)
    if as_json:
        typer.echo(answer.model_dump_json(indent=2, by_alias=True))
        return
    for sentence in answer.sentences or (f"Nothing is known of {answer.name} yet.",):
        typer.echo(sentence)


@app.command("thaw")
def thaw(
    everything: Annotated[
        bool, typer.Option("--all", help="All that Dure paused; there is nothing less.")
    ] = False,
    run_dir: RunDir = None,
) -> None:
    """Let go every container that Dure paused, without asking any agent: for emergencies."""
    if not everything:
        raise InputError(
            "this lets go everything that Dure paused",
            "say `dure node thaw --all`; `dure node resume CONTAINER` lets one go",
        )
    from dure.agent.containers.thawing import Outcome, thaw_folder
    from dure.client.places import own_places

    results = thaw_folder(own_places(run_dir).containers_dir)
    for each in results:
        how = f" ({each.how})" if each.how else ""
        problem = f": {each.error}" if each.error else ""
        typer.echo(f"{each.owed.name} {each.outcome.value}{how}{problem}")
    if not results:
        typer.echo("Dure has no container paused.")
    if any(each.outcome is Outcome.STUCK for each in results):
        raise typer.Exit(1)


@app.command("watchdog")
def watchdog(run_dir: RunDir = None) -> None:
    """Be the watchdog: let everything go when the agent dies or hangs. The agent starts one."""
    import logging

    from dure.agent.containers.watchdog import run
    from dure.client.places import own_places

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run(own_places(run_dir).containers_dir)


def _say(after: "ContainerStatus", as_json: bool) -> None:
    """What became of a wish."""
    if as_json:
        typer.echo(after.model_dump_json(indent=2, by_alias=True))
    else:
        typer.echo(f"{after.name} is {after.state}: {after.reason}")
