"""`dure doctor`: what this machine can do for tenants, what is missing, and how to fix it."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import output_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dure.cli.findings import Finding

_WIDTH = 100
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every finding as JSON instead of text.")
    ] = False,
) -> None:
    """Check driver, GPUs, MPS, shim, agent, permissions; exit code 1 if something is missing."""
    from dure.cli.doctor_checks import examine

    findings = examine()
    failed = any(each.level == "fail" for each in findings)
    if as_json:
        data = {"ok": not failed, "findings": [each.data() for each in findings]}
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        _print(findings)
    if failed:
        raise typer.Exit(1)


def _print(findings: "Sequence[Finding]") -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for finding in findings:
        said = Text(finding.what)
        if finding.remedy:
            said.append(f"\n→ {finding.remedy}", "italic")
        table.add_row(Text(finding.level, _STYLES[finding.level]), finding.subject, said)
    console = output_console(_WIDTH)
    console.print(table)
    failed = sum(each.level == "fail" for each in findings)
    console.print(
        f"{failed} of these must be fixed before programs can be tenants."
        if failed
        else "Programs can be tenants here: dure run -- PROGRAM"
    )
