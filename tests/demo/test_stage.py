"""What is refused before anything is started."""

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from dure.demo import processes
from dure.demo.processes import DemoError, Troupe
from dure.demo.stage import refuse_full, stage
from dure.demo.story import Story
from tests.agent.conftest import wait_for

DISK_USAGE = "shutil.disk_usage"


def left(free: int) -> object:
    return lambda _: SimpleNamespace(free=free)


def test_a_folder_without_room_is_refused_in_a_sentence_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "demo"
    made.mkdir()
    monkeypatch.setattr(DISK_USAGE, left(1 << 20))
    monkeypatch.setattr("dure.demo.stage._short_folder", lambda: made)
    monkeypatch.setattr("dure.demo.stage.refuse_incomplete", lambda: None)
    with (
        pytest.raises(DemoError, match=r"room for 1 MiB .* needs 100 MiB; make room"),
        stage(Story(Console(quiet=True))),
    ):
        pass
    assert not made.exists()


def test_a_folder_with_room_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DISK_USAGE, left(1 << 40))
    refuse_full(tmp_path)


def test_a_part_that_ends_because_the_disk_is_full_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who runs tests is to adopt nobody.
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(prctl=lambda *_: 0))
    monkeypatch.setattr(processes, "DURE", ("sh", "-c", "exit 3"))
    troupe = Troupe(tmp_path, {"PATH": "/usr/bin:/bin"})
    troupe.start("server")
    wait_for("its end", lambda: troupe.exit_code("server") is not None)
    with pytest.raises(DemoError, match="exit code 3: it said nothing"):
        troupe.refuse_dead()
    monkeypatch.setattr(DISK_USAGE, left(0))
    with pytest.raises(DemoError, match=r"exit code 3: the disk of .* is full"):
        troupe.refuse_dead()
