"""Between what is sent and what is decided with: tenants, goals and plans."""

from dataclasses import replace

from dure.client.schema import (
    AvailabilityPromise,
    GoalName,
    GoalsRequest,
    LatencyPromise,
    MemberStatus,
    PlanStatus,
    SquadStatus,
    TenantClassName,
    TenantGoalSpec,
    TenantSpec,
    ThroughputPromise,
)
from dure.domain.ids import TenantId
from dure.domain.plan import Plan
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
from dure.kernel.goals import Goals, Objective, TenantGoal

_CLASS_NAMES: dict[TenantClass, TenantClassName] = {
    TenantClass.GUARANTEED: "guaranteed",
    TenantClass.STANDARD: "standard",
    TenantClass.BEST_EFFORT: "best-effort",
}
_GOAL_NAMES: dict[Goal, GoalName] = {
    Goal.FINISH: "finish",
    Goal.SLO: "slo",
    Goal.GOODPUT: "goodput",
}


# Tenants


def tenant_of(name: str, spec: TenantSpec, *, deadline_ns: int | None = None) -> Tenant:
    """The tenant to decide with; `deadline_ns` is on the machine's clock."""
    slo = _slo(spec)
    return Tenant(
        id=TenantId(name),
        weight=spec.weight,
        tenant_class=TenantClass(spec.tenant_class),
        goal=Goal(spec.goal) if spec.goal else _implied_goal(slo, spec),
        slo=slo,
        memory=MemoryClaim(spec.memory_limit_bytes, spec.memory_reserve_bytes),
        floor_share=spec.sm_share,
        expected_ns=spec.expected_ns,
        deadline_ns=deadline_ns,
        copy_bytes_per_s=spec.copy_bytes_per_s,
    )


def _implied_goal(slo: Slo, spec: TenantSpec) -> Goal:
    if slo:
        return Goal.SLO
    if spec.expected_ns is not None or spec.deadline_in_ns is not None:
        return Goal.FINISH
    return Goal.GOODPUT


def _slo(spec: TenantSpec | TenantGoalSpec) -> Slo:
    latency, throughput, availability = (
        spec.latency_slo,
        spec.throughput_slo,
        spec.availability_slo,
    )
    return Slo(
        latency=LatencySlo(latency.target_ns, latency.percentile) if latency else None,
        throughput=ThroughputSlo(throughput.items_per_s, throughput.window_ns)
        if throughput
        else None,
        availability=AvailabilitySlo(
            availability.share, availability.floor_share, availability.max_hold_ns
        )
        if availability
        else None,
    )


def _latency(slo: Slo) -> LatencyPromise | None:
    if slo.latency is None:
        return None
    return LatencyPromise(target_ns=slo.latency.target_ns, percentile=slo.latency.percentile)


def _throughput(slo: Slo) -> ThroughputPromise | None:
    if slo.throughput is None:
        return None
    return ThroughputPromise(
        items_per_s=slo.throughput.items_per_s, window_ns=slo.throughput.window_ns
    )


def _availability(slo: Slo) -> AvailabilityPromise | None:
    if slo.availability is None:
        return None
    return AvailabilityPromise(
        share=slo.availability.share,
        floor_share=slo.availability.floor_share,
        max_hold_ns=slo.availability.max_hold_ns,
    )


def spec_with(spec: TenantSpec, tenant: Tenant, now_ns: int) -> TenantSpec:
    """A tenant's spec after goals changed the tenant made from it."""
    left = tenant.deadline_ns - now_ns if tenant.deadline_ns is not None else None
    return spec.model_copy(
        update={
            "weight": tenant.weight,
            "tenant_class": _CLASS_NAMES[tenant.tenant_class],
            "goal": _GOAL_NAMES[tenant.goal],
            "latency_slo": _latency(tenant.slo),
            "throughput_slo": _throughput(tenant.slo),
            "availability_slo": _availability(tenant.slo),
            "memory_limit_bytes": tenant.memory.limit_bytes,
            "memory_reserve_bytes": tenant.memory.reserve_bytes,
            "sm_share": tenant.floor_share,
            "expected_ns": tenant.expected_ns,
            "deadline_in_ns": max(left, 1) if left is not None else None,
        }
    )


# Goals


def goals_request(goals: Goals, *, gpu: str | None = None, dry_run: bool = False) -> GoalsRequest:
    """A goals file that was read, as it is sent."""
    return GoalsRequest.model_validate(
        {
            "objective": goals.objective.value if goals.objective else None,
            "fairness": goals.fairness,
            "starvation_ns": goals.starvation_ns,
            "tenants": {goal.id: _goal_spec(goal) for goal in goals.tenants},
            "file": goals.file,
            "gpu": gpu,
            "dry_run": dry_run,
        }
    )


def _goal_spec(goal: TenantGoal) -> TenantGoalSpec:
    return TenantGoalSpec(
        latency_slo=_latency(goal.slo),
        throughput_slo=_throughput(goal.slo),
        availability_slo=_availability(goal.slo),
        tenant_class=_CLASS_NAMES[goal.tenant_class] if goal.tenant_class else None,
        goal=_GOAL_NAMES[goal.goal] if goal.goal else None,
        weight=goal.weight,
        sm_share=goal.floor_share,
        expected_ns=goal.expected_ns,
        deadline_in_ns=goal.deadline_ns,
        memory_limit_bytes=goal.memory.limit_bytes if goal.memory else None,
        memory_reserve_bytes=goal.memory.reserve_bytes if goal.memory else None,
    )


def goals_of(request: GoalsRequest) -> Goals:
    """Goals to decide with."""
    return Goals(
        tenants=tuple(_tenant_goal(name, spec) for name, spec in request.tenants.items()),
        objective=Objective(request.objective) if request.objective else None,
        fairness=request.fairness,
        starvation_ns=request.starvation_ns,
        file=request.file,
    )


def _tenant_goal(name: str, spec: TenantGoalSpec) -> TenantGoal:
    goal = TenantGoal(
        id=TenantId(name),
        slo=_slo(spec),
        tenant_class=TenantClass(spec.tenant_class) if spec.tenant_class else None,
        goal=Goal(spec.goal) if spec.goal else None,
        weight=spec.weight,
        floor_share=spec.sm_share,
        expected_ns=spec.expected_ns,
        deadline_ns=spec.deadline_in_ns,
    )
    if spec.memory_limit_bytes is None and spec.memory_reserve_bytes is None:
        return goal
    claim = MemoryClaim(spec.memory_limit_bytes, spec.memory_reserve_bytes or 0)
    return replace(goal, memory=claim)


# Plans


def plan_status(plan: Plan) -> PlanStatus:
    """A plan as it is shown."""
    return PlanStatus(
        epoch=plan.epoch,
        policy=plan.policy,
        protected=plan.protected,
        squads=tuple(
            SquadStatus(
                duration_ns=squad.duration_ns,
                members=tuple(
                    MemberStatus(
                        tenant=member.tenant,
                        sm_first=member.sms.first,
                        sm_count=member.sms.count,
                        beside=member.beside,
                        budget_ns=round(member.budget_ns),
                        inflight_ns=round(member.inflight_ns),
                        yields_to=member.yields_to,
                        patience_ns=round(member.patience_ns),
                        linger_ns=round(member.linger_ns),
                    )
                    for member in squad.members
                ),
            )
            for squad in plan.squads
        ),
    )
