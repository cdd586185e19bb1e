"""Groups of commands for what people name at the centre: list, show, set and remove, all alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli.centre import AsJson, InContext, Sets, centre, document, echo_json, echo_table

if TYPE_CHECKING:
    from dure.api.base import Document
    from dure.cli.fitting import Column
    from dure.client.fleet import FleetClient


@dataclass(frozen=True)
class Kind:
    """One kind of thing; the functions import what they need when they are called."""

    noun: str
    key: str
    """What its name is called: NAME, PATH."""
    spec: "Callable[[], type[Document]]"
    calls: Callable[[], tuple[Any, Any, Any, Any]]
    """To list, get, put and delete."""
    columns: "Callable[[], Sequence[Column[Any]]]"


def group(kind: Kind, text: str) -> typer.Typer:
    """`list`, `show`, `set`, `remove` of one kind."""
    app = typer.Typer(help=text, no_args_is_help=True)
    named = Annotated[str, typer.Argument(metavar=kind.key, help=f"Of the {kind.noun}.")]

    @app.command("list", help=f"List every {kind.noun} that you may see.")
    def _list(as_json: AsJson = False, context: InContext = "") -> None:
        with centre(context) as client:
            found = list(client.each(kind.calls()[0]))
        if as_json:
            echo_json({f"{kind.noun}s": [each.model_dump(mode="json") for each in found]})
        else:
            echo_table(kind.columns(), found, f"No {kind.noun}.")

    @app.command("show", help=f"Show one {kind.noun} as JSON.")
    def _show(name: named, context: InContext = "") -> None:
        with centre(context) as client:
            echo_json(client.do(kind.calls()[1](name)))

    @app.command("set", help=f"Create or change a {kind.noun} as a YAML file says; - is stdin.")
    def _set(
        name: named,
        file: Annotated[Path, typer.Argument(metavar="FILE")],
        sets: Sets = [],  # noqa: B006 - typer copies it
        as_json: AsJson = False,
        context: InContext = "",
    ) -> None:
        spec = document(file, kind.spec(), sets)
        with centre(context) as client:
            revision = seen(client, kind.calls()[1](name))
            stored = client.do(kind.calls()[2](name, spec, revision))
        if as_json:
            echo_json(stored)
        else:
            typer.echo(f"{kind.noun} {name} is {'changed' if revision else 'created'}.")

    @app.command("remove", help=f"Remove a {kind.noun} that nothing uses.")
    def _remove(name: named, context: InContext = "") -> None:
        with centre(context) as client:
            stored = client.do(kind.calls()[1](name))
            client.do(kind.calls()[3](name, stored.revision))
        typer.echo(f"{kind.noun} {name} is removed.")

    return app


def seen(client: "FleetClient", get: Any) -> int:
    """The revision of what is there, to change exactly that; `CREATE` where nothing is."""
    from dure.client.fleet import RefusedError
    from dure.client.fleet.calls import CREATE

    try:
        return int(client.do(get).revision)
    except RefusedError as error:
        if error.status != 404:
            raise
        return CREATE
