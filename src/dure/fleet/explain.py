"""Says why: the sum behind a placement term by term, and the best place that was not taken."""

import numpy as np

from dure.domain.fleet.decisions import Alternative, Explanation
from dure.fleet.costs import TERMS, CostTable
from dure.fleet.rounds import Choice
from dure.fleet.sites import Floats, SiteBook
from dure.fleet.tracks import HOUR_NS


class Reasons:
    """Explanations of one round."""

    def __init__(self, table: CostTable, choice: Choice, sites: SiteBook, now_ns: int) -> None:
        self._table = table
        self._choice = choice
        self._sites = sites
        self._now_ns = now_ns

    def of(self, job: int, site: int, slot: int, note: str = "") -> Explanation:
        """Why a candidate is at that site and start."""
        table, choice = self._table, self._choice
        pairs = zip(TERMS, table.terms_at(job, site, slot), strict=True)
        return Explanation(
            terms=tuple((name, value) for name, value in pairs if value),
            g_co2=_at(table.grams, job, site, slot),
            sla_risk=_at(table.risk, job, site, slot),
            congestion=_at(choice.crowding, job, site, slot),
            runner_up=self.runner_up(job, site, slot),
            note=note,
        )

    def runner_up(self, job: int, site: int, slot: int) -> Alternative | None:
        """The cheapest option not taken, congestion included; None where there is no other."""
        others = self._choice.priced[job].copy()
        others[site, slot] = np.inf
        best = int(others.argmin())
        total = float(others.flat[best])
        if not np.isfinite(total):
            return None
        slots = others.shape[1]
        other, start = best // slots, best % slots
        mine = float(self._choice.priced[job, site, slot])
        return Alternative(
            site=self._sites.names[other],
            start_ns=self._now_ns + self._table.slots_h[start] * HOUR_NS,
            total=total,
            why="" if total >= mine else "cheaper, but there is no room for it",
        )


def _at(values: Floats, job: int, site: int, slot: int) -> float:
    """An entry, whether the array has start slots or one for all."""
    return float(values[job, site, slot if values.shape[2] > 1 else 0])
