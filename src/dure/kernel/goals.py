"""From goals in a user's words to a policy, its parameters and its tenants, with the reasons.

The rules are few and are meant to be read: a stated objective decides; without one, wishes to
finish alone ask for `jct`, promises alone for `slo`, and whatever mixes the two for `hybrid`.
Goals that contradict each other are refused rather than guessed at.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from dure.domain.errors import InputError
from dure.domain.events import PolicyParameters
from dure.domain.ids import TenantId
from dure.domain.tenant import Goal, MemoryClaim, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_S
from dure.kernel.goal_words import joined, share_words, tenant_words
from dure.kernel.policies.hybrid import HybridPolicy
from dure.kernel.policies.registry import make_policy

_EVEN_FAIRNESS = 1.0
"""The hybrid policy's fairness at which everybody's whole weighted share is kept for them."""
_LEAST_EVEN_FAIRNESS = 0.5
"""Less than this contradicts a wish for fair shares."""
_ROUNDING = 1e-9


class Objective(Enum):
    """What the device is shared for, in the words of a goals file."""

    FINISH = "finish jobs soon"
    PROMISES = "keep promises"
    WORK = "most useful work"
    FAIR = "fair shares"


@dataclass(frozen=True, slots=True)
class TenantGoal:
    """What is wanted for one tenant; what is None stays as the tenant has it."""

    id: TenantId
    slo: Slo = field(default_factory=Slo)
    tenant_class: TenantClass | None = None
    goal: Goal | None = None
    weight: float | None = None
    floor_share: float | None = None
    expected_ns: int | None = None
    deadline_ns: int | None = None
    """Counted from the moment the tenant joins."""
    memory: MemoryClaim | None = None


@dataclass(frozen=True, slots=True)
class Goals:
    """Objectives and constraints for one device."""

    tenants: tuple[TenantGoal, ...] = ()
    objective: Objective | None = None
    fairness: float | None = None
    starvation_ns: int | None = None
    file: str = ""
    """Where they were stated, for messages."""


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """What follows from goals."""

    policy: str
    parameters: PolicyParameters
    reasons: tuple[str, ...]
    """One plain sentence for each choice."""
    tenants: tuple[Tenant, ...]
    """The tenants with the goals applied."""


def apply_goals(
    goals: Goals,
    tenants: Iterable[Tenant],
    joined_ns: Mapping[TenantId, int] | None = None,
) -> tuple[str, PolicyParameters, tuple[Tenant, ...]]:
    """Policy, parameters and changed tenants, in the order given; see `choose_policy`."""
    choice = choose_policy(goals, tenants, joined_ns)
    return choice.policy, choice.parameters, choice.tenants


def choose_policy(
    goals: Goals,
    tenants: Iterable[Tenant] | None = None,
    joined_ns: Mapping[TenantId, int] | None = None,
) -> PolicyChoice:
    """Choose for these tenants (without any, for those the goals name) and say why.

    Deadlines count from `joined_ns`, 0 where it says nothing. Raises `InputError` for goals
    that contradict each other or name a tenant that is not there.
    """
    wishes = _Wishes.gather(goals, tenants, joined_ns or {})
    _refuse_contradictions(goals, wishes)
    policy, why = _policy(goals, wishes)
    parameters, whys = _parameters(goals, policy)
    make_policy(policy, parameters)
    reasons = [why, *whys]
    for tenant in wishes.tenants:
        reasons += tenant_words(tenant, policy, wishes.starts_ns.get(tenant.id, 0))
    return PolicyChoice(policy, parameters, tuple(reasons), wishes.tenants)


@dataclass(frozen=True, slots=True)
class _Wishes:
    """Who wants what, over all tenants."""

    tenants: tuple[Tenant, ...]
    starts_ns: Mapping[TenantId, int]
    promised: tuple[TenantId, ...]
    deadlines: tuple[TenantId, ...]
    finishing: tuple[TenantId, ...]
    """Those who want their job done soon, with a deadline or without."""
    working: tuple[TenantId, ...]
    """Those who explicitly want most useful work; it is also what nobody needs to say."""

    @classmethod
    def gather(
        cls,
        goals: Goals,
        tenants: Iterable[Tenant] | None,
        starts_ns: Mapping[TenantId, int],
    ) -> "_Wishes":
        stated = {goal.id: goal for goal in goals.tenants}
        known = [Tenant(id_) for id_ in stated] if tenants is None else list(tenants)
        here = [tenant.id for tenant in known]
        for id_ in stated:
            if id_ not in here:
                raise _refusal(
                    goals, f"tenants.{id_}", "there is no such tenant", f"use {', '.join(here)}"
                )
        told = tuple(
            _told(tenant, stated[tenant.id], starts_ns.get(tenant.id, 0))
            if tenant.id in stated
            else tenant
            for tenant in known
        )
        return cls(
            tenants=told,
            starts_ns=starts_ns,
            promised=tuple(t.id for t in told if t.slo),
            deadlines=tuple(t.id for t in told if t.deadline_ns is not None),
            finishing=tuple(
                t.id for t in told if t.goal is Goal.FINISH or t.deadline_ns is not None
            ),
            working=tuple(goal.id for goal in goals.tenants if goal.goal is Goal.GOODPUT),
        )


def _told(tenant: Tenant, goal: TenantGoal, start_ns: int) -> Tenant:
    """The tenant with what was stated of it."""
    slo = Slo(
        goal.slo.latency or tenant.slo.latency,
        goal.slo.throughput or tenant.slo.throughput,
        goal.slo.availability or tenant.slo.availability,
    )
    strives = goal.goal
    if strives is None and goal.slo:
        strives = Goal.SLO
    if strives is None and (goal.deadline_ns is not None or goal.expected_ns is not None):
        strives = Goal.FINISH
    told = replace(tenant, slo=slo, goal=strives or tenant.goal)
    if goal.tenant_class is not None:
        told = replace(told, tenant_class=goal.tenant_class)
    if goal.weight is not None:
        told = replace(told, weight=goal.weight)
    if goal.floor_share is not None:
        told = replace(told, floor_share=goal.floor_share)
    if goal.expected_ns is not None:
        told = replace(told, expected_ns=goal.expected_ns)
    if goal.deadline_ns is not None:
        told = replace(told, deadline_ns=start_ns + goal.deadline_ns)
    if goal.memory is not None:
        told = replace(told, memory=goal.memory)
    return told


# Choosing


def _policy(goals: Goals, wishes: _Wishes) -> tuple[str, str]:
    """The policy, and the sentence that defends it."""
    if goals.objective is not None:
        return _ASKED[goals.objective]
    promised, finishing = joined(wishes.promised), joined(wishes.finishing)
    if wishes.promised and (wishes.finishing or wishes.working):
        others = joined(dict.fromkeys((*wishes.finishing, *wishes.working)))
        return "hybrid", (
            f"Promises to {promised} stand beside what {others} strives for, so 'hybrid' weighs "
            "both: a promise at risk gains weight, the rest goes to useful work."
        )
    if goals.fairness is not None:
        return "hybrid", (
            "A fairness is stated, and only 'hybrid' weighs fair shares against useful work."
        )
    if wishes.promised:
        return "slo", (
            f"Something was promised to {promised} and nobody asks for more, so 'slo' keeps "
            "promises first and shares what is left by weight."
        )
    if wishes.finishing and not wishes.working:
        return "jct", (
            f"{finishing} should finish soon and nobody was promised a latency, a rate or "
            "availability, so 'jct' runs the shortest remaining time first."
        )
    return "hybrid", "No promise and no wish to finish decides, so 'hybrid' seeks most useful work."


_ASKED = {
    Objective.FINISH: (
        "jct",
        "You asked to finish jobs soon: 'jct' runs the shortest remaining time first.",
    ),
    Objective.PROMISES: (
        "slo",
        "You asked to keep promises: 'slo' keeps them first and shares what is left by weight.",
    ),
    Objective.WORK: (
        "hybrid",
        "You asked for most useful work: 'hybrid' maximises the weighted progress of all tenants.",
    ),
    Objective.FAIR: (
        "hybrid",
        "You asked for fair shares: 'hybrid' with full fairness keeps every weighted share.",
    ),
}


def _parameters(goals: Goals, policy: str) -> tuple[PolicyParameters, list[str]]:
    """What differs from the policy's defaults, or is worth seeing, and why."""
    chosen: dict[str, float] = {}
    reasons = []
    if policy == HybridPolicy.name:
        if goals.fairness is not None:
            chosen["fairness"], origin = goals.fairness, "as stated"
        elif goals.objective is Objective.FAIR:
            chosen["fairness"], origin = _EVEN_FAIRNESS, "which fair shares ask for"
        else:
            chosen["fairness"], origin = HybridPolicy().fairness, "the default"
        reasons.append(
            f"Fairness is {chosen['fairness']:g}, {origin}: that part of everybody's weighted "
            "share is out of the objective's reach."
        )
    if goals.starvation_ns is not None:
        chosen["starvation_s"] = goals.starvation_ns / NS_PER_S
        reasons.append(
            f"Nobody with work waits longer than {chosen['starvation_s']:g} s for a turn, "
            "as stated under starvation."
        )
    return tuple(sorted(chosen.items())), reasons


