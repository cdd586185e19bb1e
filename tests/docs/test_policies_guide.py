"""The guide to policies says what the code does."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from dure.kernel.goals import Objective, choose_policy
from dure.kernel.policies.registry import POLICIES
from dure.sim.goals_file import read_goals

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "policies.md"
ROW = re.compile(r"^\| `(\w+)` \| ([0-9.]+) \| .+ \|$", re.MULTILINE)


def section(title: str) -> str:
    text = GUIDE.read_text(encoding="utf-8")
    return text.split(f"\n## {title}", 1)[1].split("\n## ", 1)[0]


@pytest.mark.parametrize("name", POLICIES)
def test_documented_parameters_and_defaults_are_those_of_the_code(name: str) -> None:
    documented = {parameter: float(value) for parameter, value in ROW.findall(section(name))}
    assert documented == {field.name: field.default for field in fields(POLICIES[name])}


def test_every_objective_is_documented() -> None:
    for objective in Objective:
        assert f"`{objective.value}`" in section("Goals files")


def test_the_goals_file_of_the_guide_works(tmp_path: Path) -> None:
    example = section("Goals files").split("```yaml\n", 1)[1].split("```", 1)[0]
    path = tmp_path / "goals.yaml"
    path.write_text(example, encoding="utf-8")
    assert choose_policy(read_goals(path)).policy == "hybrid"


def test_every_field_of_a_goals_file_is_documented() -> None:
    from dure.sim.goals_file import _GoalsFile, _Tenant

    for field in (*_GoalsFile.model_fields, *_Tenant.model_fields):
        assert f"| `{field}` |" in section("Goals files")
