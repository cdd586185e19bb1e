"""What measuring needs of devices and of the series store."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from dure.devices.nvml_gauges import GpuGauges
from dure.domain.metrics.kinds import Reading, Spread
from dure.domain.series import Found, Range, Sample, Selector
from dure.stores.series.recorder import Recorded

Readings = Sequence[Reading | Spread]


class Gauges(Protocol):
    """The first layer."""

    def read(self, index: int) -> GpuGauges:
        """Look at one GPU; what it does not say is None."""

    def close(self) -> None:
        """Give it back."""


class Layer(Protocol):
    """Something that is measured by itself: where it fails the others do not."""

    @property
    def name(self) -> str:
        """For those who ask which one fails."""

    def read(self) -> Readings:
        """Everything it can say now; what it cannot is left out."""


class SeriesKeeper(Protocol):
    """Where samples go; never waits."""

    def add(self, samples: Iterable[Sample]) -> None:
        """Take samples."""

    def recorded(self) -> Recorded:
        """What became of them."""


class SeriesShelf(Protocol):
    """Where samples are found again."""

    def query(self, selector: Selector, span: Range) -> list[Found]:
        """Series with samples in a span."""

    def names(self) -> list[str]:
        """Names of all series."""
