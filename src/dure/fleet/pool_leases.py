"""Leases as clusters know them: a list of allotments each, with revisions that only grow."""

from collections.abc import Mapping

from dure.domain.fleet.tenancy import Allotment
from dure.domain.ids import ClusterId, PoolId

Wanted = Mapping[ClusterId, Mapping[PoolId, tuple[int, int]]]
"""Units and lent units of each pool in each cluster."""


class Leases:
    """What every cluster was last told."""

    def __init__(self, lease_ns: int | None = None) -> None:
        self.lease_ns = lease_ns
        """How long an allotment holds unless renewed; None: until it is replaced."""
        self._told: dict[ClusterId, tuple[Allotment, ...]] = {}
        self._revisions: dict[ClusterId, int] = {}

    def publish(self, wanted: Wanted, now_ns: int) -> dict[ClusterId, tuple[Allotment, ...]]:
        """New lists for clusters where something changed or a lease is half over."""
        until_ns = None if self.lease_ns is None else now_ns + self.lease_ns
        changed = {}
        for cluster in sorted({*self._told, *wanted}):
            told = self._told.get(cluster, ())
            leases = wanted.get(cluster, {})
            same = {each.pool: (each.units, each.lent) for each in told} == leases
            if same and not any(self._due(each, now_ns) for each in told):
                continue
            revision = self._revisions[cluster] = self._revisions.get(cluster, 0) + 1
            changed[cluster] = tuple(
                Allotment(pool, cluster, units, lent, revision, until_ns)
                for pool, (units, lent) in sorted(leases.items())
            )
        self._told.update(changed)
        return changed

    def _due(self, allotment: Allotment, now_ns: int) -> bool:
        if self.lease_ns is None or allotment.until_ns is None:
            return False
        return allotment.until_ns - now_ns <= self.lease_ns // 2
