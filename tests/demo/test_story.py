"""The story on a terminal and elsewhere: one line each, bounded waits, a load that grows."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from dure.demo.eyes import Load
from dure.demo.processes import DemoError
from dure.demo.story import Level, Story


def plain_story() -> tuple[Story, io.StringIO]:
    out = io.StringIO()
    return Story(Console(file=out, width=40)), out


def test_each_thing_is_one_plain_line_with_its_reason_where_there_is_no_terminal() -> None:
    story, out = plain_story()
    story.tell(Level.KERNEL, "the advisor switches jct → slo", "dry runs give it +0.1 " * 5)
    story.tell(Level.FLEET, "price [bold]spikes")
    lines = out.getvalue().splitlines()
    assert len(lines) == 2
    assert "kernel the advisor switches jct → slo: dry runs" in lines[0]
    assert "price [bold]spikes" in lines[1]
    assert "\x1b" not in out.getvalue()
    assert [beat.level for beat in story.beats] == [Level.KERNEL, Level.FLEET]


def test_what_does_not_come_is_said_after_its_limit() -> None:
    story, _ = plain_story()
    with pytest.raises(DemoError, match=r"rain did not come within 0\.3 s"):
        story.until("rain", lambda: False, 0.3)


def test_what_comes_ends_the_wait() -> None:
    story, _ = plain_story()
    seen = iter((False, True))
    story.until("rain", lambda: next(seen), 30.0)
    assert next(seen, None) is None


def test_the_load_grows_from_the_moment_it_is_told_to_and_the_file_always_holds_it(
    tmp_path: Path,
) -> None:
    load = Load(tmp_path / "load", calm_per_s=10.0, rush_per_s=30.0, ramp_s=10.0)
    assert load.follow(100.0) == 10.0
    load.rush(105.0)
    assert load.follow(110.0) == 20.0
    assert float(load.file.read_text()) == 20.0
    assert load.follow(500.0) == 30.0
