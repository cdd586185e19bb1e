"""What is asked of a cluster and how places are judged, as the compiled loops see it."""

from typing import NamedTuple

from dure.fleet.packing.shapes import Asks, Floats, Ints, Shapes


class Target(NamedTuple):
    """The expected demand: shapes with devices, those with the same ask side by side."""

    ask: Ints
    cpu: Ints
    host: Ints
    per_cpu: Floats
    """Copies that one CPU milli feeds; infinite where none is asked."""
    per_host: Floats
    weight: Floats
    """Adds up to 1."""
    least_compute: int
    """No ask among them takes less of a device: what has less free is of no use."""


class Score(NamedTuple):
    """Weights of the score; costs and credits in devices."""

    fits: float
    """Usefulness for one copy more."""
    copies: float
    """Usefulness for as many copies as CPU and host memory allow."""
    headroom: float
    """Credit for each device's fair share of CPU that stays free on the node."""
    opening: float
    """Cost of a node on which nothing runs yet."""
    cpu_per_device: float
    """CPU milli that is one device's fair share here."""


class Demand(NamedTuple):
    """All that is asked and how it is judged."""

    shapes: Shapes
    asks: Asks
    target: Target
    score: Score


class Cache(NamedTuple):
    """What was worked out already; a node's entries hold while its version stands."""

    useful: Floats
    largest: Ints
    """Most compute free on one device of a node."""
    version: Ints
    seen: Ints
    """[shapes, nodes]: the version that score and fit are of; likewise `counted` of copies."""
    score: Floats
    fit: Floats
    counted: Ints
    copies: Ints
    weighed: Ints
    """[nodes]: the version that free worth and its stranded part are of."""
    free: Floats
    stranded: Floats
