from collections.abc import Sequence
from dataclasses import replace

import pytest

from dure.domain.errors import InputError
from dure.domain.ids import TenantId
from dure.domain.tenant import (
    AvailabilitySlo,
    Goal,
    LatencySlo,
    MemoryClaim,
    Slo,
    Tenant,
    TenantClass,
    ThroughputSlo,
)
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.goals import Goals, Objective, TenantGoal, apply_goals, choose_policy
from dure.kernel.policies.hybrid import HybridPolicy
from dure.kernel.policies.registry import POLICIES, make_policy
from tests.kernel.factories import A, B, C

HOUR_NS = 3600 * NS_PER_S
PROMISED = TenantGoal(A, slo=Slo(latency=LatencySlo(20 * NS_PER_MS)))
DUE = TenantGoal(B, deadline_ns=2 * HOUR_NS)
EXPECTED = TenantGoal(B, expected_ns=HOUR_NS)
WORKING = TenantGoal(C, goal=Goal.GOODPUT)
FLOORED = TenantGoal(C, floor_share=0.1)


@pytest.mark.parametrize(
    ("tenants", "policy"),
    [
        ([DUE], "jct"),
        ([EXPECTED], "jct"),
        ([TenantGoal(A, goal=Goal.FINISH)], "jct"),
        ([DUE, FLOORED], "jct"),
        ([PROMISED], "slo"),
        ([PROMISED, FLOORED], "slo"),
        ([PROMISED, DUE], "hybrid"),
        ([PROMISED, WORKING], "hybrid"),
        ([DUE, WORKING], "hybrid"),
        ([WORKING], "hybrid"),
        ([FLOORED], "hybrid"),
        ([TenantGoal(A, weight=2.0)], "hybrid"),
    ],
)
def test_without_an_objective_the_policy_follows_from_what_tenants_want(
    tenants: Sequence[TenantGoal], policy: str
) -> None:
    assert choose_policy(Goals(tuple(tenants))).policy == policy


@pytest.mark.parametrize(
    ("objective", "policy"),
    [
        (Objective.PROMISES, "slo"),
        (Objective.WORK, "hybrid"),
        (Objective.FAIR, "hybrid"),
    ],
)
def test_a_stated_objective_decides(objective: Objective, policy: str) -> None:
    assert choose_policy(Goals((PROMISED, DUE), objective)).policy == policy


def test_finishing_soon_is_jct_even_beside_wishes_for_a_share() -> None:
    rate = TenantGoal(A, slo=Slo(throughput=ThroughputSlo(10.0)))
    assert choose_policy(Goals((rate, FLOORED), Objective.FINISH)).policy == "jct"


def test_a_stated_fairness_asks_for_hybrid() -> None:
    choice = choose_policy(Goals((PROMISED,), fairness=0.3))
    assert choice.policy == "hybrid"
    assert dict(choice.parameters)["fairness"] == 0.3


def test_fair_shares_ask_for_full_fairness() -> None:
    assert choose_policy(Goals(objective=Objective.FAIR)).parameters == (("fairness", 1.0),)


def test_fairness_is_the_policys_own_where_nothing_asks_for_another() -> None:
    choice = choose_policy(Goals((PROMISED, DUE)))
    assert choice.parameters == (("fairness", HybridPolicy().fairness),)


