"""Numbers that an inventory gives nodes and devices, and what they mean in the cluster."""

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.protocol.reports import Inventory
from dure.member.kube.spots import NodeSpot


class Numbering:
    """Numbers that an inventory gives its nodes and devices."""

    def __init__(self, inventory: Inventory) -> None:
        self._names = [node.name for node in inventory.nodes]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        sizes = {group.name: group.devices for group in inventory.groups}
        self._sizes = [sizes[node.group] for node in inventory.nodes]
        self._first = [0]
        for size in self._sizes:
            self._first.append(self._first[-1] + size)

    def spot(self, placement: Placement, node: str = "") -> NodeSpot:
        """A placement in words that outlive the numbers; raises where it means nothing here."""
        number = placement.node
        known = 0 <= number < len(self._names)
        if not known or (node and self._names[number] != node):
            raise DureError(
                f"node {number}{f' ({node})' if node else ''} is not what it was",
                "decide anew on the present inventory",
            )
        first, size = self._first[number], self._sizes[number]
        devices = tuple(device - first for device in placement.devices)
        if any(not 0 <= device < size for device in devices):
            raise DureError(
                f"{self._names[number]} has no devices {placement.devices}",
                "decide anew on the present inventory",
            )
        return NodeSpot(
            node=self._names[number],
            devices=devices,
            masks=placement.masks,
            template=placement.template,
            compute_milli=placement.compute_milli,
        )

    def placement(self, spot: NodeSpot) -> Placement | None:
        """A spot by the present numbers; None where its node is not there any more."""
        number = self._numbers.get(spot.node)
        if number is None or any(device >= self._sizes[number] for device in spot.devices):
            return None
        return Placement(
            node=number,
            devices=tuple(self._first[number] + device for device in spot.devices),
            masks=spot.masks,
            template=spot.template,
            compute_milli=spot.compute_milli,
        )
