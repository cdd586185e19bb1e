"""SLO: keep promises first. Protected tenants are undisturbed as far as their target needs it.

Among the protected the tightest target goes first, and whoever is at risk before those who are
not. The rest share by weight what is left. They may run beside a protected tenant until it has
been busy for a part of its target (its patience): a request that is quick costs them nothing,
and one that is slow, or stands in a queue, soon has the device to itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dure.domain.ids import TenantId
from dure.domain.tenant import TenantClass
from dure.domain.units import NS_PER_S, NS_PER_US
from dure.kernel.policies.base import Appraisal, Measure, Worth
from dure.kernel.track import Track

_ROUND_NS = 50 * NS_PER_US
"""Patience is rounded so that it does not make a new plan every tick."""


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
    risky = track.at_risk() or track.deadline_at_risk(now_ns)
    return (not guaranteed, not risky, target)


def shares(tracks: Sequence[Track], fairness: float) -> dict[TenantId, float]:
    """Reserved shares first, then a part of what is left in proportion to weight."""
    reserved = {track.id: track.reserved_share() for track in tracks}
    left = max(0.0, 1.0 - sum(reserved.values()))
    weights = sum(track.weight for track in tracks) or 1.0
    return {
        track.id: max(reserved[track.id], fairness * left * track.weight / weights)
        for track in tracks
    }


def split(tracks: Sequence[Track], now_ns: int) -> tuple[list[Track], list[Track]]:
    """Those that were promised something, the most urgent first, and the rest."""
    protected: list[Track] = []
    rest: list[Track] = []
    for track in tracks:
        (protected if track.promised(now_ns) else rest).append(track)
    protected.sort(key=lambda track: (*urgency(track, now_ns), track.id))
    return protected, rest


def promised_worth(track: Track) -> Worth:
    """A service counts by its requests on time, a job with a deadline by its speed."""
    return Worth(track.weight, Measure.PROMISE if track.serves_requests else Measure.PROGRESS)


def patience_ns(track: Track, part: float) -> int:
    """How long it may be busy before others make room: a part of its latency target."""
    latency = track.tenant.slo.latency
    return 0 if latency is None else round(part * latency.target_ns / _ROUND_NS) * _ROUND_NS


@dataclass(frozen=True, slots=True)
class SloPolicy:
    """Promises first, then weights."""

    name: ClassVar[str] = "slo"

    patience: float = 0.8
    """Part of a latency target for which a service may be busy before others make room; less
    while a promise is at risk."""
    tolerance: float = 0.05
    """Slow-down of a protected tenant that a passing kernel may cause while nobody is at risk."""
    starvation_s: float = 2.0
    """Seconds a tenant with work may get nothing before it is let in regardless; 0: no
    bound."""

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Protected tenants by urgency, the rest by weight."""
        protected, rest = split(tracks, now_ns)
        rest.sort(key=lambda t: (-t.reserved_share(), -t.tenant.weight, t.joined_ns, t.id))
        worth = {track.id: promised_worth(track) for track in protected}
        worth |= {track.id: Worth(track.weight) for track in rest}
        calm = not any(track.at_risk() for track in protected)
        return Appraisal(
            order=tuple(track.id for track in (*protected, *rest)),
            worth=worth,
            patience={
                track.id: patience_ns(track, self.patience * track.strict_patience)
                for track in protected
            },
            protected=tuple(track.id for track in protected),
            floors=shares(rest, 1.0),
            tolerance=self.tolerance if calm else 0.0,
            starvation_ns=int(self.starvation_s * NS_PER_S),
        )
