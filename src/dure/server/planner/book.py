"""What the planner keeps of live jobs beside the machine: little, since there may be many."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dure.domain.fleet.decisions import Order, Site
from dure.domain.fleet.lifecycle import ClusterState
from dure.domain.fleet.windows import Window, any_open
from dure.server.changes import Key
from dure.server.declared import Declared, Member
from dure.server.planner.feasible import Offer
from dure.stores.rows import Migration


@dataclass(slots=True)
class Entry:
    """One job that has not ended."""

    particular: bool
    """Whether its program cannot run just anywhere."""
    excluded: bool = False
    """Whether it is kept from some cluster that lacks such a thing."""
    blocked: bool = False
    """Whether it is kept from the machine until some cluster changes."""
    reason: str = ""
    """As last written."""


@dataclass(slots=True)
class Station:
    """One cluster as the planner sees it."""

    member: Member
    silent: bool | None = None
    """Whether it counts as cut off; None: nobody has looked yet."""
    told: bool = False
    """Whether the machine has heard that it is open."""

    @property
    def open(self) -> bool:
        """Whether new work may go there."""
        return (
            self.member.cluster is not None
            and not self.silent
            and self.member.row.state is ClusterState.JOINED
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """What keeps a job from being moved by itself."""

    pinned: bool = False
    windows: tuple[Window, ...] = ()

    def holds(self, now_ns: int) -> bool:
        """Whether it is not to be moved now."""
        return self.pinned or not any_open(self.windows, now_ns)


@dataclass(slots=True)
class Book:
    """The planner's own notes."""

    declared: Declared
    stations: dict[str, Station] = field(default_factory=dict)
    jobs: dict[str, Entry] = field(default_factory=dict)
    queued: set[str] = field(default_factory=set)
    """Jobs that wait for a place."""
    unheard: dict[Key, tuple[Site, int]] = field(default_factory=dict)
    """Placements that their cluster has not answered: its summaries do not count them yet. Site and
    devices."""
    replaced: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Services that leave a place: the attempt that ends once another has taken it, its cluster."""
    moves: dict[str, Migration] = field(default_factory=dict)
    """Migrations that have not ended, by job."""
    stirred: bool = False
    """Whether something happened to one of them."""
    bound: dict[str, Bound] = field(default_factory=dict)
    """Jobs that are not to be moved by themselves, or at some hours only."""
    outdated: str = ""
    """Why everything is soon to be read anew; empty: it holds."""

    def waiting(self) -> Iterator[tuple[str, Entry]]:
        """Jobs without a place."""
        for job in self.queued:
            entry = self.jobs.get(job)
            if entry is not None:
                yield job, entry

    def choosy(self) -> list[str]:
        """Jobs without a place for which it matters what clusters have beside devices."""
        return sorted(job for job, entry in self.waiting() if entry.particular or entry.blocked)

    def offers(self) -> dict[str, Offer]:
        """What all clusters have beside devices."""
        return {
            name: Offer(station.member.row.kind, station.member.heard.inventory)
            for name, station in self.stations.items()
            if station.member.row.state is not ClusterState.LOST
        }

    @property
    def all_spoken(self) -> bool:
        """Whether every cluster has said what it consists of."""
        return all(
            station.member.cluster is not None
            for station in self.stations.values()
            if station.member.row.state is not ClusterState.LOST
        )

    def unheard_at(self, site: Site) -> int:
        """Devices of placements at a site that its summaries do not count yet."""
        return sum(devices for place, devices in self.unheard.values() if place == site)

    def ordered(self, order: Order) -> None:
        """A placement was written."""
        devices = order.instances * order.workload.demand.devices
        self.unheard[order.workload.id, order.attempt] = (order.site, devices)
        self.queued.discard(order.workload.id)

    def forget(self, job: str) -> None:
        """A job has ended."""
        self.jobs.pop(job, None)
        self.queued.discard(job)
        self.replaced.pop(job, None)
        self.bound.pop(job, None)
