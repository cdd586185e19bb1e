"""Memory that fills up: when it will be full, and how sure that is.

A leak grows on and on, a program that loads its model grows once. So growth counts only where
it is spread over the whole window: every quarter of it must have its part in it. The line
through the window has the uncertainty of what the values really scatter about it.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from dure.domain.ids import TenantId
from dure.domain.risks import Risk, RiskKind
from dure.domain.units import NS_PER_S, format_bytes
from dure.telemetry.lines import Line, fit_line

_WINDOW = 120
"""Values a line is fitted to."""
_LEAST = 32
_QUARTERS = 4
_LEAST_PART = 0.3
"""Of a quarter in the growth, where 1 is an even one."""
_SURE = 0.9


@dataclass(slots=True)
class MemoryWatch:
    """Foresees when one pool of memory is full. Values come at equal steps."""

    series: str
    step_s: float
    horizon_s: float
    """How far ahead is looked."""
    tenant: TenantId | None = None
    _values: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def observe(self, used_bytes: float, capacity_bytes: float) -> Risk | None:
        """Take in a value; a risk if the memory will be full within the horizon."""
        self._values.append(used_bytes)
        line = self._line()
        if line is None or capacity_bytes <= 0.0:
            return None
        sure = line.above(capacity_bytes, self.horizon_s)
        if sure < _SURE:
            return None
        soon_s = line.reaches_s(capacity_bytes)
        return Risk(
            series=self.series,
            kind=RiskKind.MEMORY,
            confidence=sure,
            tenant=self.tenant,
            violation_in_ns=round(soon_s * NS_PER_S),
            reason=(
                f"{format_bytes(round(used_bytes))} of {format_bytes(round(capacity_bytes))} are "
                f"in use, growing by {format_bytes(round(line.slope_per_s * 60.0))} a minute; "
                f"full in about {_span(soon_s)}"
            ),
        )

    def _line(self) -> Line | None:
        """The line, if all of the window grows."""
        count = len(self._values)
        if count < _LEAST:
            return None
        values = np.array(self._values)
        medians = [float(np.median(part)) for part in np.array_split(values, _QUARTERS)]
        growth = np.diff(medians)
        if float(growth.min()) <= _LEAST_PART * max(float(growth.mean()), 0.0):
            return None
        rough = fit_line(values, self.step_s, 1.0)
        ages_s = (np.arange(count) - (count - 1)) * self.step_s
        errors = values - (rough.level + rough.slope_per_s * ages_s)
        # Neighbouring values err alike; a quarter of the window counts as one independent run.
        variance = float(errors @ errors) / (count - 2) * (count / (2.0 * _QUARTERS))
        return fit_line(values, self.step_s, max(variance, 1.0))


def _span(seconds: float) -> str:
    return f"{seconds / 60.0:.0f} min" if seconds >= 120.0 else f"{seconds:.0f} s"
