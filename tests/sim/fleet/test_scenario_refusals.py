"""Scenario files that cannot be used: refused with place, field and remedy."""

from pathlib import Path

import pytest

from dure.domain.errors import InputError
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
    written,
)

NAN = float("nan")


def group(**changes: object) -> Fields:
    return scenario(clusters=[cluster(groups=[{"profile": "a100", "nodes": 2} | changes])])


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
    "patience in other words": (
        scenario(policy={"reclaim_after": "soon"}),
        "policy.reclaim_after",
        "is not a duration",
    ),
    "patience without a unit": (
        scenario(policy={"reclaim_after": 10}),
        "policy.reclaim_after",
        "write it with a unit",
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