# Refusing


def _refusal(goals: Goals, where: str, what: str, remedy: str) -> InputError:
    return InputError(what, remedy, file=goals.file, field=where)


def _refuse_contradictions(goals: Goals, wishes: _Wishes) -> None:
    if goals == Goals(file=goals.file):
        raise _refusal(goals, "", "states no goal", "write an objective, or goals of tenants")
    stated = {goal.id: goal for goal in goals.tenants}
    for tenant in wishes.tenants:
        if tenant.id in stated:
            _refuse_impossible(goals, stated[tenant.id], tenant)
    _refuse_crowding(goals, wishes.tenants)
    _refuse_objective(goals, wishes)
    _refuse_fairness(goals)


def _refuse_impossible(goals: Goals, goal: TenantGoal, tenant: Tenant) -> None:
    """What cannot be true of one tenant."""
    where = f"tenants.{tenant.id}"
    if tenant.slo and tenant.tenant_class is TenantClass.BEST_EFFORT:
        parts = ("latency", "throughput", "availability")
        part = next(name for name in parts if getattr(tenant.slo, name) is not None)
        raise _refusal(
            goals,
            f"{where}.{part}",
            "a tenant of low importance takes what is left, so nothing can be promised to it",
            "raise its importance to normal or high, or remove the promise",
        )
    if (
        goal.deadline_ns is not None
        and tenant.expected_ns is not None
        and tenant.expected_ns > goal.deadline_ns
    ):
        raise _refusal(
            goals,
            f"{where}.deadline",
            "the deadline is shorter than the job takes alone, as stated under expect",
            "move the deadline or correct expect",
        )
    limit = tenant.memory.limit_bytes
    if limit is not None and limit < tenant.memory.reserve_bytes:
        raise _refusal(
            goals,
            f"{where}.memory",
            "the limit is below the reserve",
            "raise the limit or lower the reserve",
        )


