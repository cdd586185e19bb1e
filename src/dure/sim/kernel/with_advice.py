"""A scenario with a further mode, in which an advisor proposes or switches policies."""

from dataclasses import replace

from dure.domain.adaptation import AdaptBy
from dure.kernel.chooser import FIRST_POLICY
from dure.sim.kernel.modes import Mode
from dure.sim.kernel.scenario import Scenario


def with_advice(scenario: Scenario, adapt: AdaptBy) -> Scenario:
    """The scenario beside itself with an advisor; it begins as an agent does."""
    side_by_side = next((m.side_by_side for m in scenario.modes if m.policy is not None), True)
    policy = FIRST_POLICY if adapt is AdaptBy.AUTO else "hybrid"
    mode = Mode(adapt.value, policy, side_by_side=side_by_side, adapt=adapt)
    return replace(scenario, modes=(*scenario.modes, mode))
