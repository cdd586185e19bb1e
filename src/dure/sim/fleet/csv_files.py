"""CSV files read strictly: a complaint about a row names the file, the line and the column."""

import csv
import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dure.domain.errors import InputError
from dure.kit.words import nearest
from dure.sim.documents import printable

csv.field_size_limit(1 << 20)

MOST = 1e12
"""Largest number of a table: sums of products of such numbers stay finite."""
MOST_COUNTED = 1_000_000_000
"""Largest count."""


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A parsed file: its header, its rows as text, and the line each row came from."""

    path: Path
    header: tuple[str, ...]
    rows: list[list[str]]
    lines: list[int]

    def index(self, column: str) -> int:
        """Where a column is; raises `InputError` with the nearest name for one that is missing."""
        if self.header.count(column) > 1:
            raise InputError(
                f"has two columns '{column}'", "rename or remove one", file=str(self.path)
            )
        try:
            return self.header.index(column)
        except ValueError:
            raise InputError(
                f"has no column '{column}'",
                nearest(column, [name for name in self.header if name], "one of"),
                file=str(self.path),
            ) from None

    def wrong(self, row: int, column: str, what: str, remedy: str) -> InputError:
        """A complaint about one cell."""
        place = f"{self.path}, line {self.lines[row]}"
        field = printable(f"column '{column}'")
        return InputError(printable(what), remedy, file=place, field=field)

    def numbers(
        self,
        column: str,
        *,
        least: float = -MOST,
        most: float = MOST,
        empty: float | None = None,
    ) -> list[float]:
        """A column as numbers within bounds; an empty cell is `empty`, if given."""
        index = self.index(column)
        found = []
        for row, cells in enumerate(self.rows):
            text = cells[index]
            if not text.strip() and empty is not None:
                found.append(empty)
                continue
            try:
                value = float(text)
            except ValueError:
                value = math.nan
            if not least <= value <= most:
                raise self.wrong(row, column, *_no_number(text, (least, most)))
            found.append(value)
        return found

    def counts(self, column: str, *, least: int = 0, most: int = MOST_COUNTED) -> list[int]:
        """A column as whole numbers within bounds."""
        index = self.index(column)
        found = []
        for row, cells in enumerate(self.rows):
            try:
                value = int(cells[index])
            except ValueError:
                value = least - 1
            if not least <= value <= most:
                shown = f"'{cells[index]}'" if cells[index].strip() else "an empty cell"
                bound = f"at most {most:,}" if value > most else f"at least {least}"
                raise self.wrong(
                    row,
                    column,
                    f"{shown} is no whole number of {bound}",
                    "correct or remove the row",
                )
            found.append(value)
        return found

    def times(self, column: str) -> list[datetime.datetime]:
        """A column as moments; without a zone they are UTC."""
        index = self.index(column)
        found = []
        for row, cells in enumerate(self.rows):
            try:
                moment = datetime.datetime.fromisoformat(cells[index].strip())
            except ValueError:
                raise self.wrong(
                    row,
                    column,
                    f"'{cells[index]}' is not a moment in time",
                    "write it as '2023-10-01 13:00:00'",
                ) from None
            found.append(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC))
        return found


def _no_number(text: str, bounds: tuple[float, float]) -> tuple[str, str]:
    """What is wrong with a cell, and the remedy; bounds nobody set are not told."""
    if not text.strip():
        return "the value is missing", "fill the gap in the data"
    least, most = bounds
    told = [f"at least {least:g}"] if least > -MOST else []
    told += [f"at most {most:,.12g}"] if most < MOST else []
    bound = f" of {' and '.join(told)}" if told else ""
    return f"'{text.strip()}' is no number{bound}", "correct the value"


def read_csv(path: Path, columns: Sequence[str] = ()) -> CsvFile:
    """The whole file, of which every row has as many cells as the header; `columns` must exist."""
    found = _reading(path, lambda: _rows(path))
    for column in columns:
        found.index(column)
    return found


def _rows(path: Path) -> CsvFile:
    rows: list[list[str]] = []
    lines: list[int] = []
    with path.open(encoding="utf-8", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        try:
            header = tuple(cell.strip() for cell in next(reader, []))
            if not header:
                raise InputError("the file is empty", "give a header and rows", file=str(path))
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise _at(
                        path,
                        reader.line_num,
                        f"has {len(row)} columns where the header has {len(header)}",
                        "correct or remove the row",
                    )
                rows.append(row)
                lines.append(reader.line_num)
        except csv.Error as error:
            what = f"is not CSV ({error})"
            raise _at(path, reader.line_num, what, "correct the row") from error
    if not rows:
        raise InputError("has no rows below its header", "give at least one", file=str(path))
    return CsvFile(path, header, rows, lines)


def _at(path: Path, line: int, what: str, remedy: str) -> InputError:
    return InputError(what, remedy, file=f"{path}, line {line}")


def _reading(path: Path, work: Callable[[], CsvFile]) -> CsvFile:
    """Whatever the system says against reading a file, in a sentence."""
    try:
        return work()
    except FileNotFoundError:
        raise InputError(
            "there is no such file", "check --data and the name in the scenario", file=str(path)
        ) from None
    except UnicodeDecodeError as error:
        raise InputError("this is not UTF-8 text", "save it as UTF-8", file=str(path)) from error
    except OSError as error:
        raise InputError(
            f"cannot be read ({error.strerror})", "name a readable file", file=str(path)
        ) from error
