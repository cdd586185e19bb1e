"""What best effort could reach at most beside a service whose queue is bounded, by measured rates.

Each way of sharing serves the service and best effort at the rates measured in closed loops. One
of them for a part of the time and another for the rest gives any rates between; the service must
be served as fast as it asks. What is left to best effort at most is found among mixes of two ways:
a linear program with two equations needs no more. There requests queue without end, so whoever
keeps any latency gets less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from dure.sim.kernel.benches.pairs_measured import BE_ALONE_PER_S, HP_LOAD, SOLO, MeasuredRates

BE_ALONE = "best effort alone"


@dataclass(frozen=True, slots=True)
class Bound:
    """The most that is left to best effort, and by which mix."""

    speed: float
    """Over that alone."""
    mix: tuple[tuple[str, float], ...]
    """Ways of sharing with the part of time of each."""


def most_beside(rates: Sequence[MeasuredRates]) -> Bound:
    """The bound for one pair."""
    alone = next(each for each in rates if each.row == SOLO)
    asked_per_s = HP_LOAD * alone.hp_per_s
    ways = [(each.row, each.hp_per_s, each.be_per_s or 0.0) for each in rates]
    ways.append((BE_ALONE, 0.0, BE_ALONE_PER_S))
    found = [Bound(0.0, ())]
    for (one, one_hp, one_be), (two, two_hp, two_be) in combinations_with_replacement(ways, 2):
        low, high = sorted((one_hp, two_hp))
        if not low <= asked_per_s <= high or low == high:
            continue
        part = (asked_per_s - two_hp) / (one_hp - two_hp)
        speed = (part * one_be + (1.0 - part) * two_be) / BE_ALONE_PER_S
        found.append(Bound(speed, ((one, part), (two, 1.0 - part))))
    return max(found, key=lambda bound: bound.speed)
