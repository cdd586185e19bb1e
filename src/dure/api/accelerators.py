"""Accelerators that the fleet knows by name."""

from dure.api.base import Document
from dure.domain.fleet.profiles import DeviceProfile


class SliceDocument(Document):
    """One shape in which a device can be given out."""

    name: str
    mode: str
    memory_bytes: int
    compute_milli: int
    """Share of the device's compute, in thousandths."""
    bandwidth_milli: int
    most: int
    """Instances of it that one device holds."""
    resource_name: str
    """The Kubernetes resource its holder asks for."""


class AcceleratorDocument(Document):
    """A model of accelerator."""

    name: str
    vendor: str
    product: str
    kind: str
    memory_bytes: int
    tops: dict[str, float]
    """10^12 operations a second by data type."""
    bandwidth_bytes_per_s: float
    idle_w: float
    peak_w: float
    shareable: bool
    slices: list[SliceDocument]


def accelerator_document(profile: DeviceProfile) -> AcceleratorDocument:
    """An accelerator of the catalogue, for people."""
    return AcceleratorDocument(
        name=profile.name,
        vendor=profile.vendor,
        product=profile.product,
        kind=profile.kind.value,
        memory_bytes=profile.memory_bytes,
        tops={data_type.value: speed for data_type, speed in profile.tops.items()},
        bandwidth_bytes_per_s=profile.bandwidth_bytes_per_s,
        idle_w=profile.power.idle_w,
        peak_w=profile.power.peak_w,
        shareable=profile.shareable,
        slices=[
            SliceDocument(
                name=each.name,
                mode=each.mode.value,
                memory_bytes=each.memory_bytes,
                compute_milli=each.compute_milli,
                bandwidth_milli=each.bandwidth_milli,
                most=each.most,
                resource_name=each.resource_name,
            )
            for each in profile.slices
        ],
    )
