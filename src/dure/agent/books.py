"""What each tenant did lately: sums over its processes, kept for as long as people ask about."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from dure.domain.latency import quantile_ns
from dure.domain.units import NS_PER_MS, NS_PER_S

_STEP_NS = 100 * NS_PER_MS
_KEPT_NS = 10 * NS_PER_S
_KEPT_SQUADS = 500
"""Errors of predicted squads: ten seconds of ticks."""
SHOWN_NS = 1 * NS_PER_S
"""Live figures are means over this."""
LATENCY_NS = 5 * NS_PER_S
"""Percentiles are over this: a second holds too few requests."""

REASONS = ("pass", "budget", "order", "promise", "in-flight")
"""Why a launch is held, by DURE_HELD_*."""

_K = TypeVar("_K")


@dataclass(slots=True)
class Deeds:
    """What a tenant did, and what was done to it, in a span of time."""

    elapsed_ns: int = 0
    launches: int = 0
    gpu_ns: int = 0
    busy_ns: int = 0
    gated_ns: int = 0
    gated_by_ns: list[int] = field(default_factory=lambda: [0] * len(REASONS))
    held_for_ns: dict[int, int] = field(default_factory=dict)
    """By the index of the tenant it was held for."""
    longest_hold_ns: int = 0
    latencies: dict[int, int] = field(default_factory=dict)
    """Requests by bucket."""
    memory_refused: int = 0
    copied_bytes: int = 0
    moved_launches: int = 0
    timed_ns: int = 0
    """Of launches that were timed and had been predicted."""
    predicted_ns: int = 0
    """The same launches, as they were predicted."""

    def add(self, other: "Deeds") -> None:
        """Take in what came after."""
        self.elapsed_ns += other.elapsed_ns
        self.launches += other.launches
        self.gpu_ns += other.gpu_ns
        self.busy_ns += other.busy_ns
        self.gated_ns += other.gated_ns
        for reason, held_ns in enumerate(other.gated_by_ns):
            self.gated_by_ns[reason] += held_ns
        _add_counts(self.held_for_ns, other.held_for_ns)
        self.longest_hold_ns = max(self.longest_hold_ns, other.longest_hold_ns)
        _add_counts(self.latencies, other.latencies)
        self.memory_refused += other.memory_refused
        self.copied_bytes += other.copied_bytes
        self.moved_launches += other.moved_launches
        self.timed_ns += other.timed_ns
        self.predicted_ns += other.predicted_ns

    @property
    def held_ns(self) -> int:
        """Time held by others: its own work in flight apart, for which it would wait anyway."""
        return max(0, self.gated_ns - self.gated_by_ns[REASONS.index("in-flight")])

    def share(self, part_ns: int) -> float:
        """A part of the span, as a share of it."""
        return part_ns / self.elapsed_ns if self.elapsed_ns > 0 else 0.0

    def per_s(self, count: int) -> float:
        """A count of the span, a second."""
        return count * NS_PER_S / self.elapsed_ns if self.elapsed_ns > 0 else 0.0

    def latency_ns(self, share: float) -> float:
        """The latency a share of its requests stayed below."""
        return quantile_ns(self.latencies.items(), share)


def _add_counts(sums: dict[_K, int], more: dict[_K, int]) -> None:
    for key, value in more.items():
        sums[key] = sums.get(key, 0) + value


@dataclass(slots=True)
class Book:
    """The last seconds of one tenant, in steps."""

    total: Deeds = field(default_factory=Deeds)
    _steps: deque[Deeds] = field(
        default_factory=lambda: deque([Deeds()], maxlen=_KEPT_NS // _STEP_NS)
    )

    _squad_errors: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT_SQUADS))

    def add(self, deeds: Deeds) -> None:
        """Enter what happened since the last entry."""
        if deeds.timed_ns > 0:
            self._squad_errors.append(abs(deeds.predicted_ns / deeds.timed_ns - 1.0))
        if self._steps[-1].elapsed_ns >= _STEP_NS:
            self._steps.append(Deeds())
        self._steps[-1].add(deeds)
        self.total.add(deeds)

    def last(self, span_ns: int = _KEPT_NS) -> Deeds:
        """The sum over about the last so many nanoseconds."""
        summed = Deeds()
        for step in reversed(self._steps):
            if summed.elapsed_ns >= span_ns:
                break
            summed.add(step)
        return summed

    def squad_error(self) -> float | None:
        """How far predicted time of a squad was off, as a median; None before any was timed.

        Of each entry, which is about a cycle of squads, by the launches in it that were timed.
        """
        return median(self._squad_errors) if self._squad_errors else None
