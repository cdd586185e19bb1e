"""Explanations add up and name the best place not taken."""

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import ClusterJoined, ClusterSummarised, RoundDue, WorkloadSubmitted
from dure.domain.fleet.instructions import PlaceWorkload
from dure.domain.fleet.workloads import Sla, Workload
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from tests.fleet.factories import cluster, fleet, group, job, summary

MEMBERS = (
    cluster("own", rent=None, groups=(group(nodes=1),)),
    cluster("cloud"),
    cluster("dear", rent=4.0),
)


def placed(*workloads: Workload) -> dict[str, Order]:
    made = GlobalMachine(GlobalSettings(fleet(*MEMBERS)))
    for member in MEMBERS:
        made.handle(ClusterJoined(0, member))
        made.handle(ClusterSummarised(0, (summary(member),)))
    for workload in workloads:
        made.handle(WorkloadSubmitted(0, workload))
    said = made.handle(RoundDue(0))
    return {each.order.workload.id: each.order for each in said if isinstance(each, PlaceWorkload)}


def test_the_total_is_all_terms_and_congestion() -> None:
    why = placed(job())["job"].explanation
    assert why.total == sum(value for _, value in why.terms) + why.congestion
    assert why.money > 0


def test_rent_is_shown_where_rent_is_paid_and_energy_where_it_is_owned() -> None:
    found = placed(*(job(f"job-{number}") for number in range(12)))
    by_cluster = {
        str(order.site.cluster): dict(order.explanation.terms) for order in found.values()
    }
    assert "rent" in by_cluster["cloud"]
    assert "energy" not in by_cluster["cloud"]
    assert "energy" in by_cluster["own"]
    assert "rent" not in by_cluster["own"]


def test_a_cheaper_place_without_room_is_named_as_such() -> None:
    found = placed(*(job(f"job-{number}") for number in range(12)))
    rented = next(order for order in found.values() if order.site.cluster == "cloud")
    runner_up = rented.explanation.runner_up
    assert runner_up is not None
    assert runner_up.site.cluster in ("own", "dear")
    if runner_up.total < rented.explanation.total:
        assert "no room" in runner_up.why


def test_crowding_appears_in_the_explanation() -> None:
    found = placed(*(job(f"job-{number}") for number in range(12)))
    inside = [order for order in found.values() if order.site.cluster == "own"]
    assert all(order.explanation.congestion > 0 for order in inside)


def test_risk_is_shown_before_weights() -> None:
    late = Sla(deadline_ns=0, penalty_per_hour_late=2.0)
    why = placed(job(hours=2.0, sla=late))["job"].explanation
    assert why.sla_risk >= 4.0
