"""Borrowed shares come back: after a wait, at least cost, and never by pushing others too far."""

from dataclasses import replace
from typing import Any

from dure.domain.fleet.events import (
    RoundDue,
    TenantSet,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import GlobalInstruction, PreemptWorkload
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS, FleetPolicy
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.fleet.workloads import Sla
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from tests.fleet.factories import cluster, group, job, service
from tests.fleet.machines import machine, of_kind, orders, submit, tell

HOG, MEEK = TenantId("hog"), TenantId("meek")
EAST = cluster("east", rent=None, groups=(group(nodes=2),))
SOON_NS = 20 * MINUTE_NS
"""When what the hog runs is past its minimum runtime."""


def borrowed(policy: FleetPolicy | None = None, **rest: Any) -> GlobalMachine:
    """One tenant uses all sixteen devices, a job each; another has three times its weight."""
    made = machine(EAST, policy=policy or FleetPolicy())
    for tenant, weight in ((HOG, 1.0), (MEEK, 3.0)):
        made.handle(TenantSet(0, FleetTenant(tenant, weight=weight)))
    submit(made, *(job(f"h{n}", hours=10.0, tenant=HOG, **rest) for n in range(16)))
    for name, order in orders(made.handle(RoundDue(0))).items():
        made.handle(WorkloadStarted(0, WorkloadId(name), order.attempt))
    tell(made, EAST, used=16)
    return made


def claim(made: GlobalMachine, count: int, now_ns: int, **rest: Any) -> list[GlobalInstruction]:
    """The other tenant asks for so many devices; what the round in which it does says."""
    submit(made, *(job(f"m{n}", tenant=MEEK, **rest) for n in range(count)), now_ns=now_ns)
    return made.handle(RoundDue(now_ns))


def stops(said: list[GlobalInstruction]) -> list[PreemptWorkload]:
    return [each for each in of_kind(said, PreemptWorkload) if isinstance(each, PreemptWorkload)]


def test_a_tenant_below_its_share_gets_it_back_after_a_bounded_wait() -> None:
    made = borrowed()
    assert stops(claim(made, 8, SOON_NS)) == []
    assert stops(made.handle(RoundDue(SOON_NS + 5 * MINUTE_NS))) == []
    said = made.handle(RoundDue(SOON_NS + 10 * MINUTE_NS))
    assert len(stops(said)) == len(orders(said)) == 8
    assert all("'hog'" in each.why and "'meek'" in each.why for each in stops(said))
    assert "hog" in orders(said)["m0"].explanation.note


def test_a_deadline_that_would_be_missed_does_not_wait() -> None:
    due = Sla(deadline_ns=SOON_NS + 125 * MINUTE_NS, penalty_per_hour_late=50.0)
    assert len(stops(claim(borrowed(), 1, SOON_NS, sla=due))) == 1


def test_nobody_is_brought_below_its_own_share() -> None:
    made = borrowed()
    claim(made, 16, SOON_NS)
    said = made.handle(RoundDue(SOON_NS + 10 * MINUTE_NS))
    assert len(stops(said)) == 12, "a quarter of sixteen stays with the other"
    for each in stops(said):
        made.handle(WorkloadStopped(SOON_NS, each.workload, each.attempt, 0.0, "displaced"))
    later = [made.handle(RoundDue(SOON_NS + n * 5 * MINUTE_NS)) for n in range(3, 40)]
    assert not any(stops(said) for said in later), "neither takes from the other again"


def test_who_loses_least_gives_way_first() -> None:
    made = borrowed()
    for n in range(16):
        lost = 0.0 if n in (3, 5) else 0.4
        made.handle(WorkloadProgressed(SOON_NS, WorkloadId(f"h{n}"), 0.5, 0.5 - lost, 1))
    claim(made, 2, SOON_NS)
    said = made.handle(RoundDue(SOON_NS + 10 * MINUTE_NS))
    assert {each.workload for each in stops(said)} == {"h3", "h5"}


def test_work_that_may_not_be_displaced_and_work_of_higher_priority_stay() -> None:
    settings: tuple[dict[str, Any], ...] = ({"preemptible": False}, {"priority": 1})
    for rest in settings:
        made = borrowed(**rest)
        claim(made, 4, SOON_NS)
        assert stops(made.handle(RoundDue(SOON_NS + HOUR_NS))) == []


def test_the_policy_can_refuse_it_and_bounds_how_many_go_in_a_round() -> None:
    never = borrowed(FleetPolicy(reclaim_after_ns=None))
    claim(never, 4, SOON_NS)
    assert stops(never.handle(RoundDue(SOON_NS + 2 * HOUR_NS))) == []
    few = borrowed(FleetPolicy(most_preemptions=3))
    claim(few, 8, SOON_NS)
    assert len(stops(few.handle(RoundDue(SOON_NS + 10 * MINUTE_NS)))) == 3


def test_a_tenant_that_has_its_share_takes_nothing() -> None:
    made = borrowed()
    made.handle(TenantSet(0, FleetTenant(MEEK, weight=0.001)))
    claim(made, 1, SOON_NS)
    first = made.handle(RoundDue(SOON_NS + 10 * MINUTE_NS))
    assert len(stops(first)) <= 1, "its next in line, whatever its share"
    submit(made, job("more", tenant=MEEK), now_ns=SOON_NS + 10 * MINUTE_NS)
    later = [made.handle(RoundDue(SOON_NS + n * 10 * MINUTE_NS)) for n in range(2, 12)]
    assert not any(stops(said) for said in later)


def test_a_service_without_a_place_calls_its_tenants_share_as_well() -> None:
    made = borrowed()
    submit(made, replace(service(), tenant=MEEK), now_ns=SOON_NS)
    assert stops(made.handle(RoundDue(SOON_NS))) == []
    said = made.handle(RoundDue(SOON_NS + 10 * MINUTE_NS))
    assert stops(said)
    assert "chat" in orders(said)
