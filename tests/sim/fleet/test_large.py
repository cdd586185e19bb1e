import json

from dure.domain.fleet.workloads import WorkloadKind
from dure.sim.fleet.benches.week import bench_week
from dure.sim.fleet.large import LargeSize, large_setting

SMALL = LargeSize(clusters=4, devices=400, batch=60, training=30, serving=10, days=0.5)


def test_a_large_setting_has_what_was_asked_for() -> None:
    setting = large_setting(SMALL)
    kinds = [workload.kind for workload in setting.workloads]
    assert [kinds.count(kind) for kind in WorkloadKind] == [30, 60, 10]
    devices = sum(group.count * group.devices for c in setting.fleet.clusters for group in c.groups)
    assert abs(devices - 400) <= 8 * 4
    assert len(setting.fleet.clusters) == 4


def test_a_seed_repeats_it_exactly() -> None:
    assert large_setting(SMALL, 3).workloads == large_setting(SMALL, 3).workloads
    assert large_setting(SMALL, 3).workloads != large_setting(SMALL, 4).workloads


def test_the_week_is_judged_at_full_size_only() -> None:
    report = bench_week(scale=0.004, days=0.1, seed=1)
    assert [verdict.passed for verdict in report.verdicts] == [None, True]
    assert report.figures["result"]["jobs"]["submitted"] > 0
    json.dumps(report.figures["result"])
