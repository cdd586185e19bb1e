"""What commands that ask the centre share: the client, documents from YAML, tables and JSON."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dure.cli.terminal import output_console
from dure.domain.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from dure.api.base import Document
    from dure.cli.fitting import Column
    from dure.client.fleet import FleetClient
    from dure.client.fleet.config import Context

    DocumentT = TypeVar("DocumentT", bound=Document)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
InContext = Annotated[
    str, typer.Option("--context", help="Of `dure login`; else DURE_SERVER, else the current one.")
]
Sets = Annotated[
    list[str],
    typer.Option("--set", metavar="FIELD=VALUE", help="Instead of what the file says; may repeat."),
]
_WIDTH = 120
_STDIN = Path("-")
_DIVIDER = re.compile(r"^---\s*(#.*)?$")


def known_context(context: str = "") -> "Context":
    """The centre that is meant, with a token for it."""
    from dure.client.fleet import load_context

    found = load_context(context)
    if not found.token:
        raise InputError(
            f"no token is known for {found.servers[0]}",
            "run `dure login URL`, or set DURE_SERVER and DURE_TOKEN",
        )
    return found


@contextmanager
def centre(context: str = "") -> "Iterator[FleetClient]":
    """A client of the centre that is meant."""
    from dure.client.fleet import FleetClient

    with FleetClient(known_context(context)) as client:
        yield client


def echo_json(value: "BaseModel | list[Any] | dict[str, Any]") -> None:
    """Print a document for programs."""
    from pydantic import BaseModel

    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def echo_table(columns: "Sequence[Column[Any]]", items: Sequence[Any], empty: str) -> None:
    """Print a table for people, or a sentence where there is nothing."""
    from dure.cli.fitting import fitting_table

    if not items:
        typer.echo(empty)
        return
    console = output_console(_WIDTH)
    console.print(fitting_table(list(columns), list(items), console.width))


def documents(file: Path, model: "type[DocumentT]", sets: Sequence[str] = ()) -> "list[DocumentT]":
    """The documents of a YAML file, or of standard input; wrong ones are refused with the line."""
    text = sys.stdin.read() if file == _STDIN else _text(file)
    named = Path("standard input") if file == _STDIN else file
    found = [_document(part, named, model, sets) for part in _parts(text)]
    if not found:
        raise InputError("the file is empty", "write at least one document", file=str(named))
    return found


def document(file: Path, model: "type[DocumentT]", sets: Sequence[str] = ()) -> "DocumentT":
    """The one document of a YAML file."""
    found = documents(file, model, sets)
    if len(found) > 1:
        raise InputError("holds several documents", "keep one", file=str(file))
    return found[0]


def _text(file: Path) -> str:
    from dure.kit.files import read_text

    return read_text(file)


def _parts(text: str) -> Iterator[str]:
    """Each document, with as many empty lines before it as make its line numbers right."""
    lines: list[str] = []
    before = 0
    for number, line in enumerate(text.splitlines()):
        if _DIVIDER.match(line):
            yield from _filled(lines, before)
            lines, before = [], number + 1
        else:
            lines.append(line)
    yield from _filled(lines, before)


def _filled(lines: Sequence[str], before: int) -> Iterator[str]:
    if any(line.strip() and not line.lstrip().startswith("#") for line in lines):
        yield "\n" * before + "\n".join(lines) + "\n"


def _document(text: str, file: Path, model: "type[DocumentT]", sets: Sequence[str]) -> "DocumentT":
    from dure.kit.files import parse_yaml

    parsed = parse_yaml(text, file)
    data: dict[str, Any] = dict(parsed.data)
    for each in sets:
        set_value(data, each)
    return made_from(model, data, lambda place: f"{file}, line {parsed.line_of(place)}")


def made_from(
    model: "type[DocumentT]",
    data: dict[str, Any],
    located: "Callable[[tuple[str | int, ...]], str]" = lambda _: "",
) -> "DocumentT":
    """A document from plain values; a wrong one is refused with the field, and where it is."""
    from pydantic import ValidationError

    from dure.api.base import read_document
    from dure.api.complaints import complaints

    try:
        return read_document(model, json.dumps(data))
    except ValidationError as error:
        first = complaints(error, model)[0]
        place = located(error.errors(include_url=False)[0]["loc"])
        raise InputError(first.detail, first.remedy, file=place, field=first.field) from error


def set_value(data: dict[str, Any], given: str) -> None:
    """Put one value into a document: `resources.memory=40GiB`."""
    from dure.kit.files import FileProblem, parse_yaml

    path, equals, value = given.partition("=")
    if not equals or not path:
        raise InputError(f"'{given}' sets nothing", "write FIELD=VALUE", field="--set")
    try:
        made = parse_yaml(f"value: {value}", Path("--set")).data["value"]
    except FileProblem as problem:
        raise InputError(problem.what, problem.remedy, field=f"--set {path}") from problem
    *above, last = path.split(".")
    part = data
    for name in above:
        inner = part.get(name)
        part[name] = dict(inner) if isinstance(inner, dict) else {}
        part = part[name]
    part[last] = made


def ago(moment: str | None) -> str:
    """How long a moment is past, in the largest whole unit."""
    import time

    from dure.api.base import moment_ns

    if moment is None:
        return ""
    seconds = max(0.0, time.time() - moment_ns(moment) / 1e9)
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
