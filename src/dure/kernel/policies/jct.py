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

from dure.domain.units import NS_PER_S
from dure.kernel.policies.base import Appraisal, Measure, Worth
from dure.kernel.track import Track


def _worth(track: Track) -> Worth:
    if track.serves_requests:
        return Worth(1.0, Measure.QUEUE, load=track.load)
    return Worth(1.0)


@dataclass(frozen=True, slots=True)
class JctPolicy:
    """Shortest remaining time first, with sharing."""

    name: ClassVar[str] = "jct"

    floor: float = 0.02
    """Share of time kept for everybody, so that no job waits for ever."""
    tolerance: float = 0.25
    """Slow-down of the first in line that a filler's kernel may cause."""
    starvation_s: float = 2.0

    def appraise(self, tracks: Sequence[Track], now_ns: int) -> Appraisal:
        """Order by predicted remaining time."""
        remaining = {track.id: track.remaining()[0] for track in tracks}
        order = sorted(tracks, key=lambda track: (remaining[track.id], track.joined_ns, track.id))
        return Appraisal(
            order=tuple(track.id for track in order),
            worth={track.id: _worth(track) for track in tracks},
            floors={track.id: max(self.floor, track.reserved_share()) for track in tracks},
            tolerance=self.tolerance,
            trial=True,
            starvation_ns=int(self.starvation_s * NS_PER_S),
        )
