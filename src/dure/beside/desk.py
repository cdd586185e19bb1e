"""Decides whom to nominate for what, from sights of Workloads and rankings; no I/O, time is given.

The best cluster is nominated alone: Kueue lets the first that admits win, so that three at once
would make the choice its, not ours. Who is not admitted there in time is offered to the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dure.api.base import duration_ns
from dure.beside.settings import KueueSettings
from dure.beside.workloads import Sight, Standing
from dure.domain.units import NS_PER_S
from dure.kube.resources import ObjectKey

_ECHO_S = 10.0
"""Until a nomination shows in what is watched; one that does not by then was taken away."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cluster for one Workload, by MultiKueue's name."""

    cluster: str
    has_room: bool


@dataclass(frozen=True, slots=True)
class Times:
    """The settings' durations."""

    widen_s: float
    review_s: float
    patience_s: float
    settle_s: float
    fallback_s: float

    @classmethod
    def of(cls, settings: KueueSettings) -> "Times":
        """In seconds."""
        said = (
            settings.widen_after,
            settings.review,
            settings.patience,
            settings.settle,
            settings.fallback_after,
        )
        return cls(*(duration_ns(each) / NS_PER_S for each in said))


@dataclass(slots=True)
class _Entry:
    """One Workload that is ours."""

    sight: Sight
    nominees: tuple[str, ...] = ()
    nominated_s: float = 0.0
    first_asked_s: float | None = None
    asked_s: float | None = None
    placed_s: float | None = None


class Desk:
    """All Workloads that are ours."""

    def __init__(self, settings: KueueSettings) -> None:
        self._settings = settings
        self.times = Times.of(settings)
        self._entries: dict[ObjectKey, _Entry] = {}

    def see(self, sight: Sight, now_s: float) -> None:
        """A Workload is like this now."""
        entry = self._entries.get(sight.key)
        if sight.standing in (Standing.NOT_OURS, Standing.OVER, Standing.NOT_YET):
            # Whatever was nominated is over; with a new reservation it is ranked anew.
            self._entries.pop(sight.key, None)
            return
        before = entry.sight if entry is not None else None
        if entry is None or before is None or before.uid != sight.uid:
            entry = self._entries[sight.key] = _Entry(sight, sight.nominated, now_s)
            if sight.standing is Standing.PLACED:
                # It was there before we looked: its member has counted it since.
                entry.placed_s = now_s - self.times.settle_s
        elif before.reserved_at != sight.reserved_at:
            entry = self._entries[sight.key] = _Entry(sight)
        entry.sight = sight
        if sight.standing is Standing.PLACED and entry.placed_s is None:
            entry.placed_s = now_s
        taken = not sight.nominated and entry.nominees and sight.standing is Standing.OPEN
        if taken and now_s - entry.nominated_s > _ECHO_S:
            entry.nominees = ()

    def gone(self, key: ObjectKey) -> None:
        """A Workload is no more."""
        self._entries.pop(key, None)

    def due(self, now_s: float) -> list[Sight]:
        """Who is to be ranked now, in the order of their names."""
        return [
            self._entries[key].sight
            for key in sorted(self._entries)
            if self._due_s(self._entries[key]) <= now_s
        ]

    def next_s(self) -> float | None:
        """When somebody is due next; None: nobody will be."""
        return min((self._due_s(each) for each in self._entries.values()), default=None)

    def _due_s(self, entry: _Entry) -> float:
        if entry.sight.standing is not Standing.OPEN:
            return float("inf")
        if not entry.nominees:
            return 0.0 if entry.asked_s is None else entry.asked_s + self.times.review_s
        if len(entry.nominees) >= self._settings.nominees:
            return float("inf")
        asked_s = max(entry.nominated_s, entry.asked_s or 0.0)
        return asked_s + max(self.times.widen_s, 1.0)

    def assumed(self, beside: Iterable[ObjectKey], now_s: float) -> list[tuple[ObjectKey, str]]:
        """Workloads, other than those asked about, that take room which no member has told yet."""
        asked = set(beside)
        found = []
        for key, entry in sorted(self._entries.items()):
            if key in asked:
                continue
            if entry.placed_s is not None:
                if entry.sight.cluster and now_s < entry.placed_s + self.times.settle_s:
                    found.append((key, entry.sight.cluster))
            elif entry.nominees:
                found.append((key, entry.nominees[0]))
        return found

    def rank(self, key: ObjectKey, ranking: Sequence[Ranked], now_s: float) -> tuple[str, ...]:
        """The clusters to nominate by a new ranking; empty: leave everything as it is."""
        entry = self._entries.get(key)
        if entry is None:
            return ()
        entry.asked_s = now_s
        if entry.first_asked_s is None:
            entry.first_asked_s = now_s
        patient = now_s - entry.first_asked_s < self.times.patience_s
        names = [each.cluster for each in ranking if each.has_room or not patient]
        kept = entry.nominees
        limit = self._settings.nominees if self.times.widen_s == 0 else len(kept) + 1
        more = [name for name in names if name not in kept]
        wanted = (*kept, *more)[: min(limit, self._settings.nominees)]
        return wanted if wanted != kept else ()

    def nominated(self, key: ObjectKey, nominees: tuple[str, ...], now_s: float) -> None:
        """A nomination was written."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.nominees, entry.nominated_s = nominees, now_s

    def waited_s(self, key: ObjectKey, now_s: float) -> float:
        """Since when nobody could be asked about a Workload that has no nominee."""
        entry = self._entries.get(key)
        if entry is None or entry.first_asked_s is None:
            return 0.0
        return now_s - entry.first_asked_s

    def unasked(self, key: ObjectKey, now_s: float) -> None:
        """It could not be ranked for now: look again later."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.asked_s = now_s
            entry.first_asked_s = now_s if entry.first_asked_s is None else entry.first_asked_s
