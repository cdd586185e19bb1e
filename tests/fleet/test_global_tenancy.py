"""The global machine between tenants: priorities, budgets, and pools that are closed to others."""

from dure.domain.fleet.events import (
    RoundDue,
    SpendObserved,
    TenantSet,
    WorkloadProgressed,
    WorkloadStarted,
)
from dure.domain.fleet.instructions import (
    PreemptWorkload,
    Warn,
)
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.fleet.series import HOUR_NS
from dure.domain.fleet.tenancy import Budget, FleetTenant, VNodePool
from dure.domain.fleet.workloads import Gang
from dure.domain.ids import ClusterId, PoolId, TenantId, WorkloadId
from tests.fleet.factories import cluster, group, job
from tests.fleet.machines import machine, of_kind, orders, submit, tell

MINUTE_NS = HOUR_NS // 60
ANN = TenantId("ann")


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
