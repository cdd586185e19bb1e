"""What may become a series at all: sane values, short labels, not too many series."""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.series import MOST_LABEL, Fault, Sample, SeriesKey, fault_of

IDLE_MS = 3_600_000
"""A series without a sample for so long makes room for another."""


@dataclass(slots=True)
class Gate:
    """Samples that may pass. Series that are already there go on; a new one is refused while as
    many as may be are there, of its name or in all, until one of them was silent for an hour."""

    most_series: int = 20_000
    most_of_name: int = 5_000
    faults: Counter[Fault] = field(default_factory=Counter)
    """Samples that were refused, ever."""
    _seen: "OrderedDict[SeriesKey, int]" = field(default_factory=OrderedDict)
    """When each was last there; those that were silent for longest first."""
    _names: Counter[str] = field(default_factory=Counter)

    @property
    def series(self) -> int:
        """How many there are."""
        return len(self._seen)

    def passed(self, samples: Iterable[Sample]) -> list[Sample]:
        """Those that may be kept."""
        return [sample for sample in samples if self._passes(sample)]

    def _passes(self, sample: Sample) -> bool:
        series, at_ms, value = sample
        fault = fault_of(value)
        if fault is not None:
            return self._refuse(fault)
        if series in self._seen:
            if at_ms > self._seen[series]:
                self._seen[series] = at_ms
                self._seen.move_to_end(series)
            return True
        if any(len(label) > MOST_LABEL for _, label in series.labels):
            return self._refuse(Fault.LABEL)
        if not self._has_room(series.name, at_ms):
            return self._refuse(Fault.CARDINALITY)
        self._seen[series] = at_ms
        self._names[series.name] += 1
        return True

    def _refuse(self, fault: Fault) -> bool:
        self.faults[fault] += 1
        return False

    def _has_room(self, name: str, now_ms: int) -> bool:
        if self._fits(name):
            return True
        while self._seen:
            oldest = next(iter(self._seen))
            if self._seen[oldest] > now_ms - IDLE_MS:
                break
            del self._seen[oldest]
            self._names[oldest.name] -= 1
        return self._fits(name)

    def _fits(self, name: str) -> bool:
        return len(self._seen) < self.most_series and self._names[name] < self.most_of_name
