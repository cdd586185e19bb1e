"""What the centre is told: what changed since it was last told, or everything."""

from dataclasses import dataclass, field

from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.protocol.desired import AttemptKey
from dure.domain.fleet.protocol.reports import AttemptStatus, Report, Usage
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.core.books import Books
from dure.member.core.divisions import Divisions
from dure.member.core.loads import Loads
from dure.member.core.spaces import SpaceBook
from dure.member.core.stage import Stage

_USAGE_NS = 10 * NS_PER_S
"""How often it is told what attempts use,"""
_ENDED_NS = NS_PER_S
"""and how late at most what those used that have ended."""
_MOST_WARNINGS = 100
"""In one report; more of them say nothing new."""


@dataclass(slots=True)
class Teller:
    """Remembers what was told."""

    books: Books
    stage: Stage
    loads: Loads
    divisions: Divisions
    spaces: SpaceBook = field(default_factory=SpaceBook)
    inventory_changed: bool = False
    _told: dict[AttemptKey, AttemptStatus] = field(default_factory=dict)
    _sites: tuple[SiteSummary, ...] = ()
    _usage_ns: int = 0
    _ended_ns: int = 0

    def drop(self, key: AttemptKey) -> None:
        """The centre no longer asks for an attempt."""
        self._told.pop(key, None)
        self.books.news.discard(key)

    def news(self, now_ns: int, *, whole: bool) -> Report | None:
        """A report without a number; None where there is nothing to tell."""
        books, layout = self.books, self.books.layout
        if whole:
            books.news.update(key for key, held in books.attempts.items() if held.wanted)
            self._told.clear()
        attempts = self._statuses()
        sites = self.stage.sites if whole or self.stage.sites != self._sites else ()
        inventory = None
        if layout is not None and (whole or self.inventory_changed):
            inventory = layout.inventory
        usage = self._usage(now_ns, whole=whole)
        loads = self.loads.tell(self._replicas()) if usage or whole else ()
        warnings = tuple(self.stage.warnings[:_MOST_WARNINGS])
        partitions = self.divisions.news(whole=whole)
        spaces = self.spaces.news(whole=whole)
        told = (attempts, sites, inventory, usage, loads, warnings, partitions, spaces)
        if not (whole or any(told)):
            return None
        self._sites, self.inventory_changed = self.stage.sites, False
        self.stage.warnings.clear()
        return Report(
            seq=0,
            at_ns=now_ns,
            whole=whole,
            attempts=attempts,
            sites=sites,
            inventory=inventory,
            loads=loads,
            usage=usage,
            warnings=warnings,
            partitions=partitions,
            spaces=spaces,
        )

    def _statuses(self) -> tuple[AttemptStatus, ...]:
        found = []
        for key in sorted(self.books.news):
            held = self.books.attempts.get(key)
            if held is None or not held.wanted:
                continue
            status = held.status()
            if self._told.get(key) != status:
                self._told[key] = status
                found.append(status)
        self.books.news.clear()
        return tuple(found)

    def _usage(self, now_ns: int, *, whole: bool) -> tuple[Usage, ...]:
        """Of those that have ended soon; of all now and then."""
        meters = self.books.meters
        due = whole or now_ns - self._usage_ns >= _USAGE_NS
        if due:
            self._usage_ns = now_ns
            for held, hand in self.books.hands():
                if hand.alive:
                    meters.count(held.key, hand, now_ns)
        elif now_ns - self._ended_ns < _ENDED_NS:
            return ()
        self._ended_ns = now_ns
        return tuple(meters.tell(ended_only=not due, again=whole))

    def _replicas(self) -> dict[WorkloadId, int]:
        counts: dict[WorkloadId, int] = {}
        for key, held in self.books.attempts.items():
            if held.serving:
                warm = sum(hand.warm for hand in held.alive())
                counts[key.job] = counts.get(key.job, 0) + warm
        return counts
