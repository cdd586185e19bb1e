"""JCT: finish jobs soon. Shortest predicted remaining time first; co-run what shares well.

Delaying one job by a millisecond costs the mean completion time as much as delaying any other,
so all progress is worth the same: jobs run together wherever their speeds add up to more than
one, and in order of remaining time wherever they do not. For a stream of requests what counts
is how many pile up. Remaining time is predicted anew every tick from measured progress, so the
order follows what really happens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.policies.base import Appraisal, Measure, Worth
from dure.kernel.track import Track


@dataclass(frozen=True, slots=True)
class JctPolicy:
    """Shortest remaining time first, with sharing."""

    name: ClassVar[str] = "jct"

    floor: float = 0.02
    """Share of time kept for everybody, so that no job waits for ever."""
    patience: float = 4.0
    """Lengths of a request for which a stream of requests may be busy before jobs make room."""
    tolerance: float = 0.25
    """Slow-down of the first in line that a filler's kernel may cause."""
    starvation_s: float = 2.0
    """Seconds a tenant with work may get nothing before it is let in regardless; 0: no
    bound."""

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Order by predicted remaining time."""
        remaining = {
            track.id: (*self._first(track, now_ns), track.remaining()[0]) for track in tracks
        }
        order = sorted(tracks, key=lambda t: (remaining[t.id], t.joined_ns, t.id))
        requests = [track for track in order if track.serves_requests]
        return Appraisal(
            order=tuple(track.id for track in order),
            worth={
                track.id: Worth(1.0, Measure.QUEUE if track.serves_requests else Measure.PROGRESS)
                for track in tracks
            },
            protected=tuple(track.id for track in requests if track.tenant.protected),
            patience={
                track.id: round(self.patience * track.burst_ns / NS_PER_MS) * NS_PER_MS
                for track in requests
            },
            floors={track.id: max(self.floor, track.reserved_share()) for track in tracks},
            tolerance=self.tolerance,
            trial=True,
            starvation_ns=int(self.starvation_s * NS_PER_S),
        )

    def _first(self, track: Track, now_ns: int) -> tuple[bool, bool]:
        """Requests before jobs, and jobs about to miss a stated deadline before other jobs."""
        return not track.serves_requests, not track.deadline_at_risk(now_ns)
