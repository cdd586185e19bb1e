"""Rules of plans, seen from outside: what a machine publishes for given tenants."""

import pytest

from dure.domain.events import PolicyRequested, ReadingsTaken, TenantChanged
from dure.domain.ids import TenantId
from dure.domain.plan import Plan
from dure.domain.tenant import AvailabilitySlo, Slo, Tenant, TenantClass, ThroughputSlo
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.machine import KernelMachine
from dure.kernel.policies.registry import POLICIES
from tests.kernel.factories import TICK_NS, A, B, C, joined, reading, served, service, tick, working

WEB = service("web", 20.0)
SLOW_WEB = service("slow-web", 200.0)


def plan_of(made: KernelMachine) -> Plan:
    assert made.plan is not None
    return made.plan


def settled(*tenants: Tenant, policy: str, side_by_side: bool = False) -> KernelMachine:
    """A machine whose tenants all had work for a while."""
    made = joined(*tenants, policy=policy, side_by_side=side_by_side)
    for number in range(1, 20):
        tick(made, number, *(working(tenant.id, 1.0 / len(tenants)) for tenant in tenants))
    return made


def turn_ns(plan: Plan, tenant: TenantId) -> int:
    """Time of a cycle in which a tenant is before all others that were promised nothing."""
    return sum(
        squad.duration_ns
        for squad in plan.squads
        if next(t for t in squad.tenants if t not in plan.protected) == tenant
    )


def cycle_ns(plan: Plan) -> int:
    return sum(squad.duration_ns for squad in plan.squads)


@pytest.mark.parametrize("policy", ["slo", "hybrid"])
def test_a_promised_latency_goes_before_everybody_in_every_squad(policy: str) -> None:
    plan = plan_of(settled(Tenant(A), WEB, Tenant(B), policy=policy))
    assert plan.protected == (WEB.id,)
    assert all(squad.tenants[0] == WEB.id for squad in plan.squads)


def patience_of(made: KernelMachine, tenant: TenantId) -> int:
    (found,) = {
        member.patience_ns
        for squad in plan_of(made).squads
        for member in squad.members
        if member.tenant == tenant
    }
    return found


def full_patience_ns(policy: str) -> float:
    """Of a target of 20 ms."""
    return POLICIES[policy]().patience * 20 * NS_PER_MS


def served_for(made: KernelMachine, ticks: range, *, late: int) -> None:
    """Requests of which some are late, beside a job."""
    latency_ns = (60 if late else 2) * NS_PER_MS
    for number in ticks:
        web = served("web", requests=10, latency_ns=latency_ns, late=late)
        tick(made, number, web, working("a", 0.5))


@pytest.mark.parametrize("policy", ["slo", "hybrid"])
def test_while_all_is_well_patience_is_the_stated_part_of_the_target(policy: str) -> None:
    made = joined(WEB, Tenant(A), policy=policy)
    served_for(made, range(1, 1000), late=0)
    assert patience_of(made, WEB.id) == pytest.approx(full_patience_ns(policy), rel=0.01)


@pytest.mark.parametrize("policy", ["slo", "hybrid"])
def test_patience_shrinks_while_a_promise_fails_and_comes_back(policy: str) -> None:
    made = joined(WEB, Tenant(A), policy=policy)
    served_for(made, range(1, 500), late=0)
    calm = patience_of(made, WEB.id)
    served_for(made, range(500, 550), late=5)
    failing = patience_of(made, WEB.id)
    served_for(made, range(550, 3000), late=0)
    assert failing < 0.2 * calm
    assert patience_of(made, WEB.id) == pytest.approx(calm, rel=0.1)


def test_slo_gains_patience_the_sooner_the_farther_its_target_is() -> None:
    left = {}
    for latency_ms in (2, 16):
        made = joined(WEB, Tenant(A), policy="slo")
        for number in range(1, 50):
            web = served("web", requests=10, latency_ns=latency_ms * NS_PER_MS)
            tick(made, number, web, working("a", 0.5))
        left[latency_ms] = patience_of(made, WEB.id)
    assert left[2] > 3 * left[16]


def test_another_target_is_approached_with_care() -> None:
    made = joined(WEB, Tenant(A), policy="slo")
    first_ns = patience_of(made, WEB.id)
    served_for(made, range(1, 500), late=0)
    assert patience_of(made, WEB.id) > 10 * first_ns
    tighter = service("web", target_ms=10.0)
    made.handle(TenantChanged(500 * TICK_NS, tighter))
    assert patience_of(made, WEB.id) == pytest.approx(0.5 * first_ns, abs=50_000)


