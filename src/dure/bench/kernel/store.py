"""Keeps what was measured, one JSON file per cell, so that a bench can be gone on with."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dure.bench.kernel.orders import Answer
from dure.kit.files import FileProblem, read_text, write_text

MACHINE, CALIBRATION = "machine", "calibration"
_CELLS, _FAILED = "cells", "failed"


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement of one row."""

    row: str
    repeat: int
    seconds: float
    ramp_s: float
    tenants: dict[str, Answer]
    targets_ms: dict[str, float] = field(default_factory=dict)
    """What the tenants were promised while it ran."""
    status: dict[str, Any] = field(default_factory=dict)
    """What the agent said at its end."""

    def data(self) -> dict[str, Any]:
        """As it is kept."""
        found = asdict(self)
        found["tenants"] = {name: answer.data() for name, answer in self.tenants.items()}
        return found

    @classmethod
    def read(cls, data: dict[str, Any]) -> "Cell":
        """From what was kept."""
        tenants = {name: Answer.read(answer) for name, answer in data["tenants"].items()}
        return cls(**{**data, "tenants": tenants})


class Store:
    """The folder of one scenario."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, row: str, repeat: int) -> bool:
        """Whether that cell was measured."""
        return self._cell(row, repeat).is_file()

    def keep(self, cell: Cell) -> None:
        """Keep a cell; what failed of its row before is forgotten."""
        self._write(self._cell(cell.row, cell.repeat), cell.data())
        (self.folder / _FAILED / f"{cell.row}.json").unlink(missing_ok=True)

    def cells(self) -> Iterator[Cell]:
        """All cells, by row and repeat."""
        for path in sorted((self.folder / _CELLS).glob("*.json")):
            yield Cell.read(_read(path))

    def of_row(self, row: str) -> list[Cell]:
        """The cells of a row, by repeat."""
        return sorted(
            (cell for cell in self.cells() if cell.row == row), key=lambda cell: cell.repeat
        )

    def fail(self, row: str, why: str) -> None:
        """Keep that a row could not be measured."""
        self._write(self.folder / _FAILED / f"{row}.json", {"row": row, "why": why})

    def failed(self) -> dict[str, str]:
        """Rows that could not be measured, and why."""
        found = [_read(path) for path in sorted((self.folder / _FAILED).glob("*.json"))]
        return {item["row"]: item["why"] for item in found}

    def note(self, name: str, data: dict[str, Any]) -> None:
        """Keep something of the whole scenario."""
        self._write(self.folder / f"{name}.json", data)

    def noted(self, name: str) -> dict[str, Any] | None:
        """What was kept of the whole scenario, if it was."""
        path = self.folder / f"{name}.json"
        return _read(path) if path.is_file() else None

    def _cell(self, row: str, repeat: int) -> Path:
        return self.folder / _CELLS / f"{row}-{repeat}.json"

    def _write(self, path: Path, data: dict[str, Any]) -> None:
        write_text(path, json.dumps(data) + "\n")


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise FileProblem(
            path, f"is no JSON ({error.msg})", "delete it, and it is measured anew", error.lineno
        ) from error
    return found
