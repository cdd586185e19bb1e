"""Waiting before service: random arrivals at one server that takes about equally long for each.

Waiting times beyond the mean fall off exponentially, at the rate of heavy traffic, corrected
for light load.
"""

import math

_MOST_BUSY = 0.98
_TAIL = 1.3
"""Waiting-time percentiles at half load, over the heavy-traffic formula, which starts from the
mean and at light load that is too early."""


def waiting_ns(service_ns: float, busy_share: float, share: float) -> float:
    """How long a share of requests waits at most before it is begun."""
    busy = min(busy_share, _MOST_BUSY)
    beyond = busy / max(1.0 - share, 1e-4)
    if beyond <= 1.0:
        return 0.0
    return _TAIL * service_ns * busy / (2.0 * (1.0 - busy)) * math.log(beyond)
