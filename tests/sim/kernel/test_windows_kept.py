"""A promised availability counts in the objective by which simulated runs are judged."""

import numpy as np
import pytest

from dure.domain.ids import TenantId
from dure.domain.tenant import AvailabilitySlo, Slo, Tenant
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.sim.kernel.availability import windows_kept

PROMISED = Tenant(TenantId("notebook"), slo=Slo(availability=AvailabilitySlo(0.9)))
S = float(NS_PER_S)
LOOKS = np.array(
    [
        # work done, busy time, longest hold
        (0.0, 0.0, 0.0),
        (0.5 * S, S, 0.0),  # served
        (0.55 * S, 2 * S, 0.0),  # less than its floor
        (1.05 * S, 3 * S, 200.0 * NS_PER_MS),  # held for too long
        (1.05 * S, 3 * S, 0.0),  # wanted nothing
        (1.1 * S, 3.05 * S, 0.0),  # got all it asked for
    ]
)


def test_seconds_with_demand_count_and_those_with_floor_and_without_long_holds_are_kept() -> None:
    assert windows_kept(PROMISED, LOOKS, S) == (4, 2)


@pytest.mark.parametrize("tenant", [Tenant(TenantId("job")), PROMISED])
def test_without_a_promise_or_a_whole_window_nothing_is_counted(tenant: Tenant) -> None:
    looks = LOOKS[:1] if tenant is PROMISED else LOOKS
    assert windows_kept(tenant, looks, S) == (0, 0)
