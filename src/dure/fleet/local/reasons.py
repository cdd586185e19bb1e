"""Why a service gets another size, in words that name what was observed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Observed:
    """What was seen of one service when its size was judged."""

    requests_per_s: float
    queue_length: float
    latency_ms: float
    warn_ms: float
    """From which on a latency is a warning."""
    budget_ms: float


def why_sized(before: tuple[int, int], after: tuple[int, int], seen: Observed) -> str:
    """Why it goes from so many replicas and steps of size to others."""
    replicas, level = after[0] - before[0], after[1] - before[1]
    if replicas > 0 or level > 0:
        return _why_larger(after[0], level, seen)
    if level < 0 and not replicas:
        return "answers are in time again, so its slices shrink by a step"
    if not after[0]:
        return "nothing was asked of it for a while"
    return f"{after[0]} are enough for {_load(seen)}"


def _why_larger(replicas: int, level: int, seen: Observed) -> str:
    if seen.latency_ms >= seen.warn_ms:
        late = f"answers take {seen.latency_ms:.0f} ms of the {seen.budget_ms:.0f} ms promised"
        return f"{late}, so its slices grow by a step" if level > 0 else f"{late}, at {_load(seen)}"
    return f"{_load(seen)} need {replicas}"


def _load(seen: Observed) -> str:
    asked = f"{seen.requests_per_s:.3g} requests/s"
    return asked if seen.queue_length < 1.0 else f"{asked} and {seen.queue_length:.0f} that wait"
