"""`dure top`: who shares the GPUs now, live."""

import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dure.cli.terminal import duration_option_ns, output_console
from dure.domain.errors import DureError
from dure.domain.units import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from dure.client.api import AgentClient

_WIDTH = 120
"""Columns where the output is no terminal."""
_QUICKEST_NS = 100 * NS_PER_MS
_QUIT = (b"q", b"Q", b"")


def top(
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every figure as JSON, once, and end.")
    ] = False,
    every: Annotated[str, typer.Option(help="Time between two looks.")] = "1s",
) -> None:
    """Show GPUs, policy, squads and tenants while they run; q ends it."""
    from dure.client.api import find_agent

    period_ns = max(_QUICKEST_NS, duration_option_ns(every, "--every"))
    with find_agent() as client:
        if as_json:
            typer.echo(client.status().model_dump_json(indent=2, by_alias=True))
        elif once or not sys.stdout.isatty():
            from dure.cli.top_view import status_view

            console = output_console(_WIDTH)
            console.print(status_view(client.status(), console.width, time.time()))
        else:
            _live(client, period_ns / NS_PER_S)


def _live(client: "AgentClient", period_s: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from dure.cli.top_view import status_view

    with _keys() as typed, Live(screen=True, auto_refresh=False) as live:
        view = status_view(client.status(), live.console.width, time.time())
        while True:
            live.update(Group(view, Text("q quits", style="dim")), refresh=True)
            if typed(period_s):
                return
            try:
                view = status_view(client.status(), live.console.width, time.time())
            except DureError as error:
                view = Group(view, Text(str(error), style="red"))


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Keys one by one: asks whether one that quits is typed within some seconds."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield _nothing_typed
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield _quit_typed
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _nothing_typed(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _quit_typed(seconds: float) -> bool:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0] and os.read(sys.stdin.fileno(), 1) in _QUIT:
            return True
    return False
