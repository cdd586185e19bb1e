"""Draws the arrivals of a service: the same draw for every way of sharing."""

import random
from collections.abc import Iterator


def poisson_s(per_s: float, seed: int) -> Iterator[float]:
    """Arrival times from 0 on, without end."""
    rng = random.Random(seed)
    when_s = rng.expovariate(per_s)
    while True:
        yield when_s
        when_s += rng.expovariate(per_s)
