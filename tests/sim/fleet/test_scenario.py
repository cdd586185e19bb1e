from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.domain.fleet.clusters import ClusterClass
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_S
from dure.sim.fleet.faults import CentreFault, ClusterFault, NodeFault
from dure.sim.fleet.run import run
from dure.sim.fleet.scenario import read_scenario
from tests.sim.fleet.scenarios import (
    Fields,
    cluster,
    read,
    scenario,
    service,
    tenant,
    training,
    written,
)

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleets"
HOUR_NS = 3600 * NS_PER_S
NAN = float("nan")


def group(**changes: object) -> Fields:
    return scenario(clusters=[cluster(groups=[{"profile": "a100", "nodes": 2} | changes])])


def job(**changes: object) -> Fields:
    return scenario(workloads=[training(**changes)])


def source(**changes: object) -> Fields:
    return scenario(sources=[{"name": "jobs", "generated": 50} | changes])


def fault(**changes: object) -> Fields:
    return scenario(faults=[{"at": "1h", "for": "1h"} | changes])


def pool(**changes: object) -> Fields:
    pools = [{"name": "gold", "profile": "a100", "guaranteed": 4} | changes]
    return scenario(tenants=[tenant(pools=pools)])


def pairs(*each: Fields) -> Fields:
    return scenario(
        clusters=[cluster(), cluster(name="west")], network={"egress": {"pairs": list(each)}}
    )


def reaching(**changes: object) -> Fields:
    made = service()
    inside = made["service"]
    assert isinstance(inside, dict)
    return made | {"service": inside | changes}