def _refuse_crowding(goals: Goals, tenants: Sequence[Tenant]) -> None:
    """Shares that were promised add up to at most the device."""
    kept = {tenant.id: _kept_share(tenant) for tenant in tenants}
    total = sum(kept.values())
    if total > 1.0 + _ROUNDING:
        parts = joined(f"{id_} {share_words(share)}" for id_, share in kept.items() if share)
        raise _refusal(
            goals,
            "tenants",
            f"floors add up to {share_words(total)} of the device ({parts})",
            "lower them to 100 % in all",
        )


def _kept_share(tenant: Tenant) -> float:
    promise = tenant.slo.availability
    return max(tenant.floor_share, promise.floor_share if promise else 0.0)


def _refuse_objective(goals: Goals, wishes: _Wishes) -> None:
    """A stated objective must fit what tenants were promised and want."""
    if goals.objective is Objective.PROMISES and not (wishes.promised or wishes.deadlines):
        raise _refusal(
            goals,
            "objective",
            "promises are to be kept, but none is stated",
            "state a latency, throughput, availability or deadline of a tenant",
        )
    if goals.objective is not Objective.FINISH:
        return
    held = [tenant.id for tenant in wishes.tenants if tenant.slo.latency is not None]
    if held:
        raise _refusal(
            goals,
            "objective",
            f"finishing jobs soon keeps no latency promise, and one was made to {joined(held)}",
            "use 'keep promises' or 'most useful work', or leave the objective out",
        )
    if wishes.working:
        raise _refusal(
            goals,
            "objective",
            f"finishing jobs soon contradicts the goal of {joined(wishes.working)}",
            "use 'most useful work', which lets each tenant have its own goal",
        )


def _refuse_fairness(goals: Goals) -> None:
    """Fairness is a parameter of one policy, and fair shares need most of it."""
    if goals.fairness is None:
        return
    if goals.objective in (Objective.FINISH, Objective.PROMISES):
        raise _refusal(
            goals,
            "fairness",
            f"'{goals.objective.value}' has no fairness to set",
            "remove it, or use 'most useful work' or 'fair shares'",
        )
    if goals.objective is Objective.FAIR and goals.fairness < _LEAST_EVEN_FAIRNESS:
        raise _refusal(
            goals,
            "fairness",
            f"{goals.fairness:g} contradicts fair shares",
            f"remove it, or write {_LEAST_EVEN_FAIRNESS:g} to {_EVEN_FAIRNESS:g}",
        )
