"""The guide to risk names every kind, every way weights follow, and only commands there are."""

from pathlib import Path

import pytest

from dure.domain.risks import RiskKind, WeightsBy
from dure.sim.kernel.scenario import read_scenario

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "guide" / "risk.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", RiskKind)
def test_every_kind_of_risk_is_explained(kind: RiskKind) -> None:
    assert f"`{kind.value}`" in GUIDE


@pytest.mark.parametrize("weights", WeightsBy)
def test_every_way_that_weights_follow_is_in_the_table(weights: WeightsBy) -> None:
    assert f"| `{weights.value}` |" in GUIDE


def test_the_example_can_be_read() -> None:
    read = read_scenario(ROOT / "examples" / "scenarios" / "ramp.yaml")
    assert [mode.weights for mode in read.modes] == [WeightsBy.FROZEN, WeightsBy.FORESEEN]
