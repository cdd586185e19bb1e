"""Seconds in which a simulated tenant was available, from what was seen at their ends."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S

WINDOW_NS = 1 * NS_PER_S
"""Windows by which availability is judged."""


def windows_kept(tenant: Tenant, looks: NDArray[Any], window_ns: float) -> tuple[int, int]:
    """Windows in which a tenant wanted something, and those of them in which it was available.

    `looks` are its rows of `World.look` at the ends of windows, one before the first included;
    the last window may be shorter.
    """
    promise = tenant.slo.availability
    if promise is None or len(looks) < 2:
        return 0, 0
    served_ns, busy_ns = np.diff(looks[:, :2], axis=0).T
    seen = zip(served_ns, busy_ns, looks[1:, 2], strict=True)
    return promise.count((window_ns, *each) for each in seen)
