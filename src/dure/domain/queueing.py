"""Waiting before service: random arrivals at one server that takes about equally long for each.

Long waits fall off exponentially: the share of requests that wait longer than t is, in the limit,
(1 − ρ) / (ρ·eˣ − 1) · exp(−x·t/s) for a load ρ and services of length s, where x > 0 solves
ρ·(eˣ − 1) = x (Cramér and Lundberg; exact for the tail, within a few percent at the 99th
percentile of half load).
"""

import math
from collections.abc import Iterable

_LEAST_BUSY = 0.02
_MOST_BUSY = 0.98
_STEPS = 8
_MOST_EXPONENT = 600.0


def waiting_ns(service_ns: float, busy_share: float, share: float) -> float:
    """How long a share of requests waits at most before it is begun."""
    busy = min(busy_share, _MOST_BUSY)
    if busy < _LEAST_BUSY:
        return 0.0
    decay = _decay(busy)
    waiting_share = (1.0 - busy) / (busy * math.exp(decay) - 1.0)
    beyond = waiting_share / max(1.0 - share, 1e-4)
    return service_ns / decay * math.log(beyond) if beyond > 1.0 else 0.0


def delayed_ns(
    service_ns: float, busy_share: float, delays: Iterable[tuple[float, float]], share: float
) -> float:
    """How long a share of requests waits at most where each is also delayed by one of `delays`.

    Delays are (length, count), the shortest first, and fall on requests whether these wait or not.
    """
    counted = list(delays)
    total = sum(count for _, count in counted)
    if total <= 0.0:
        return waiting_ns(service_ns, busy_share, share)
    busy = min(busy_share, _MOST_BUSY)
    allowed = max(1.0 - share, 1e-4) * total
    if busy < _LEAST_BUSY:
        return _last_below(counted, allowed)
    per_ns = _decay(busy) / service_ns
    waiting_share = (1.0 - busy) / (busy * math.exp(per_ns * service_ns) - 1.0)
    # Requests with the longest delays are too late whatever they wait; how many those are is found
    # by taking one length after another.
    sums = _sums(counted, per_ns, waiting_share)
    beyond = 0.0
    for (length, count), weight in zip(reversed(counted), reversed(sums), strict=True):
        found = math.log(weight / (allowed - beyond)) / per_ns if weight > 0.0 else 0.0
        beyond += count
        if found >= length or beyond >= allowed:
            return max(found, length)
    return 0.0


def _sums(counted: list[tuple[float, float]], per_ns: float, waiting_share: float) -> list[float]:
    """Up to each length, the sum of count · waiting_share · exp(per_ns · length)."""
    sums: list[float] = []
    total = 0.0
    for length, count in counted:
        total += count * waiting_share * math.exp(min(per_ns * length, _MOST_EXPONENT))
        sums.append(total)
    return sums


def _last_below(counted: list[tuple[float, float]], allowed: float) -> float:
    """The delay that no more than the allowed number of requests exceed."""
    beyond = 0.0
    for length, count in reversed(counted):
        beyond += count
        if beyond > allowed:
            return length
    return 0.0


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
