"""Hybrid: the most weighted goodput (Eq. 2), with weights that follow shortfall (Eq. 3).

    max Σ_m w_m(t) · T_eff(m) · Q_m(SLO_m(t))

A tenant with a promise is worth its weight times the share of its requests on time, all others
their weight times their speed. Others make room for a service only once it has been busy for a
good part of its target, so that what it costs them is spent where it saves a request. Every
tenant may pursue its own goal: one that wants to finish goes by remaining time among its
equals. `fairness` keeps a part of every tenant's weighted share out of the objective's reach:
0 is pure goodput, 1 is weighted fair sharing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dure.domain.tenant import Goal
from dure.domain.units import NS_PER_S
from dure.kernel.policies.base import Appraisal, Worth
from dure.kernel.policies.slo import patience_ns, promised_worth, shares, split
from dure.kernel.track import Track


def _goal_order(track: Track) -> tuple[float, float]:
    """Among tenants without a promise: the heavier first, then by what they strive for."""
    if track.tenant.goal is Goal.GOODPUT:
        return (-track.weight, track.remaining()[0])
    return (-track.weight, 0.5 * track.remaining()[0])


def _calm(track: Track) -> float:
    """Part of the patience that is left: Eq. 3's weight and plain failure take from it."""
    return track.lenient_patience * track.tenant.weight / track.weight


@dataclass(frozen=True, slots=True)
class HybridPolicy:
    """Weighted goodput."""

    name: ClassVar[str] = "hybrid"

    fairness: float = 0.1
    """Part of every tenant's weighted share that the objective may not touch: 0 is pure goodput,
    1 weighted fair sharing."""
    patience: float = 2.0
    """Lengths of its latency target for which a service may be busy before others make room;
    less as its weight grows, and while it clearly fails."""
    tolerance: float = 0.15
    """Slow-down that a passing kernel may cause to one in front of it."""
    starvation_s: float = 2.0
    """Seconds a tenant with work may get nothing before it is let in regardless; 0: no
    bound."""

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Worth by Eq. 2 with the weights of Eq. 3."""
        protected, rest = split(tracks, now_ns)
        rest.sort(key=lambda track: (*_goal_order(track), track.id))
        worth = {track.id: promised_worth(track) for track in protected}
        worth |= {track.id: Worth(track.weight) for track in rest}
        calm = not any(track.at_risk() for track in protected)
        return Appraisal(
            order=tuple(track.id for track in (*protected, *rest)),
            worth=worth,
            floors=shares(rest, self.fairness),
            protected=tuple(track.id for track in protected),
            tolerance=self.tolerance if calm else 0.0,
            patience={
                track.id: patience_ns(track, self.patience * _calm(track)) for track in protected
            },
            trial=True,
            starvation_ns=int(self.starvation_s * NS_PER_S),
        )
