"""Dividing a node's devices anew, behind a port: a label for the node's manager, or nothing."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dure.domain.fleet.protocol.desired import Partition
from dure.kube.client import KubeClient
from dure.kube.resources import NODES
from dure.member.kube.board import Board
from dure.member.kube.names import DIVIDED_FROM
from dure.member.ports import PartitionFailedError, PartitionRefusedError

_SHOWS_WITHIN_S = 60.0
"""A manager that has been done for so long while the node shows what it did before has divided it
as it was: its device plugin was restarted before it said so."""


class Partitioner(Protocol):
    """Divides the devices of nodes."""

    async def apply(self, client: KubeClient, board: Board, partition: Partition) -> str:
        """Ask for it unless that was done; what is still awaited, nothing once the node shows it.

        Raises `PartitionRefusedError` or `PartitionFailedError`.
        """


@dataclass(frozen=True)
class LabelPartitioner:
    """A manager on the node follows a label: NVIDIA's MIG manager, a device plugin's settings.

    What the node had before is noted on the node itself, so that a member that starts meanwhile
    knows whether it has changed.
    """

    label: str
    state_label: str = ""
    """Where the manager says how far it is; empty: it does not."""
    now_s: Callable[[], float] = time.time

    async def apply(self, client: KubeClient, board: Board, partition: Partition) -> str:
        """Set the label of a node whose devices nobody uses, and wait for the node to change."""
        node = board.nodes.get(partition.node)
        if node is None:
            raise PartitionRefusedError(f"there is no node {partition.node} here")
        labels = node["metadata"].get("labels") or {}
        if labels.get(self.label) == partition.layout:
            return self._awaited(board, partition, labels)
        users = list(users_of(board, partition.node))
        if users:
            raise PartitionRefusedError(
                f"devices of {partition.node} are used by {', '.join(users[:5])}",
                "move or stop what runs there first",
            )
        noted = {"had": _shown(board, partition.node), "at_s": self.now_s()}
        change: dict[str, Any] = {
            "labels": {self.label: partition.layout},
            "annotations": {DIVIDED_FROM: json.dumps(noted)},
        }
        if self.state_label:  # what it says there is of the layout before
            change["labels"][self.state_label] = None
        await client.patch(NODES, partition.node, {"metadata": change})
        return f"its manager to follow the label {self.label}"

    def _awaited(self, board: Board, partition: Partition, labels: Mapping[str, str]) -> str:
        state = labels.get(self.state_label, "") if self.state_label else ""
        if state == "failed":
            raise PartitionFailedError(
                f"the manager of {partition.node} could not divide it as {partition.layout}",
                f"see the manager's log; {self.state_label} says failed",
            )
        annotations = board.nodes[partition.node]["metadata"].get("annotations") or {}
        if DIVIDED_FROM not in annotations:
            return ""  # it was so before anybody here asked
        if self.state_label and state != "success":
            return f"its manager to be done ({state or 'it said nothing yet'})"
        noted = json.loads(annotations[DIVIDED_FROM])
        shown = _shown(board, partition.node)
        late = bool(state) and self.now_s() - noted["at_s"] >= _SHOWS_WITHIN_S
        if shown and (shown != noted["had"] or late):
            return ""
        return "its device plugin to show the new layout"


class ClaimPartitioner:
    """Drivers of claims divide devices as these are claimed: there is nothing to ask for."""

    async def apply(self, client: KubeClient, board: Board, partition: Partition) -> str:
        """Refuse what could only be a mistake; a driver needs no word of ours."""
        if partition.node not in board.offers:
            raise PartitionRefusedError(
                f"no driver offers devices of {partition.node} by claims",
                "use the partitioner of its device plugin",
            )
        return ""


PARTITIONERS: dict[str, Partitioner] = {
    "mig-manager": LabelPartitioner("nvidia.com/mig.config", "nvidia.com/mig.config.state"),
    "device-plugin": LabelPartitioner("nvidia.com/device-plugin.config"),
    "dra": ClaimPartitioner(),
}
"""By the name settings give them."""


def _shown(board: Board, node: str) -> dict[str, int]:
    """What a node offers of its devices; nothing while its device plugin is away."""
    devices = board.devices.get(node)
    return {} if devices is None else dict(devices.resources)


def users_of(board: Board, node: str) -> Iterator[str]:
    """Whoever holds devices of a node: Pods of ours and of others, and claims."""
    for carried in board.instances.carried.values():
        if carried.spot.node == node and carried.spot.devices and carried.pods:
            yield str(next(iter(carried.pods.values()))["metadata"]["name"])
    devices = board.devices.get(node)
    if devices is None:
        raise PartitionRefusedError(
            f"node {node} shows no devices", "name one of the inventory, or wait for its plugin"
        )
    others = board.foreigners.holders(node, devices)
    yield from (f"{key.namespace}/{key.name}" for key in others)
