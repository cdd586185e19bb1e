"""A centre that is restarted takes over what an earlier one had ordered."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dure.domain.fleet.clusters import Cluster
from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.events import (
    ClusterClosed,
    ClusterJoined,
    ClusterLost,
    OrderFound,
    RoundDue,
    TenantSet,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import PlaceWorkload, PreemptWorkload
from dure.domain.fleet.policy import CongestionRules, FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.slices import ShareMode
from dure.domain.fleet.tenancy import FleetTenant, VNodePool
from dure.domain.fleet.workloads import Gang, WhenCutOff, Workload
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job, service
from tests.fleet.machines import machine, of_kind, orders, submit, tell

MINUTE_NS = HOUR_NS // 60
OWN, CLOUD = cluster("own", rent=None), cluster("cloud")
UNPRICED = FleetPolicy(congestion=CongestionRules(enabled=False))
"""Prices of busy sites are learned, and not taken over."""


def placed(made: GlobalMachine, *workloads: Workload, start: bool = True) -> dict[str, Order]:
    """Orders for these, carried out."""
    given = all_placed(made, *workloads, start=start)
    return {order.workload.id: order for order in given}


def all_placed(made: GlobalMachine, *workloads: Workload, start: bool = True) -> list[Order]:
    """The same, several of one workload too."""
    submit(made, *workloads)
    said = made.handle(RoundDue(0))
    given = [each.order for each in said if isinstance(each, PlaceWorkload)]
    for order in given if start else ():
        made.handle(WorkloadStarted(0, order.workload.id, order.attempt))
    return given


def find(made: GlobalMachine, order: Order, **more: Any) -> list[Any]:
    return list(made.handle(OrderFound(0, order, more.pop("started", True), **more)))


def test_an_order_that_was_found_is_as_one_that_was_placed() -> None:
    first = machine(OWN, CLOUD)
    given = placed(first, job("a", devices=4), job("b"), service("s"))
    second = machine(OWN, CLOUD)
    for order in given.values():
        assert find(second, order) == []
    assert second.snapshot() == first.snapshot()
    one, other = first.state, second.state
    assert (one.running.usage == other.running.usage).all()
    assert one.running.money == pytest.approx(other.running.money)
    assert (one.running.end_ns == other.running.end_ns).all()
    assert first.explain(WorkloadId("a")) == second.explain(WorkloadId("a"))


def test_nothing_that_was_found_is_placed_again() -> None:
    given = placed(machine(OWN), job())
    made = machine(OWN)
    submit(made, job())
    find(made, given["job"])
    assert orders(made.handle(RoundDue(0))) == {}
    assert submit(made, job()) == []
    assert orders(made.handle(RoundDue(MINUTE_NS))) == {}


def test_an_order_told_twice_counts_once() -> None:
    given = placed(machine(OWN), job())
    made = machine(OWN)
    find(made, given["job"])
    before = made.snapshot()
    find(made, given["job"])
    assert made.snapshot() == before


def test_an_order_that_has_not_started_starts_as_usual() -> None:
    given = placed(machine(OWN), job(), start=False)["job"]
    made = machine(OWN)
    find(made, given, started=False)
    assert made.snapshot()["workloads"]["job"]["phase"] == "placed"
    made.handle(WorkloadStarted(MINUTE_NS, given.workload.id, given.attempt))
    assert made.snapshot()["workloads"]["job"]["phase"] == "running"


def test_attempts_are_counted_on() -> None:
    made = machine(OWN)
    made.handle(WorkloadSubmitted(0, job(), last_attempt=7, saved_share=0.25))
    order = orders(made.handle(RoundDue(0)))["job"]
    assert (order.attempt, order.resume_share) == (8, 0.25)


def test_after_a_found_attempt_the_next_has_a_higher_number() -> None:
    given = replace(placed(machine(OWN), job())["job"], attempt=4)
    made = machine(OWN)
    find(made, given, done_share=0.5, saved_share=0.4)
    made.handle(WorkloadStopped(MINUTE_NS, given.workload.id, 4, 0.4, "node died"))
    again = orders(made.handle(RoundDue(MINUTE_NS)))["job"]
    assert (again.attempt, again.resume_share) == (5, 0.4)


def test_a_found_order_in_a_cluster_that_is_lost_does_what_its_owner_chose() -> None:
    work = job(when_cut_off=WhenCutOff.REPLACE)
    given = placed(machine(OWN), work)["job"]
    made = machine(OWN, CLOUD)
    find(made, given)
    made.handle(ClusterLost(0, ClusterId("own")))
    assert orders(made.handle(RoundDue(MINUTE_NS)))["job"].site.cluster == "cloud"
    stops = of_kind(made.handle(ClusterJoined(HOUR_NS, OWN)), PreemptWorkload)
    assert [each.attempt for each in stops] == [1]  # type: ignore[union-attr]


def test_a_job_between_two_places_is_moving() -> None:
    given = placed(machine(OWN), job())["job"]
    made = machine(OWN, CLOUD)
    find(made, given)
    newer = replace(given, attempt=2, site=Site(ClusterId("cloud"), "main"))
    assert find(made, newer, started=False) == []
    assert made.snapshot()["workloads"]["job"]["phase"] == "moving"
    made.handle(WorkloadStopped(0, given.workload.id, 1, 0.3, "moved"))
    made.handle(WorkloadStarted(MINUTE_NS, given.workload.id, 2))
    after = made.snapshot()["workloads"]["job"]
    assert (after["phase"], after["places"]) == ("running", {"2": "cloud/main"})


def test_of_three_places_of_a_job_the_oldest_is_stopped() -> None:
    given = placed(machine(OWN), job())["job"]
    made = machine(OWN)
    find(made, given)
    find(made, replace(given, attempt=2))
    (stop,) = find(made, replace(given, attempt=3), started=False)
    assert isinstance(stop, PreemptWorkload)
    assert stop.attempt == 1


@pytest.mark.parametrize("site", [Site(ClusterId("gone"), "main"), Site(ClusterId("own"), "x")])
def test_an_order_for_a_site_that_is_gone_is_stopped_and_placed_again(site: Site) -> None:
    given = replace(placed(machine(OWN), job())["job"], site=site, attempt=3)
    made = machine(OWN)
    (stop,) = find(made, given)
    assert isinstance(stop, PreemptWorkload)
    assert (stop.cluster, stop.attempt) == (site.cluster, 3)
    assert orders(made.handle(RoundDue(0)))["job"].attempt == 4


def test_what_was_told_to_stop_makes_room_once() -> None:
    made = machine(cluster("own", rent=None, groups=(group(nodes=1),)))
    given = placed(machine(OWN), job(devices=8))["job"]
    find(made, given, leaving=True)
    urgent = job("urgent", devices=8, priority=5)
    submit(made, urgent)
    assert of_kind(made.handle(RoundDue(0)), PreemptWorkload) == []


def test_parts_of_a_service_are_found_in_any_order() -> None:
    first = machine(OWN, CLOUD)
    parts = all_placed(first, service(spread=2))
    assert [each.attempt for each in parts] == [1, 2]
    for told in (parts, parts[::-1]):
        made = machine(OWN, CLOUD)
        for order in told:
            find(made, order)
        assert len(made.snapshot()["workloads"]["chat"]["places"]) == 2
        assert made.snapshot()["workloads"]["chat"]["phase"] == "running"


def test_a_found_job_can_be_withdrawn() -> None:
    given = placed(machine(OWN), job())["job"]
    made = machine(OWN)
    find(made, given)
    (stop,) = made.handle(WorkloadWithdrawn(0, given.workload.id))
    assert isinstance(stop, PreemptWorkload)
    assert stop.attempt == 1


# Clusters that change


def resized(nodes: int, **more: Any) -> Cluster:
    return cluster("own", rent=None, groups=(group(nodes=nodes, **more),))


def test_nodes_that_come_do_not_make_used_devices_free() -> None:
    made = machine(resized(1))
    placed(made, job("a", devices=8))
    made.handle(ClusterJoined(MINUTE_NS, resized(2)))
    submit(made, job("b", devices=8), job("c", devices=8), now_ns=MINUTE_NS)
    assert len(orders(made.handle(RoundDue(MINUTE_NS)))) == 1


def test_nodes_that_go_leave_what_runs_on_the_others_alone() -> None:
    made = machine(resized(2))
    placed(made, job("a", devices=8))
    assert made.handle(ClusterJoined(MINUTE_NS, resized(1))) == []
    tell(made, resized(1), used=8, now_ns=MINUTE_NS)
    submit(made, job("b", devices=8), now_ns=MINUTE_NS)
    assert orders(made.handle(RoundDue(MINUTE_NS))) == {}
    made.handle(WorkloadStopped(HOUR_NS, WorkloadId("a"), 1, 0.0, "done"))
    tell(made, resized(1), used=0, now_ns=HOUR_NS)
    assert len(orders(made.handle(RoundDue(HOUR_NS)))) == 1


def test_a_group_that_vanishes_and_comes_back_keeps_its_work() -> None:
    more = cluster("own", rent=None, groups=(group(), group("new", nodes=1)))
    made = machine(OWN)
    placed(made, job("a"))
    made.handle(ClusterJoined(0, cluster("own", rent=None, groups=(group("new", nodes=1),))))
    assert made.snapshot()["workloads"]["a"]["places"] == {"1": "own/main"}
    submit(made, job("b"))
    assert str(orders(made.handle(RoundDue(0)))["b"].site) == "own/new"
    made.handle(ClusterJoined(MINUTE_NS, more))
    assert made.snapshot()["sites"]["own/main"]["up"]
    made.handle(WorkloadStopped(HOUR_NS, WorkloadId("a"), 1, 0.0, "its node died"))


def test_a_group_that_is_divided_anew_counts_in_another_place_of_pools() -> None:
    pool = VNodePool(PoolId("p"), TenantId("ann"), "a100", guaranteed=8)
    made = machine(resized(2))
    made.handle(TenantSet(0, FleetTenant(TenantId("ann")), (pool,)))
    placed(made, job("a", devices=4, pool=PoolId("p")))
    made.handle(ClusterJoined(MINUTE_NS, resized(2, mode=ShareMode.MPS)))
    made.handle(RoundDue(MINUTE_NS))
    made.handle(WorkloadStopped(HOUR_NS, WorkloadId("a"), 1, 0.0, "its node died"))
    made.handle(RoundDue(HOUR_NS))
    assert made.state.running.count == len(
        [track for track in made.state.tracks.values() if track.places]
    )


def test_what_was_kept_beyond_orders_is_not_counted_in_devices_of_another_kind() -> None:
    made = machine(resized(2))
    given = placed(made, job("a", devices=2, gang=Gang(workers=1, most_workers=4)))["a"]
    made.handle(WorkloadProgressed(0, given.workload.id, 0.1, 0.1, 4))
    assert made.state.sites.columns.surplus[0].any()
    made.handle(ClusterJoined(MINUTE_NS, resized(2, mode=ShareMode.MPS)))
    made.handle(WorkloadStopped(HOUR_NS, given.workload.id, 1, 0.1, "its node died"))
    assert not made.state.sites.columns.surplus.any()
    assert not made.state.sites.columns.kept.any()


def test_a_closed_cluster_keeps_its_work_and_gets_nothing_new() -> None:
    made = machine(OWN, CLOUD)
    given = placed(made, job("a"))["a"]
    assert given.site.cluster == "own"
    assert made.handle(ClusterClosed(MINUTE_NS, ClusterId("own"))) == []
    submit(made, job("b"), now_ns=MINUTE_NS)
    assert orders(made.handle(RoundDue(MINUTE_NS)))["b"].site.cluster == "cloud"
    assert made.snapshot()["workloads"]["a"]["places"] == {"1": "own/main"}
    made.handle(ClusterJoined(HOUR_NS, OWN))
    submit(made, job("c"), now_ns=HOUR_NS)
    assert orders(made.handle(RoundDue(HOUR_NS)))["c"].site.cluster == "own"


@st.composite
def fleets_of_work(draw: st.DrawFn) -> list[Workload]:
    """Jobs and services for two clusters of sixteen devices each."""
    made: list[Workload] = []
    for number in range(draw(st.integers(1, 7))):
        if draw(st.booleans()):
            devices = draw(st.sampled_from([1, 2, 4, 8]))
            made.append(job(f"j{number}", devices=devices, hours=draw(st.integers(1, 20))))
        else:
            made.append(service(f"s{number}", rate=float(draw(st.integers(1, 30)))))
    return made


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=fleets_of_work(), after=fleets_of_work(), data=st.data())
def test_who_takes_over_knows_the_same_and_decides_the_same(
    before: list[Workload], after: list[Workload], data: st.DataObject
) -> None:
    """Two clusters, some work that is placed, a restart, then more work."""
    first = machine(OWN, CLOUD, policy=UNPRICED)
    given = all_placed(first, *before)
    second = machine(OWN, CLOUD, policy=UNPRICED)
    for workload in before:
        second.handle(WorkloadSubmitted(0, workload))
    for order in data.draw(st.permutations(given)):
        find(second, order)
    one, other = first.snapshot(), second.snapshot()
    assert other["tenants"] == one["tenants"]
    for site, figures in one["sites"].items():
        assert other["sites"][site]["free"] == pytest.approx(figures["free"])
    assert {name: each["places"] for name, each in other["workloads"].items()} == {
        name: each["places"] for name, each in one["workloads"].items()
    }
    later = [replace(each, id=WorkloadId(f"{each.id}-2")) for each in after]
    for made in (first, second):
        submit(made, *later, now_ns=MINUTE_NS)
    said = [made.handle(RoundDue(MINUTE_NS)) for made in (first, second)]
    wanted, found = (
        [
            (each.order.workload.id, each.order.site, each.order.instances)
            for each in answer
            if isinstance(each, PlaceWorkload)
        ]
        for answer in said
    )
    assert found == wanted