@pytest.mark.parametrize("objective", [Objective.FINISH, Objective.WORK])
def test_a_starvation_bound_is_a_parameter_of_every_policy(objective: Objective) -> None:
    choice = choose_policy(Goals((DUE,), objective, starvation_ns=NS_PER_S // 2))
    assert dict(choice.parameters)["starvation_s"] == 0.5


@pytest.mark.parametrize(
    "goals",
    [
        Goals((PROMISED, DUE, FLOORED), fairness=0.3, starvation_ns=NS_PER_S),
        Goals((PROMISED,)),
        Goals((DUE,)),
    ],
)
def test_every_choice_has_a_reason_and_makes_a_policy(goals: Goals) -> None:
    choice = choose_policy(goals)
    assert choice.policy in POLICIES
    make_policy(choice.policy, choice.parameters)
    assert f"'{choice.policy}'" in choice.reasons[0]
    for goal in goals.tenants:
        assert any(reason.startswith(f"{goal.id} ") for reason in choice.reasons)
    assert all(reason.endswith(".") for reason in choice.reasons)


def test_jct_says_that_it_does_not_look_at_weights() -> None:
    reasons = choose_policy(Goals((replace(DUE, weight=2.0),))).reasons
    assert any("'jct' does not look at" in reason for reason in reasons)


# Tenants


def test_goals_change_the_tenants_they_name_and_no_others() -> None:
    before = (Tenant(A, weight=5.0), Tenant(B, floor_share=0.2), Tenant(TenantId("other")))
    goal = TenantGoal(
        A,
        slo=Slo(throughput=ThroughputSlo(10.0)),
        tenant_class=TenantClass.GUARANTEED,
        floor_share=0.3,
        memory=MemoryClaim(100, 50),
    )
    policy, parameters, after = apply_goals(Goals((goal, DUE)), before)
    assert policy == "hybrid"
    assert parameters
    assert after[0] == Tenant(
        A,
        weight=5.0,
        tenant_class=TenantClass.GUARANTEED,
        goal=Goal.SLO,
        slo=Slo(throughput=ThroughputSlo(10.0)),
        memory=MemoryClaim(100, 50),
        floor_share=0.3,
    )
    assert after[1] == Tenant(B, goal=Goal.FINISH, floor_share=0.2, deadline_ns=2 * HOUR_NS)
    assert after[2] == before[2]


def test_a_deadline_counts_from_when_its_tenant_joins() -> None:
    _, _, (tenant,) = apply_goals(Goals((DUE,)), [Tenant(B)], {B: 7 * NS_PER_S})
    assert tenant.deadline_ns == 7 * NS_PER_S + 2 * HOUR_NS


def test_a_new_promise_leaves_the_others_standing() -> None:
    had = Slo(latency=LatencySlo(1), availability=AvailabilitySlo(0.9))
    _, _, (tenant,) = apply_goals(Goals((PROMISED,)), [Tenant(A, slo=had)])
    assert tenant.slo == Slo(PROMISED.slo.latency, None, had.availability)


def test_promises_of_tenants_the_goals_do_not_name_count_too() -> None:
    there = [Tenant(A, slo=PROMISED.slo), Tenant(B)]
    assert choose_policy(Goals((DUE,)), there).policy == "hybrid"


def test_a_tenants_own_goal_wins_over_what_its_promise_suggests() -> None:
    _, _, (tenant,) = apply_goals(Goals((replace(PROMISED, goal=Goal.GOODPUT),)), [Tenant(A)])
    assert tenant.goal is Goal.GOODPUT


# Contradictions


@pytest.mark.parametrize(
    ("goals", "field", "sentence"),
    [
        (Goals(), "", "states no goal"),
        (
            Goals((TenantGoal(A, floor_share=0.6), TenantGoal(B, floor_share=0.5))),
            "tenants",
            "add up to 110 %",
        ),
        (
            Goals(
                (
                    TenantGoal(A, floor_share=0.95),
                    TenantGoal(B, slo=Slo(availability=AvailabilitySlo(0.9, floor_share=0.1))),
                )
            ),
            "tenants",
            "add up to 105 %",
        ),
        (
            Goals((replace(PROMISED, tenant_class=TenantClass.BEST_EFFORT),)),
            "tenants.a.latency",
            "low importance",
        ),
        (Goals((FLOORED,), Objective.PROMISES), "objective", "none is stated"),
        (
            Goals((PROMISED,), Objective.FINISH),
            "objective",
            "no latency promise, and one was made to a",
        ),
        (Goals((WORKING,), Objective.FINISH), "objective", "goal of c"),
        (Goals((PROMISED,), Objective.PROMISES, fairness=0.3), "fairness", "has no fairness"),
        (Goals((DUE,), Objective.FINISH, fairness=0.3), "fairness", "has no fairness"),
        (Goals(objective=Objective.FAIR, fairness=0.2), "fairness", "contradicts fair shares"),
        (Goals((replace(DUE, expected_ns=3 * HOUR_NS),)), "tenants.b.deadline", "shorter than"),
        (Goals((TenantGoal(A, memory=MemoryClaim(1, 2)),)), "tenants.a.memory", "below"),
    ],
)
def test_goals_that_contradict_each_other_are_refused(
    goals: Goals, field: str, sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        choose_policy(replace(goals, file="goals.yaml"))
    assert caught.value.file == "goals.yaml"
    assert caught.value.field == field
    assert sentence in caught.value.what
    assert caught.value.remedy


def test_a_promise_to_a_tenant_that_is_best_effort_already_is_refused() -> None:
    with pytest.raises(InputError, match="low importance"):
        apply_goals(Goals((PROMISED,)), [Tenant(A, tenant_class=TenantClass.BEST_EFFORT)])


def test_a_tenant_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(InputError, match=r"tenants\.b: there is no such tenant; use a, c"):
        apply_goals(Goals((DUE,)), [Tenant(A), Tenant(C)])


def test_floors_of_exactly_the_whole_device_are_accepted() -> None:
    thirds = tuple(TenantGoal(TenantId(f"t{i}"), floor_share=0.1) for i in range(10))
    assert choose_policy(Goals(thirds)).policy == "hybrid"
