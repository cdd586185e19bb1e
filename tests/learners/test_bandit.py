import subprocess
import sys

import pytest

from dure.domain.errors import DureError
from dure.learners.bandit import river_bandit


def test_importing_the_adapter_does_not_import_the_library() -> None:
    code = "import sys, dure.learners.bandit; print('river' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_library_that_is_not_there_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "river.bandit", None)
    with pytest.raises(DureError, match=r"\.\[learn\]"):
        river_bandit(3)


def test_it_learns_which_arm_pays_and_ranks_each_once() -> None:
    pytest.importorskip("river")
    bandit = river_bandit(3)
    for _ in range(40):
        for arm in range(3):
            bandit.update((1.0, 0.5), arm, 1.0 if arm == 2 else 0.0)
    assert bandit.rank((1.0, 0.5), 1) == (2,)
    assert sorted(bandit.rank((1.0, 0.5), 3)) == [0, 1, 2]
