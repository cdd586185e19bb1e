"""Numbers and names of a cluster's nodes: the local stage counts, clusters name.

Numbers follow the places in an inventory and change when nodes come or go. What an instance has is
therefore kept by the name of its node and the numbers its devices have within that node.
"""

from dataclasses import replace

from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.protocol.reports import Inventory, NodeFact


class Layout:
    """One inventory's numbers."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.number_of = {node.name: number for number, node in enumerate(inventory.nodes)}
        sizes = {group.name: group.devices for group in inventory.groups}
        self._sizes = [sizes.get(node.group, 0) for node in inventory.nodes]
        self._first: list[int] = []
        first = 0
        for size in self._sizes:
            self._first.append(first)
            first += size

    @property
    def shape(self) -> tuple[object, ...]:
        """What two inventories have in common if the same numbers mean the same in both."""
        nodes = tuple((node.name, node.group) for node in self.inventory.nodes)
        return (self.inventory.groups, nodes)

    def fact(self, number: int) -> NodeFact:
        """The node of that number."""
        return self.inventory.nodes[number]

    def within(self, placement: Placement) -> tuple[int, ...]:
        """Its devices as numbers within its node."""
        first = self._first[placement.node]
        return tuple(device - first for device in placement.devices)

    def placement(
        self, known: Placement, node: str, devices: tuple[int, ...] | None
    ) -> Placement | None:
        """The same place in this inventory's numbers; None where there is no such place."""
        number = self.number_of.get(node)
        if number is None:
            return None
        first, size = self._first[number], self._sizes[number]
        if devices is None:
            devices = self._guess(known, first, size)
        if any(not 0 <= device < size for device in devices):
            return None
        return replace(known, node=number, devices=tuple(first + each for each in devices))

    def _guess(self, known: Placement, first: int, size: int) -> tuple[int, ...]:
        """Numbers within a node of a placement that may be in an earlier inventory's numbers."""
        if all(first <= device < first + size for device in known.devices):
            return tuple(device - first for device in known.devices)
        return tuple(device % size for device in known.devices) if size else ()


def is_cordoned(node: NodeFact) -> bool:
    """Whether what runs on a node that takes nothing new runs on."""
    return not node.up and node.why.startswith("cordoned")
