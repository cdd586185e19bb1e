from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo
from dure.domain.units import NS_PER_MS
from dure.kernel.goals import Goals
from dure.sim.goals_file import read_goals
from dure.sim.kernel.scenario import Scenario, read_scenario
from dure.sim.kernel.with_goals import MODE_NAME, with_goals
from tests.sim.kernel.scenarios import scenario, written


def goals(folder: Path, text: str) -> Goals:
    path = folder / "goals.yaml"
    path.write_text(text, encoding="utf-8")
    return read_goals(path)


@pytest.fixture
def described(tmp_path: Path) -> Scenario:
    return read_scenario(written(tmp_path, scenario()))


def test_goals_add_a_mode_with_the_policy_they_ask_for(described: Scenario, tmp_path: Path) -> None:
    changed = with_goals(described, goals(tmp_path, "fairness: 0.4\n"))
    assert changed.modes[:-1] == described.modes
    assert (changed.modes[-1].name, changed.modes[-1].policy) == (MODE_NAME, "hybrid")
    assert dict(changed.modes[-1].parameters)["fairness"] == 0.4
    assert any(note.startswith(f"{MODE_NAME}: ") for note in changed.notes)


def test_goals_change_the_tenants_they_name_and_no_other(
    described: Scenario, tmp_path: Path
) -> None:
    changed = with_goals(described, goals(tmp_path, "tenants: {web: {latency: p95 <= 3ms}}\n"))
    before = {load.tenant.id: load for load in described.setting.loads}
    after = {load.tenant.id: load for load in changed.setting.loads}
    assert after[TenantId("web")].tenant.slo.latency == LatencySlo(3 * NS_PER_MS, 95.0)
    assert after[TenantId("web")].program is before[TenantId("web")].program
    assert after[TenantId("train")] == before[TenantId("train")]


def test_goals_for_a_tenant_that_is_not_there_are_refused(
    described: Scenario, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no such tenant"):
        with_goals(described, goals(tmp_path, "tenants: {nobody: {weight: 2}}\n"))
