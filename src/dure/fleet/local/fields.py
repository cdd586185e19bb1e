"""The nodes of one group as columns, and its slices and demands in the packing core's terms."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.clusters import NodeGroup
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.profiles import DeviceProfile
from dure.domain.fleet.slices import ShareMode, SliceTemplate, masks
from dure.domain.units import MIB
from dure.fleet.fit import Footprint
from dure.fleet.local.foreign import Foreign
from dure.fleet.local.instances import Spot
from dure.fleet.packing import packer as packing
from dure.fleet.packing.ground import COMPUTE, LIMIT, ROOM, DeviceSpec, NodeSpec, Sharing
from dure.fleet.packing.shapes import Ask, Shape, Together

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]

_SHARING = {
    ShareMode.WHOLE: Sharing.WHOLE,
    ShareMode.MIG: Sharing.SLOTS,
    ShareMode.CORE_GROUP: Sharing.SLOTS,
    ShareMode.MPS: Sharing.FRACTION,
    ShareMode.TIME_SLICE: Sharing.FRACTION,
    ShareMode.QUEUE: Sharing.FRACTION,
}
"""Queue units are bounded by their weights, as `dure.domain.fleet.slices.coexist` counts them."""

_EXPECT_EVERY = 16
"""Orders after which the expected demand is told anew at first; later after a quarter more."""


class Field:
    """The nodes of one group."""

    def __init__(self, group: NodeGroup, first_node: int, first_device: int) -> None:
        self.group = group
        self.profile: DeviceProfile = device_profile(group.profile)
        self.first_node = first_node
        self.first_device = first_device
        self.packer = packing.Packer([_node(group, self.profile)] * group.count, 1, _WEIGHTS)
        self.limit = _limit(group, self.profile)
        """Instances that one device holds at most."""
        self.up: Flags = np.ones(group.count, dtype=np.bool_)
        self.powered: Flags = np.ones(group.count, dtype=np.bool_)
        self.owner: Ints = np.full(group.count, -1, dtype=np.int64)
        """The dedicated pool a node belongs to, by number; -1: none."""
        self.held: Flags = np.zeros(group.count, dtype=np.bool_)
        """Kept for one waiting order."""
        self.draining: Flags = np.zeros(group.count, dtype=np.bool_)
        """Being emptied by moves that wait for checkpoints."""
        self.cordoned: Flags = np.zeros(group.count, dtype=np.bool_)
        """Up, but nothing new goes there."""
        self.foreign = Foreign(self.packer, group.count, self.profile.memory_bytes)
        self.used: Ints = np.zeros((5, group.count), dtype=np.int64)
        """Of each node: compute milli, device memory bytes, memory bandwidth milli, CPU milli,
        host memory bytes."""
        self.footprints: list[Footprint] = []
        """By their number."""
        self._packed: list[int] = []
        self._amounts: list[Ints] = []
        """What each takes, in the order of `used`."""
        self._heard: list[Footprint] = []
        self._blocks: dict[tuple[int, int], int | None] = {}
        self._blank = packing.Packer([_node(group, self.profile)], 1, _WEIGHTS)
        self._per_node: dict[int, int] = {}
        self._numbers: dict[Footprint, int] = {}
        self._seen = 0
        self._told = 0
        self.slices = tuple(_slices(group, self.profile))
        """Every slice it can give out, without CPU and host memory."""
        self.probes = [(each.template, self.number(each)) for each in self.slices]
        """Slice templates the group gives out, and the shapes that stand for them."""
        self._probed: Ints = np.array([self._packed[shape] for _, shape in self.probes], np.int64)
        self._rooms = _rooms(self.profile, group.mode)
        self._room: Ints = np.zeros((group.count, len(self.probes)), dtype=np.int64)
        self._stale = set(range(group.count))
        """Nodes whose room must be counted anew."""
        self._counts: dict[int, float] = {self._packed[shape]: 1.0 for _, shape in self.probes}
        """How often each was asked for, as the core numbers them; at first each slice once."""
        self._told_counts: dict[int, float] = {}
        self._expect(self._counts)

    @property
    def open(self) -> Flags:
        """Nodes that are up and take something new."""
        flags: Flags = self.up & ~self.cordoned
        return flags

    def number(self, footprint: Footprint) -> int:
        """The number by which a footprint is known here."""
        known = self._numbers.get(footprint)
        if known is None:
            known = self._numbers[footprint] = len(self.footprints)
            self.footprints.append(footprint)
            self._packed.append(self._tell(footprint))
            self._amounts.append(_amounts(footprint))
        return known

    def packed(self, shape: int) -> int:
        """The number by which the packing core knows that footprint."""
        return self._packed[shape]

    def expect(self, shape: int, count: int) -> None:
        """Remember what is asked for here; the packing core spares what that needs."""
        packed = self._packed[shape]
        self._counts[packed] = self._counts.get(packed, 0.0) + count
        self._seen += 1
        if self._seen >= self._told + max(_EXPECT_EVERY, self._told // 4):
            self._told = self._seen
            self._expect(self._counts)

    def save_shapes(self) -> list[Any]:
        """What was asked for so far, and all that the packing core ever heard of."""
        counts, told = self._counts, self._told_counts
        return [self._heard, self.footprints, counts, told, self._seen, self._told]

    def load_shapes(self, saved: list[Any]) -> None:
        """The reverse, before anything is asked for: the same numbers come out."""
        heard, footprints, self._counts, told, self._seen, self._told = saved
        for footprint in heard:
            self._tell(footprint)
        for footprint in footprints:
            self.number(footprint)
        self._heard = heard
        self._expect(told)

    def _tell(self, footprint: Footprint) -> int:
        """The packing core's own number for what a footprint asks."""
        self._heard.append(footprint)
        return self.packer.number(_shape(footprint, self.profile))

    def _expect(self, counts: dict[int, float]) -> None:
        self._told_counts = dict(counts)
        self.packer.expect(counts)

    def per_node(self, shape: int) -> int:
        """How many instances of a shape an empty node holds."""
        known = self._per_node.get(shape)
        if known is None:
            blank = self._blank
            known = blank.copies(blank.number(_shape(self.footprints[shape], self.profile)))
            self._per_node[shape] = known
        return known

    def empty_devices(self) -> Ints:
        """How many devices of each node have nothing on them."""
        rows = self.packer.ground.devices
        free = rows[:, ROOM] == rows[:, LIMIT]
        by_node: Ints = free.reshape(self.group.count, self.group.devices).sum(axis=1)
        return by_node

    def free_slices(self) -> tuple[tuple[str, int], ...]:
        """How many more of each slice would fit."""
        ground = self.packer.ground
        for node in self._stale:
            rows = ground.devices[ground.first[node] : ground.first[node + 1]]
            self._room[node] = np.sum([self._rooms.of(row) for row in rows], axis=0)
        self._stale.clear()
        totals = self._room[self.open].sum(axis=0).tolist()
        return tuple((name, total) for (name, _), total in zip(self.probes, totals, strict=True))

    def probe(self) -> tuple[tuple[str, int], ...]:
        """How many more of each slice all nodes have room for, with CPU and host memory."""
        counts = self.packer.copies_of(self._probed)
        return tuple((name, count) for (name, _), count in zip(self.probes, counts, strict=True))

    def in_use(self) -> Flags:
        """Nodes on which anything is taken."""
        flags: Flags = self.packer.ground.used > 0
        return flags

    def account(self, spot: Spot, sign: int) -> None:
        """Count what a spot uses of its node."""
        self.add(self.used, spot, sign)
        self._stale.add(spot.node - self.first_node)

    def add(self, used: Ints, spot: Spot, sign: int) -> None:
        """Add what a spot uses to a table like `used`."""
        column = used[:, spot.placement.node - self.first_node]
        if sign > 0:
            column += self._amounts[spot.shape]
        else:
            column -= self._amounts[spot.shape]

    def spot(self, found: packing.Placement, shape: int, index: int) -> Spot:
        """A place of the packing core in the cluster's own numbers."""
        footprint = self.footprints[shape]
        whole = footprint.template == "whole"
        placement = Placement(
            node=self.first_node + found.node,
            devices=tuple(self.first_device + device for device in found.devices),
            masks=found.slots if footprint.slots and not whole else (),
            template="" if whole else footprint.template,
            compute_milli=footprint.compute_milli,
        )
        return Spot(placement, shape, footprint, index)

    def place(self, spot: Spot) -> packing.Placement:
        """The reverse of `spot`."""
        if spot.packed is None:
            there = spot.placement
            spot.packed = packing.Placement(
                self._packed[spot.shape],
                there.node - self.first_node,
                tuple(device - self.first_device for device in there.devices),
                there.masks or (0,) * len(there.devices),
            )
        return spot.packed

    def places_on(self, spot: Spot, shape: int) -> Iterator[packing.Placement]:
        """Where a shape of one device could be on the device of a spot, whatever else is there."""
        there = self.place(spot)
        footprint = self.footprints[shape]
        template = self.profile.slice(footprint.template)
        for mask in _slots(template) if footprint.slots else (0,):
            slots = (mask,) * len(there.devices)
            yield packing.Placement(self._packed[shape], there.node, there.devices, slots)

    def block(self, shape: int, count: int) -> int | None:
        """The core's number for so many instances side by side in one link domain, if they fit."""
        key = (shape, count)
        if key not in self._blocks:
            self._blocks[key] = self._block(shape, count)
        return self._blocks[key]

    def _block(self, shape: int, count: int) -> int | None:
        each = self.footprints[shape]
        domain = min(self.group.link_domain, self.group.devices)
        if each.template != "whole" or count * each.devices > domain:
            return None
        together = replace(
            each,
            devices=count * each.devices,
            cpu_milli=count * each.cpu_milli,
            host_memory_bytes=count * each.host_memory_bytes,
        )
        return self._tell(together)


