"""Compiled loops on disk: used again, and never once anything that they are made of has changed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numba
import pytest

CALLED = """
from dure.fleet.compiled import compiled

STEP = 1

@compiled
def more(number):
    return max(number, 0) + STEP
"""
CALLING = """
from dure.fleet.compiled import compiled
from called_by_a_loop import more

@compiled
def twice(number):
    return 2 * more(number)
"""


def result(folder: Path) -> tuple[int, bool]:
    """What the calling function makes of 1 in a new process, and whether it was on disk."""
    for name in ("called_by_a_loop", "calling_loop"):
        sys.modules.pop(name, None)
    _load(folder, "called_by_a_loop")
    twice = cast(Any, _load(folder, "calling_loop").twice)
    return twice(1), bool(sum(twice.stats.cache_hits.values()))


def _load(folder: Path, name: str) -> ModuleType:
    source = folder / f"{name}.py"
    made = importlib.util.module_from_spec(
        cast(Any, importlib.util.spec_from_file_location(name, source))
    )
    sys.modules[name] = made
    exec(compile(source.read_text(encoding="utf-8"), str(source), "exec"), made.__dict__)
    return made


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        (CALLED.replace("STEP = 1", "STEP = 2"), 6),
        (CALLED.replace("+ STEP", "+ 7"), 16),
        (CALLED.replace("+ STEP", "* STEP"), 2),
        (CALLED.replace("max(", "min("), 2),
    ],
)
def test_a_change_in_a_called_function_of_another_file_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, found: int
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setitem(sys.modules, "called_by_a_loop", ModuleType("called_by_a_loop"))
    monkeypatch.setitem(sys.modules, "calling_loop", ModuleType("calling_loop"))
    (tmp_path / "called_by_a_loop.py").write_text(CALLED, encoding="utf-8")
    (tmp_path / "calling_loop.py").write_text(CALLING, encoding="utf-8")
    assert result(tmp_path) == (4, False)
    assert result(tmp_path) == (4, True)
    (tmp_path / "called_by_a_loop.py").write_text(changed, encoding="utf-8")
    assert result(tmp_path) == (found, False)
    assert result(tmp_path) == (found, True)
