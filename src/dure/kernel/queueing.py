"""Waiting before service: random arrivals at one server that takes about equally long for each.

Waiting times beyond the mean fall off exponentially, at the rate of heavy traffic, corrected
for light load. Speeds and loads may be numbers or arrays.
"""

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Numbers = TypeVar("_Numbers", float, NDArray[np.float64])

_MOST_BUSY = 0.98
_TAIL = 1.3
"""Waiting-time percentiles at half load, over the heavy-traffic formula, which starts from the
mean and at light load that is too early."""
_SPREAD = 1.2
"""Upper percentile of a request's own length over its mean."""


def waiting_ns(service_ns: float, busy_share: float, share: float) -> float:
    """How long a share of requests waits at most before it is begun."""
    busy = min(busy_share, _MOST_BUSY)
    beyond = busy / max(1.0 - share, 1e-4)
    if beyond <= 1.0:
        return 0.0
    return _TAIL * service_ns * busy / (2.0 * (1.0 - busy)) * math.log(beyond)


def latency_ns(service_ns: float, busy_share: float, share: float) -> float:
    """How long a share of requests takes at most from arrival to answer."""
    return _SPREAD * service_ns + waiting_ns(service_ns, busy_share, share)


def on_time_share(load: _Numbers, request: _Numbers, speed: _Numbers) -> _Numbers:
    """Share of requests answered within their target.

    `load` is the share of time busy at speed 1, `request` its length then over the target.
    """
    busy = np.minimum(load / speed, _MOST_BUSY)
    own = request / speed
    room = np.maximum(1.0 - _SPREAD * own, 0.0)
    late = busy * np.exp(-2.0 * (1.0 - busy) * room / (_TAIL * busy * own + 1e-12))
    within: _Numbers = np.where(room > 0.0, 1.0 - late, 0.0) * np.minimum(
        1.0, _MOST_BUSY * speed / np.maximum(load, 1e-12)
    )
    return within
