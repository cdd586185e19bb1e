"""Device profiles: what the fleet knows of an accelerator, and which of its slices meet a demand.

Level 1 has a profile of its own (`dure.domain.accelerator`) with what a kernel scheduler needs to
know of compute units; the fleet looks from farther away: memory, speed by data type, bandwidth,
links, power, ways to share. Every value carries the public source it was taken from.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import combinations_with_replacement
from typing import Protocol

from dure.domain.accelerator import AcceleratorKind
from dure.domain.errors import InputError
from dure.domain.fleet.slices import WHOLE_MILLI, ShareMode, SliceTemplate, coexist


class DataType(Enum):
    """Number formats an accelerator computes in."""

    FP32 = "fp32"
    TF32 = "tf32"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"


class LinkKind(Enum):
    """How devices of one node are joined."""

    NVLINK = "nvlink"
    PCIE = "pcie"
    NEURONLINK = "neuronlink"
    HCCS = "hccs"


class SourceKind(Enum):
    """How firmly a value is known."""

    PUBLISHED = "published"
    """Stated by the vendor, in a data sheet or its documentation."""
    REPORTED = "reported"
    """Stated by somebody else: a measurement, an article, another project."""
    ESTIMATE = "estimate"
    """Not published anywhere we know: derived, as the note says."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from."""

    kind: SourceKind
    title: str
    url: str
    note: str = ""
    """What the value rests on, where it is not simply copied."""


