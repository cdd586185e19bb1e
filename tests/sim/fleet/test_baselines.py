"""Baselines: each by its own rule, all with the same queue, gang rule and retry."""

from dataclasses import replace

import pytest

from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.decisions import Order, Site, SiteSummary
from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterJoined,
    ClusterLost,
    OrderTurnedDown,
    RoundDue,
    TenantSet,
    WorkloadEnded,
    WorkloadStopped,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import PlaceWorkload, RefuseWorkload
from dure.domain.fleet.policy import MINUTE_NS
from dure.domain.fleet.tenancy import FleetTenant, VNodePool
from dure.domain.fleet.workloads import Artefact, Gang, Workload
from dure.domain.ids import ArtefactId, ClusterId, PoolId, TenantId
from dure.fleet.fit import footprint
from dure.sim.fleet.baselines.places import Place
from dure.sim.fleet.baselines.rules import ByLot, CheapestFirst, FirstFit, LeastLoaded, Rule
from dure.sim.fleet.baselines.stage import AVOID_NS, PATIENCE_NS, BaselineStage
from dure.sim.fleet.run import run_world
from tests.sim.fleet.worlds import START_NS, cluster, group, job, service, setting

FLEET = Fleet(
    (
        cluster("mid", price=2.0),
        cluster("cheap", [group(nodes=1)], price=1.0),
        cluster("own", [group(nodes=4)], price=None, electricity=[9000.0]),
    ),
    egress_per_gb={("mid", "cheap"): 0.1, ("mid", "own"): 0.1},
)


def _stage(rule: Rule, *, race: bool = False) -> BaselineStage:
    stage = BaselineStage(FLEET, rule, race=race)
    for each in FLEET.clusters:
        stage.handle(ClusterJoined(START_NS, each))
    return stage


def _submit(stage: BaselineStage, *workloads: Workload, minute: int = 0) -> list[Order]:
    """Submit these and let the stage decide; returns the orders."""
    now_ns = START_NS + minute * MINUTE_NS
    for workload in workloads:
        assert stage.handle(WorkloadSubmitted(now_ns, workload)) == []
    return _round(stage, minute)


def _round(stage: BaselineStage, minute: int) -> list[Order]:
    placed = stage.handle(RoundDue(START_NS + minute * MINUTE_NS))
    return [each.order for each in placed if isinstance(each, PlaceWorkload)]


def _where(orders: list[Order]) -> list[str]:
    return [each.site.cluster for each in orders]


def test_cheapest_first_goes_by_the_cost_of_this_job() -> None:
    # Owned devices at 9,000 a MWh cost more than the rent of the others.
    assert _where(_submit(_stage(CheapestFirst()), job("j"))) == ["cheap"]


def test_cheapest_first_counts_the_data_that_must_be_brought() -> None:
    data = Artefact(ArtefactId("d"), 20 * 10**9, frozenset({ClusterId("mid")}))
    stage = _stage(CheapestFirst())
    stage.handle(ArtefactSeen(START_NS, data))
    # An hour's rent differs by 1; bringing 20 GB costs 2.
    assert _where(_submit(stage, job("j", data=(data.id,)))) == ["mid"]


def test_cheapest_first_takes_the_next_cheapest_when_the_best_is_full() -> None:
    orders = _submit(_stage(CheapestFirst()), *(job(f"j{n}") for n in range(5)))
    assert _where(orders) == ["cheap"] * 4 + ["mid"]


def test_least_loaded_spreads() -> None:
    orders = _submit(_stage(LeastLoaded()), *(job(f"j{n}") for n in range(7)))
    assert sorted(_where(orders)) == ["cheap", "mid", "mid", "own", "own", "own", "own"]


def test_first_fit_keeps_to_its_order() -> None:
    orders = _submit(_stage(FirstFit()), *(job(f"j{n}") for n in range(9)))
    assert _where(orders) == ["mid"] * 8 + ["cheap"]


def test_a_race_asks_every_cluster_that_could_take_the_job() -> None:
    stage = _stage(ByLot(0), race=True)
    orders = _submit(stage, job("j", gang=Gang(workers=6)))
    assert sorted(_where(orders)) == ["mid", "own"]
    assert sorted(each.attempt for each in orders) == [1, 2]


def test_the_queue_goes_by_priority_then_age() -> None:
    stage = _stage(FirstFit())
    stage.handle(TenantSet(START_NS, FleetTenant(TenantId("vip"), priority=5)))
    waiting = [
        job("late", at_s=2.0),
        job("early", at_s=1.0),
        job("vip", at_s=3.0, tenant=TenantId("vip")),
        job("urgent", at_s=4.0, priority=9),
    ]
    orders = _submit(stage, *waiting)
    assert [each.workload.id for each in orders] == ["urgent", "vip", "early", "late"]


def test_a_gang_is_placed_at_one_site_or_not_at_all() -> None:
    stage = _stage(FirstFit())
    _submit(stage, *(job(f"j{n}") for n in range(20)))
    (order,) = _submit(stage, job("gang", gang=Gang(workers=8)), minute=1)
    assert (order.site.cluster, order.instances) == ("own", 8)
    assert _submit(stage, job("more", gang=Gang(workers=8)), minute=2) == []


