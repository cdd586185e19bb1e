"""What members say of nodes whose devices they divide anew becomes rows."""

from collections.abc import Iterable

from dure.domain.fleet.protocol.reports import PartitionStatus
from dure.stores.rows import NewEvent
from dure.stores.transaction import Transaction

CHANGED = "partition.changed"


async def take_partitions(
    tx: Transaction, cluster: str, statuses: Iterable[PartitionStatus]
) -> None:
    """Note it; a wish whose end is known leaves the desired set, so that the member forgets it."""
    ended = False
    for status in statuses:
        wish = await tx.partitions.find(cluster, status.node)
        if wish is None or wish.number != status.number or wish.phase.ended:
            continue
        if (wish.phase, wish.reason) == (status.phase, status.why):
            continue
        await tx.partitions.become(wish, status.phase, status.why)
        ended |= status.phase.ended
        data = {
            "node": status.node,
            "layout": wish.layout,
            "phase": status.phase.value,
            "reason": status.why,
        }
        tx.events.add(NewEvent(CHANGED, cluster, None, data))
    if ended:
        await tx.clusters.next_revision(cluster, surroundings=True)
