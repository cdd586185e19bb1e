import io

from rich.console import Console

from dure.cli.fitting import Column, fitting_table


def test_what_others_wrote_is_neither_markup_nor_steers_the_terminal() -> None:
    rows = ["[/x] no markup", "[red]x[/red]", "a\x1b[31mb\x9b1m", "two\nlines"]
    out = io.StringIO()
    columns: list[Column[str]] = [Column("why", lambda row: row, right=False)]
    Console(file=out, width=80).print(fitting_table(columns, rows, 80))
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[2:] == ["[/x] no markup", "[red]x[/red]", "a?[31mb?1m", "two?lines"]