def test_a_job_that_waited_long_enough_is_sent_to_one_place_to_wait_there() -> None:
    stage = _stage(FirstFit())
    _submit(stage, *(job(f"j{n}") for n in range(28)))
    assert _submit(stage, job("gang", gang=Gang(workers=8)), minute=1) == []
    patience = PATIENCE_NS // MINUTE_NS
    assert _round(stage, patience - 1) == []
    assert _where(_round(stage, patience + 5)) == ["mid"]


def test_a_site_that_turned_a_job_down_is_not_asked_at_once_again() -> None:
    stage = _stage(FirstFit())
    (order,) = _submit(stage, job("j"))
    stage.handle(OrderTurnedDown(START_NS, order.workload.id, order.attempt, "no"))
    (second,) = _round(stage, 1)
    assert (second.site.cluster, second.attempt) == ("cheap", 2)
    stage.handle(OrderTurnedDown(START_NS, order.workload.id, second.attempt, "no"))
    (third,) = _round(stage, AVOID_NS // MINUTE_NS + 1)
    assert third.site.cluster == "mid"


def test_a_stopped_job_is_placed_again_with_what_was_saved() -> None:
    stage = _stage(FirstFit())
    (order,) = _submit(stage, job("j"))
    stage.handle(WorkloadStopped(START_NS, order.workload.id, 1, 0.4, "node"))
    (again,) = _round(stage, 1)
    assert (again.attempt, again.resume_share) == (2, 0.4)
    stage.handle(WorkloadStopped(START_NS, order.workload.id, 1, 0.9, "news of an old attempt"))
    assert _round(stage, 2) == []


def test_what_can_never_fit_is_refused_and_what_waits_for_a_cluster_is_not() -> None:
    stage = _stage(FirstFit())
    (refusal,) = stage.handle(WorkloadSubmitted(START_NS, job("j", gang=Gang(workers=99))))
    assert isinstance(refusal, RefuseWorkload)
    for each in FLEET.clusters:
        stage.handle(ClusterLost(START_NS, each.id))
    assert _submit(stage, job("patient")) == []
    stage.handle(ClusterJoined(START_NS, FLEET.clusters[1]))
    assert _where(_round(stage, 1)) == ["cheap"]


def test_pools_bind_baselines_too() -> None:
    stage = _stage(FirstFit())
    pool = VNodePool(PoolId("p"), TenantId("ann"), "a100", clusters=frozenset({ClusterId("own")}))
    stage.handle(TenantSet(START_NS, FleetTenant(TenantId("ann")), (pool,)))
    assert _where(_submit(stage, job("j", pool=pool.id))) == ["own"]


def test_a_service_is_spread_over_clusters_with_replicas_for_its_load() -> None:
    wide = service("s", rate=30.0)
    assert wide.service is not None
    wide = replace(wide, service=replace(wide.service, spread=2))
    orders = _submit(_stage(FirstFit()), wide)
    assert _where(orders) == ["mid", "cheap"]
    assert [each.instances for each in orders] == [2, 2]


def test_a_service_goes_where_its_users_can_be_answered_in_time() -> None:
    near = service("s", rate=2.0)
    assert near.service is not None
    near = replace(
        near, service=replace(near.service, users=(("home", 1.0),), target_latency_ms=300.0)
    )
    stage = BaselineStage(
        replace(FLEET, latency_ms={("home", "mid"): 400.0, ("home", "cheap"): 20.0}), FirstFit()
    )
    for each in FLEET.clusters:
        stage.handle(ClusterJoined(START_NS, each))
    assert _where(_submit(stage, near)) == ["cheap"]


def test_ended_jobs_are_forgotten() -> None:
    stage = _stage(FirstFit())
    (order,) = _submit(stage, job("j"))
    stage.handle(WorkloadEnded(START_NS, order.workload.id))
    stage.handle(WorkloadStopped(START_NS, order.workload.id, 1, 0.5, "late news"))
    assert _round(stage, 1) == []


def test_room_follows_summaries_and_orders_given_since() -> None:
    place = Place(Site(ClusterId("c"), "g"), group(nodes=2, devices=4))
    wide = job("j", demand=replace(job("j").demand, devices=3))
    shape = footprint(wide.demand, place.profile, place.group.mode)
    assert shape is not None
    assert place.room_for(shape) == 2
    place.take(shape, 1)
    assert place.room_for(shape) == 1
    place.summarise(
        SiteSummary(
            site=place.site,
            profile="a100",
            nodes=2,
            nodes_in_use=2,
            devices=8,
            free_devices=5,
            free_on_used_nodes=5,
            free_compute_milli=5000,
            free_memory_bytes=10**12,
            free_cpu_milli=10**6,
            free_host_memory_bytes=10**13,
            largest_node_free=3,
            nodes_by_free=(0, 0, 1, 1, 0),
        )
    )
    assert place.room_for(shape) == 1
    assert place.free_share == pytest.approx(5 / 8)


def test_in_a_race_the_first_to_start_keeps_the_job_and_the_others_never_run_it() -> None:
    jobs = [job(f"j{n}", at_s=60.0 * n, gang=Gang(workers=2)) for n in range(12)]
    made = setting(FLEET.clusters, jobs, fleet=FLEET)
    world, result = run_world(made, "race")
    assert result.jobs.ended == len(jobs)
    held_h = sum(each.device_h for each in result.clusters)
    # Every job holds two devices for its hour and its start, in one cluster only.
    assert held_h <= len(jobs) * 2 * (3600.0 + 200.0) / 3600.0
    assert all(not member.runs for member in world.members)
    assert len({each.cluster for each in result.clusters if each.jobs}) > 1
