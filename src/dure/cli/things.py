"""Groups of commands for what people name at the centre: list, show, set and remove, all alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dure.cli.centre import (
    AsJson,
    InContext,
    Sets,
    centre,
    document,
    echo_json,
    echo_table,
    made_from,
    set_value,
)

if TYPE_CHECKING:
    from dure.api.base import Document
    from dure.cli.fitting import Column
    from dure.client.fleet import FleetClient

    DocumentT = TypeVar("DocumentT", bound=Document)

SpecFile = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="YAML, - is stdin; else as it is, with what --set says."),
]


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

    @app.command("set", help=f"Create or change a {kind.noun}, as a YAML file or --set say.")
    def _set(
        name: named,
        file: SpecFile = None,
        sets: Sets = [],  # noqa: B006 - typer copies it
        as_json: AsJson = False,
        context: InContext = "",
    ) -> None:
        given = None if file is None else document(file, kind.spec(), sets)
        with centre(context) as client:
            before = seen(client, kind.calls()[1](name))
            revision = revision_of(before)
            spec = given or changed(kind.spec(), before, sets)
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


def seen(client: "FleetClient", get: Any) -> Any:
    """What is there; None where nothing is."""
    from dure.client.fleet import RefusedError

    try:
        return client.do(get)
    except RefusedError as error:
        if error.status != 404:
            raise
        return None


def revision_of(before: Any) -> int:
    """The revision of what was seen, to change exactly that; `CREATE` where there was nothing."""
    from dure.client.fleet.calls import CREATE

    return CREATE if before is None else int(before.revision)


def changed(model: "type[DocumentT]", before: Any, sets: Sequence[str]) -> "DocumentT":
    """What was seen (or all defaults) with what `--set` says instead."""
    data = {} if before is None else before.spec.model_dump(mode="json")
    for each in sets:
        set_value(data, each)
    return made_from(model, data)
