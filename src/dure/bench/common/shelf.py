"""Keeps what was measured, one JSON file per cell, so that a bench can be gone on with."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dure.kit.files import FileProblem, read_text, write_text

MACHINE = "machine"
_CELLS, _FAILED = "cells", "failed"


class Shelf:
    """The folder of one shard: cells by name, rows that failed, notes on the whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def holds(self, cell: str) -> bool:
        """Whether that cell was measured."""
        return self._cell(cell).is_file()

    def put(self, cell: str, row: str, data: dict[str, Any]) -> None:
        """Keep a cell; what failed of its row before is forgotten."""
        _write(self._cell(cell), data)
        (self.folder / _FAILED / f"{row}.json").unlink(missing_ok=True)

    def all_cells(self) -> Iterator[dict[str, Any]]:
        """All cells, by name."""
        for path in sorted((self.folder / _CELLS).glob("*.json")):
            yield _read(path)

    def fail(self, row: str, why: str) -> None:
        """Keep that a row could not be measured."""
        _write(self.folder / _FAILED / f"{row}.json", {"row": row, "why": why})

    def failed(self) -> dict[str, str]:
        """Rows that could not be measured, and why."""
        found = [_read(path) for path in sorted((self.folder / _FAILED).glob("*.json"))]
        return {item["row"]: item["why"] for item in found}

    def note(self, name: str, data: dict[str, Any]) -> None:
        """Keep something of the whole shard."""
        _write(self.folder / f"{name}.json", data)

    def noted(self, name: str) -> dict[str, Any] | None:
        """What was kept of the whole shard, if it was."""
        path = self.folder / f"{name}.json"
        return _read(path) if path.is_file() else None

    def _cell(self, name: str) -> Path:
        return self.folder / _CELLS / f"{name}.json"


def _write(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data) + "\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FileProblem(
            path, f"is no JSON ({error.msg})", "delete it, and it is measured anew", error.lineno
        ) from error
    return found
