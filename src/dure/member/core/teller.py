"""What the centre is told: what changed since it was last told, or everything."""

from dataclasses import dataclass, field

from dure.domain.fleet.decisions import SiteSummary
from dure.domain.fleet.protocol import AttemptKey, AttemptStatus, Report, Usage
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.member.core.books import Books
from dure.member.core.divisions import Divisions
from dure.member.core.held import Hand
from dure.member.core.loads import Loads
from dure.member.core.stage import Stage

_USAGE_NS = 10 * NS_PER_S
"""How often it is told what attempts use."""
_MOST_WARNINGS = 100
"""In one report; more of them say nothing new."""


def used_ns(hand: Hand, now_ns: int) -> float:
    """Device time an instance has used since it was last counted, weighed by its shares."""
    if hand.counted_ns is None or hand.placement is None:
        return 0.0
    share = len(hand.devices) * hand.placement.compute_milli / WHOLE_MILLI
    since_ns, hand.counted_ns = hand.counted_ns, now_ns
    return share * max(0, now_ns - since_ns)


@dataclass(slots=True)
class Teller:
    """Remembers what was told."""

    books: Books
    stage: Stage
    loads: Loads
    divisions: Divisions
    inventory_changed: bool = False
    _told: dict[AttemptKey, AttemptStatus] = field(default_factory=dict)
    _sites: tuple[SiteSummary, ...] = ()
    _usage_ns: int = 0

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
        usage = self._usage(now_ns)
        loads = self.loads.tell(self._replicas()) if usage or whole else ()
        warnings = tuple(self.stage.warnings[:_MOST_WARNINGS])
        partitions = self.divisions.news(whole=whole)
        told = (attempts, sites, inventory, usage, loads, warnings, partitions)
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

    def _usage(self, now_ns: int) -> tuple[Usage, ...]:
        if now_ns - self._usage_ns < _USAGE_NS:
            return ()
        self._usage_ns = now_ns
        found = []
        for key, held in sorted(self.books.attempts.items()):
            for hand in held.alive():
                held.device_ns += used_ns(hand, now_ns)
            if held.device_ns and held.wanted:
                found.append(Usage(key, held.device_ns / NS_PER_S))
                held.device_ns = 0.0
        return tuple(found)

    def _replicas(self) -> dict[WorkloadId, int]:
        counts: dict[WorkloadId, int] = {}
        for key, held in self.books.attempts.items():
            if held.serving:
                warm = sum(hand.warm for hand in held.alive())
                counts[key.job] = counts.get(key.job, 0) + warm
        return counts
