"""The global machine: where and when it places work, what it refuses, and why, event by event."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dure.domain.fleet.events import (
    ArtefactSeen,
    PolicySet,
    RoundDue,
    ServiceObserved,
    WorkloadEnded,
    WorkloadStarted,
)
from dure.domain.fleet.instructions import (
    DeferWorkload,
    PlaceWorkload,
    RefuseWorkload,
    Warn,
)
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.workloads import Artefact, Sla, WorkloadKind
from dure.domain.ids import ArtefactId, ClusterId, WorkloadId
from tests.fleet.factories import cluster, fleet, group, job, patient, service
from tests.fleet.machines import machine, of_kind, orders, submit, tell

MINUTE_NS = HOUR_NS // 60


def test_a_job_goes_where_it_costs_least() -> None:
    own, cloud = cluster("own", rent=None), cluster("cloud")
    made = machine(cloud, own)
    submit(made, job())
    placed = orders(made.handle(RoundDue(0)))
    assert placed["job"].site.cluster == "own"
    assert placed["job"].attempt == 1


def test_what_does_not_fit_where_it_is_cheap_goes_elsewhere() -> None:
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud)
    submit(made, *(job(f"job-{number}", devices=4) for number in range(3)))
    placed = orders(made.handle(RoundDue(0)))
    clusters = sorted(order.site.cluster for order in placed.values())
    assert clusters == ["cloud", "own", "own"]


def test_a_job_that_can_never_fit_is_refused_at_once_with_the_nearest_thing() -> None:
    made = machine(cluster("east"))
    (refusal,) = submit(made, job(devices=16))
    assert isinstance(refusal, RefuseWorkload)
    assert "at most 8 devices" in refusal.nearest
    assert made.handle(RoundDue(0)) == []


def test_a_gang_larger_than_what_is_free_waits_whole() -> None:
    east = cluster("east")
    made = machine(east)
    tell(made, east, used=4)
    submit(made, job(workers=16))
    assert orders(made.handle(RoundDue(0))) == {}
    assert "no site it may use has room" in made.why_waiting(WorkloadId("job"))
    tell(made, east, used=0, now_ns=MINUTE_NS)
    placed = orders(made.handle(RoundDue(MINUTE_NS)))
    assert placed["job"].instances == 16


def test_a_second_round_on_the_same_state_says_nothing() -> None:
    own, cloud = cluster("own", rent=None), cluster("cloud")
    made = machine(own, cloud)
    submit(
        made, *(job(f"a{n}") for n in range(20)), *(patient(f"p{n}", due_h=30) for n in range(9))
    )
    assert made.handle(RoundDue(0))
    assert made.handle(RoundDue(0)) == []


def test_only_allowed_clusters_are_used() -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job(clusters=frozenset({ClusterId("cloud")})))
    assert orders(made.handle(RoundDue(0)))["job"].site.cluster == "cloud"


def test_a_patient_job_waits_for_cheap_capacity_while_its_deadline_holds() -> None:
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud)
    submit(made, job("now", workers=8, hours=2.0))
    placed = orders(made.handle(RoundDue(0)))
    made.handle(WorkloadStarted(0, WorkloadId("now"), placed["now"].attempt))
    tell(made, own, used=8)
    submit(made, patient("later", due_h=24.0), patient("hurry", due_h=2.2))
    said = made.handle(RoundDue(0))
    assert orders(said)["hurry"].site.cluster == "cloud"
    (deferral,) = of_kind(said, DeferWorkload)
    assert isinstance(deferral, DeferWorkload)
    assert deferral.workload == "later"
    later = [each for each in made.settings.start_slots_h if each >= 2]
    assert deferral.until_ns == later[0] * HOUR_NS
    made.handle(WorkloadEnded(2 * HOUR_NS, WorkloadId("now")))
    tell(made, own, now_ns=2 * HOUR_NS)
    assert orders(made.handle(RoundDue(2 * HOUR_NS)))["later"].site.cluster == "own"


def test_with_deferral_off_it_rents_now() -> None:
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud, policy=FleetPolicy(defer=False))
    tell(made, own, used=8)
    submit(made, patient("later", due_h=24.0))
    assert orders(made.handle(RoundDue(0)))["later"].site.cluster == "cloud"


def test_more_jobs_than_will_have_room_do_not_all_wait_for_it() -> None:
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud)
    submit(made, job("now", workers=8, hours=2.0))
    made.handle(RoundDue(0))
    tell(made, own, used=8)
    waiting = [patient(f"p{n}", due_h=9.0, hours=4.0) for n in range(24)]
    submit(made, *waiting)
    placed = orders(made.handle(RoundDue(0)))
    assert len(placed) >= 8
    assert {order.site.cluster for order in placed.values()} == {"cloud"}


def test_carbon_moves_work_in_place_and_in_time() -> None:
    dirty = cluster("dirty", carbon=800.0)
    clean = cluster("clean", rent=2.01, carbon=20.0)
    cheap = machine(dirty, clean, policy=policy_with(carbon_per_tonne=0.0))
    green = machine(dirty, clean, policy=policy_with(carbon_per_tonne=500.0))
    for made in (cheap, green):
        submit(made, job())
    assert orders(cheap.handle(RoundDue(0)))["job"].site.cluster == "dirty"
    assert orders(green.handle(RoundDue(0)))["job"].site.cluster == "clean"


def policy_with(**changes: float) -> FleetPolicy:
    rules = ClassPolicy(**changes)  # type: ignore[arg-type]
    return FleetPolicy(training=rules, batch=rules, serving=rules)


def test_a_policy_switches_live() -> None:
    dirty, clean = cluster("dirty", carbon=800.0), cluster("clean", rent=2.01, carbon=20.0)
    made = machine(dirty, clean, policy=policy_with(carbon_per_tonne=0.0))
    made.handle(PolicySet(0, policy_with(carbon_per_tonne=500.0)))
    submit(made, job())
    assert orders(made.handle(RoundDue(0)))["job"].site.cluster == "clean"


def test_a_job_waits_for_cheap_electricity() -> None:
    hours = np.where(np.arange(48) < 4, 400.0, 10.0)
    own = cluster("own", rent=None, electricity=Series(hours))
    made = machine(own)
    submit(made, patient(due_h=24.0))
    (deferral,) = of_kind(made.handle(RoundDue(0)), DeferWorkload)
    assert isinstance(deferral, DeferWorkload)
    assert deferral.until_ns == 4 * HOUR_NS


def test_work_follows_its_data() -> None:
    east, west = cluster("east"), cluster("west", rent=1.95)
    world = fleet(east, west, egress_default_per_gb=0.1)
    data = Artefact(ArtefactId("set"), 100 * 10**9, frozenset({ClusterId("east")}))
    for policy, expected in ((FleetPolicy(), "east"), (FleetPolicy(locality=False), "west")):
        made = machine(east, west, policy=policy, world=world)
        made.handle(ArtefactSeen(0, data))
        submit(made, job(data=(data.id,)))
        order = orders(made.handle(RoundDue(0)))["job"]
        assert order.site.cluster == expected


def test_a_placement_explains_itself() -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job())
    made.handle(RoundDue(0))
    why = made.explain(WorkloadId("job"))
    assert why is not None
    named = dict(why.terms)
    assert named["energy"] > 0
    assert why.g_co2 > 0
    assert why.runner_up is not None
    assert why.runner_up.site.cluster == "cloud"
    assert why.runner_up.total > why.total
    assert made.explain(WorkloadId("nobody")) is None


def test_a_service_is_spread_near_its_users() -> None:
    members = [cluster(name) for name in ("far", "near", "next")]
    world = fleet(
        *members,
        latency_ms={("kr", "far"): 450.0, ("kr", "near"): 10.0, ("kr", "next"): 20.0},
    )
    made = machine(*members, world=world)
    submit(made, service(spread=2, users=(("kr", 1.0),)))
    said = of_kind(made.handle(RoundDue(0)), PlaceWorkload)
    placed = [each.order for each in said if isinstance(each, PlaceWorkload)]
    assert {order.site.cluster for order in placed} == {"near", "next"}
    assert len({order.attempt for order in placed}) == 2


def test_a_service_gets_replicas_for_its_load() -> None:
    made = machine(cluster("east"))
    submit(made, service("idle", rate=0.1), service("busy", rate=45.0))
    placed = orders(made.handle(RoundDue(0)))
    assert placed["idle"].instances == 1
    assert placed["busy"].instances >= 5


def test_violations_of_services_raise_the_weight_of_promises() -> None:
    made = machine(cluster("east"))
    submit(made, service())
    made.handle(RoundDue(0))
    weight = made.state.adaptation.sla_weight
    before = weight(WorkloadKind.SERVING, made.state.policy)
    for minute in range(20):
        made.handle(
            ServiceObserved(minute * MINUTE_NS, WorkloadId("chat"), ClusterId("east"), 1.0, 1, 1.0)
        )
    assert weight(WorkloadKind.SERVING, made.state.policy) > before


def test_a_known_id_is_not_taken_twice() -> None:
    made = machine(cluster("east"))
    submit(made, job())
    (warning,) = submit(made, job(hours=3.0))
    assert isinstance(warning, Warn)
    assert submit(made, job()) == []
    assert len(orders(made.handle(RoundDue(0)))) == 1


@pytest.mark.parametrize("rate", [0.01, 1000.0])
def test_no_job_is_planned_past_its_deadline(rate: float) -> None:
    """However cheap a broken promise is: promises are kept where they can be."""
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud", rent=9.0)
    made = machine(own, cloud)
    submit(made, job("now", workers=8, hours=2.0))
    made.handle(RoundDue(0))
    tell(made, own, used=8)
    sla = Sla(deadline_ns=HOUR_NS * 3, penalty_per_hour_late=rate)
    submit(made, replace(patient("late", due_h=3.0, hours=2.5), sla=sla))
    assert orders(made.handle(RoundDue(0)))["late"].site.cluster == "cloud"


def test_a_snapshot_says_what_is_known_in_plain_values() -> None:
    made = machine(cluster("own", rent=None))
    submit(made, job("placed"))
    made.handle(RoundDue(0))
    submit(made, job("waits", workers=16))
    made.handle(RoundDue(0))
    found = made.snapshot()
    assert json.loads(json.dumps(found)) == found
    assert found["workloads"]["placed"]["phase"] == "placed"
    assert found["workloads"]["placed"]["places"] == {"1": "own/main"}
    assert found["workloads"]["waits"]["why"]
    assert found["sites"]["own/main"]["free"]["devices"] == 15.0
