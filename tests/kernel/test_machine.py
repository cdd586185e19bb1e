import copy
from dataclasses import replace
from itertools import permutations

import pytest

from dure.domain.errors import InvariantError
from dure.domain.events import (
    PolicyRequested,
    ProgressReported,
    ReadingsTaken,
    TenantChanged,
    TenantJoined,
    TenantLeft,
)
from dure.domain.ids import TenantId
from dure.domain.instructions import (
    PolicySwitched,
    PreviewPlan,
    RaiseSignal,
    RequestRefused,
    SetAllotment,
)
from dure.domain.plan import HOLD_ALL
from dure.domain.readings import KernelSample
from dure.domain.signals import SignalKind
from dure.domain.tenant import MemoryClaim, Tenant
from dure.domain.units import GIB, MIB, NS_PER_MS, NS_PER_S
from dure.kernel.machine import KernelMachine
from dure.kernel.policies.registry import POLICIES
from tests.kernel.factories import (
    A,
    B,
    C,
    joined,
    machine,
    narrow,
    published,
    reading,
    sample,
    served,
    service,
    tick,
    wide,
    working,
)

WEB = service("web", 20.0)
BATCH = Tenant(TenantId("batch"))


def busy_web_and_batch(policy: str = "slo") -> KernelMachine:
    made = joined(WEB, BATCH, policy=policy)
    for number in range(1, 50):
        tick(
            made,
            number,
            served("web", requests=4, latency_ns=3 * NS_PER_MS),
            working("batch", 0.6),
        )
    return made


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_join_publishes_a_plan_with_the_tenant_in_it(policy: str, side_by_side: bool) -> None:
    made = machine(policy, side_by_side=side_by_side)
    for name in "abc":
        (plan,) = published(made.handle(TenantJoined(0, Tenant(TenantId(name)))))
        assert all(name in squad.tenants for squad in plan.squads)
        assert plan.policy == policy
        assert plan == made.plan


def test_a_join_hands_out_memory_and_bandwidth() -> None:
    answers = machine().handle(TenantJoined(0, Tenant(A, memory=MemoryClaim(20 * GIB, 8 * GIB))))
    (given,) = [answer.allotment for answer in answers if isinstance(answer, SetAllotment)]
    assert (given.memory_limit_bytes, given.memory_reserve_bytes) == (20 * GIB, 8 * GIB)


def test_a_tenant_that_leaves_disappears_from_every_squad() -> None:
    made = busy_web_and_batch("hybrid")
    made.handle(TenantJoined(2 * NS_PER_S, Tenant(C)))
    (plan,) = published(made.handle(TenantLeft(3 * NS_PER_S, BATCH.id)))
    for squad in plan.squads:
        assert BATCH.id not in squad.tenants
        assert all(BATCH.id not in member.yields_to for member in squad.members)
    assert BATCH.id not in plan.protected
    assert BATCH.id not in made.tracks


def test_a_tenant_that_left_comes_back_as_a_stranger() -> None:
    made = joined(Tenant(A), Tenant(B))
    tick(made, 1, working("a"))
    tick(made, 2, working("a"))
    made.handle(TenantLeft(NS_PER_S, A))
    made.handle(TenantJoined(2 * NS_PER_S, Tenant(A)))
    assert made.tracks[A].attained_ns == 0.0


def test_the_leaving_of_a_stranger_is_nothing() -> None:
    assert joined(Tenant(A)).handle(TenantLeft(1, B)) == ()


def test_readings_of_a_stranger_are_ignored() -> None:
    made = joined(Tenant(A))
    assert made.handle(ReadingsTaken(1, (working("ghost"),), (sample("ghost", 5),))) == ()
    assert set(made.tracks) == {A}


def test_progress_of_a_stranger_is_ignored() -> None:
    assert joined(Tenant(A)).handle(ProgressReported(1, B, 1.0, 2.0)) == ()


# Switching


