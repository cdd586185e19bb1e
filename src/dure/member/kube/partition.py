"""Dividing a node's devices anew, behind a port: a label for the node's manager, or nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from dure.domain.errors import DureError
from dure.kube.client import KubeClient
from dure.kube.resources import NODES
from dure.member.kube.board import Board


@dataclass(frozen=True, slots=True)
class Partition:
    """How the devices of a node shall be divided."""

    node: str
    layout: str
    """Name of a layout that the node's manager knows, such as `all-1g.10gb`."""


class Partitioner(Protocol):
    """Divides the devices of nodes."""

    async def apply(self, client: KubeClient, board: Board, partition: Partition) -> None:
        """Ask for it; raises `DureError` where it may not be done. Asked twice it is done once."""


class PartitionInUseError(DureError):
    """Something runs on the devices that were to be divided anew."""


@dataclass(frozen=True)
class LabelPartitioner:
    """A manager on the node follows a label: NVIDIA's MIG manager, a device plugin's settings."""

    label: str

    async def apply(self, client: KubeClient, board: Board, partition: Partition) -> None:
        """Set the label of a node whose devices nobody uses."""
        users = list(users_of(board, partition.node))
        if users:
            raise PartitionInUseError(
                f"devices of {partition.node} are used by {', '.join(users[:5])}",
                "move or stop what runs there first",
            )
        change = {"metadata": {"labels": {self.label: partition.layout}}}
        await client.patch(NODES, partition.node, change)


class ClaimPartitioner:
    """Drivers of claims divide devices as these are claimed: there is nothing to ask for."""

    async def apply(self, client: KubeClient, board: Board, partition: Partition) -> None:
        """Refuse what could only be a mistake; a driver needs no word of ours."""
        if partition.node not in board.offers:
            raise DureError(
                f"no driver offers devices of {partition.node} by claims",
                "use the partitioner of its device plugin",
            )


PARTITIONERS: dict[str, Partitioner] = {
    "mig-manager": LabelPartitioner("nvidia.com/mig.config"),
    "device-plugin": LabelPartitioner("nvidia.com/device-plugin.config"),
    "dra": ClaimPartitioner(),
}
"""By the name settings give them."""


def users_of(board: Board, node: str) -> Iterator[str]:
    """Whoever holds devices of a node: Pods of ours and of others, and claims."""
    for carried in board.instances.carried.values():
        if carried.spot.node == node and carried.spot.devices and carried.pods:
            yield str(next(iter(carried.pods.values()))["metadata"]["name"])
    devices = board.devices.get(node)
    if devices is None:
        raise DureError(f"there is no node {node} with devices", "name one of the inventory")
    others = board.foreigners.holders(node, devices)
    yield from (f"{key.namespace}/{key.name}" for key in others)
