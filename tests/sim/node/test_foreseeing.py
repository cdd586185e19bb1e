"""Risks that a scenario states reach the machine and change who waits."""

from pathlib import Path

import pytest

from dure.sim.node.modes import MODES
from dure.sim.node.results import NodeResult
from dure.sim.node.run import run
from dure.sim.node.scenario import read_scenario
from tests.sim.node.worlds import Fields, written

MODE = MODES["dure-cuda-lock"]


def bursts(name: str, length_s: int, at: str) -> Fields:
    """Twenty seconds of work in all."""
    steps = [{"kernel": f"{length_s}s"}, {"host": "400ms"}]
    return {"name": name, "at": at, "steps": [{"loop": {"times": 20 // length_s, "steps": steps}}]}


CROWD = [bursts("first", 4, "0s"), bursts("long", 4, "100ms"), bursts("short", 1, "200ms")]


def outcome(folder: Path, containers: list[Fields], *risks: Fields) -> NodeResult:
    fields: Fields = {
        "containers": containers,
        "dure": {"experienced": True},
        "risks": list(risks),
    }
    return run(read_scenario(written(folder, fields)).setting, MODE)


def begun(result: NodeResult) -> list[str]:
    """Whose turn came after the first one's, in order."""
    return [name for _, name, what in result.decisions if what == "let go: its turn has come"]


def test_under_a_stated_risk_the_shortest_burst_goes_first(tmp_path: Path) -> None:
    throttled: Fields = {"kind": "throttle", "at": "0s", "for": "10m", "reason": "900 MHz"}
    calm, strained = outcome(tmp_path, CROWD), outcome(tmp_path, CROWD, throttled)
    assert begun(calm)[0] == "long"
    assert begun(strained)[0] == "short"
    assert any("900 MHz" in text for _, _, text in strained.told)


def test_a_stated_risk_that_is_over_leaves_the_usual_order(tmp_path: Path) -> None:
    before: Fields = {"kind": "throttle", "at": "0s", "for": "5s"}
    result = outcome(tmp_path, CROWD, before)
    assert begun(result) == begun(outcome(tmp_path, CROWD))
    assert "the risk is over" in result.told[1][2]


def test_a_risk_lasts_as_long_as_it_is_stated(tmp_path: Path) -> None:
    """Longer than the machine heeds one that nobody raises again."""
    one: list[Fields] = [{"name": "one", "steps": [{"kernel": "300s"}]}]
    result = outcome(tmp_path, one, {"kind": "load", "at": "1s", "for": "200s"})
    over = [at_s for at_s, _, text in result.told if "the risk is over" in text]
    assert len(over) == 1
    assert over[0] - result.told[0][0] == pytest.approx(200.0)


def test_a_risk_that_begins_where_another_ends_is_raised_wherever_it_is_stated(
    tmp_path: Path,
) -> None:
    before: Fields = {"kind": "throttle", "at": "0s", "for": "3s", "reason": "900 MHz"}
    after: Fields = {"kind": "throttle", "at": "3s", "for": "10m", "reason": "700 MHz"}
    in_order, turned = (
        outcome(tmp_path, CROWD, before, after),
        outcome(tmp_path, CROWD, after, before),
    )
    assert turned.told == in_order.told
    assert begun(turned) == begun(in_order)
    assert begun(turned)[0] == "short"