@pytest.mark.parametrize("after", ["jct", "hybrid"])
def test_a_switch_changes_the_very_next_plan(after: str) -> None:
    made = busy_web_and_batch("slo")
    answers = made.handle(PolicyRequested(NS_PER_S, after))
    assert answers[0] == PolicySwitched("slo", after)
    (plan,) = published(answers)
    assert plan.policy == after


def test_a_switch_and_back_gives_the_first_plan_again() -> None:
    made = busy_web_and_batch("slo")
    first = made.plan
    assert first is not None
    made.handle(PolicyRequested(NS_PER_S, "jct"))
    (again,) = published(made.handle(PolicyRequested(NS_PER_S, "slo")))
    assert again.same_orders(first)


@pytest.mark.parametrize(("before", "after"), list(permutations(POLICIES, 2)))
def test_a_switch_forgets_nothing(before: str, after: str) -> None:
    made = busy_web_and_batch(before)
    slowed = sample("batch", 200_000, company=(WEB.id,))
    made.handle(ReadingsTaken(NS_PER_S, (), (sample("batch", 50_000), slowed)))
    tracks, pairs = copy.deepcopy(made.tracks), copy.deepcopy(made.interference)
    assert pairs.observations > 0
    made.handle(PolicyRequested(NS_PER_S, after))
    assert made.tracks == tracks
    assert made.interference == pairs


def test_a_dry_run_answers_what_the_switch_would_publish_and_changes_nothing() -> None:
    made = busy_web_and_batch("slo")
    before = copy.deepcopy(made)
    (preview,) = made.handle(PolicyRequested(NS_PER_S, "jct", dry_run=True))
    assert isinstance(preview, PreviewPlan)
    assert "slo to jct" in preview.reason
    assert (made.plan, made.policy, made.tracks) == (before.plan, before.policy, before.tracks)
    (plan,) = published(made.handle(PolicyRequested(NS_PER_S, "jct")))
    assert plan == preview.plan


def test_a_dry_run_of_the_policy_in_force_says_so() -> None:
    made = joined(Tenant(A), policy="jct")
    (preview,) = made.handle(PolicyRequested(0, "jct", dry_run=True))
    assert isinstance(preview, PreviewPlan)
    assert preview.reason == "no change"


def bad_company() -> tuple[KernelSample, ...]:
    """Kernels of `a` and `b` that take forty times as long beside each other."""
    return tuple(
        sample(who, ns, signature=wide(1), company=company)
        for who, other in (("a", B), ("b", A))
        for ns, company in ((50_000, ()), (2_000_000, (other,)))
    )


def sharing_badly(made: KernelMachine, ticks: range) -> None:
    """Two tenants that get little beside each other and much one after the other."""
    for number in ticks:
        assert made.plan is not None
        held = any(member.yields_to for squad in made.plan.squads for member in squad.members)
        share = 0.5 if held else 0.05
        made.handle(
            ReadingsTaken(
                number * 20 * NS_PER_MS,
                (working("a", share), working("b", share)),
                bad_company(),
            )
        )


def test_a_dry_run_foretells_the_switch_also_where_free_sharing_lost() -> None:
    made = joined(Tenant(A), Tenant(B, weight=2.0), policy="hybrid")
    sharing_badly(made, range(1, 250))
    now_ns = 250 * 20 * NS_PER_MS
    (preview,) = made.handle(PolicyRequested(now_ns, "jct", dry_run=True))
    assert isinstance(preview, PreviewPlan)
    (plan,) = published(made.handle(PolicyRequested(now_ns, "jct")))
    assert plan == preview.plan


def test_a_dry_run_does_not_change_what_tenants_count_for() -> None:
    """Its worth is measured by the policy in force, not by one that was only asked about."""
    asked = joined(Tenant(A), Tenant(B, weight=100.0), policy="hybrid")
    left_alone = copy.deepcopy(asked)
    for number in range(1, 400):
        asked.handle(PolicyRequested((number - 1) * 20 * NS_PER_MS, "jct", dry_run=True))
        for made in (asked, left_alone):
            sharing_badly_for_one(made, number)
        assert asked.plan == left_alone.plan


