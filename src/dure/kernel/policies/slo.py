"""SLO: keep promises first. Protected tenants are undisturbed as far as their target needs it.

Among the protected the tightest target goes first, and whoever is at risk before those who are
not. The rest share by weight what is left, and may run beside a protected tenant only as long
as its measured latency leaves room (its leeway).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dure.domain.ids import TenantId
from dure.domain.tenant import TenantClass
from dure.domain.units import NS_PER_S
from dure.kernel.policies.base import Appraisal, Measure, Worth
from dure.kernel.track import Track

_MOST_REQUEST = 0.8
"""A request longer than this part of its target leaves no room to plan with; it is helped all
the same."""
_PROMISE_VALUE = 100.0
"""A kept promise outweighs all that best effort could gain meanwhile."""


def urgency(track: Track, now_ns: int) -> tuple[bool, bool, float]:
    """Sort key among the protected: class, risk, then the tightest target."""
    slo = track.tenant.slo
    target = float("inf")
    if slo.latency is not None:
        target = slo.latency.target_ns
    elif slo.availability is not None:
        target = slo.availability.max_hold_ns
    elif slo.throughput is not None:
        target = NS_PER_S / slo.throughput.items_per_s
    guaranteed = track.tenant.tenant_class is TenantClass.GUARANTEED
    risky = track.attainment.at_risk() or track.deadline_at_risk(now_ns)
    return (not guaranteed, not risky, target)


def promise_worth(track: Track, value: float, caution: float = 1.0) -> Worth:
    """Worth of a tenant that was promised something; `caution` stretches its requests."""
    if track.tenant.slo.latency is None:
        return Worth(value)
    request = min(caution * track.request_share(), _MOST_REQUEST)
    return Worth(value, Measure.PROMISE, track.load, request)


def shares(tracks: Sequence[Track], fairness: float) -> dict[TenantId, float]:
    """Reserved shares first, then a part of what is left in proportion to weight."""
    reserved = {track.id: track.reserved_share() for track in tracks}
    left = max(0.0, 1.0 - sum(reserved.values()))
    weights = sum(track.weight for track in tracks) or 1.0
    return {
        track.id: max(reserved[track.id], fairness * left * track.weight / weights)
        for track in tracks
    }


def patience(protected: Sequence[Track], part: float) -> dict[TenantId, int]:
    """How long each may be busy before others make room: a part of its latency target."""
    return {
        track.id: round(part * track.tenant.slo.latency.target_ns)
        for track in protected
        if track.tenant.slo.latency is not None and part > 0.0
    }


@dataclass(frozen=True, slots=True)
class SloPolicy:
    """Promises first, then weights."""

    name: ClassVar[str] = "slo"

    tolerance: float = 0.05
    """Slow-down of a protected tenant that a passing kernel may cause while nobody is at risk."""
    starvation_s: float = 2.0

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Protected tenants by urgency, the rest by weight."""
        protected = [track for track in tracks if track.promised(now_ns)]
        rest = [track for track in tracks if not track.promised(now_ns)]
        protected.sort(key=lambda track: (*urgency(track, now_ns), track.id))
        rest.sort(key=lambda t: (-t.reserved_share(), -t.tenant.weight, t.joined_ns, t.id))
        worth = {
            track.id: promise_worth(track, _PROMISE_VALUE * track.tenant.weight, track.caution)
            for track in protected
        }
        worth |= {track.id: Worth(track.weight) for track in rest}
        calm = not any(track.attainment.at_risk() for track in protected)
        return Appraisal(
            order=tuple(track.id for track in (*protected, *rest)),
            worth=worth,
            floors=shares(rest, 1.0),
            protected=tuple(track.id for track in protected),
            tolerance=self.tolerance if calm else 0.0,
            starvation_ns=int(self.starvation_s * NS_PER_S),
        )
