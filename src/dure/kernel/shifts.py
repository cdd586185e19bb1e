"""Sees that what tenants ask for is no longer what it was when it was last looked at."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dure.domain.events import ReadingsTaken
from dure.domain.ids import TenantId
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S
from dure.kernel.objective import ScoreMeter, Sums

LATELY_NS = 2 * NS_PER_S
_BEFORE_NS = 8 * NS_PER_S
_EVERY_NS = NS_PER_S // 2
_FACTOR = 1.4
"""A rate that moved by this factor is another load."""
_SURE = 3.0
"""Standard errors of a count that must lie between."""
_BUSY_STEP = 0.5
"""For jobs: a share of time with work that moved by this much."""


@dataclass(slots=True)
class LoadShifts:
    """Compares the last seconds with those before."""

    _meter: ScoreMeter = field(default_factory=ScoreMeter)
    _looked_ns: int | None = None

    def restart(self) -> None:
        """What comes next is not to be compared with what was."""
        self._meter.restart()

    def look(self, event: ReadingsTaken, tenants: Mapping[TenantId, Tenant]) -> str | None:
        """Take in a tick; in a sentence what moved, once, or None where nothing did."""
        now_ns, meter = event.now_ns, self._meter
        meter.add(now_ns, event.readings)
        if self._looked_ns is not None and now_ns - self._looked_ns < _EVERY_NS:
            return None
        self._looked_ns = now_ns
        late_ns, lately = meter.over(LATELY_NS)
        long_ns, long = meter.over(_BEFORE_NS)
        if long_ns - late_ns < LATELY_NS:
            return None
        for tenant, after in lately.items():
            if tenant not in tenants:
                continue
            whole = long.get(tenant, Sums())
            if tenants[tenant].slo.latency is not None:
                moved = _rate_moved(whole, long_ns, after, late_ns)
            else:
                moved = _busy_moved(whole, long_ns, after, late_ns)
            if moved is not None:
                meter.restart(LATELY_NS)
                return f"the load of '{tenant}' went {moved}"
        return None


def _rate_moved(whole: Sums, long_ns: float, after: Sums, late_ns: float) -> str | None:
    """Requests a service had to answer, before and lately."""
    expected = (whole.requests - after.requests) * late_ns / (long_ns - late_ns)
    apart = abs(after.requests - expected)
    grown = after.requests > _FACTOR * expected or after.requests < expected / _FACTOR
    if not grown or apart <= _SURE * math.sqrt(max(expected, 1.0)):
        return None
    rates = (expected * NS_PER_S / late_ns, after.requests * NS_PER_S / late_ns)
    return f"from {rates[0]:.0f} to {rates[1]:.0f} requests a second"


def _busy_moved(whole: Sums, long_ns: float, after: Sums, late_ns: float) -> str | None:
    """The part of the time in which a tenant had work, before and lately."""
    before = min(1.0, (whole.busy_ns - after.busy_ns) / (long_ns - late_ns))
    now = min(1.0, after.busy_ns / late_ns)
    if abs(now - before) <= _BUSY_STEP:
        return None
    return f"from {before:.0%} to {now:.0%} of the time"
