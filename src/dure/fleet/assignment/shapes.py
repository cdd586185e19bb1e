"""The arrays that the compiled loops of assignment share.

Rows are one flat vector: `[site, slot, dimension]`, then shares `[tenant, slot]`, then money
`[tenant]` and `[all]`, then grams `[tenant]` and `[all]`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Work(NamedTuple):
    """The problem as the loops see it."""

    cost: Floats
    """[J, M * T]; inf where a job may not or cannot go."""
    skip: Floats
    usage: Floats
    profile: Integers
    span: Integers
    """At most T."""
    limit: Floats
    """Per row."""
    tenant: Integers
    share: Floats
    spend: Floats
    grams: Floats
    sizes: Integers
    """T, K, whether there are tenants' rows."""


class View(NamedTuple):
    """Prices as an option meets them: summed over the slots a job is busy."""

    site: Floats
    """[longest span, M * T, D]"""
    share: Floats
    """[longest span, K, T]"""
    money: Floats
    """[K], of all together included."""
    carbon: Floats


class Table(NamedTuple):
    """The few cheapest options of every job when all were last looked at, cheapest first."""

    option: Integers
    """[J, C]; -1 where a job has fewer."""
    cost: Floats
    """[J, C], without prices."""
    priced: Floats
    """[J, C], at the prices of that look."""
    chosen: Integers
    """[J, C + 1]: how often each was chosen in the last walk, and last how often skipping was."""


class Walk(NamedTuple):
    """Where the price loop is."""

    prices: Floats
    low: Floats
    high: Floats
    scale: Floats
    """What a unit of each row may be worth: steps are parts of it."""
    average: Floats
    """Smoothed relative excess of each row."""
    supply: Floats
    """Per row, what there is for those who choose."""
    left: Floats
    """Scratch."""


class Plan(NamedTuple):
    """An assignment under construction, always feasible."""

    choice: Integers
    left: Floats
    """Per row, with the room for rounding."""
    head: Integers
    """[M]: first job of a list per site."""
    after: Integers
    before: Integers
    tenant_head: Integers
    """[K]: first placed job of a list per tenant."""
    tenant_after: Integers
    tenant_before: Integers
    escape: Floats
    """[J]: what it would cost more to have the job elsewhere; an estimate, kept up lazily."""
    victims: Integers
    """Scratch: who was moved by the move under trial, and from where."""
    places: Integers
    lack: Floats
    """Scratch: what a job lacks, [slot, dimension], then [slot], money, grams."""
