"""`dure risk`: what is not usual in recorded series."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table

from dure.cli.measuring import Json
from dure.cli.terminal import output_console

_WIDTH = 120


def risk(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV with a header: the time of each row, then one column for each series.",
            metavar="FILE.csv",
        ),
    ],
    detector: Annotated[
        Literal["own", "river"],
        typer.Option(help="Dure's own, or those of the library river (`pip install '.[learn]'`)."),
    ] = "own",
    as_json: Json = False,
) -> None:
    """Changes and anomalies in recorded series; what is usual is learned as they go."""
    from dure.domain.risks import RiskKind
    from dure.learners.river import river_detector
    from dure.sim.fleet.csv_files import read_csv
    from dure.telemetry.scan import own_detectors, scan

    table = read_csv(file)
    found = []
    for series in table.header[1:]:
        detectors = own_detectors()
        if detector == "river":
            detectors = {
                RiskKind.CHANGE: river_detector("river-adwin"),
                RiskKind.ANOMALY: river_detector("river-trees"),
            }
        values = table.numbers(series, empty=float("nan"))
        found += [(number, seen) for number, seen in scan(series, values, detectors)]
    found.sort(key=lambda each: each[0])
    rows = [(table.rows[number][0], seen) for number, seen in found]
    if as_json:
        data = [
            {
                "at": at,
                "series": seen.series,
                "kind": seen.kind.value,
                "confidence": seen.confidence,
                "reason": seen.reason,
            }
            for at, seen in rows
        ]
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    shown = Table("at", "series", "kind", "what", box=None)
    for at, seen in rows:
        shown.add_row(at, seen.series, seen.kind.value, seen.reason)
    output_console(_WIDTH).print(shown if rows else "Nothing out of the usual.")
