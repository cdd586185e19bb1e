"""The global machine: what it decides for small fleets, event by event."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dure.domain.fleet.clusters import Cluster, Fleet
from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterJoined,
    ClusterLost,
    ClusterSummarised,
    OrderTurnedDown,
    PolicySet,
    RoundDue,
    ServiceObserved,
    SpendObserved,
    TenantSet,
    WorkloadEnded,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import (
    DeferWorkload,
    GlobalInstruction,
    MoveWorkload,
    PlaceWorkload,
    PreemptWorkload,
    PublishPrices,
    RefuseWorkload,
    Warn,
)
from dure.domain.fleet.policy import ClassPolicy, CongestionRules, FleetPolicy
from dure.domain.fleet.series import HOUR_NS, Series
from dure.domain.fleet.tenancy import Budget, FleetTenant, VNodePool
from dure.domain.fleet.workloads import Artefact, Gang, Sla, WhenCutOff, Workload, WorkloadKind
from dure.domain.ids import ArtefactId, ClusterId, PoolId, TenantId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from tests.fleet.factories import cluster, fleet, group, job, patient, service, summary

MINUTE_NS = HOUR_NS // 60
ANN = TenantId("ann")


def machine(
    *members: Cluster, policy: FleetPolicy | None = None, world: Fleet | None = None
) -> GlobalMachine:
    """A machine that knows these clusters, all of them empty."""
    made = GlobalMachine(
        GlobalSettings(world or fleet(*members), policy or FleetPolicy(), validate=True)
    )
    for member in members:
        made.handle(ClusterJoined(0, member))
        tell(made, member)
    return made


def tell(made: GlobalMachine, member: Cluster, used: int = 0, now_ns: int = 0) -> None:
    made.handle(ClusterSummarised(now_ns, (summary(member, used=used),)))


def submit(made: GlobalMachine, *workloads: Workload, now_ns: int = 0) -> list[GlobalInstruction]:
    said = []
    for workload in workloads:
        said += made.handle(WorkloadSubmitted(now_ns, workload))
    return said


def orders(instructions: list[GlobalInstruction]) -> dict[str, Order]:
    return {
        each.order.workload.id: each.order
        for each in instructions
        if isinstance(each, PlaceWorkload)
    }


def of_kind(instructions: list[GlobalInstruction], kind: type) -> list[GlobalInstruction]:
    return [each for each in instructions if isinstance(each, kind)]


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


def test_a_site_that_turned_a_job_down_is_avoided_for_a_while() -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job())
    order = orders(made.handle(RoundDue(0)))["job"]
    made.handle(OrderTurnedDown(0, WorkloadId("job"), order.attempt, "no"))
    again = orders(made.handle(RoundDue(MINUTE_NS)))["job"]
    assert again.site.cluster == "cloud"
    assert again.attempt == 2


def test_a_stopped_job_is_placed_again_from_its_checkpoint() -> None:
    made = machine(cluster("own", rent=None))
    submit(made, job())
    order = orders(made.handle(RoundDue(0)))["job"]
    made.handle(WorkloadStarted(0, WorkloadId("job"), order.attempt))
    made.handle(WorkloadStopped(HOUR_NS, WorkloadId("job"), order.attempt, 0.5, "node died"))
    again = orders(made.handle(RoundDue(HOUR_NS)))["job"]
    assert again.resume_share == 0.5
    assert again.attempt == 2


def test_news_of_an_older_attempt_changes_nothing() -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job())
    made.handle(RoundDue(0))
    made.handle(OrderTurnedDown(0, WorkloadId("job"), 1, "no"))
    made.handle(RoundDue(0))
    made.handle(WorkloadStopped(0, WorkloadId("job"), 1, 0.0, "late news"))
    assert made.handle(RoundDue(MINUTE_NS)) == []


@pytest.mark.parametrize(
    ("choice", "minutes", "again"),
    [
        (WhenCutOff.WAIT, 60, False),
        (WhenCutOff.REPLACE, 1, True),
        (WhenCutOff.FENCE_AFTER, 1, False),
        (WhenCutOff.FENCE_AFTER, 11, True),
    ],
)
def test_a_lost_cluster_does_with_work_what_its_owner_chose(
    choice: WhenCutOff, minutes: int, again: bool
) -> None:
    made = machine(cluster("own", rent=None), cluster("cloud"))
    submit(made, job(when_cut_off=choice))
    made.handle(RoundDue(0))
    made.handle(ClusterLost(0, ClusterId("own")))
    placed = orders(made.handle(RoundDue(minutes * MINUTE_NS)))
    assert bool(placed) is again
    if again:
        assert placed["job"].site.cluster == "cloud"


def test_what_was_replaced_is_stopped_when_its_cluster_is_back() -> None:
    own = cluster("own", rent=None)
    made = machine(own, cluster("cloud"))
    submit(made, job(when_cut_off=WhenCutOff.REPLACE))
    made.handle(RoundDue(0))
    made.handle(ClusterLost(0, own.id))
    made.handle(RoundDue(MINUTE_NS))
    (stop,) = made.handle(ClusterJoined(2 * MINUTE_NS, own))
    assert isinstance(stop, PreemptWorkload)
    assert (stop.workload, stop.cluster, stop.attempt) == ("job", "own", 1)


def test_a_withdrawn_job_is_stopped_and_forgotten() -> None:
    made = machine(cluster("own", rent=None))
    submit(made, job())
    made.handle(RoundDue(0))
    (stop,) = made.handle(WorkloadWithdrawn(0, WorkloadId("job")))
    assert isinstance(stop, PreemptWorkload)
    assert made.handle(RoundDue(HOUR_NS)) == []


def test_higher_priority_displaces_the_cheapest_sufficient_victims() -> None:
    east = cluster("east", groups=(group(nodes=1),))
    made = machine(east)
    submit(made, job("low", devices=4), job("lower", devices=4, priority=-1))
    for order in orders(made.handle(RoundDue(0))).values():
        made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    tell(made, east, used=8)
    late = 20 * MINUTE_NS
    made.handle(WorkloadProgressed(late, WorkloadId("low"), 0.2, 0.0, 1))
    submit(made, job("high", devices=4, priority=5), now_ns=late)
    said = made.handle(RoundDue(late))
    (stop,) = of_kind(said, PreemptWorkload)
    assert isinstance(stop, PreemptWorkload)
    assert (stop.workload, stop.wanted_by) == ("lower", "high")
    assert "high" in orders(said)


def test_no_more_are_displaced_than_those_who_come_need() -> None:
    east = cluster("east", groups=(group(nodes=2),))
    made = machine(east)
    submit(made, *(job(f"low-{n}", hours=9.0) for n in range(16)))
    for order in orders(made.handle(RoundDue(0))).values():
        made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    tell(made, east, used=16)
    submit(made, *(job(f"high-{n}", priority=5) for n in range(4)), now_ns=HOUR_NS)
    said = made.handle(RoundDue(HOUR_NS))
    assert len(orders(said)) == len(of_kind(said, PreemptWorkload)) == 4


def test_nobody_is_displaced_before_its_minimum_runtime_or_against_the_policy() -> None:
    east = cluster("east", groups=(group(nodes=1),))
    for policy, minutes in ((FleetPolicy(), 5), (policy_without_preemption(), 20)):
        made = machine(east, policy=policy)
        submit(made, job("low", devices=8))
        order = orders(made.handle(RoundDue(0)))["low"]
        made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
        tell(made, east, used=8)
        submit(made, job("high", devices=8, priority=5), now_ns=minutes * MINUTE_NS)
        assert made.handle(RoundDue(minutes * MINUTE_NS)) == []


def policy_without_preemption() -> FleetPolicy:
    return FleetPolicy(batch=ClassPolicy(preempt=False))


def test_a_used_up_budget_stops_new_work_and_says_so() -> None:
    made = machine(cluster("east"))
    made.handle(TenantSet(0, FleetTenant(ANN, budget=Budget(money=100.0))))
    made.handle(SpendObserved(0, ANN, 85.0, 0.0))
    warnings = of_kind(made.handle(RoundDue(0)), Warn)
    assert len(warnings) == 1
    assert made.handle(RoundDue(0)) == []
    made.handle(SpendObserved(0, ANN, 16.0, 0.0))
    submit(made, job())
    said = made.handle(RoundDue(MINUTE_NS))
    assert orders(said) == {}
    assert "used up" in str(of_kind(said, Warn)[0])


def test_placed_work_counts_against_a_budget_before_it_is_paid() -> None:
    made = machine(cluster("east", groups=(group(devices=1, nodes=8),)))
    made.handle(TenantSet(0, FleetTenant(ANN, budget=Budget(money=10.0))))
    submit(made, *(job(f"job-{number}", hours=2.0) for number in range(5)))
    assert len(orders(made.handle(RoundDue(0)))) == 2


def test_a_carbon_budget_stops_what_would_exceed_it() -> None:
    made = machine(
        cluster("east", groups=(group(devices=1, nodes=8),)),
        policy=FleetPolicy(carbon_budget_g=1500.0),
    )
    submit(made, *(job(f"job-{number}", hours=2.0) for number in range(5)))
    placed = orders(made.handle(RoundDue(0)))
    assert 0 < sum(order.explanation.g_co2 for order in placed.values()) <= 1500.0
    assert len(placed) < 5


def test_one_tenants_pool_is_closed_to_others() -> None:
    own = cluster("own", rent=None, groups=(group(nodes=1),))
    made = machine(own, cluster("cloud"))
    pool = VNodePool(PoolId("mine"), TenantId("bob"), "a100", guaranteed=8, dedicated=True,
                     clusters=frozenset({ClusterId("own")}))  # fmt: skip
    made.handle(TenantSet(0, FleetTenant(TenantId("bob")), (pool,)))
    made.handle(RoundDue(0))
    submit(made, job("ann's"), job("bob's", tenant=TenantId("bob"), pool=pool.id))
    placed = orders(made.handle(RoundDue(0)))
    assert placed["ann's"].site.cluster == "cloud"
    assert placed["bob's"].site.cluster == "own"


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


def crowded(rules: CongestionRules) -> tuple[GlobalMachine, list[GlobalInstruction]]:
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud, policy=FleetPolicy(congestion=rules))
    submit(made, *(job(f"job-{number}") for number in range(16)))
    return made, made.handle(RoundDue(0))


def test_crowding_raises_a_price_that_is_published_and_felt() -> None:
    made, said = crowded(CongestionRules())
    (news,) = of_kind(said, PublishPrices)
    assert isinstance(news, PublishPrices)
    assert dict(news.prices)["own/main"] > 0
    assert made.prices()["own/main"] > 0
    assert made.prices()["cloud/main"] == 0


def test_frozen_and_pinned_prices_stay() -> None:
    frozen, _ = crowded(CongestionRules(frozen=True))
    assert set(frozen.prices().values()) == {0.0}
    pinned, said = crowded(CongestionRules(pinned={"own": 100.0}))
    assert {order.site.cluster for order in orders(said).values()} == {"cloud"}
    assert pinned.prices()["own/main"] == 100.0


def running_long(policy: FleetPolicy) -> GlobalMachine:
    """A long job that rents while owned devices have become free."""
    own, cloud = cluster("own", rent=None, groups=(group(nodes=1),)), cluster("cloud")
    made = machine(own, cloud, policy=policy)
    tell(made, own, used=8)
    submit(made, job(hours=50.0, gang=Gang(checkpoint_s=600.0)))
    order = orders(made.handle(RoundDue(0)))["job"]
    assert order.site.cluster == "cloud"
    made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    tell(made, own, used=0, now_ns=HOUR_NS)
    return made


def test_running_work_moves_when_that_saves_enough() -> None:
    made = running_long(FleetPolicy())
    (move,) = of_kind(made.handle(RoundDue(2 * HOUR_NS)), MoveWorkload)
    assert isinstance(move, MoveWorkload)
    assert (move.source, move.order.site.cluster, move.order.attempt) == ("cloud", "own", 2)
    assert move.expected_saving > 10.0
    made.handle(WorkloadStarted(3 * HOUR_NS, WorkloadId("job"), 2))
    assert list(made.state.tracks[WorkloadId("job")].places) == [2]


def test_a_job_that_has_left_for_its_new_place_is_not_forgotten_however_long_it_takes() -> None:
    made = running_long(FleetPolicy())
    made.handle(RoundDue(2 * HOUR_NS))
    made.handle(WorkloadStopped(3 * HOUR_NS, WorkloadId("job"), 1, 0.1, "moved"))
    made.handle(RoundDue(30 * HOUR_NS))
    assert list(made.state.tracks[WorkloadId("job")].places) == [2]
    made.handle(WorkloadStarted(31 * HOUR_NS, WorkloadId("job"), 2))
    assert made.explain(WorkloadId("job")) is not None


def test_a_move_under_the_threshold_is_not_made() -> None:
    rules = ClassPolicy(migration_threshold=1e6)
    made = running_long(FleetPolicy(batch=rules, training=rules))
    assert of_kind(made.handle(RoundDue(2 * HOUR_NS)), MoveWorkload) == []


def test_a_dry_run_says_what_would_move_and_moves_nothing() -> None:
    made = running_long(FleetPolicy(dry_run=True))
    (move,) = of_kind(made.handle(RoundDue(2 * HOUR_NS)), MoveWorkload)
    assert isinstance(move, MoveWorkload)
    assert move.dry_run
    assert list(made.state.tracks[WorkloadId("job")].places) == [1]


def test_what_elastic_gangs_hold_beyond_their_least_can_be_had() -> None:
    east = cluster("east", groups=(group(nodes=1),))
    made = machine(east)
    submit(made, job("elastic", gang=Gang(workers=2, most_workers=8)))
    order = orders(made.handle(RoundDue(0)))["elastic"]
    made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    made.handle(WorkloadProgressed(MINUTE_NS, order.workload.id, 0.1, 0.0, 8))
    tell(made, east, used=8, now_ns=MINUTE_NS)
    submit(made, job("next"), now_ns=MINUTE_NS)
    assert "next" in orders(made.handle(RoundDue(MINUTE_NS)))


def test_a_known_id_is_not_taken_twice() -> None:
    made = machine(cluster("east"))
    submit(made, job())
    (warning,) = submit(made, job())
    assert isinstance(warning, Warn)
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
