"""Who waits, and who is called: newcomers, those whose hour has come, those with room at last."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dure.domain.ids import WorkloadId
from dure.fleet.sites import DEVICES, Integers, SiteColumns
from dure.fleet.tracks import Phase, Track

SPARE = 1.5
"""For each free device, devices of waiting jobs that are called: some will not take the place."""
_MOST_CALLED = 64
"""Jobs called for one site in one round."""


class Wish(NamedTuple):
    """A site a waiting job would take, how much of it, and how much that is worth to it."""

    site: int
    devices: float
    saving_per_device_hour: float
    """Over its dearest: who has the most is called first."""
    shared: bool = False
    """Whether it wants room on nodes in use; otherwise any will do."""


_Entry = tuple[int, float, float, int, WorkloadId]
"""A wish in the order in which they are called: priority, saving, devices, stamp, whose."""


@dataclass(slots=True)
class WaitingRoom:
    """Pending workloads in the order they should be looked at."""

    tracks: dict[WorkloadId, Track]
    _new: dict[WorkloadId, None] = field(default_factory=dict)
    _timed: list[tuple[int, int, WorkloadId]] = field(default_factory=list)
    _wishes: dict[tuple[int, bool], list[_Entry]] = field(default_factory=dict)
    """By site and whether room on nodes in use is wanted; as heaps,"""
    _wished: dict[tuple[int, bool], list[_Entry]] = field(default_factory=dict)
    """and those that came since the site was last looked at: many are over before the next time."""
    _seen: dict[bool, Integers] = field(
        default_factory=lambda: {each: np.zeros(0, dtype=np.int64) for each in (False, True)}
    )
    """Times each site had grown when last looked at."""
    _placeless: dict[WorkloadId, Track] = field(default_factory=dict)
    """Those that were put to wait without a plan, and neither called nor placed since."""
    _owners: dict[WorkloadId, Track] = field(default_factory=dict)
    """Those that were put to wait and belong to a pool, and neither called nor placed since."""
    _stamp: int = 0

    def admit(self, track: Track) -> None:
        """It is new, or has lost its place: look at it in the next round."""
        track.phase = Phase.PENDING
        self._stamp += 1
        track.stamp = self._stamp
        self._new[track.id] = None
        self._placeless.pop(track.id, None)
        self._owners.pop(track.id, None)

    def wait(
        self, track: Track, wake_ns: int, wishes: Iterable[Wish], *, planned: bool = False
    ) -> None:
        """It was looked at and waits, until a moment or until one of its wishes can come true.

        `planned`: for a start that it was told.
        """
        track.phase = Phase.WAITING
        track.wake_ns = wake_ns
        self._stamp += 1
        track.stamp = self._stamp
        heapq.heappush(self._timed, (wake_ns, track.stamp, track.id))
        if track.workload.pool is not None:
            self._owners[track.id] = track
        if planned:
            self._placeless.pop(track.id, None)
        else:
            self._placeless[track.id] = track
        first, stamp, name = -track.priority, track.stamp, track.id
        for site, devices, saving, shared in wishes:
            entry = (first, -saving, devices, stamp, name)
            self._wished.setdefault((site, shared), []).append(entry)

    def leave(self, track: Track) -> None:
        """It has a place, or is gone."""
        self._stamp += 1
        track.stamp = self._stamp
        self._new.pop(track.id, None)
        self._placeless.pop(track.id, None)
        self._owners.pop(track.id, None)

    def wake(self, ids: Iterable[WorkloadId]) -> None:
        """Look at these in the next round, whatever they wait for."""
        for each in ids:
            track = self.tracks.get(each)
            if track is not None and track.phase is Phase.WAITING:
                self.admit(track)

    def waiting(self) -> list[WorkloadId]:
        """All that have no place."""
        return [track.id for track in self.tracks.values() if not track.active]

    def placeless(self) -> list[Track]:
        """Who wants a place at once and has none, neither planned for later nor new; by age."""
        found = [
            track
            for track in self._placeless.values()
            if track.phase is Phase.WAITING and not track.places
        ]
        found.sort(key=_number)
        return found

    def owners(self) -> list[Track]:
        """Who waits for a place in its pool, planned for later or not, in no order."""
        return [
            track
            for track in self._owners.values()
            if track.phase is Phase.WAITING and not track.places
        ]

    def of_pools(self) -> list[Track]:
        """Who wants a place in its pool and has none: who waits for one, and who is new."""
        new = (self.tracks[each] for each in self._new)
        return [*self.owners(), *(track for track in new if track.workload.pool is not None)]

    def call(self, now_ns: int, columns: SiteColumns, most: int) -> list[Track]:
        """Who is to be looked at now."""
        called: dict[WorkloadId, Track] = {}
        for each in self._new:
            called[each] = self.tracks[each]
        while self._timed and self._timed[0][0] <= now_ns:
            _, stamp, each = heapq.heappop(self._timed)
            track = self.tracks.get(each)
            if track is not None and track.stamp == stamp:
                called[each] = track
        self._grown(False, columns, called)
        self._grown(True, columns, called)
        chosen = sorted(called.values(), key=turn)
        for track in chosen[most:]:
            self.admit(track)
        for track in chosen[:most]:
            self._new.pop(track.id, None)
        return chosen[:most]

    def _grown(self, shared: bool, columns: SiteColumns, called: dict[WorkloadId, Track]) -> None:
        """Call those who wait for sites that have more room than when last looked at."""
        free = columns.free[:, DEVICES]
        if shared:
            free = np.minimum(free, columns.free_on_used)
        grew = columns.grew_on_used if shared else columns.grew
        seen = self._seen[shared]
        if len(seen) < len(grew):
            seen = np.append(seen, np.full(len(grew) - len(seen), -1))
        news = (grew != seen) & (free > 0.0) & columns.up
        self._seen[shared] = np.where(news, grew, seen)
        for site in np.flatnonzero(news).tolist():
            heap = self._stand_in_line((site, shared))
            if heap:
                self._call_for(heap, float(free[site]), called)

    def _stand_in_line(self, site: tuple[int, bool]) -> list[_Entry]:
        """All who wish for a site, those included that came since it was last looked at."""
        heap = self._wishes.setdefault(site, [])
        for entry in self._wished.pop(site, ()):
            track = self.tracks.get(entry[4])
            if track is not None and track.stamp == entry[3]:
                heapq.heappush(heap, entry)
        return heap

    def _call_for(
        self, heap: list[_Entry], devices: float, called: dict[WorkloadId, Track]
    ) -> None:
        """Call those who want a site most, as far as its free devices go."""
        room, kept, count = devices * SPARE, [], 0
        while heap and room > 0 and count < _MOST_CALLED:
            entry = heapq.heappop(heap)
            track = self.tracks.get(entry[4])
            if track is None or track.stamp != entry[3]:
                continue
            if entry[2] > devices + 1e-9:
                kept.append(entry)
                if len(kept) > _MOST_CALLED:
                    break
                continue
            called[track.id] = track
            room -= entry[2]
            count += 1
        for entry in kept:
            heapq.heappush(heap, entry)


def turn(track: Track) -> tuple[int, int, WorkloadId]:
    """In which order workloads are weighed: by priority, then by age."""
    return -track.priority, track.workload.submitted_ns, track.id


def _number(track: Track) -> int:
    return track.number
