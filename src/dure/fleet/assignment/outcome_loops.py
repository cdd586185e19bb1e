"""The compiled loops that read a finished assignment: what it costs, and what jobs did not get."""

import numpy as np

from dure.fleet.assignment.shapes import Floats, Integers, Table, Work
from dure.fleet.compiled import compiled, counting_nothing

_NEVER = np.inf


@counting_nothing
def total(work: Work, choice: Integers) -> float:
    """What an assignment costs."""
    cost = 0.0
    for job in range(choice.size):
        cost += work.cost[job, choice[job]] if choice[job] >= 0 else work.skip[job]
    return cost


@compiled
def runners_up(work: Work, table: Table, choice: Integers) -> tuple[Integers, Floats, Floats]:
    """The best option or skip that each job did not get: which, at the prices, and without."""
    jobs, kept = table.option.shape
    option = np.full(jobs, -1, dtype=np.int64)
    at_prices = np.full(jobs, _NEVER)
    plain = np.full(jobs, _NEVER)
    for job in range(jobs):
        if choice[job] >= 0:
            at_prices[job] = plain[job] = work.skip[job]
        for place in range(kept):
            other = table.option[job, place]
            if other >= 0 and other != choice[job]:
                if table.priced[job, place] < at_prices[job]:
                    option[job] = other
                    at_prices[job] = table.priced[job, place]
                    plain[job] = table.cost[job, place]
                break
    return option, at_prices, plain