BAD: dict[str, tuple[Fields, str, str]] = {
    # case: what is written, the field blamed, a part of the sentence
    "unknown field": (scenario(cluster=[]), "cluster", "did you mean 'clusters'?"),
    "unknown nested field": (group(node=2), "groups[0].node", "did you mean 'nodes'?"),
    "no start": ({**scenario(), "start": "soon"}, "start", "'soon' is not a date"),
    "no duration": (scenario(duration="0s"), "duration", "above 0"),
    "no clusters": (scenario(clusters=[]), "clusters", "is empty"),
    "unknown mode": (scenario(modes=["dura"]), "modes[0]", "did you mean 'dure'?"),
    "unknown profile": (group(profile="a1000"), "groups[0].profile", "did you mean 'a100'?"),
    "unknown price profile": (
        scenario(clusters=[cluster(tariff={"device_hour": {"h1000": 1}})]),
        "clusters[east].tariff.device_hour.h1000",
        "did you mean 'h100'?",
    ),
    "negative capacity": (
        group(nodes=-3),
        "groups[0].nodes",
        "is -3; write a number of at least 1",
    ),
    "negative devices": (group(devices=-8), "groups[0].devices", "is -8"),
    "negative memory": (group(memory="-1GiB"), "groups[0].memory", "is negative"),
    "negative cpu": (group(cpu=-4), "groups[0].cpu", "is -4"),
    "impossible mode": (group(profile="l4", mode="mig"), "groups[0].mode", "cannot be divided by"),
    "wide domain": (group(devices=4, link_domain=8), "link_domain", "joins 8 of 4 devices"),
    "group twice": (
        scenario(clusters=[cluster(groups=[{"profile": "a100", "nodes": 1}] * 2)]),
        "groups[1]",
        "already a group 'a100'",
    ),
    "cluster twice": (scenario(clusters=[cluster()] * 2), "clusters[east].name", "already taken"),
    "unknown class": (scenario(clusters=[cluster(**{"class": "clowd"})]), "class", "'cloud'?"),
    "unknown currency": (
        scenario(clusters=[cluster(tariff={"currency": "KRW", "device_hour": {"a100": 9}})]),
        "clusters[east].tariff.currency",
        "no exchange rate for 'KRW'; add `KRW` to `rates`",
    ),
    "negative rate": (scenario(rates={"KRW": -1}), "rates.KRW", "write what 1 KRW is worth"),
    "NaN rate": (scenario(rates={"KRW": NAN}), "rates.KRW", "is nan"),
    "odd calendar": (
        scenario(clusters=[cluster(tariff={"calendar": [1.0, 2.0]})]),
        "tariff.calendar",
        "has 2 factors; give 24",
    ),
    "odd tariff": (scenario(clusters=[cluster(tariff="rented")]), "tariff", "is no tariff"),
    "NaN carbon": (scenario(clusters=[cluster(carbon=NAN)]), "carbon.constant", "is nan"),
    "negative carbon": (scenario(clusters=[cluster(carbon=-5)]), "carbon", "is -5"),
    "two kinds of carbon": (
        scenario(clusters=[cluster(carbon={"constant": 5, "zone": "KR"})]),
        "carbon",
        "says constant and zone",
    ),
    "no kind of carbon": (scenario(clusters=[cluster(carbon={})]), "carbon", "is empty"),
    "zone without data": (
        scenario(clusters=[cluster(carbon={"zone": "KR"})]),
        "clusters[east].carbon.zone",
        "run with --data DIR",
    ),
    "price list without data": (
        scenario(clusters=[cluster(tariff="price-list")]),
        "clusters[east].tariff.price_list",
        "run with --data DIR",
    ),
    "egress matrix without data": (
        scenario(network={"egress": {"providers": ["aws"]}}),
        "network.egress.providers[0]",
        "run with --data DIR",
    ),
    "egress of nobody": (
        scenario(network={"egress": {"providers": ["awz"]}}),
        "network.egress.providers[0]",
        "did you mean 'aws'?",
    ),
    "egress to nowhere": (
        scenario(network={"egress": {"pairs": [{"from": "east", "to": "wast", "per_gb": 1}]}}),
        "network.egress.pairs[0].to",
        "no cluster 'wast'; did you mean 'east'?",
    ),
    "latency to nowhere": (
        scenario(network={"latency": {"users": {"korea": {"eest": 5}}}}),
        "network.latency.users.korea.eest",
        "did you mean 'east'?",
    ),
    "tenant twice": (scenario(tenants=[tenant()] * 2), "tenants[lab].name", "already taken"),
    "team twice": (scenario(tenants=[tenant(teams=["a", "a"])]), "teams[1]", "is there twice"),
    "unknown slice": (pool(slice="1g.12gb"), "pools[gold].slice", "did you mean '1g."),
    "pool without nodes": (
        pool(slice="1g.10gb"),
        "pools[gold]",
        "no cluster it may be in has a100",
    ),
    "pool nowhere": (pool(clusters=["west"]), "pools[gold].clusters[0]", "no cluster 'west'"),
    "pool too large": (pool(guaranteed=17), "pools[gold].guaranteed", "more than the 16 there are"),
    "lends too much": (pool(lendable=5), "pools[gold].lendable", "lend at most 4"),
    "low maximum": (pool(maximum=3), "pools[gold].maximum", "write at least 4"),
    "pool twice": (
        scenario(tenants=[tenant(pools=[{"name": "p", "profile": "a100"}] * 2)]),
        "pools[p].name",
        "already taken",
    ),
    "unknown tenant": (job(tenant="lob"), "workloads[train].tenant", "did you mean 'lab'?"),
    "unknown team": (job(team="vison"), "workloads[train].team", "did you mean 'vision'?"),
    "unknown pool": (job(pool="gold"), "workloads[train].pool", "there is no pool of 'lab' 'gold'"),
    "unknown artefact": (job(data=["crawl"]), "workloads[train].data[0]", "no artefact 'crawl'"),
    "unknown cluster": (job(clusters=["esat"]), "workloads[train].clusters[0]", "mean 'east'?"),
    "unknown accepted profile": (job(profiles=["b100"]), "profiles[0]", "not a known accelerator"),
    "unknown kind": (job(kind="trainings"), "workloads[train].kind", "did you mean 'training'?"),
    "no work": (scenario(workloads=[]), "", "brings no work; add `workloads` or `sources`"),
    "job without length": (job(work=None), "workloads[train].work", "training needs it"),
    "service without service": (scenario(workloads=[service(service=None)]), "service", "needs it"),
    "job that serves": (job(service=service()["service"]), "service", "means nothing for training"),
    "deadline of a service": (
        scenario(workloads=[service(sla={"deadline": "1h"})]),
        "sla.deadline",
        "a service never ends",
    ),
    "work twice": (scenario(workloads=[training(), training()]), "workloads[train].name", "taken"),
    "source named like a workload": (source(name="train"), "sources[train].name", "already taken"),
    "too late": (job(at="13h"), "workloads[train].at", "after the end of the run"),
    "too many": (job(count=20, every="1h"), "workloads[train].every", "after the end"),
    "shrinking gang": (job(gang={"workers": 3, "most_workers": 2}), "most_workers", "at least 3"),
    "gang larger than any cluster": (
        job(gang=5),
        "workloads[train]",
        "no site has enough devices for all its workers at once; east/a100 has room for 4 of its 5",
    ),
    "memory of no device": (
        job(demand={"memory": "100GB"}),
        "workloads[train]",
        "can never run: no accelerator of the fleet meets its demand; east/a100",
    ),
    "accelerator nowhere": (
        job(profiles=["h100"]),
        "workloads[train]",
        "the accelerators it accepts are nowhere it may run; let it use a100 as well",
    ),
    "wider than a node": (
        job(demand={"devices": 16}),
        "workloads[train]",
        "no node has enough of what one worker needs; east/a100 joins at most 8",
    ),
    "impatient service": (
        scenario(workloads=[service(service=service()["service"] | {"latency": "50ms"})]),  # type: ignore[operator]
        "workloads[chat].service.latency",
        "shorter than a request takes",
    ),
    "too warm": (
        scenario(workloads=[service(service=service()["service"] | {"warm": 9, "most": 2})]),  # type: ignore[operator]
        "workloads[chat].service.warm",
        "write at most 2",
    ),
    "odd load": (
        scenario(workloads=[service(service=service()["service"] | {"load": "flot"})]),  # type: ignore[operator]
        "service.load",
        "is no kind of load",
    ),
    "load without data": (
        scenario(workloads=[service(service=service()["service"] | {"load": "azure"})]),  # type: ignore[operator]
        "workloads[chat].service.load",
        "run with --data DIR",
    ),
    "source of nothing": (scenario(sources=[{"name": "s"}]), "sources[s]", "exactly one of philly"),
    "source of both": (source(philly={}), "sources[jobs]", "exactly one of philly and generated"),
    "trace without data": (
        scenario(sources=[{"name": "s", "philly": {}}]),
        "sources[s].philly",
        "needs data (sia/traces/philly.csv); run with --data DIR",
    ),
    "jobs of nobody": (source(jobs={"tenants": {"lub": 1}}), "jobs.tenants.lub", "mean 'lab'?"),
    "odd priority": (source(jobs={"priorities": {"high": 0.5}}), "priorities.high", "no priority"),
    "priorities of too many": (
        source(jobs={"priorities": {"1": 0.6, "2": 0.6}}),
        "priorities",
        "more than 1",
    ),
    "unknown reference": (source(jobs={"reference": "v1000"}), "reference", "did you mean 'v100'?"),
    "data of nobody": (source(jobs={"data": ["crawl"]}), "jobs.data[0]", "no artefact 'crawl'"),
    "artefact nowhere": (
        scenario(artefacts=[{"name": "w", "size": "1GB", "places": ["west"]}]),
        "artefacts[w].places[0]",
        "no cluster 'west'",
    ),
    "artefact twice": (
        scenario(artefacts=[{"name": "w", "size": "1GB"}] * 2),
        "artefacts[w].name",
        "already taken",
    ),
    "pinned nowhere": (
        scenario(policy={"congestion": {"pinned": {"west": 1}}}),
        "policy.congestion.pinned.west",
        "no cluster 'west'",
    ),
    "switch too late": (
        scenario(switches=[{"at": "13h", "policy": {}}]),
        "switches[0].at",
        "after the end of the run",
    ),
    "switches out of order": (
        scenario(switches=[{"at": "2h", "policy": {}}, {"at": "1h", "policy": {}}]),
        "switches[1].at",
        "list them in order",
    ),
    "switch to a pin nowhere": (
        scenario(switches=[{"at": "2h", "policy": {"congestion": {"pinned": {"west": 1}}}}]),
        "switches[0].policy.congestion.pinned.west",
        "no cluster 'west'",
    ),
    "start long ago": (scenario(start="0001-01-01"), "start", "a year from 1970 to 2099"),
    "start far ahead": (scenario(start="9999-12-31"), "start", "a year from 1970 to 2099"),
    "run of centuries": (scenario(duration="36500d", round="1d"), "duration", "ten years"),
    "rounds without end": (scenario(round="1ns"), "round", "more than a run can do in a day"),
    "round longer than the run": (scenario(round="13h"), "round", "longer than the run"),
    "too many devices": (
        scenario(clusters=[cluster(groups=[{"profile": "a100", "nodes": 10_000_000}])]),
        "clusters[east].groups[0].nodes",
        "stay within 1,000,000 devices",
    ),
    "too many jobs": (
        scenario(sources=[{"name": "jobs", "generated": 1e12}]),
        "sources[jobs].generated",
        "stay below 2,000,000",
    ),
    "jobs too long": (
        scenario(
            sources=[{"name": "jobs", "generated": 50, "jobs": {"time_factor": 1_000_000}}],
        ),
        "sources[jobs].jobs.time_factor",
        "stay within 366 days",
    ),
    "load curves without end": (
        scenario(duration="3000d", round="1h", workloads=[service(count=1000)]),
        "workloads[chat].count",
        "have fewer services",
    ),
    "a numbered name of a source": (
        scenario(workloads=[training(name="jobs-3")], sources=[{"name": "jobs", "generated": 50}]),
        "workloads[jobs-3].name",
        "'jobs-3' is also the name of",
    ),
    "a numbered name of a workload": (
        scenario(workloads=[training(count=2), training(name="train-0")]),
        "workloads[train].name",
        "'train-0' is also the name of",
    ),
    "egress to itself": (
        pairs({"from": "east", "to": "east", "per_gb": 1}),
        "network.egress.pairs[0].to",
        "from 'east' to itself",
    ),
    "egress twice": (
        pairs(*[{"from": "east", "to": "west", "per_gb": 1}] * 2),
        "network.egress.pairs[1]",
        "is given twice",
    ),
    "no bandwidth": (scenario(network={"bandwidth": "0GB"}), "network.bandwidth", "above 0"),
    "users nowhere": (
        scenario(workloads=[reaching(users={"atlantis": 1})]),
        "workloads[chat].service.users.atlantis",
        "network.latency.users",
    ),
    "users misspelt": (
        scenario(
            workloads=[reaching(users={"kroea": 1})],
            network={"latency": {"users": {"korea": {"east": 5}}}},
        ),
        "workloads[chat].service.users.kroea",
        "did you mean 'korea'?",
    ),
    "spread over too few": (
        scenario(workloads=[reaching(spread=2)]),
        "workloads[chat].service.spread",
        "write at most 1",
    ),
    "currency in words": (scenario(currency="dollars"), "currency", "three capitals"),
    "another rate of its own": (
        scenario(rates={"USD": 2.0}),
        "rates.USD",
        "the fleet's own currency",
    ),
    "a rate in words": (scenario(rates={"euro": 1.1}), "rates.euro", "three capitals"),
    "a huge price": (
        scenario(clusters=[cluster(tariff={"device_hour": {"a100": 1e300}})]),
        "tariff.device_hour.a100",
        "at most 1e+12",
    ),
    "a title that steers the terminal": (
        scenario(title="a\x1b[31mb"),
        "title",
        "'a?[31mb' has characters that cannot be shown",
    ),
    "a region that steers the terminal": (
        scenario(clusters=[cluster(region="a\x1b[2J")]),
        "clusters[east].region",
        "cannot be shown",
    ),
    "fault of nothing": (fault(), "faults[0]", "does not say what breaks"),
    "fault of both": (fault(cluster="east", centre=True), "faults[0]", "says cluster and centre"),
    "fault nowhere": (fault(cluster="west"), "faults[0].cluster", "no cluster 'west'"),
    "fault of no node": (
        fault(node={"cluster": "east", "node": 2}),
        "faults[0].node.node",
        "its nodes are 0 to 1",
    ),
    "fault too late": (fault(at="13h", centre=True), "faults[0].at", "after the end of the run"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_place_field_and_remedy(tmp_path: Path, case: str) -> None:
    fields, field, part = BAD[case]
    with pytest.raises(InputError) as refused:
        read(tmp_path, fields)
    assert refused.value.file.startswith(f"{tmp_path / 'scenario.yaml'}, line ")
    assert refused.value.field.endswith(field)
    assert part in str(refused.value)
    assert refused.value.remedy


def test_a_complaint_names_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, scenario(workloads=[training(tenant="lob")]))
    line = path.read_text(encoding="utf-8").split("\n").index("  tenant: lob") + 1
    with pytest.raises(InputError, match=f"line {line}: "):
        read_scenario(path)


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


DATA = {
    "sia/traces/philly.csv": "timestamp,duration,num_gpus,gpu_time,cluster\n"
    + "".join(f"2017-10-01 {hour:02}:00:00,600,1,600,vc{hour % 3}\n" for hour in range(12)),
    "azure-llm/AzureLLMInferenceTrace_code.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    + "".join(f"2023-11-16 18:{minute:02}:00.0,10,10\n" for minute in range(60)),
    "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv": "datetime_utc,KR\n"
    + "".join(f"2023-10-01 {hour:02}:00:00,{400 + hour}\n" for hour in range(24)),
    "electricity-prices/price_usd_per_mwh_2023_hourly.csv": "datetime_utc,KR\n"
    + "".join(f"2023-10-01 {hour:02}:00:00,{100 + hour}\n" for hour in range(24)),
    "skypilot-catalog/v7_aws_accelerator_vms.csv": (
        "AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\nA100-80GB,8,40,20,us-east-1\n"
    ),
    "network-cost/aws_transmission_cost_matrix.csv": (
        ",us-east-1,us-west-2\nus-east-1,0,0.02\nus-west-2,0.03,0\n"
    ),
    "openb/openb_node_list_gpu_node.csv": (
        "sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\n"
    ),
    "openb/openb_pod_list_default.csv": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
        "a,4000,8192,1,500\nb,4000,8192,0,0\nc,8000,8192,1,1000\n"
    ),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name, text in DATA.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def with_data(**changes: object) -> Fields:
    """A scenario that reads everything there is."""
    kr = {"zone": "KR"}
    clusters = [
        cluster(tariff={"price_list": {}, "currency": "KRW"}, carbon=kr, electricity=kr),
        cluster(
            name="west",
            region="us-west-2",
            groups=[{"profile": "a100", "nodes": 2, "mode": "mps"}],
        ),
    ]
    fields = scenario(
        rates={"KRW": 0.001},
        clusters=clusters,
        network={"egress": {"providers": ["aws"], "default": 1}},
        workloads=[service(service=service()["service"] | {"load": "azure"})],  # type: ignore[operator]
        sources=[{"name": "jobs", "philly": {}, "jobs": {"shapes": "openb", "reference": "v100"}}],
    )
    return fields | changes


def test_data_is_read_where_the_scenario_says(tmp_path: Path, data: Path) -> None:
    setting = read(tmp_path, with_data(), data=data).setting
    east, west = setting.fleet.clusters
    assert east.tariff.device_hour["a100"] == pytest.approx(5000.0)
    assert east.carbon_g_per_kwh.at(setting.start_ns + 2 * HOUR_NS) == 402.0
    assert east.electricity_per_mwh.at(setting.start_ns) == pytest.approx(100_000.0)
    assert setting.fleet.egress(west.id, east.id) == 0.03
    jobs = [each for each in setting.workloads if each.kind is not WorkloadKind.SERVING]
    assert len(jobs) == 12
    assert {each.demand.cpu_milli for each in jobs} <= {4000, 8000}
    assert setting.loads.requests_per_s.shape == (1, 144)


@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("sia/traces/philly.csv", "", ("philly.csv", "the file is empty")),
        (
            "sia/traces/philly.csv",
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-01 01:00:00,x,1,1,a\n",
            ("philly.csv, line 2", "column 'duration'", "'x' is no number"),
        ),
        (
            "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
            "datetime_utc,KR\n2023-10-01 00:00:00,1\n",
            ("covers 2023-10-01 00:00 to 2023-10-01 01:00, not all of the scenario",),
        ),
        (
            "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
            "datetime_utc,KP\n2023-10-01 00:00:00,1\n",
            ("there is no zone 'KR'",),
        ),
        (
            "carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv",
            DATA["carbon-electricitymaps/ci_direct_gco2_per_kwh_2023_hourly.csv"].replace(
                ":00,", ":00,-", 1
            ),
            ("line 2", "column 'KR'", "is no number of at least 0"),
        ),
        (
            "electricity-prices/price_usd_per_mwh_2023_hourly.csv",
            DATA["electricity-prices/price_usd_per_mwh_2023_hourly.csv"].replace("105", "NaN"),
            ("line 7", "column 'KR'", "'NaN' is no number"),
        ),
        (
            "electricity-prices/price_usd_per_mwh_2023_hourly.csv",
            "datetime_utc,KR\n2023-10-01 00:00:00,1\n2023-10-01 02:00:00,1\n",
            ("line 3", "there is a gap"),
        ),
        (
            "skypilot-catalog/v7_aws_accelerator_vms.csv",
            "AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\nH100,8,40,20,us-east-1\n",
            ("'us-east-1' has no a100 with a price",),
        ),
        (
            "network-cost/aws_transmission_cost_matrix.csv",
            ",us-east-1\nus-east-1,0\n",
            ("there is no region 'us-west-2'",),
        ),
        (
            "openb/openb_pod_list_default.csv",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,4000,8192,1,half\n",
            ("line 2", "column 'gpu_milli'"),
        ),
    ],
)
def test_broken_data_is_refused_with_its_own_place(
    tmp_path: Path, data: Path, name: str, text: str, parts: tuple[str, ...]
) -> None:
    (data / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read(tmp_path, with_data(), data=data)
    assert str(data / name) in str(refused.value)
    assert all(part in str(refused.value) for part in parts)


def test_a_missing_data_file_is_named(tmp_path: Path, data: Path) -> None:
    (data / "sia/traces/philly.csv").unlink()
    with pytest.raises(InputError, match=r"philly\.csv: there is no such file; check --data"):
        read(tmp_path, with_data(), data=data)


def test_a_data_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--data: there is no such folder"):
        read(tmp_path, scenario(), data=tmp_path / "nowhere")
    with pytest.raises(InputError, match="--data: is no folder"):
        read(tmp_path, scenario(), data=tmp_path / "scenario.yaml")


def test_a_data_folder_that_cannot_be_read_is_refused(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != data)
    with pytest.raises(InputError, match="--data: cannot be read; name a readable folder"):
        read(tmp_path, with_data(), data=data)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_reads_or_asks_for_data(path: Path) -> None:
    if "--data" in path.read_text(encoding="utf-8"):
        with pytest.raises(InputError, match="run with --data DIR"):
            read_scenario(path)
    else:
        assert read_scenario(path).setting.workloads