@dataclass(frozen=True, slots=True)
class Link:
    """What joins a device to its neighbours in the node."""

    kind: LinkKind
    bytes_per_s: float
    """In one direction, all lanes of the device together."""


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Electric power by utilisation: a straight line from idle to peak.

    A line is what fleet accounting can support: real curves bend a little upwards at first
    (clocks rise with the first work), which only measurements on the site's own devices can tell.
    """

    idle_w: float
    """Powered, nothing running."""
    peak_w: float
    """Board or module power under full load."""

    def power_w(self, utilisation: float) -> float:
        """Power at a utilisation between 0 and 1; values outside are taken as the nearest."""
        return self.idle_w + (self.peak_w - self.idle_w) * min(max(utilisation, 0.0), 1.0)


SOURCED_FIELDS = (
    "memory_bytes",
    "tops",
    "bandwidth_bytes_per_s",
    "link",
    "idle_w",
    "peak_w",
    "slices",
    "resource_names",
)
"""The values of a profile that must name their source."""


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """A model of accelerator as the fleet sees it."""

    name: str
    """Lower case, as scenarios and pools write it: `h100`, `a100-40gb`."""
    vendor: str
    product: str
    """As the vendor names it."""
    kind: AcceleratorKind
    memory_bytes: int
    tops: Mapping[DataType, float]
    """Dense 10^12 operations a second by data type; a type not named is not supported."""
    bandwidth_bytes_per_s: float
    """Of the device's own memory."""
    link: Link
    power: PowerCurve
    slices: tuple[SliceTemplate, ...]
    """Every way to give it out, the undivided device first."""
    sources: Mapping[str, Source]
    """By field, one for each of `SOURCED_FIELDS`."""

    def __post_init__(self) -> None:
        unsourced = [field for field in SOURCED_FIELDS if field not in self.sources]
        if unsourced:
            raise InputError(
                f"profile '{self.name}' does not say where {', '.join(unsourced)} comes from",
                "name a source for each",
            )
        too_large = [each.name for each in self.slices if each.memory_bytes > self.memory_bytes]
        if too_large:
            raise InputError(
                f"profile '{self.name}' offers slices larger than itself: {', '.join(too_large)}",
                "correct their memory",
            )

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def shareable(self) -> bool:
        """Whether two tenants can hold slices of it at once; turns in a queue are not that."""
        alone = (ShareMode.WHOLE, ShareMode.QUEUE)
        return any(template.mode not in alone for template in self.slices)

    @property
    def modes(self) -> tuple[ShareMode, ...]:
        """The ways it can be divided, in the order its slices are listed."""
        return tuple(dict.fromkeys(template.mode for template in self.slices))

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The Kubernetes resources it can appear as."""
        return tuple(dict.fromkeys(template.resource_name for template in self.slices))

    @property
    def whole(self) -> SliceTemplate:
        """The undivided device."""
        return self.slice("whole")

    def slice(self, name: str) -> SliceTemplate:
        """One of its templates by name; raises `InputError` for one it does not offer."""
        for template in self.slices:
            if template.name == name:
                return template
        names = ", ".join(template.name for template in self.slices)
        raise InputError(f"a {self.name} has no slice '{name}'", f"use one of {names}")

    def power_w(self, utilisation: float) -> float:
        """Power at a utilisation between 0 and 1; see `PowerCurve`."""
        return self.power.power_w(utilisation)

    def slice_tops(self, template: SliceTemplate, data_type: DataType) -> float:
        """What a slice computes in a data type; 0 where the device does not support it."""
        return self.tops.get(data_type, 0.0) * template.compute_milli / WHOLE_MILLI

    def slice_bandwidth_bytes_per_s(self, template: SliceTemplate) -> float:
        """A slice's part of the memory bandwidth."""
        return self.bandwidth_bytes_per_s * template.bandwidth_milli / WHOLE_MILLI

    def share_milli(self, template: SliceTemplate) -> int:
        """How much of the device a slice uses up, by its largest share of anything."""
        shares = [template.compute_milli, template.bandwidth_milli]
        shares.append(-(-template.memory_bytes * WHOLE_MILLI // self.memory_bytes))
        if template.placed:
            shares.append(-(-template.slots * WHOLE_MILLI // template.device_slots))
        return max(shares)


class DeviceDemand(Protocol):
    """What a profile must know of a demand; `dure.domain.fleet.workloads.Demand` is one."""

    @property
    def memory_bytes(self) -> int:
        """Of device memory, on each device."""

    @property
    def compute_tops(self) -> float:
        """At `data_type`, on each device."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        """Of device memory, on each device."""

    @property
    def data_type(self) -> DataType:
        """The format it computes in; a device that does not support it does not fit."""

    @property
    def devices(self) -> int:
        """Devices it runs on; more than one are whole devices."""

    @property
    def whole(self) -> bool:
        """Whether nothing less than whole devices will do."""


_ISOLATION = (
    ShareMode.WHOLE,
    ShareMode.MIG,
    ShareMode.CORE_GROUP,
    ShareMode.MPS,
    ShareMode.TIME_SLICE,
    ShareMode.QUEUE,
)
"""Between slices that use up as much, the better isolated comes first."""


def fits(
    profile: DeviceProfile, demand: DeviceDemand, modes: Collection[ShareMode] | None = None
) -> tuple[SliceTemplate, ...]:
    """The slices that meet a demand on each of its devices, those that use up least first.

    `modes` restricts the answer, for example to the mode a device is in or a pool allows.
    """
    allowed = _modes_for(demand) if modes is None else _modes_for(demand) & set(modes)
    fitting = [
        template
        for template in profile.slices
        if template.mode in allowed and units_needed(profile, template, demand) == 1
    ]

    def cost(template: SliceTemplate) -> tuple[int, int, str]:
        order = _ISOLATION.index(template.mode)
        return (profile.share_milli(template), order, template.name)

    return tuple(sorted(fitting, key=cost))


def _modes_for(demand: DeviceDemand) -> set[ShareMode]:
    """Several devices are whole ones: no vendor links slices of different devices."""
    return {ShareMode.WHOLE} if demand.whole or demand.devices > 1 else set(ShareMode)


def units_needed(
    profile: DeviceProfile, template: SliceTemplate, demand: DeviceDemand
) -> int | None:
    """How many of a slice give together what is demanded of one device; None if no number does.

    More than one only helps a workload that can be divided; `fits` asks for exactly one.
    """
    if demand.data_type not in profile.tops:
        return None
    return max(
        1,
        _times(demand.memory_bytes, template.memory_bytes),
        _times(demand.compute_tops, profile.slice_tops(template, demand.data_type)),
        _times(demand.bandwidth_bytes_per_s, profile.slice_bandwidth_bytes_per_s(template)),
    )


def _times(wanted: float, each: float) -> int:
    """How often `each` goes into `wanted`, rounded up; a part in 10^9 too little is enough."""
    return math.ceil(wanted / each - 1e-9)


def can_coexist(profile: DeviceProfile, templates: Collection[SliceTemplate]) -> bool:
    """Whether one device of this profile can hold an instance of each of these at once."""
    return coexist(tuple(templates), profile.memory_bytes)


def full_mixes(profile: DeviceProfile, mode: ShareMode) -> tuple[tuple[str, ...], ...]:
    """Every set of slices of a placed mode that fits one device and leaves room for no other.

    Largest slices first, as names; for MIG these are the partitions an operator can choose from.
    """
    templates = [each for each in profile.slices if each.mode is mode and each.placed]
    if not templates:
        return ()
    templates.sort(key=lambda each: (-each.slots, -each.compute_milli, each.name))
    feasible: set[tuple[SliceTemplate, ...]] = set()
    for size in range(1, max(each.mode_most for each in templates) + 1):
        found = {
            mix
            for mix in combinations_with_replacement(templates, size)
            if (size == 1 or mix[:-1] in feasible) and can_coexist(profile, mix)
        }
        if not found:
            break
        feasible |= found
    return tuple(
        tuple(each.name for each in mix)
        for mix in sorted(feasible, key=lambda mix: [templates.index(each) for each in mix])
        if not any(can_coexist(profile, (*mix, more)) for more in templates)
    )
