"""Weights that follow promises kept and risks foreseen, and why each of them moved."""

from collections.abc import Iterable

from dure.domain.instructions import Instruction, WeightAdapted
from dure.kernel.track import Track


def adapt_weights(tracks: Iterable[Track]) -> list[Instruction]:
    """One step of Eq. 3 for every tenant; returns what has moved enough to be told."""
    found: list[Instruction] = []
    for track in tracks:
        track.adapt_weight()
        moved = track.told_weight()
        if moved is not None:
            found.append(WeightAdapted(track.id, *moved, _reason(track, grew=moved[1] > moved[0])))
    return found


def _reason(track: Track, *, grew: bool) -> str:
    """In a sentence, what moved a weight."""
    if not grew:
        return f"{track.attainment.on_time_share():.1%} of its requests are on time again"
    risks = sorted(track.risks.values(), key=lambda risk: risk.confidence * risk.shortfall)
    if risks and track.foreseen_shortfall() > track.attainment.shortfall():
        return risks[-1].reason
    return f"its promises are kept {track.attainment.shortfall():.2%} less than was promised"
