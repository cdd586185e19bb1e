"""`dure fleet settings`: currency, rates, what lies between clusters, the policy in force."""

from pathlib import Path
from typing import Annotated

import typer

from dure.cli.centre import InContext, Sets, centre, document, echo_json

app = typer.Typer(
    help="What holds for the fleet as a whole: currency, rates, network, policy in force.",
    no_args_is_help=True,
)


@app.command("show")
def show(context: InContext = "") -> None:
    """Show the settings as JSON."""
    from dure.client.fleet import calls

    with centre(context) as client:
        echo_json(client.do(calls.get_fleet()))


@app.command("set")
def change(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML; - is standard input.")],
    sets: Sets = [],  # noqa: B006 - typer copies it
    context: InContext = "",
) -> None:
    """Set them as a YAML file says."""
    from dure.api.policies import FleetSpec
    from dure.client.fleet import calls

    spec = document(file, FleetSpec, sets)
    with centre(context) as client:
        present = client.do(calls.get_fleet()).revision
        echo_json(client.do(calls.put_fleet(spec, present)))
