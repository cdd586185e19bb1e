"""A scenario under goals: the tenants as the goals want them, and the policy chosen for them."""

from dataclasses import replace

from dure.domain.tenant import Tenant
from dure.kernel.goals import Goals, choose_policy
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.scenario import Scenario

MODE_NAME = "goals"


def with_goals(scenario: Scenario, goals: Goals) -> Scenario:
    """The scenario with its tenants' wishes changed and a further mode that follows the goals.

    Raises `InputError` for goals that contradict each other or name a tenant that is not there.
    """
    loads = scenario.setting.loads
    tenants: tuple[Tenant, ...] = tuple(load.tenant for load in loads)
    choice = choose_policy(goals, tenants, {load.tenant.id: load.joins_ns for load in loads})
    wished = {tenant.id: tenant for tenant in choice.tenants}
    changed = tuple(replace(load, tenant=wished[load.tenant.id]) for load in loads)
    side_by_side = next((m.side_by_side for m in scenario.modes if m.policy is not None), True)
    mode = Mode(MODE_NAME, choice.policy, choice.parameters, side_by_side)
    return replace(
        scenario,
        setting=replace(scenario.setting, loads=changed),
        modes=(*scenario.modes, mode),
        notes=(*scenario.notes, *(f"{MODE_NAME}: {reason}" for reason in choice.reasons)),
    )
