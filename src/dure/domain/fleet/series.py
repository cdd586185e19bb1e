"""A quantity that changes by the hour: electricity prices, carbon intensity, tariffs, load."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dure.domain.errors import InputError
from dure.domain.units import NS_PER_S

HOUR_NS = 3600 * NS_PER_S
DAY_NS = 24 * HOUR_NS

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Values of equal steps from a start.

    Before the start the first value holds; after the end the last day repeats.
    """

    values: Floats
    start_ns: int = 0
    step_ns: int = HOUR_NS
    _sums: Floats = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or not len(self.values):
            raise InputError("a series has no values", "give at least one")
        wrong = np.flatnonzero(~np.isfinite(self.values))
        if len(wrong):
            raise InputError(
                f"value {int(wrong[0]) + 1} of a series is missing or not a number",
                "fill the gap in the data",
            )
        sums = np.concatenate(([0.0], np.cumsum(self.values)))
        object.__setattr__(self, "_sums", sums)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Series):
            return NotImplemented
        steps = (self.start_ns, self.step_ns) == (other.start_ns, other.step_ns)
        return steps and np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.start_ns, self.step_ns, self.values.tobytes()))

    @classmethod
    def constant(cls, value: float) -> "Series":
        """The same value at all times."""
        return cls(np.array([value], dtype=np.float64))

    def at(self, now_ns: int) -> float:
        """The value at a moment."""
        return float(self.values[self._index(now_ns)])

    def mean(self, start_ns: int, end_ns: int) -> float:
        """The mean from one moment to a later one."""
        if end_ns <= start_ns:
            return self.at(start_ns)
        return (self._integral(end_ns) - self._integral(start_ns)) / (end_ns - start_ns)

    def means(self, starts_ns: NDArray[np.int64], ends_ns: NDArray[np.int64]) -> Floats:
        """`mean` of many intervals at once; each must be longer than nothing."""
        return (self._integrals(ends_ns) - self._integrals(starts_ns)) / (ends_ns - starts_ns)

    def ahead(self, now_ns: int, steps: int) -> Floats:
        """The values of the step that `now_ns` is in and of those that follow."""
        first = (now_ns - self.start_ns) // self.step_ns
        return np.array(
            [
                self.values[self._index(self.start_ns + (first + k) * self.step_ns)]
                for k in range(steps)
            ]
        )

    @property
    def _day(self) -> int:
        return min(len(self.values), max(1, DAY_NS // self.step_ns))

    def _index(self, now_ns: int) -> int:
        index = (now_ns - self.start_ns) // self.step_ns
        if index < len(self.values):
            return max(0, index)
        return len(self.values) - self._day + (index - len(self.values)) % self._day

    def _integral(self, until_ns: int) -> float:
        return float(self._integrals(np.array([until_ns], dtype=np.int64))[0])

    def _integrals(self, until_ns: NDArray[np.int64]) -> Floats:
        """Value × ns from the start of the series to each moment; negative before the start."""
        steps = (until_ns - self.start_ns) / self.step_ns
        count, day = len(self.values), self._day
        edges = np.arange(count + 1)
        beyond = np.maximum(steps - count, 0.0)
        days = np.floor(beyond / day)
        first = count - day
        sums = np.interp(np.clip(steps, 0.0, float(count)), edges, self._sums)
        sums += days * (self._sums[count] - self._sums[first])
        sums += np.interp(first + beyond - days * day, edges, self._sums) - self._sums[first]
        sums += np.minimum(steps, 0.0) * self.values[0]
        return np.asarray(sums * self.step_ns)
