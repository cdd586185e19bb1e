import pytest

from dure.domain.fleet.series import HOUR_NS
from dure.sim.fleet.month import MonthCase, month_setting
from dure.sim.fleet.setting import Setting


def devices(setting: Setting) -> int:
    return sum(group.count * group.devices for c in setting.fleet.clusters for group in c.groups)


def test_a_higher_load_is_the_same_work_on_fewer_nodes() -> None:
    light, heavy = (month_setting(MonthCase(load, 1), None) for load in (0.6, 0.95))
    assert light.workloads == heavy.workloads
    assert devices(light) / devices(heavy) == pytest.approx(0.95 / 0.6, rel=0.05)
    assert len(light.fleet.clusters) == 8


def test_penalties_and_their_caps_scale_together() -> None:
    plain, dear = (month_setting(MonthCase(0.8, 1, penalty), None) for penalty in (1.0, 10.0))
    for before, after in zip(plain.workloads[:200], dear.workloads[:200], strict=True):
        assert after.sla.penalty_per_hour_late == 10.0 * before.sla.penalty_per_hour_late
        assert after.sla.penalty_cap == 10.0 * before.sla.penalty_cap
        assert after.sla.deadline_ns == before.sla.deadline_ns


def test_a_carbon_budget_is_for_the_whole_run() -> None:
    setting = month_setting(MonthCase(0.8, 1, carbon_budget_kg=1000.0), None)
    assert setting.policy.carbon_budget_g == 1e6
    assert setting.policy.period_ns == setting.duration_ns == 45 * 24 * HOUR_NS


def test_seeds_draw_other_rules_for_the_jobs() -> None:
    first, second = (month_setting(MonthCase(0.8, seed), None) for seed in (1, 2))
    tolerant = [
        sum(workload.delay_tolerant for workload in setting.workloads)
        for setting in (first, second)
    ]
    assert tolerant[0] != tolerant[1]