class _Rooms:
    """How many more of each slice a device takes, by the state it is in."""

    def __init__(self, profile: DeviceProfile, mode: ShareMode) -> None:
        one = NodeGroup("", 1, profile.name, 1, 0, 0, 1, mode=mode)
        self._packer = packing.Packer([_node(one, profile)], 1)
        self._probes = [
            self._packer.number(_shape(each, profile)) for each in _slices(one, profile)
        ]
        self._known: dict[bytes, tuple[int, ...]] = {}

    def of(self, row: Ints) -> tuple[int, ...]:
        """For one row of the device matrix."""
        key = row[COMPUTE : ROOM + 1].tobytes()
        known = self._known.get(key)
        if known is None:
            self._packer.ground.devices[0] = row
            known = self._known[key] = tuple(self._packer.copies(each) for each in self._probes)
        return known


@functools.cache
def _rooms(profile: DeviceProfile, mode: ShareMode) -> _Rooms:
    """All clusters share what was worked out for a kind of device: it depends on nothing else."""
    return _Rooms(profile, mode)


def _amounts(each: Footprint) -> Ints:
    """What an instance takes of its node."""
    of_devices = (each.compute_milli, each.memory_bytes, each.bandwidth_milli)
    amounts = (*(each.devices * one for one in of_devices), each.cpu_milli, each.host_memory_bytes)
    return np.array(amounts, dtype=np.int64)


