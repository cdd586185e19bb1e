"""Scenario files become settings: what is written is what runs."""

from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import ClusterClass
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_S
from dure.sim.fleet.faults import CentreFault, ClusterFault, NodeFault
from dure.sim.fleet.run import run
from dure.sim.fleet.scenario import read_scenario
from tests.sim.fleet.scenarios import (
    Fields,
    cluster,
    job,
    read,
    scenario,
    service,
    tenant,
    training,
)

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleets"
HOUR_NS = 3600 * NS_PER_S


def test_a_scenario_becomes_a_setting(tmp_path: Path) -> None:
    made = read(
        tmp_path,
        scenario(
            title="T",
            rates={"KRW": 0.001},
            clusters=[
                cluster(
                    tariff={"currency": "KRW", "device_hour": {"a100": 5000}},
                    electricity=90,
                    **{"class": "edge"},
                )
            ],
            workloads=[training(team="vision", gang={"workers": 2}), service()],
        ),
    )
    setting = made.setting
    assert (made.title, made.modes) == ("T", ("first-fit", "dure"))
    assert setting.start_ns == 1_696_118_400 * NS_PER_S
    assert (setting.duration_ns, setting.round_ns) == (12 * HOUR_NS, HOUR_NS // 12)
    member = setting.fleet.clusters[0]
    assert member.cluster_class is ClusterClass.EDGE
    assert member.tariff.device_hour == {"a100": 5000}
    assert setting.fleet.rates.to_base(5000, "KRW") == pytest.approx(5.0)
    assert (member.carbon_g_per_kwh.at(0), member.electricity_per_mwh.at(0)) == (300.0, 90.0)
    assert (member.groups[0].count, member.groups[0].link_domain) == (2, 8)
    chat, train = sorted(setting.workloads, key=lambda workload: workload.id)
    assert (chat.kind, train.kind) == (WorkloadKind.SERVING, WorkloadKind.TRAINING)
    assert train.sla.deadline_ns == setting.start_ns + 6 * HOUR_NS
    assert (train.gang.workers, train.demand.devices, train.team) == (2, 4, "vision")
    assert chat.service is not None
    assert chat.service.target_latency_ms == 1000.0
    assert setting.loads.services == ("chat",)
    assert setting.loads.at(setting.start_ns).tolist() == pytest.approx([4.0])
    assert setting.policy.period_ns == setting.duration_ns


def test_several_alike_have_names_times_and_deadlines_of_their_own(tmp_path: Path) -> None:
    made = read(tmp_path, job(count=3, every="2h", at="1h"))
    found = [
        (workload.id, workload.submitted_ns - made.setting.start_ns, workload.sla.deadline_ns)
        for workload in made.setting.workloads
    ]
    assert [name for name, _, _ in found] == ["train-0", "train-1", "train-2"]
    assert [at for _, at, _ in found] == [HOUR_NS, 3 * HOUR_NS, 5 * HOUR_NS]
    assert [end for _, _, end in found] == [
        made.setting.start_ns + hours * HOUR_NS for hours in (7, 9, 11)
    ]


def test_a_shorter_duration_leaves_out_what_comes_later(tmp_path: Path) -> None:
    fields = job(count=6, every="2h") | {"faults": [{"at": "5h", "for": "1h", "centre": True}]}
    made = read(tmp_path, fields, duration_ns=4 * HOUR_NS)
    assert [workload.id for workload in made.setting.workloads] == ["train-0", "train-1"]
    assert made.setting.faults == ()


def test_pools_policies_faults_and_networks_are_taken_over(tmp_path: Path) -> None:
    shared = {"name": "shared", "profile": "a100", "nodes": 1, "mode": "mig"}
    made = read(
        tmp_path,
        scenario(
            clusters=[
                cluster(groups=[{"profile": "a100", "nodes": 2}, shared]),
                cluster(name="west", region="us-west-2"),
            ],
            tenants=[
                tenant(
                    budget={"money": 100, "carbon_kg": 2},
                    pools=[{"name": "p", "profile": "a100", "slice": "2g.20gb", "guaranteed": 3}],
                )
            ],
            network={
                "egress": {
                    "default": 0.1,
                    "pairs": [{"from": "east", "to": "west", "per_gb": 0.02}],
                },
                "latency": {"default": 70, "users": {"korea": {"west": 120}}},
            },
            policy={
                "all": {"carbon_per_tonne": 80},
                "batch": {"carbon_per_tonne": 200, "cool_down": "2h"},
                "congestion": {"damping": 0.5},
                "forecast": False,
                "carbon_budget_kg": 7,
            },
            faults=[
                {"at": "3h", "for": "1h", "centre": True},
                {"at": "1h", "for": "10m", "node": {"cluster": "east", "node": 2}},
                {"at": "2h", "for": "1h", "cluster": {"name": "west", "kind": "lost"}},
            ],
            local={"defragment": False},
        ),
    )
    setting = made.setting
    gold = setting.pools[0]
    assert (gold.mode, gold.template, gold.guaranteed) == (ShareMode.MIG, "2g.20gb", 3)
    assert setting.tenants[0].budget.carbon_g == 2000.0
    assert setting.fleet.egress(setting.fleet.clusters[0].id, setting.fleet.clusters[1].id) == 0.02
    assert setting.fleet.egress(setting.fleet.clusters[1].id, setting.fleet.clusters[0].id) == 0.1
    assert setting.fleet.latency("korea", setting.fleet.clusters[1].id) == 120.0
    policy = setting.policy
    assert (policy.training.carbon_per_tonne, policy.batch.carbon_per_tonne) == (80.0, 200.0)
    assert policy.batch.cool_down_ns == 2 * HOUR_NS
    assert (policy.congestion.damping, policy.forecast, policy.carbon_budget_g) == (
        0.5,
        False,
        7000,
    )
    assert [type(each) for each in setting.faults] == [NodeFault, ClusterFault, CentreFault]
    assert not setting.local.defragment


@pytest.mark.parametrize(
    ("said", "meant_ns"),
    [
        ({}, FleetPolicy().reclaim_after_ns),
        ({"reclaim_after": "2m"}, HOUR_NS // 30),
        ({"reclaim_after": 0}, 0),
        ({"reclaim_after": "never"}, None),
    ],
)
def test_a_policy_says_when_borrowed_shares_come_back(
    tmp_path: Path, said: Fields, meant_ns: int | None
) -> None:
    switches = [{"at": "1h", "policy": {"reclaim_after": "30m"}}, {"at": "2h", "policy": {}}]
    setting = read(tmp_path, scenario(policy=said, switches=switches)).setting
    later = [policy.reclaim_after_ns for _, policy in setting.switches]
    assert [setting.policy.reclaim_after_ns, *later] == [meant_ns, HOUR_NS // 2, meant_ns]


def test_generated_jobs_follow_their_rules(tmp_path: Path) -> None:
    rules = {
        "tenants": {"lab": 1, "web": 1},
        "batch": 0.5,
        "delay_tolerant": 0.5,
        "elastic": 1.0,
        "priorities": {"5": 0.25},
        "penalty_per_device_hour": 2,
        "longest": "2h",
        "memory": ["10GB", "20GB"],
    }
    fields = scenario(
        duration="4d",
        tenants=[tenant(), tenant(name="web")],
        sources=[{"name": "jobs", "generated": 200, "jobs": rules}],
        workloads=[],
    )
    made = read(tmp_path, fields)
    jobs = made.setting.workloads
    again = read(tmp_path, fields).setting.workloads
    assert jobs == again
    assert jobs != read(tmp_path, fields, seed=9).setting.workloads
    assert {job.tenant for job in jobs} == {"lab", "web"}
    share = sum(job.kind is WorkloadKind.BATCH for job in jobs) / len(jobs)
    assert share == pytest.approx(0.48, abs=0.08)
    assert sum(job.priority == 5 for job in jobs) / len(jobs) == pytest.approx(0.25, abs=0.06)
    for each in jobs:
        assert each.work is not None
        assert each.work.reference_s <= 7200
        assert each.sla.deadline_ns is not None
        slack_ns = (24 if each.delay_tolerant else 4) * HOUR_NS
        allowed_ns = each.sla.deadline_ns - each.submitted_ns
        assert allowed_ns == pytest.approx(2 * each.work.reference_s * NS_PER_S + slack_ns)
        devices = each.gang.workers * each.demand.devices
        assert each.sla.penalty_per_hour_late == 2 * devices
        assert each.demand.devices <= 8


def test_jobs_of_a_source_that_never_fit_are_noted_at_once(tmp_path: Path) -> None:
    small = cluster(groups=[{"profile": "a100", "nodes": 1, "devices": 4}])
    fields = scenario(
        duration="10d", clusters=[small], sources=[{"name": "jobs", "generated": 400}], workloads=[]
    )
    (note,) = read(tmp_path, fields).notes
    assert "jobs of 'jobs' can never run, such as 'jobs-" in note
    assert "east/a100 joins at most 4 devices; it asks for 8" in note


def test_a_job_that_never_fits_is_told_of_once(tmp_path: Path) -> None:
    small = cluster(groups=[{"profile": "a100", "nodes": 1, "devices": 4}])
    jobs = {"name": "jobs", "generated": 400, "jobs": {"longest": "1h"}}
    made = read(
        tmp_path,
        scenario(duration="1d", round="1h", clusters=[small], sources=[jobs], workloads=[]),
    )
    assert len(made.notes) == 1
    assert made.setting.never_fitting
    found = run(made.setting, "first-fit")
    assert found.jobs.refused == len(made.setting.never_fitting)
    assert not any("can never run" in warning for warning in found.warnings)


def test_submissions_can_end_before_the_run_does(tmp_path: Path) -> None:
    fields = scenario(
        duration="3d", workloads=[], sources=[{"name": "jobs", "for": "1d", "generated": 300}]
    )
    setting = read(tmp_path, fields).setting
    assert setting.duration_ns == 72 * HOUR_NS
    assert 0 < setting.workloads[-1].submitted_ns - setting.start_ns < 24 * HOUR_NS


def test_fractions_of_devices_come_with_openb_shapes(tmp_path: Path) -> None:
    shared = cluster(groups=[{"profile": "a100", "nodes": 4, "mode": "mps"}])
    rules = {"shapes": "openb-like", "reference": "v100"}
    fields = scenario(
        clusters=[shared],
        sources=[{"name": "jobs", "generated": 600, "jobs": rules}],
        workloads=[],
    )
    demands = {each.demand for each in read(tmp_path, fields).setting.workloads}
    assert any(not demand.whole and demand.compute_tops > 0 for demand in demands)
    assert any(demand.whole for demand in demands)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_reads_or_asks_for_data(path: Path) -> None:
    if "--data" in path.read_text(encoding="utf-8"):
        with pytest.raises(InputError, match="run with --data DIR"):
            read_scenario(path)
    else:
        assert read_scenario(path).setting.workloads
