"""What one instance asks of one node, and the table that gives each such shape a number.

A shape says its demand once for every accelerator profile it accepts, since 300 thousandths of one
device are not 300 of another. Shapes that ask the same of the devices share an *ask*: the score
looks at each ask once, however many sizes of CPU and host memory come with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WHOLE_MILLI = 1000
"""Compute of one device; an ask of this much wants the device alone."""
MOST_SLOTS = 16
"""Slots a device can have: enough for MIG (8) and the NPU core groups known."""


class Together(IntEnum):
    """How the devices of one instance must lie to each other."""

    ANYWHERE = 0
    """Any devices of the node, of one profile."""
    LINKED = 1
    """In one NVLink or PCIe domain."""
    CONTIGUOUS = 2
    """In one domain and with consecutive indices."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What every device of one profile must give to the instance."""

    compute_milli: int = WHOLE_MILLI
    """Thousandths of the device; 1000 wants it alone. Round down where slots carry the amount."""
    memory_mib: int = 0
    bandwidth_milli: int = 0
    slots: tuple[int, ...] = ()
    """On devices with slots: the allowed placements as bit masks, preferred first."""

    def __post_init__(self) -> None:
        if not 0 <= self.compute_milli <= WHOLE_MILLI:
            raise InputError(
                f"{self.compute_milli} is no share of a device", "use 0 to 1000", field="compute"
            )
        if self.memory_mib < 0 or self.bandwidth_milli < 0:
            raise InputError("a demand is negative", "use 0 or more", field="memory or bandwidth")
        if any(not 0 < mask < 1 << MOST_SLOTS for mask in self.slots):
            raise InputError(
                "a slot placement is empty or too wide", f"use 1 to {MOST_SLOTS} slots"
            )


@dataclass(frozen=True, slots=True)
class Shape:
    """The demand of one instance on one node."""

    cpu_milli: int = 0
    host_mib: int = 0
    devices: int = 0
    asks: Mapping[int, Ask] = field(default_factory=dict)
    """Accepted profile index to what each device must give; empty without devices."""
    together: Together = Together.ANYWHERE

    def __post_init__(self) -> None:
        if min(self.cpu_milli, self.host_mib, self.devices) < 0:
            raise InputError("a demand is negative", "use 0 or more")
        if bool(self.devices) != bool(self.asks):
            raise InputError(
                "devices and accepted profiles do not agree",
                "state at least one profile exactly where devices are asked for",
            )

    @property
    def _ask_key(self) -> tuple[object, ...]:
        return (self.devices, self.together, tuple(sorted(self.asks.items(), key=_by_profile)))

    @property
    def _key(self) -> tuple[object, ...]:
        return (self.cpu_milli, self.host_mib, self._ask_key)


def uniform(profiles: int, ask: Ask) -> dict[int, Ask]:
    """The same ask of every profile whose bit is set in `profiles`."""
    return {index: ask for index in range(profiles.bit_length()) if profiles >> index & 1}


# Columns of the ask table, for each ask and profile.
# They are compiled into `loops`, which must be touched when they change.
ACCEPTED, COMPUTE, MEMORY, BANDWIDTH, FIRST_MASK, END_MASK, PLAIN = range(7)
DEVICES, TOGETHER, ALONE = range(7, 10)
ASK_COLUMNS = 10


class Asks(NamedTuple):
    """Distinct demands on devices; few arrays, since a compiled call pays for each."""

    cells: Ints
    """By ask, profile and column. `PLAIN`: compute is all that is asked. The same for all
    profiles: `DEVICES`, `TOGETHER`, and `ALONE`: every accepted profile gives whole devices."""
    masks: Ints
    """Allowed slot placements; `FIRST_MASK` to `END_MASK` are those of an ask and profile."""


class Shapes(NamedTuple):
    """All shapes as columns; `ask` is -1 where no device is wanted."""

    cpu: Ints
    host: Ints
    ask: Ints
    least_compute: Ints
    """Compute that the least asking of the accepted profiles must have free."""


class ShapeTable:
    """Numbers shapes in the order they are first seen; equal shapes get one number."""

    def __init__(self, profiles: int) -> None:
        self.profiles = max(profiles, 1)
        """Accelerator profiles known; an ask names one by index."""
        self.shapes: list[Shape] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._ask_numbers: dict[tuple[object, ...], int] = {}
        self._ask_of: list[int] = []
        self._asks: list[Shape] = []
        self._columns: tuple[Shapes, Asks] | None = None

    def __len__(self) -> int:
        return len(self.shapes)

    def number(self, shape: Shape) -> int:
        """The number of this shape; a new one where it was never seen."""
        key = shape._key
        found = self._numbers.get(key)
        if found is not None:
            return found
        for profile in shape.asks:
            if not 0 <= profile < self.profiles:
                raise InputError(
                    f"profile {profile} is unknown here", f"use 0 to {self.profiles - 1}"
                )
        self._ask_of.append(self._ask_number(shape))
        self._numbers[key] = len(self.shapes)
        self.shapes.append(shape)
        self._columns = None
        return len(self.shapes) - 1

    def columns(self) -> tuple[Shapes, Asks]:
        """Everything as arrays for the compiled loops."""
        if self._columns is None:
            shapes = Shapes(
                cpu=np.array([shape.cpu_milli for shape in self.shapes], dtype=np.int64),
                host=np.array([shape.host_mib for shape in self.shapes], dtype=np.int64),
                ask=np.array(self._ask_of, dtype=np.int64),
                least_compute=np.array(
                    [_least_compute(shape) for shape in self.shapes], dtype=np.int64
                ),
            )
            self._columns = shapes, self._ask_columns()
        return self._columns

    def copy(self) -> "ShapeTable":
        """An independent table with the same numbers."""
        twin = ShapeTable(self.profiles)
        twin.shapes = self.shapes.copy()
        twin._numbers = self._numbers.copy()
        twin._ask_numbers = self._ask_numbers.copy()
        twin._ask_of = self._ask_of.copy()
        twin._asks = self._asks.copy()
        return twin

    def _ask_number(self, shape: Shape) -> int:
        if not shape.devices:
            return -1
        key = shape._ask_key
        if key not in self._ask_numbers:
            self._ask_numbers[key] = len(self._asks)
            self._asks.append(shape)
        return self._ask_numbers[key]

    def _ask_columns(self) -> Asks:
        cells = np.zeros((max(len(self._asks), 1), self.profiles, ASK_COLUMNS), dtype=np.int64)
        masks: list[int] = []
        for row, shape in enumerate(self._asks):
            cells[row, :, DEVICES] = shape.devices
            cells[row, :, TOGETHER] = shape.together
            cells[row, :, ALONE] = all(
                ask.compute_milli == WHOLE_MILLI for ask in shape.asks.values()
            )
            for profile, ask in shape.asks.items():
                cell = cells[row, profile]
                cell[ACCEPTED] = 1
                cell[COMPUTE] = ask.compute_milli
                cell[MEMORY] = ask.memory_mib
                cell[BANDWIDTH] = ask.bandwidth_milli
                cell[FIRST_MASK] = len(masks)
                masks += ask.slots
                cell[END_MASK] = len(masks)
                cell[PLAIN] = ask.compute_milli > 0 and not ask.memory_mib + ask.bandwidth_milli
        return Asks(cells, np.array(masks, dtype=np.int64))


def _least_compute(shape: Shape) -> int:
    return min((ask.compute_milli for ask in shape.asks.values()), default=0)


def _by_profile(item: tuple[int, Ask]) -> int:
    return item[0]
