"""The true state of a cluster's hardware: nodes, devices, who holds what, what is powered.

This ledger is kept apart from the local stage's own and trusts it in nothing: a placement that
does not fit is an error of the decider and ends the run.
"""

from typing import NoReturn

from dure.domain.errors import InvariantError
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import Cluster, Fleet, NodeGroup
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode
from dure.domain.fleet.workloads import Demand
from dure.domain.units import NS_PER_S
from dure.sim.fleet.billing import ClusterMeter, Holding, NodeMeter

_TURNS = (ShareMode.TIME_SLICE, ShareMode.QUEUE)
"""Modes in which more may be given out than there is: everybody then runs slower."""


class Node:
    """One host."""

    __slots__ = (
        "cpu_milli",
        "first_device",
        "group",
        "host_memory_bytes",
        "instances",
        "meter",
        "profile",
        "ready_ns",
        "turns",
        "up",
    )

    def __init__(self, group: NodeGroup, first_device: int, meter: NodeMeter) -> None:
        self.group = group
        self.profile: DeviceProfile = device_profile(group.profile)
        self.first_device = first_device
        self.meter = meter
        self.up = True
        self.ready_ns = 0
        """When its last boot was over."""
        self.instances = 0
        self.cpu_milli = 0
        """In use."""
        self.host_memory_bytes = 0
        self.turns = group.mode in _TURNS
        """Whether those that share a device take turns."""


class Hardware:
    """All nodes and devices of one cluster."""

    def __init__(self, index: int, cluster: Cluster, fleet: Fleet, meter: ClusterMeter) -> None:
        self.index = index
        self.cluster = cluster
        self.meter = meter
        self.nodes: list[Node] = []
        self.groups: dict[str, Node] = {}
        """The first node of each group: what all of them are like."""
        devices = 0
        for group in cluster.groups:
            price = cluster.tariff.device_hour.get(group.profile)
            rent = None
            if price is not None:
                rent = fleet.rates.to_base(price, cluster.tariff.currency) * group.devices
            idle_w = device_profile(group.profile).power.idle_w * group.devices
            for _ in range(group.count):
                node_meter = NodeMeter(meter, rent, idle_w + group.base_power_w)
                node_meter.devices = group.devices
                node = Node(group, devices, node_meter)
                self.nodes.append(node)
                self.groups.setdefault(group.name, node)
                devices += group.devices
        self.devices = devices
        self.held_milli = [0] * devices
        self._masks = [0] * devices
        self._memory = [0] * devices
        self._guests = [0] * devices

    def take(self, placement: Placement, demand: Demand, now_ns: int) -> Holding:
        """Give an instance its place; raises `InvariantError` where there is none."""
        node = self.nodes[placement.node]
        if not node.up:
            self._refuse(placement, "the node is down")
        memory = _memory(node.profile, placement, demand)
        masks = placement.masks or (0,) * len(placement.devices)
        last = node.first_device + node.group.devices
        for device, mask in zip(placement.devices, masks, strict=True):
            if not node.first_device <= device < last:
                self._refuse(placement, f"device {device} belongs to another node")
            if self._masks[device] & mask:
                self._refuse(placement, f"slots of device {device} are taken")
            self._masks[device] |= mask
            self.held_milli[device] += placement.compute_milli
            self._memory[device] += memory
            self._guests[device] += 1
            self._check_device(placement, node, device)
        node.cpu_milli += demand.cpu_milli
        node.host_memory_bytes += demand.host_memory_bytes
        if node.cpu_milli > node.group.cpu_milli:
            self._refuse(placement, "the node has not enough CPU")
        if node.host_memory_bytes > node.group.host_memory_bytes:
            self._refuse(placement, "the node has not enough memory")
        node.instances += 1
        share = len(placement.devices) * placement.compute_milli / WHOLE_MILLI
        return Holding(node.meter, share, now_ns)

    def release(self, placement: Placement, demand: Demand) -> None:
        """Take a place back; its holding must have ended."""
        node = self.nodes[placement.node]
        memory = _memory(node.profile, placement, demand)
        masks = placement.masks or (0,) * len(placement.devices)
        for device, mask in zip(placement.devices, masks, strict=True):
            self._masks[device] &= ~mask
            self.held_milli[device] -= placement.compute_milli
            self._memory[device] -= memory
            self._guests[device] -= 1
        node.cpu_milli -= demand.cpu_milli
        node.host_memory_bytes -= demand.host_memory_bytes
        node.instances -= 1

    def power(self, number: int, on: bool, now_ns: int) -> None:
        """Switch a node; one that was off is ready when it has booted."""
        node = self.nodes[number]
        if node.meter.powered == on:
            return
        if not on and node.instances:
            raise InvariantError(
                f"node {number} of {self.cluster.id} is in use and was powered down"
            )
        node.meter.read(now_ns)
        node.meter.powered = on
        if on:
            node.ready_ns = now_ns + round(node.group.boot_s * NS_PER_S)

    def slowdown(self, placement: Placement) -> float:
        """How much slower than alone an instance runs because more was given out than there is."""
        most = max(self.held_milli[device] for device in placement.devices)
        return max(1.0, most / WHOLE_MILLI)

    def owned(self, group: str) -> bool:
        """Whether nodes of a group cost their energy alone."""
        return self.cluster.owned(self.groups[group].group.profile)

    def read(self, now_ns: int) -> None:
        """Read every node's meter."""
        for node in self.nodes:
            node.meter.read(now_ns)

    def _check_device(self, placement: Placement, node: Node, device: int) -> None:
        if self.held_milli[device] > WHOLE_MILLI and not node.turns:
            self._refuse(placement, f"device {device} is given out beyond its compute")
        if self._guests[device] > 1:
            if self._memory[device] > node.profile.memory_bytes:
                self._refuse(placement, f"device {device} is given out beyond its memory")
            if node.group.mode is ShareMode.WHOLE:
                self._refuse(placement, f"device {device} is not shared and has a guest")

    def _refuse(self, placement: Placement, why: str) -> NoReturn:
        raise InvariantError(
            f"{self.cluster.id} was told to use {placement}, but {why}",
            "the decider is wrong; keep the scenario and its seed",
        )


def _memory(profile: DeviceProfile, placement: Placement, demand: Demand) -> int:
    """Device memory an instance keeps on each device."""
    if not placement.template:
        return profile.memory_bytes
    for template in profile.slices:
        if template.name == placement.template:
            return template.memory_bytes
    return demand.memory_bytes