def test_slo_loses_patience_over_a_risk_that_hybrid_bears() -> None:
    """Two of a hundred late is over the promise, and no clear failure yet."""
    left = {}
    for policy in ("slo", "hybrid"):
        made = joined(WEB, Tenant(A), policy=policy)
        served_for(made, range(1, 1000), late=0)
        for number in range(1000, 1100):
            web = served("web", requests=50, latency_ns=2 * NS_PER_MS, late=1)
            tick(made, number, web, working("a", 0.5))
        left[policy] = patience_of(made, WEB.id) / full_patience_ns(policy)
    assert left["slo"] < 0.1
    assert left["hybrid"] > 0.8


def test_under_jct_patience_is_a_few_lengths_of_a_request() -> None:
    made = joined(WEB, Tenant(A), policy="jct")
    for number in range(1, 100):
        web = working("web", 0.5, bursts=2, burst_gpu_ns=10 * NS_PER_MS)
        tick(made, number, web, working("a", 0.5))
    assert patience_of(made, WEB.id) == pytest.approx(20 * NS_PER_MS, rel=0.05)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("side_by_side", [False, True])
def test_everybody_yields_to_a_service_once_its_patience_ends(
    policy: str, side_by_side: bool
) -> None:
    made = settled(WEB, Tenant(A), Tenant(B), policy=policy, side_by_side=side_by_side)
    for squad in plan_of(made).squads:
        assert squad.tenants[0] == WEB.id
        assert all(WEB.id in member.yields_to for member in squad.members[1:])
    assert patience_of(made, A) == patience_of(made, B) == 0


@pytest.mark.parametrize("policy", ["slo", "hybrid"])
def test_among_promises_the_tighter_target_goes_first(policy: str) -> None:
    plan = plan_of(settled(SLOW_WEB, WEB, policy=policy))
    assert all(squad.tenants == (WEB.id, SLOW_WEB.id) for squad in plan.squads)


@pytest.mark.parametrize("policy", ["slo", "hybrid"])
def test_a_guaranteed_promise_goes_before_a_standard_one(policy: str) -> None:
    standard = service("standard", 5.0, tenant_class=TenantClass.STANDARD)
    plan = plan_of(settled(standard, WEB, policy=policy))
    assert plan.squads[0].tenants[0] == WEB.id


@pytest.mark.parametrize("policy", ["slo", "hybrid"])
def test_a_promise_to_a_best_effort_tenant_protects_nobody(policy: str) -> None:
    careless = service("careless", 5.0, tenant_class=TenantClass.BEST_EFFORT)
    assert plan_of(settled(careless, Tenant(A), policy=policy)).protected == ()


def test_the_job_with_less_left_goes_first_under_jct() -> None:
    long = Tenant(A, expected_ns=3600 * NS_PER_S)
    short = Tenant(B, expected_ns=60 * NS_PER_S)
    plan = plan_of(settled(long, short, policy="jct"))
    assert plan.squads[0].tenants == (B, A)


def test_a_job_about_to_miss_its_deadline_goes_first_under_jct() -> None:
    short = Tenant(A, expected_ns=1 * NS_PER_S)
    late = Tenant(B, expected_ns=10 * NS_PER_S, deadline_ns=11 * NS_PER_S)
    relaxed = Tenant(C, expected_ns=20 * NS_PER_S, deadline_ns=3600 * NS_PER_S)
    plan = plan_of(settled(short, late, relaxed, policy="jct"))
    assert plan.squads[0].tenants == (B, A, C)


def test_a_job_goes_first_from_the_moment_its_deadline_is_in_danger() -> None:
    short = Tenant(A, expected_ns=60 * NS_PER_S)
    due = Tenant(B, expected_ns=100 * NS_PER_S, deadline_ns=120 * NS_PER_S)
    made = joined(short, due, policy="jct", side_by_side=False)
    assert plan_of(made).squads[0].tenants == (A, B)
    made.handle(ReadingsTaken(10 * NS_PER_S, (working("a"), working("b", 0.01))))
    assert plan_of(made).squads[0].tenants == (B, A)


def test_requests_go_before_jobs_under_jct() -> None:
    job = Tenant(A, expected_ns=NS_PER_MS, deadline_ns=NS_PER_S)
    plan = plan_of(settled(job, Tenant(B), SLOW_WEB, policy="jct"))
    assert plan.squads[0].tenants[0] == SLOW_WEB.id


