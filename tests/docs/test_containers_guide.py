"""The guide to containers names every label, state, strategy and command there is."""

import re
from pathlib import Path

from dure.domain.containers import WorkState
from dure.node.labels import Labels, parse_labels
from dure.node.strategies.registry import STRATEGIES

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "containers.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return GUIDE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    return [row.split("|")[1].strip().strip("`") for row in rows]


def test_every_label_of_the_table_is_understood_with_its_example() -> None:
    rows = [line.split("|") for line in section("Labels").splitlines() if line.startswith("| `")]
    said = {row[1].strip(" `"): row[2].strip(" `") for row in rows}
    assert len(said) == len(Labels.__dataclass_fields__)
    for label, example in said.items():
        assert parse_labels(((label, example),)) != Labels(), label


def test_the_table_of_states_is_the_states() -> None:
    assert first_cells(section("What happens to a container")) == [
        state.value for state in WorkState
    ]


def test_the_table_of_strategies_is_the_strategies() -> None:
    assert set(first_cells(section("Strategies"))) - {"--strategy"} == set(STRATEGIES)


def test_every_file_it_points_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", GUIDE):
        assert (ROOT / "docs" / "guide" / target).exists(), target
