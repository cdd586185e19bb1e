"""What can be packed into: nodes with CPU and host memory, and their devices, as columns.

The free amounts of all devices lie in one matrix of integers, a row for each device, the rows of a
node together. A loop copies a node's few rows, tries something on the copy and throws it away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from dure.domain.errors import InputError
from dure.fleet.packing.shapes import MOST_SLOTS, WHOLE_MILLI, Flags, Ints


class Sharing(IntEnum):
    """How a device is shared."""

    WHOLE = 0
    """Not at all: whoever comes has it alone."""
    FRACTION = 1
    """Shares of compute, memory and bandwidth (MPS, time slices), for so many clients."""
    SLOTS = 2
    """Placements on a row of slots (MIG, NPU core groups), for so many instances."""
    QUEUE = 3
    """Weighted turns without a fixed slice, for so many queue entries; memory is still held."""


# Columns of the device matrix: what is free, then what the device is.
# They are compiled into `loops`, which must be touched when they change.
COMPUTE, MEMORY, BANDWIDTH, SLOTS, ROOM = range(5)
PROFILE, SHARING, DOMAIN, WORTH, ALL_MEMORY, ALL_BANDWIDTH, ALL_SLOTS, LIMIT = range(5, 13)
COLUMNS = 13


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """One accelerator as it is when nothing runs on it."""

    profile: int
    sharing: Sharing = Sharing.WHOLE
    memory_mib: int = 0
    bandwidth_milli: int = 1000
    slots: int = 0
    """How many slots; only with `Sharing.SLOTS`."""
    limit: int = 1
    """Most clients, instances or queue entries at once."""
    domain: int = 0
    """NVLink or PCIe domain inside the node."""
    worth_milli: int = 1000
    """What the whole device counts for in the score, against other profiles."""

    def __post_init__(self) -> None:
        if min(self.memory_mib, self.bandwidth_milli, self.worth_milli) < 0:
            raise InputError("a device has a negative capacity", "use 0 or more")
        if self.limit < 1:
            raise InputError("a device takes no clients", "use a limit of 1 or more", field="limit")
        if (self.sharing is Sharing.SLOTS) != bool(self.slots) or self.slots > MOST_SLOTS:
            raise InputError(
                f"a device has {self.slots} slots",
                f"state 1 to {MOST_SLOTS} slots exactly where it is shared by slots",
                field="slots",
            )


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One host as it is when nothing runs on it."""

    cpu_milli: int
    host_mib: int
    devices: tuple[DeviceSpec, ...] = ()
    zone: int = 0
    """Network domain (rack, NVLink switch): a gang over several nodes stays in one if it can."""

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.host_mib) < 0:
            raise InputError("a node has a negative capacity", "use 0 or more")


class Ground(NamedTuple):
    """The free amounts of all nodes and devices."""

    cpu: Ints
    host: Ints
    open: Flags
    """False: the node takes nothing new (drained, powered down, reserved)."""
    used: Ints
    """Instances on the node."""
    first: Ints
    """First device row of each node; one entry more than there are nodes."""
    devices: Ints
    """The device matrix."""
    zone: Ints

    def copy(self) -> "Ground":
        """An independent copy."""
        return Ground._make(column.copy() for column in self)


def lay_out(nodes: Sequence[NodeSpec]) -> Ground:
    """Empty nodes as columns."""
    first = np.zeros(len(nodes) + 1, dtype=np.int64)
    first[1:] = np.cumsum([len(node.devices) for node in nodes])
    rows = [_row(device) for node in nodes for device in node.devices]
    return Ground(
        cpu=np.array([node.cpu_milli for node in nodes], dtype=np.int64),
        host=np.array([node.host_mib for node in nodes], dtype=np.int64),
        open=np.ones(len(nodes), dtype=np.bool_),
        used=np.zeros(len(nodes), dtype=np.int64),
        first=first,
        devices=np.array(rows, dtype=np.int64).reshape(len(rows), COLUMNS),
        zone=np.array([node.zone for node in nodes], dtype=np.int64),
    )


def _row(device: DeviceSpec) -> list[int]:
    row = [0] * COLUMNS
    row[PROFILE] = device.profile
    row[SHARING] = device.sharing
    row[DOMAIN] = device.domain
    row[COMPUTE] = WHOLE_MILLI
    row[MEMORY] = row[ALL_MEMORY] = device.memory_mib
    row[BANDWIDTH] = row[ALL_BANDWIDTH] = device.bandwidth_milli
    row[SLOTS] = row[ALL_SLOTS] = (1 << device.slots) - 1
    row[ROOM] = row[LIMIT] = device.limit if device.sharing is not Sharing.WHOLE else 1
    row[WORTH] = device.worth_milli
    return row
