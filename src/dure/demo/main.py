"""Runs the demo from the first process to the last line."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from rich import box
from rich.console import Console
from rich.table import Table

from dure.client.api import find_agent
from dure.demo.acts import Play
from dure.demo.baselines import Baselines, Sheet, refuse_no_docker
from dure.demo.eyes import Eyes, Load
from dure.demo.report import Told, html_report
from dure.demo.stage import ENDS, HOME, Stage, stage
from dure.demo.story import Level, Sampler, Story
from dure.domain.errors import DureError
from dure.kit.files import write_text

_SIMULATED_S = 240.0
"""For all simulations; they may have to compile first."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What `dure demo` was asked for."""

    out: Path
    seed: int = 1
    keep: bool = False
    docker: bool = False
    """Whether containers are real."""


def run(options: DemoOptions, console: Console) -> None:
    """Show it all; raises where a step does not come. Whatever happens, nothing is left behind."""
    story = Story(console)
    if options.docker:
        refuse_no_docker()
    with (
        _ends_alike(),
        stage(story) as made,
        Baselines(made.troupe, options.seed, options.docker) as baselines,
    ):
        story.tell(Level.DEMO, "a centre, three clusters and three emulated GPUs come up")
        try:
            made.raise_curtain()
            _play(made, baselines, options)
        except DureError as error:
            if options.keep:
                story.tell(Level.DEMO, str(error))
                _stay(made)
            raise
        sheets = baselines.sheets()
        for sheet in sheets:
            console.print(_table(sheet))
        console.print("Tables: virtual time, simulated. All else: real programs, emulated GPUs.")
        write_text(options.out, html_report(Told(story.beats, story.samples, sheets, options.seed)))
        story.tell(Level.DEMO, str(options.out), "the report")
        if options.keep:
            _stay(made)


def _play(made: Stage, baselines: Baselines, options: DemoOptions) -> None:
    story, load = made.story, Load(made.folder / "load")
    load.follow(0.0)
    with find_agent(made.run_dir(HOME)) as watcher:
        eyes = Eyes(watcher, story, load)
        with Sampler(eyes.look, story.samples):
            play = Play(made, eyes, load, options.seed)
            play.open()
            made.join_others()
            story.until(
                "the simulator, which dry runs need", lambda: baselines.has("kernel"), _SIMULATED_S
            )
            play.rush()
            story.until("a host of containers", lambda: baselines.has("node"), _SIMULATED_S)
            story.tell(Level.NODE, *baselines.containers())
            play.spike()
            story.until("the baselines", lambda: baselines.has("fleet"), _SIMULATED_S)


def _table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for number, column in enumerate(sheet.columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in sheet.rows:
        table.add_row(*row, style="bold" if sheet.is_ours(row) else "")
    return table


def _stay(made: Stage) -> None:
    made.story.tell(Level.DEMO, "everything stays up until Ctrl-C", str(made.folder))
    for what, url in made.pages:
        made.story.tell(Level.DEMO, url, what)
    with suppress(KeyboardInterrupt):
        while True:
            threading.Event().wait(3600.0)


@contextmanager
def _ends_alike() -> Iterator[None]:
    """SIGTERM and SIGHUP end it as Ctrl-C does: with everything it started."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in ENDS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
