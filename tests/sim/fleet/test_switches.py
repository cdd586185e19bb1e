from pathlib import Path

import pytest

from dure.sim.fleet.run import run
from tests.sim.fleet.scenarios import Fields, cluster, read, scenario, training

CLEAN = {"carbon_per_tonne": 1e6}


@pytest.fixture
def fields() -> Fields:
    """A cheap dirty cluster and a dear clean one; a job at once and one after the switch."""
    return scenario(
        duration="8h",
        clusters=[
            cluster(name="dirty", carbon=800, tariff={"device_hour": {"a100": 2.0}}),
            cluster(name="clean", carbon=5, tariff={"device_hour": {"a100": 6.0}}),
        ],
        workloads=[training(count=2, every="4h", sla={})],
        policy={"all": {"carbon_per_tonne": 0, "migrate": False}},
        switches=[{"at": "3h", "policy": {"all": CLEAN}}],
    )


def places(folder: Path, fields: Fields, mode: str) -> list[str]:
    setting = read(folder, fields).setting
    kept = run(setting, mode).explanations
    return [sample.site for sample in sorted(kept, key=lambda sample: sample.at_ns)]


def test_a_switch_of_policy_holds_from_its_moment_on(tmp_path: Path, fields: Fields) -> None:
    assert places(tmp_path, fields, "dure") == ["dirty/a100", "clean/a100"]


def test_what_a_switch_does_not_say_stays(tmp_path: Path, fields: Fields) -> None:
    setting = read(tmp_path, fields).setting
    ((when_ns, policy),) = setting.switches
    assert when_ns - setting.start_ns == 3 * 3600 * 10**9
    assert (policy.training.carbon_per_tonne, policy.training.migrate) == (1e6, False)
    assert policy.period_ns == setting.duration_ns


def test_a_reference_keeps_its_rule_through_a_switch(tmp_path: Path, fields: Fields) -> None:
    assert places(tmp_path, fields, "cost-only") == ["dirty/a100", "dirty/a100"]