def test_the_order_of_jobs_follows_measured_progress() -> None:
    long = Tenant(A, expected_ns=10 * NS_PER_S)
    short = Tenant(B, expected_ns=9 * NS_PER_S)
    made = joined(long, short, policy="jct", side_by_side=False)
    assert plan_of(made).squads[0].tenants == (B, A)
    for number in range(1, 101):
        tick(made, number, working("a", 0.99), working("b", 0.01))
    assert plan_of(made).squads[0].tenants == (A, B)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_floor_is_at_least_that_share_of_the_cycle(policy: str) -> None:
    floored = Tenant(A, floor_share=0.3, expected_ns=3600 * NS_PER_S)
    plan = plan_of(settled(floored, Tenant(B, expected_ns=NS_PER_S), policy=policy))
    assert turn_ns(plan, A) >= 0.29 * cycle_ns(plan)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_throughput_promise_is_kept_as_a_share_of_the_cycle(policy: str) -> None:
    """20 bursts a second of 10 ms each need a fifth of the device."""
    promised = Tenant(A, slo=Slo(throughput=ThroughputSlo(20.0)), expected_ns=3600 * NS_PER_S)
    made = joined(promised, Tenant(B, expected_ns=NS_PER_S), policy=policy, side_by_side=False)
    for number in range(1, 100):
        tick(
            made,
            number,
            working("a", 0.5, bursts=1, burst_gpu_ns=10 * NS_PER_MS),
            working("b", 0.5),
        )
    plan = plan_of(made)
    assert turn_ns(plan, A) >= 0.2 * cycle_ns(plan)


def test_an_availability_promise_shortens_the_cycle_below_its_longest_hold() -> None:
    promise = AvailabilitySlo(0.99, floor_share=0.2, max_hold_ns=10 * NS_PER_MS)
    promised = Tenant(A, slo=Slo(availability=promise))
    plan = plan_of(settled(promised, Tenant(B), Tenant(C), policy="slo"))
    assert cycle_ns(plan) - turn_ns(plan, A) <= promise.max_hold_ns


def test_the_rest_share_by_weight_under_slo() -> None:
    plan = plan_of(settled(Tenant(A, weight=3.0), Tenant(B), policy="slo"))
    assert turn_ns(plan, A) / cycle_ns(plan) == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize(("fairness", "least"), [(0.0, 0.0), (0.5, 0.25), (1.0, 0.5)])
def test_fairness_keeps_its_part_of_a_weighted_share(fairness: float, least: float) -> None:
    made = settled(Tenant(A, weight=1.001), Tenant(B), policy="hybrid")
    made.handle(PolicyRequested(NS_PER_S, "hybrid", (("fairness", fairness),)))
    plan = plan_of(made)
    assert turn_ns(plan, B) / cycle_ns(plan) == pytest.approx(least, abs=0.04)


@pytest.mark.parametrize("policy", POLICIES)
def test_floors_beyond_the_whole_are_scaled_to_it(policy: str) -> None:
    made = settled(Tenant(A, floor_share=0.9), Tenant(B, floor_share=0.9), policy=policy)
    plan = plan_of(made)
    assert turn_ns(plan, A) == pytest.approx(turn_ns(plan, B), rel=0.1)


@pytest.mark.parametrize("policy", POLICIES)
def test_who_got_nothing_for_half_the_bound_is_let_in_first(policy: str) -> None:
    made = settled(WEB, Tenant(A), policy=policy)
    made.handle(PolicyRequested(NS_PER_S, policy, (("starvation_s", 0.4),)))
    hungry = reading("a", busy=True, busy_ns=TICK_NS)
    for number in range(60, 72):
        tick(made, number, working("web"), hungry)
    first = plan_of(made).squads[0]
    assert first.tenants[0] == A
    assert first.members[0].budget_ns > 0
    assert first.members[0].yields_to == ()


def test_a_tenant_alone_is_not_bounded() -> None:
    (squad,) = plan_of(joined(Tenant(A))).squads
    (member,) = squad.members
    assert (member.budget_ns, member.inflight_ns) == (0, 0)
    assert member.sms.count == 132


def test_a_deadline_about_to_be_missed_is_protected() -> None:
    job = Tenant(A, expected_ns=10 * NS_PER_S, deadline_ns=11 * NS_PER_S)
    relaxed = Tenant(B, expected_ns=10 * NS_PER_S, deadline_ns=3600 * NS_PER_S)
    assert plan_of(settled(job, relaxed, policy="slo")).protected == (A,)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_deadline_of_a_best_effort_tenant_moves_nobody(policy: str) -> None:
    job = Tenant(
        B,
        tenant_class=TenantClass.BEST_EFFORT,
        expected_ns=10 * NS_PER_S,
        deadline_ns=11 * NS_PER_S,
    )
    plan = plan_of(settled(Tenant(A, expected_ns=NS_PER_S, weight=2.0), job, policy=policy))
    assert plan.protected == ()
    assert plan.squads[0].tenants == (A, B)


@pytest.mark.parametrize("gap_ns", [1_000, 5_000, 100_000])
def test_the_gap_between_requests_is_bridged_for_the_protected_only(gap_ns: int) -> None:
    made = joined(WEB, Tenant(A), policy="slo", side_by_side=False)
    for number in range(1, 20):
        gap = {"gap_ns": gap_ns}
        made.handle(ReadingsTaken(number * TICK_NS, (working("web", **gap), working("a", **gap))))
    for squad in plan_of(made).squads:
        lingers = {member.tenant: member.linger_ns for member in squad.members}
        assert lingers[WEB.id] >= gap_ns
        assert lingers[A] == 0