def sharing_badly_for_one(made: KernelMachine, number: int) -> None:
    """Free sharing costs the light tenant much and is a small gain for the heavy one."""
    assert made.plan is not None
    held = any(member.yields_to for squad in made.plan.squads for member in squad.members)
    light, heavy = (0.9, 0.5) if held else (0.1, 0.6)
    made.handle(
        ReadingsTaken(
            number * 20 * NS_PER_MS,
            (working("a", light), working("b", heavy)),
            bad_company(),
        )
    )


# Refusing


@pytest.mark.parametrize(
    "request_",
    [
        PolicyRequested(NS_PER_S, "fifo"),
        PolicyRequested(NS_PER_S, "jct", (("greed", 1.0),)),
        PolicyRequested(NS_PER_S, "jct", (("floor", -1.0),), dry_run=True),
        TenantChanged(NS_PER_S, Tenant(TenantId("ghost"))),
        TenantChanged(NS_PER_S, replace(WEB, memory=MemoryClaim(reserve_bytes=500 * GIB))),
        TenantJoined(NS_PER_S, Tenant(C, memory=MemoryClaim(1 * GIB, 2 * GIB))),
    ],
)
def test_a_refused_request_says_why_and_changes_nothing(
    request_: PolicyRequested | TenantChanged | TenantJoined,
) -> None:
    made = busy_web_and_batch("slo")
    before = copy.deepcopy(made)
    (refusal,) = made.handle(request_)
    assert isinstance(refusal, RequestRefused)
    assert len(refusal.reason) > 10
    assert (made.plan, made.policy, made.tracks) == (before.plan, before.policy, before.tracks)
    following = ReadingsTaken(2 * NS_PER_S, (working("batch"),))
    assert made.handle(following) == before.handle(following)


def test_an_event_out_of_order_is_a_bug_of_the_caller() -> None:
    made = joined(Tenant(A))
    made.handle(TenantJoined(10, Tenant(B)))
    with pytest.raises(InvariantError, match="order of their time"):
        made.handle(TenantLeft(9, A))


# Learning


def test_a_changed_weight_scales_what_was_learned_of_it() -> None:
    made = joined(WEB, BATCH, policy="hybrid")
    for number in range(1, 100):
        late = served("web", requests=4, latency_ns=60 * NS_PER_MS, late=4)
        tick(made, number, late, working("batch"))
    raised = made.tracks[WEB.id].weight
    assert raised > WEB.weight
    made.handle(TenantChanged(10 * NS_PER_S, replace(WEB, weight=3.0)))
    assert made.tracks[WEB.id].weight == pytest.approx(3.0 * raised)


def test_a_weight_follows_shortfall_and_comes_back() -> None:
    made = joined(WEB, BATCH, policy="hybrid")
    for number in range(1, 50):
        tick(made, number, served("web", requests=4, latency_ns=60 * NS_PER_MS, late=4))
    raised = made.tracks[WEB.id].weight
    for number in range(50, 3000):
        tick(made, number, served("web", requests=4, latency_ns=3 * NS_PER_MS))
    assert raised > 1.5 * WEB.weight
    assert made.tracks[WEB.id].weight < raised
    assert made.tracks[BATCH.id].weight == BATCH.weight


def test_time_that_did_not_pass_changes_neither_weight_nor_patience_nor_certainty() -> None:
    made = joined(WEB, BATCH, policy="hybrid")
    late = served("web", requests=4, latency_ns=60 * NS_PER_MS, late=4)
    slowed = (sample("batch", 50_000), sample("batch", 90_000, company=(WEB.id,)))
    for number in range(1, 4):
        made.handle(ReadingsTaken(number * 20 * NS_PER_MS, (late,), slowed))
    web = made.tracks[WEB.id]
    before = (web.weight, web.strict_patience, web.lenient_patience)
    hopes = made.interference.hopeful_odds(BATCH.id, WEB.id)
    for _ in range(100):
        tick(made, 3, reading("web"), reading("batch"))
    assert (web.weight, web.strict_patience, web.lenient_patience) == before
    assert made.interference.hopeful_odds(BATCH.id, WEB.id) == hopes
    tick(made, 4, reading("web"), reading("batch"))
    assert web.weight > before[0]
    assert web.strict_patience < before[1]
    assert made.interference.hopeful_odds(BATCH.id, WEB.id) < hopes


