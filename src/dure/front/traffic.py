"""What passes through a front: requests, errors, latencies, who waits; by cluster, of late."""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

WINDOW_S = 10.0
"""Over which answers are counted: long enough for a percentile."""
RATE_WINDOW_S = 4.0
"""Over which requests that come are counted: short enough to follow a step."""
_MOST_KEPT = 20_000
"""Answers of one cluster that are remembered; beyond, the oldest of the window go."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one cluster answered of late."""

    requests_per_s: float
    errors_per_s: float
    in_flight: int
    p50_s: float
    p95_s: float
    p99_s: float


@dataclass(slots=True)
class _Place:
    """The answers of one cluster."""

    answers: deque[tuple[float, float, bool]] = field(
        default_factory=lambda: deque(maxlen=_MOST_KEPT)
    )
    """When, after how long, and whether it failed."""
    begun: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_KEPT))
    """When requests were given to an instance: those that come, however fast they are answered."""
    in_flight: int = 0


class Traffic:
    """Counts; knows nothing of the centre."""

    def __init__(self, began_s: float = 0.0) -> None:
        self.waiting = 0
        """Requests that no instance has taken yet."""
        self._began_s = began_s
        self._cluster_of: Mapping[str, str] = {}
        self._places: dict[str, _Place] = {}

    def know(self, cluster_of: Mapping[str, str]) -> None:
        """Instances by address, and their clusters."""
        self._cluster_of = dict(cluster_of)
        for cluster in self._cluster_of.values():
            self._places.setdefault(cluster, _Place())

    @contextmanager
    def a_wait(self) -> Iterator[None]:
        """A request waits for an instance."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    def began(self, address: str, now_s: float) -> None:
        """An instance was given a request."""
        place = self._of(address)
        place.in_flight += 1
        place.begun.append(now_s)

    def refused(self, address: str) -> None:
        """It took none: another is asked, and the request counts there."""
        place = self._of(address)
        place.in_flight -= 1
        if place.begun:
            place.begun.pop()

    def ended(self, address: str, now_s: float, took_s: float, *, failed: bool) -> None:
        """It answered in full, or did not; `took_s`: since the request came."""
        place = self._of(address)
        place.in_flight -= 1
        place.answers.append((now_s, took_s, failed))

    def figures(self, now_s: float) -> dict[str, Figures]:
        """By cluster, over the last seconds; those that nothing goes to any more are forgotten."""
        since_s = max(1.0, now_s - self._began_s)
        here = set(self._cluster_of.values())
        found = {}
        for cluster, place in list(self._places.items()):
            while place.answers and place.answers[0][0] < now_s - WINDOW_S:
                place.answers.popleft()
            while place.begun and place.begun[0] < now_s - RATE_WINDOW_S:
                place.begun.popleft()
            if not (place.answers or place.in_flight or cluster in here):
                del self._places[cluster]
                continue
            found[cluster] = _figures(place, since_s)
        return found

    def _of(self, address: str) -> _Place:
        cluster = self._cluster_of.get(address, "")
        return self._places.setdefault(cluster, _Place())


def _figures(place: _Place, since_s: float) -> Figures:
    took = sorted(took_s for _, took_s, failed in place.answers if not failed)
    return Figures(
        requests_per_s=len(place.begun) / min(RATE_WINDOW_S, since_s),
        errors_per_s=sum(failed for *_, failed in place.answers) / min(WINDOW_S, since_s),
        in_flight=place.in_flight,
        p50_s=_quantile(took, 0.5),
        p95_s=_quantile(took, 0.95),
        p99_s=_quantile(took, 0.99),
    )


def _quantile(ordered: list[float], share: float) -> float:
    """The smallest that so many are not above; 0 of none."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0
