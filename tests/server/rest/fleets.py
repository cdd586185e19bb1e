"""Clusters of a test centre that have reported nodes and room, without any member."""

from collections.abc import Mapping

from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.protocol.reports import Inventory, NodeFact
from dure.domain.units import GIB
from dure.server.records import inventory_data, sites_data
from dure.stores.rows import Cluster
from dure.stores.transaction import Transaction
from tests.server.members import summary
from tests.server.rest.centre import Centre

PROFILE = "a100-40gb"
NODES = 4
"""Of each cluster, with eight devices each."""


def join_clusters(centre: Centre, prices: Mapping[str, float]) -> None:
    """Clusters of Kubernetes with what a device costs there by the hour; all of them empty."""

    async def join(tx: Transaction) -> None:
        for name, price in prices.items():
            spec = {"tariff": {"device_hour": {PROFILE: price}}, "carbon": {"constant": 300.0}}
            await tx.clusters.add(Cluster(name, "kubernetes", spec))
            group = NodeGroup("gpus", NODES, PROFILE, 8, 128_000, 1024 * GIB, 8)
            facts = tuple(NodeFact(f"{name}-{n}", "gpus") for n in range(NODES))
            inventory = inventory_data(Inventory((group,), facts))
            sites = sites_data([summary(name, 8 * NODES)])
            await tx.news.said(name, inventory=inventory, sites=sites)

    centre.do(join)
