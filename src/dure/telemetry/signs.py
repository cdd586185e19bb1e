"""Signs that a device slows itself down, or that work moves data instead of getting on.

Throttling: the clock stays below what it usually is under load while the device says that power
or heat holds it back. Thrashing: work gets clearly less done for its time than is usual while
clearly more is copied. Usual is learned per device; only what goes on for a while counts.
"""

from dataclasses import dataclass, field

from dure.domain.ids import TenantId
from dure.domain.risks import Risk, RiskKind
from dure.telemetry.usual import Usual, finite

_SUSTAINED = 5
"""Values in a row."""
_SLOW_CLOCK = 0.95
"""Of the usual clock under load."""
_LOADED = 0.3
"""Share of time in use, below which a low clock is rest."""
_SLOW_WORK = -3.0
_MUCH_COPIED = 3.0
"""In scales."""
_HALF = 0.8
"""And below this part of the usual speed, since a steady series has a tiny scale."""


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """What a device says of itself."""

    used_share: float
    clock_mhz: float
    held_back: bool
    """It gives power, heat or a brake as the reason for its clock."""
    work_share: float | None = None
    """Share of its compute units at work while it is in use; None: it does not say."""
    copied_bytes_per_s: float | None = None
    """Between host and device."""


@dataclass(slots=True)
class ThrottleWatch:
    """One device's clock."""

    series: str
    _clock: Usual = field(default_factory=Usual)
    _run: int = 0

    def observe(self, reading: DeviceReading) -> Risk | None:
        """Take in a reading; a risk while the device is held back."""
        if not finite(reading.clock_mhz) or reading.used_share < _LOADED:
            self._run = 0
            return None
        usual = self._clock.level if self._clock.known else reading.clock_mhz
        slow = reading.clock_mhz < _SLOW_CLOCK * usual
        if not slow or not self._clock.known:
            self._clock.learn(reading.clock_mhz)
        # A device that admits it needs to show less for it; one that does not may be mistaken.
        self._run = self._run + 1 if slow else 0
        if self._run < (_SUSTAINED if reading.held_back else 3 * _SUSTAINED):
            return None
        return Risk(
            series=self.series,
            kind=RiskKind.THROTTLE,
            confidence=0.99 if reading.held_back else 0.7,
            violation_in_ns=0,
            reason=(
                f"the clock is at {reading.clock_mhz:.0f} MHz under load, usually "
                f"{usual:.0f}"
                + (", held back by power or heat" if reading.held_back else ", without a reason")
            ),
        )


@dataclass(slots=True)
class ThrashWatch:
    """Work done and bytes copied of one device or tenant, at equal steps."""

    series: str
    tenant: TenantId | None = None
    _speed: Usual = field(default_factory=Usual)
    _copied: Usual = field(default_factory=Usual)
    _run: int = 0

    def observe(self, work_per_busy_s: float, copied_bytes_per_s: float) -> Risk | None:
        """Take in what was done for its busy time and what was copied; a risk while it thrashes."""
        if not finite(work_per_busy_s) or not finite(copied_bytes_per_s):
            return None
        slow = (
            self._speed.score(work_per_busy_s) < _SLOW_WORK
            and work_per_busy_s < _HALF * self._speed.level
        )
        much = self._copied.score(copied_bytes_per_s) > _MUCH_COPIED
        usual_speed, usual_copied = self._speed.level, self._copied.level
        if not (slow and much):
            self._speed.learn(work_per_busy_s)
            self._copied.learn(copied_bytes_per_s)
        self._run = self._run + 1 if slow and much else 0
        if self._run < _SUSTAINED:
            return None
        return Risk(
            series=self.series,
            kind=RiskKind.THRASH,
            confidence=0.95,
            tenant=self.tenant,
            violation_in_ns=0,
            reason=(
                f"{work_per_busy_s / max(usual_speed, 1e-12):.0%} of the usual work gets done "
                f"while {copied_bytes_per_s / max(usual_copied, 1.0):.3g} times as much is copied"
            ),
        )


@dataclass(slots=True)
class DeviceWatch:
    """Both signs of one device."""

    throttle: ThrottleWatch
    thrash: ThrashWatch

    def observe(self, reading: DeviceReading) -> list[Risk]:
        """Take in a reading; the risks of the moment."""
        found = [self.throttle.observe(reading)]
        if reading.used_share >= _LOADED and reading.work_share is not None:
            copied = reading.copied_bytes_per_s
            if copied is not None:
                found.append(self.thrash.observe(reading.work_share, copied))
        return [risk for risk in found if risk is not None]
