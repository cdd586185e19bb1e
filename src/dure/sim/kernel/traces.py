"""Trace files: when requests arrived and how large they were, as CSV with a header."""

import csv
import io
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S
from dure.kit.files import FileProblem, read_text

ARRIVAL_COLUMN = "arrival_s"
ITERATIONS_COLUMN = "iterations"
_HEADERS = ([ARRIVAL_COLUMN], [ARRIVAL_COLUMN, ITERATIONS_COLUMN])
_LATEST_S = 1e9
_MOST_ITERATIONS = 10**9


def read_trace(path: Path, iterations: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Arrival times in ns and iterations of each request, in order of time.

    `iterations` is the size of a request in a file without such a column. Raises `InputError`
    that names the file and the line.
    """
    try:
        text = read_text(path)
    except FileProblem as problem:
        raise InputError(problem.what, problem.remedy, file=str(path), field="trace") from problem
    rows = csv.reader(io.StringIO(text), strict=True)
    found: list[tuple[int, int]] = []
    try:
        header = [cell.strip() for cell in next(rows, [])]
        if header not in _HEADERS:
            raise _wrong(
                path, 1, "has no usable header", f"start it with '{','.join(_HEADERS[-1])}'"
            )
        found.extend(
            _request(path, rows.line_num, row, len(header), iterations) for row in rows if row
        )
    except csv.Error as error:
        raise _wrong(path, rows.line_num, f"is not CSV ({error})", "correct the line") from error
    if not found:
        raise _wrong(path, 1, "holds no requests", "add a line for each request below the header")
    found.sort()
    return (
        np.asarray([at for at, _ in found], np.int64),
        np.asarray([size for _, size in found], np.int64),
    )


def _request(
    path: Path, line: int, row: list[str], columns: int, iterations: int
) -> tuple[int, int]:
    if len(row) != columns:
        raise _wrong(path, line, f"has {len(row)} columns", f"write {columns} as in the header")
    try:
        arrival_s = float(row[0])
    except ValueError:
        arrival_s = math.nan
    if not 0 <= arrival_s <= _LATEST_S:
        raise _wrong(
            path, line, f"'{row[0].strip()}' is not an arrival time", "write seconds of 0 or more"
        )
    if columns > 1:
        try:
            iterations = int(row[1])
        except ValueError:
            iterations = 0
        if not 1 <= iterations <= _MOST_ITERATIONS:
            raise _wrong(
                path,
                line,
                f"'{row[1].strip()}' is not a number of iterations",
                "write a whole number of 1 or more",
            )
    return round(arrival_s * NS_PER_S), iterations


def _wrong(path: Path, line: int, what: str, remedy: str) -> InputError:
    return InputError(what, remedy, file=f"{path}, line {line}")