_WEIGHTS = packing.CONSOLIDATE
"""Nodes are billed or powered as a whole, so the fewest are used."""


def _node(group: NodeGroup, profile: DeviceProfile) -> NodeSpec:
    """An empty node of a group."""
    templates = [each for each in profile.slices if each.mode is group.mode]
    sharing = _SHARING[group.mode]
    devices = tuple(
        DeviceSpec(
            profile=0,
            sharing=sharing,
            memory_mib=profile.memory_bytes // MIB,
            slots=templates[0].device_slots if sharing is Sharing.SLOTS and templates else 0,
            limit=_limit(group, profile),
            domain=index // max(1, group.link_domain),
        )
        for index in range(group.devices)
    )
    return NodeSpec(group.cpu_milli, group.host_memory_bytes // MIB, devices)


def _limit(group: NodeGroup, profile: DeviceProfile) -> int:
    return max((each.mode_most for each in profile.slices if each.mode is group.mode), default=1)


def _slices(group: NodeGroup, profile: DeviceProfile) -> Iterator[Footprint]:
    """Every slice a group can give out, without CPU and host memory."""
    placed = _SHARING[group.mode] is Sharing.SLOTS
    for template in profile.slices:
        whole = template.mode is ShareMode.WHOLE and not placed
        if template.mode is group.mode or whole:
            yield Footprint(
                template=template.name,
                mode=group.mode,
                devices=1,
                compute_milli=template.compute_milli,
                memory_bytes=template.memory_bytes,
                bandwidth_milli=template.bandwidth_milli,
                slots=template.slots if placed else 0,
                cpu_milli=0,
                host_memory_bytes=0,
            )


def _shape(footprint: Footprint, profile: DeviceProfile) -> Shape:
    """A footprint in the packing core's terms; memory rounded so that what fits still does."""
    template = profile.slice(footprint.template)
    ask = Ask(
        compute_milli=footprint.compute_milli,
        memory_mib=footprint.memory_bytes // MIB,
        bandwidth_milli=footprint.bandwidth_milli,
        slots=_slots(template) if footprint.slots else (),
    )
    return Shape(
        cpu_milli=footprint.cpu_milli,
        host_mib=-(-footprint.host_memory_bytes // MIB),
        devices=footprint.devices,
        asks={0: ask},
        together=Together.LINKED if footprint.devices > 1 else Together.ANYWHERE,
    )


def _slots(template: SliceTemplate) -> tuple[int, ...]:
    """Placements of a template, the last first: large templates can start at slot 0 alone."""
    return tuple(reversed(masks(template)))
