"""Where weights and data lie, and what bringing them to each site would cost."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.workloads import Artefact, Workload
from dure.domain.ids import ArtefactId, ClusterId
from dure.fleet import terms
from dure.fleet.sites import Floats, SiteBook


@dataclass(frozen=True, slots=True)
class Reach:
    """What it takes to have an artefact at each site."""

    money: Floats
    """[M]: from the cheapest place that is not the site's own cluster."""
    hours: Floats
    """[M]: of the transfer; 0 where it is already."""
    present: NDArray[np.bool_]
    """[M]"""


@dataclass(slots=True)
class ArtefactBook:
    """All artefacts that were seen."""

    sites: SiteBook
    known: dict[ArtefactId, Artefact] = field(default_factory=dict)
    _reach: dict[ArtefactId, tuple[int, Reach]] = field(default_factory=dict)
    _egress: dict[ClusterId, Floats] = field(default_factory=dict)
    """By source: prices to all clusters in the order they joined, which never changes."""

    def see(self, artefact: Artefact) -> bool:
        """It exists, or has reached more clusters; whether that is news."""
        before = self.known.get(artefact.id)
        places = artefact.places | (before.places if before else frozenset())
        merged = Artefact(artefact.id, artefact.size_bytes, places)
        if merged == before:
            return False
        self.known[artefact.id] = merged
        self._reach.pop(artefact.id, None)
        return True

    def arrive(self, artefact: ArtefactId, cluster: ClusterId) -> None:
        """It was ordered to a cluster and will be there."""
        found = self.known.get(artefact)
        if found is not None and cluster not in found.places:
            self.see(Artefact(found.id, found.size_bytes, frozenset({cluster})))

    def of(self, workload: Workload) -> tuple[ArtefactId, ...]:
        """The known artefacts a workload needs, weights first."""
        wanted = workload.data if workload.weights is None else (workload.weights, *workload.data)
        return tuple(each for each in wanted if each in self.known)

    def reach(self, artefact: ArtefactId) -> Reach:
        """What it takes to have it at each site."""
        cached = self._reach.get(artefact)
        if cached is not None and cached[0] == self.sites.version:
            return cached[1]
        found = self._look(self.known[artefact])
        self._reach[artefact] = (self.sites.version, found)
        return found

    def _look(self, artefact: Artefact) -> Reach:
        fleet, book = self.sites.fleet, self.sites
        prices = np.full(len(book.cluster_ids), np.inf)
        here_by_cluster = np.full(len(book.cluster_ids), not artefact.places)
        for place in artefact.places:
            # A cluster does not fetch from itself.
            own, sent = book.cluster_rows.get(place, -1), self._sent_from(place)
            kept = prices[own] if own >= 0 else 0.0
            np.minimum(prices, sent, out=prices)
            if own >= 0:
                prices[own], here_by_cluster[own] = kept, True
        prices[np.isinf(prices)] = fleet.egress_default_per_gb
        rows = book.columns.cluster
        here = here_by_cluster[rows]
        size = np.float64(artefact.size_bytes)
        hours = terms.transfer_h(np.asarray(size), np.asarray(fleet.bytes_per_s))
        return Reach(
            money=terms.transfer(np.asarray(size), prices[rows]),
            hours=np.where(here, 0.0, hours),
            present=here,
        )

    def _sent_from(self, place: ClusterId) -> Floats:
        """[clusters]: what a gigabyte costs from a place to each."""
        known = self._egress.get(place)
        if known is None or len(known) != len(self.sites.cluster_ids):
            fleet, ids = self.sites.fleet, self.sites.cluster_ids
            known = self._egress[place] = np.array([fleet.egress(place, each) for each in ids])
        return known
