"""Wishes that nodes' devices be divided anew: the last one for each node."""

from dure.domain.fleet.lifecycle import PartitionPhase
from dure.stores import tables
from dure.stores.repos.base import Keyed, upsert, values_of
from dure.stores.rows import Partition


class Partitions(Keyed[Partition]):
    """By cluster and node. Lock the cluster's row before: its revision numbers them."""

    table, noun, row = tables.partitions, "partition of node", Partition

    async def ask(self, wish: Partition) -> Partition:
        """Store a wish in place of the one before it."""
        columns = values_of(wish)
        changing = tuple(name for name in columns if name not in ("cluster", "node"))
        await upsert(
            self._link, self.table, [columns], changing, self._subject(wish.cluster, wish.node)
        )
        return wish

    async def become(self, wish: Partition, phase: PartitionPhase, reason: str) -> None:
        """Note what has become of a wish."""
        await self._link.execute(
            self.table.update()
            .where(self._is((wish.cluster, wish.node)), self.table.c.number == wish.number)
            .values(
                phase=phase, reason=reason, ended_ns=self._link.now_ns if phase.ended else None
            ),
            self._subject(wish.cluster, wish.node),
        )
