import subprocess
import sys

import numpy as np
import pytest

from dure.domain.errors import DureError
from dure.learners import river
from dure.learners.river import RIVER_DETECTORS, river_detector


def test_importing_the_adapter_does_not_import_the_library() -> None:
    code = "import sys, dure.learners.river; print('river' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_library_that_is_not_there_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "river.drift", None)
    with pytest.raises(DureError, match=r"\.\[learn\]"):
        river.RiverChange()


def values(count: int) -> list[float]:
    return [float(value) for value in np.random.default_rng(1).normal(10.0, 1.0, count)]


def test_adwin_sees_a_level_that_moves() -> None:
    pytest.importorskip("river")
    detector = river_detector("river-adwin", 1e-6)
    quiet = [detector.observe(value) for value in values(1000)]
    moved = [detector.observe(value + 5.0) for value in values(300)]
    assert not any(quiet)
    found = [finding for finding in moved if finding is not None]
    assert found
    assert found[-1].after > found[0].before


def test_trees_say_nothing_before_they_have_seen_enough() -> None:
    pytest.importorskip("river")
    detector = river_detector("river-trees")
    assert not any(detector.observe(value) for value in values(250))


@pytest.mark.parametrize("name", RIVER_DETECTORS)
def test_what_is_no_number_is_left_out(name: str) -> None:
    pytest.importorskip("river")
    assert river_detector(name).observe(float("nan")) is None
