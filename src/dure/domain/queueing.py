"""Waiting before service: random arrivals at one server that takes about equally long for each.

Long waits fall off exponentially: the share of requests that wait longer than t is, in the limit,
(1 − ρ) / (ρ·eˣ − 1) · exp(−x·t/s) for a load ρ and services of length s, where x > 0 solves
ρ·(eˣ − 1) = x (Cramér and Lundberg; exact for the tail, within a few percent at the 99th
percentile of half load).
"""

import math

_LEAST_BUSY = 0.02
_MOST_BUSY = 0.98
_STEPS = 8


def waiting_ns(service_ns: float, busy_share: float, share: float) -> float:
    """How long a share of requests waits at most before it is begun."""
    busy = min(busy_share, _MOST_BUSY)
    if busy < _LEAST_BUSY:
        return 0.0
    decay = _decay(busy)
    waiting_share = (1.0 - busy) / (busy * math.exp(decay) - 1.0)
    beyond = waiting_share / max(1.0 - share, 1e-4)
    return service_ns / decay * math.log(beyond) if beyond > 1.0 else 0.0


def _decay(busy: float) -> float:
    """The positive root x of busy·(eˣ − 1) = x, by Newton's steps from a point above it.

    The curve is convex and −2·ln(busy) lies above the root, so every step stays above it.
    """
    found = -2.0 * math.log(busy)
    for _ in range(_STEPS):
        grown = busy * math.exp(found)
        found -= (grown - busy - found) / (grown - 1.0)
    return found


def late_share(service_ns: float, busy_share: float, target_ns: float) -> float:
    """The share of requests that are not answered within a target."""
    if service_ns >= target_ns or busy_share >= 1.0:
        return 1.0
    busy = min(busy_share, _MOST_BUSY)
    if busy < _LEAST_BUSY:
        return 0.0
    decay = _decay(busy)
    waiting_share = (1.0 - busy) / (busy * math.exp(decay) - 1.0)
    return min(1.0, waiting_share * math.exp(-decay * (target_ns - service_ns) / service_ns))