def test_interference_is_learned_from_samples_in_company() -> None:
    made = joined(Tenant(A), Tenant(B))
    before = made.interference.rho(A, B)
    for number in range(1, 100):
        made.handle(
            ReadingsTaken(
                number * 20 * NS_PER_MS,
                (working("a"), working("b")),
                (sample("a", 50_000), sample("a", 500_000, company=(B,))),
            )
        )
    assert made.interference.rho(A, B) > max(before, 0.7)
    assert made.interference.observations > 50


def test_tenants_that_share_well_may_run_together() -> None:
    """Two tenants of narrow kernels that do not slow each other are in one another's company."""
    made = joined(Tenant(A), Tenant(B), policy="hybrid")
    for number in range(1, 200):
        made.handle(
            ReadingsTaken(
                number * 20 * NS_PER_MS,
                (working("a"), working("b")),
                tuple(
                    sample(who, 50_000, signature=narrow(1), company=company)
                    for who, company in (("a", ()), ("a", (B,)), ("b", ()), ("b", (A,)))
                ),
            )
        )
    assert made.plan is not None
    assert all(not member.yields_to for squad in made.plan.squads for member in squad.members)


def test_tenants_that_ruin_each_other_take_turns() -> None:
    made = joined(Tenant(A), Tenant(B), policy="hybrid")
    for number in range(1, 200):
        made.handle(
            ReadingsTaken(
                number * 20 * NS_PER_MS,
                (working("a"), working("b")),
                bad_company(),
            )
        )
    assert made.plan is not None
    for squad in made.plan.squads:
        assert squad.members[1].yields_to == (squad.members[0].tenant,)


@pytest.mark.parametrize("policy", POLICIES)
def test_where_kernels_cannot_overlap_everybody_yields_to_all_before(policy: str) -> None:
    made = joined(Tenant(A), Tenant(B), WEB, policy=policy, side_by_side=False)
    assert made.plan is not None
    assert made.plan.corun == HOLD_ALL
    for squad in made.plan.squads:
        for rank, member in enumerate(squad.members):
            assert member.yields_to == squad.tenants[:rank]


# Signals


def signals(answers: tuple[object, ...]) -> list[SignalKind]:
    return [answer.signal.kind for answer in answers if isinstance(answer, RaiseSignal)]


def test_a_risk_is_signalled_once_until_it_is_over() -> None:
    made = joined(WEB)
    raised = []
    for number in range(1, 200):
        raised += signals(
            tick(made, number, served("web", requests=4, latency_ns=60 * NS_PER_MS, late=4))
        )
    assert raised == [SignalKind.LATENCY_AT_RISK]


def test_a_deadline_that_can_only_just_be_met_is_signalled() -> None:
    job = Tenant(A, expected_ns=10 * NS_PER_S, deadline_ns=11 * NS_PER_S)
    assert SignalKind.DEADLINE_AT_RISK in signals(tick(joined(job), 1, working("a")))


def test_a_memory_limit_is_suggested_from_what_was_used() -> None:
    made = joined(Tenant(A))
    answers = tick(made, 1, reading("a", memory_bytes=GIB, memory_peak_bytes=2 * GIB))
    (signal,) = [answer.signal for answer in answers if isinstance(answer, RaiseSignal)]
    assert signal.kind is SignalKind.MEMORY_LIMIT_SUGGESTED
    assert 2 * GIB < signal.measured <= 2.5 * GIB
    assert signal.measured % (256 * MIB) == 0
