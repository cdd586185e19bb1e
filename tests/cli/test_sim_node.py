import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Dure
from tests.sim.node.worlds import Fields, written


@pytest.fixture
def dure(dure: Dure) -> Dure:
    """Run `dure sim node` in this process; gives the exit code, stdout and stderr."""
    return partial(dure, "sim", "node")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fields: Fields = {
        "containers": [{"name": "task", "count": 3, "steps": [{"matmul": 13312}]}],
    }
    return written(tmp_path, fields)


def test_all_modes_are_compared_in_tables(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path)
    assert code == 0
    for mode in ("plain", "one-after-another", "paper-window", "dure-docker", "dure-cuda-lock"):
        assert mode in out
    assert "simulated" in out


def test_json_has_every_figure_and_only_finite_ones(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path, "--json", "--modes", "plain,dure-docker")
    assert code == 0
    data = json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    assert [mode["mode"] for mode in data["modes"]] == ["plain", "dure-docker"]
    assert data["simulated"] is True


def test_decisions_can_be_read_one_by_one(dure: Dure, path: Path) -> None:
    code, out, _ = dure(path, "--modes", "paper-window", "--decisions")
    assert code == 0
    assert "pause by docker for at most" in out
    assert "let go: " in out


def test_the_same_file_and_seed_give_the_same_figures(dure: Dure, path: Path) -> None:
    first = dure(path, "--json", "--modes", "dure-cuda-lock", "--seed", "3")
    assert first == dure(path, "--json", "--modes", "dure-cuda-lock", "--seed", "3")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("containers: []\n", "containers: is empty; give at least 1"),
        ("containers: [\n", "scenario.yaml, line"),
        ("- a\n- b\n", "not a mapping"),
        ("", "scenario.yaml"),
    ],
)
def test_a_bad_file_ends_with_one_sentence_and_exit_code_2(
    dure: Dure, tmp_path: Path, text: str, part: str
) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    code, out, err = dure(path)
    assert (code, out) == (2, "")
    assert part in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_and_an_unknown_mode_end_with_exit_code_2(
    dure: Dure, path: Path
) -> None:
    assert dure(path.parent / "none.yaml")[0] == 2
    code, _, err = dure(path, "--modes", "docker")
    assert code == 2
    assert "--modes: there is no mode 'docker'" in err
