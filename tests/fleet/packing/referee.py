"""A slow, plain model of a cluster that says what may be placed where; shares no loops."""

import itertools
from dataclasses import dataclass, field

from dure.fleet.packing.ground import DeviceSpec, NodeSpec, Sharing
from dure.fleet.packing.packer import Placement
from dure.fleet.packing.shapes import Ask, Shape, Together


@dataclass
class _Device:
    spec: DeviceSpec
    clients: list[tuple[Ask, int]] = field(default_factory=list)

    def placements(self, ask: Ask | None) -> list[int]:  # noqa: PLR0911, one rule a line
        """Slot masks at which one more client fits; [0] where there are no slots."""
        spec = self.spec
        if ask is None or ask.memory_mib > spec.memory_mib:
            return []
        alone = ask.compute_milli == 1000 or spec.sharing is Sharing.WHOLE
        if alone:
            fits = not self.clients and ask.bandwidth_milli <= spec.bandwidth_milli
            return [(1 << spec.slots) - 1] if fits else []
        if any(other.compute_milli == 1000 for other, _ in self.clients):
            return []
        others = [other for other, _ in self.clients]
        if len(others) >= spec.limit:
            return []
        if sum(each.memory_mib for each in [*others, ask]) > spec.memory_mib:
            return []
        if spec.sharing is not Sharing.QUEUE:
            if sum(each.compute_milli for each in [*others, ask]) > 1000:
                return []
            if sum(each.bandwidth_milli for each in [*others, ask]) > spec.bandwidth_milli:
                return []
        if spec.sharing is not Sharing.SLOTS:
            return [0]
        taken = 0
        for _, mask in self.clients:
            taken |= mask
        inside = (1 << spec.slots) - 1
        return [mask for mask in ask.slots if not mask & taken and not mask & ~inside]


@dataclass
class _Node:
    spec: NodeSpec
    devices: list[_Device]
    cpu_milli: int
    host_mib: int


class Referee:
    """The same nodes in plain objects."""

    def __init__(self, nodes: list[NodeSpec]) -> None:
        self.nodes = [
            _Node(node, [_Device(device) for device in node.devices], node.cpu_milli, node.host_mib)
            for node in nodes
        ]
        self.first = [0, *itertools.accumulate(len(node.devices) for node in nodes)]

    def fits(self, shape: Shape, number: int) -> bool:
        """Whether any set of devices of the node can take the shape."""
        node = self.nodes[number]
        if node.cpu_milli < shape.cpu_milli or node.host_mib < shape.host_mib:
            return False
        able = [
            index
            for index, device in enumerate(node.devices)
            if device.placements(shape.asks.get(device.spec.profile))
        ]
        return any(
            self._lie_well(shape, node, chosen)
            for chosen in itertools.combinations(able, shape.devices)
        )

    def copies(self, shape: Shape, number: int) -> int:
        """Copies by placing greedily; for shapes with at most one device."""
        node = self.nodes[number]
        placed: list[tuple[_Device | None, tuple[Ask, int] | None]] = []
        while self.fits(shape, number) and len(placed) < 1000:
            device = next(
                (d for d in node.devices if d.placements(shape.asks.get(d.spec.profile))), None
            )
            node.cpu_milli -= shape.cpu_milli
            node.host_mib -= shape.host_mib
            if device is not None and shape.devices:
                ask = shape.asks[device.spec.profile]
                taken = (ask, device.placements(ask)[0])
                device.clients.append(taken)
                placed.append((device, taken))
            else:
                placed.append((None, None))
        for device, client in placed:
            node.cpu_milli += shape.cpu_milli
            node.host_mib += shape.host_mib
            if device is not None and client is not None:
                device.clients.remove(client)
        return len(placed)

    def take(self, shape: Shape, place: Placement) -> None:
        """Check the place by the rules, then occupy it."""
        node = self.nodes[place.node]
        assert node.cpu_milli >= shape.cpu_milli, "CPU oversubscribed"
        assert node.host_mib >= shape.host_mib, "host memory oversubscribed"
        chosen = [device - self.first[place.node] for device in place.devices]
        assert len(set(chosen)) == len(place.slots) == shape.devices, "wrong number of devices"
        assert all(0 <= index < len(node.devices) for index in chosen), "device of another node"
        assert self._lie_well(shape, node, tuple(sorted(chosen))), "devices apart"
        for index, mask in zip(chosen, place.slots, strict=True):
            device = node.devices[index]
            ask = shape.asks[device.spec.profile]
            assert mask in device.placements(ask), f"{ask} does not fit at {mask:b}"
            device.clients.append((ask, mask))
        node.cpu_milli -= shape.cpu_milli
        node.host_mib -= shape.host_mib

    def give_back(self, shape: Shape, place: Placement) -> None:
        """Free a place."""
        node = self.nodes[place.node]
        node.cpu_milli += shape.cpu_milli
        node.host_mib += shape.host_mib
        for row, mask in zip(place.devices, place.slots, strict=True):
            device = node.devices[row - self.first[place.node]]
            device.clients.remove((shape.asks[device.spec.profile], mask))

    @staticmethod
    def _lie_well(shape: Shape, node: _Node, chosen: tuple[int, ...]) -> bool:
        specs = [node.devices[index].spec for index in chosen]
        if len({spec.profile for spec in specs}) > 1:
            return False
        if shape.together is not Together.ANYWHERE and len({spec.domain for spec in specs}) > 1:
            return False
        neighbours = all(b - a == 1 for a, b in itertools.pairwise(chosen))
        return shape.together is not Together.CONTIGUOUS or neighbours
