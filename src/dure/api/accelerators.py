"""Accelerators that the fleet knows by name."""

from dure.api.base import Document


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
