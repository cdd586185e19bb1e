from dure.client.convert import goals_of, goals_request, spec_with, tenant_of
from dure.client.schema import (
    AvailabilityPromise,
    GoalsRequest,
    LatencyPromise,
    TenantPatch,
    TenantSpec,
    ThroughputPromise,
)
from dure.domain.ids import TenantId
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    TenantClass,
    ThroughputSlo,
)
from dure.kernel.goals import Goals, Objective, TenantGoal

FULL = TenantSpec(
    weight=2.0,
    tenant_class="guaranteed",
    goal="slo",
    latency_slo=LatencyPromise(target_ns=5, percentile=95.0),
    throughput_slo=ThroughputPromise(items_per_s=3.0),
    availability_slo=AvailabilityPromise(share=0.9),
    memory_limit_bytes=20,
    memory_reserve_bytes=10,
    sm_share=0.25,
    expected_ns=7,
    copy_bytes_per_s=8.0,
)


def test_a_tenant_keeps_everything_its_owner_said() -> None:
    tenant = tenant_of("web", FULL, deadline_ns=99)
    assert tenant.slo == Slo(LatencySlo(5, 95.0), ThroughputSlo(3.0), AvailabilitySlo(0.9))
    assert tenant.memory == MemoryClaim(20, 10)
    assert (tenant.weight, tenant.tenant_class) == (2.0, TenantClass.GUARANTEED)
    assert (tenant.floor_share, tenant.expected_ns, tenant.deadline_ns) == (0.25, 7, 99)
    assert tenant.copy_bytes_per_s == 8.0
    there_and_back = spec_with(FULL, tenant, now_ns=90)
    assert there_and_back == FULL.model_copy(update={"deadline_in_ns": 9})


def test_a_goal_that_is_not_stated_follows_from_the_rest() -> None:
    assert tenant_of("a", TenantSpec()).goal is Goal.GOODPUT
    assert tenant_of("a", TenantSpec(expected_ns=5)).goal is Goal.FINISH
    promised = TenantSpec(expected_ns=5, latency_slo=LatencyPromise(target_ns=5))
    assert tenant_of("a", promised).goal is Goal.SLO
    assert tenant_of("a", TenantSpec(goal="finish")).goal is Goal.FINISH


def test_goals_arrive_as_they_were_sent() -> None:
    goals = Goals(
        tenants=(
            TenantGoal(
                TenantId("web"),
                slo=Slo(LatencySlo(5), ThroughputSlo(2.0), AvailabilitySlo(0.5)),
                tenant_class=TenantClass.BEST_EFFORT,
                goal=Goal.FINISH,
                weight=3.0,
                floor_share=0.1,
                expected_ns=4,
                deadline_ns=6,
                memory=MemoryClaim(9, 8),
            ),
            TenantGoal(TenantId("bare")),
        ),
        objective=Objective.FAIR,
        fairness=0.7,
        starvation_ns=11,
        file="goals.yaml",
    )
    sent = goals_request(goals, gpu="0", dry_run=True).model_dump_json(by_alias=True)
    received = GoalsRequest.model_validate_json(sent)
    assert goals_of(received) == goals
    assert (received.gpu, received.dry_run) == ("0", True)


def test_a_patch_changes_what_was_sent_and_clears_what_was_sent_as_null() -> None:
    sent = '{"weight": 5, "class": "standard", "latency_slo": null, "memory_reserve_bytes": null}'
    changed = TenantPatch.model_validate_json(sent).applied(FULL)
    expected = {
        "weight": 5.0,
        "tenant_class": "standard",
        "latency_slo": None,
        "memory_reserve_bytes": 0,
    }
    assert changed == FULL.model_copy(update=expected)
    assert TenantPatch().applied(FULL) == FULL
