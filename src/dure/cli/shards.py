"""What benches that are measured shard by shard share: names on the line, their page."""

import datetime
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dure.domain.errors import InputError
from dure.kit.files import write_text

if TYPE_CHECKING:
    from dure.sim.benches.report import BenchReport


def listed(text: str, field: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Names as people list them, 'a,b'; all that are known where none is given."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for name in found:
        if name not in known:
            raise InputError(f"'{name}' is not known", f"use {', '.join(known)}", field=field)
    return found or known


def write_page(
    report: "BenchReport", folder: Path, page: Path, picture: tuple[str, str] | None
) -> None:
    """The page of a folder of shards; `picture`: what it shows, and its SVG, put beside it."""
    from dure.bench.common.machine import machine_of
    from dure.sim.benches.page import Made, markdown

    machine = machine_of(folder)
    made = Made(
        str(machine.get("date") or datetime.datetime.now(tz=datetime.UTC).date().isoformat()),
        str(machine.get("host", "unknown")),
        shlex.join(["dure", *sys.argv[1:]]),
    )
    text = markdown(report, made)
    if picture is not None:
        title, drawn = picture
        path = page.with_suffix(".svg")
        write_text(path, drawn)
        text += f"\n![{title}]({path.name})\n"
    write_text(page, text)
