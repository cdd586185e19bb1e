"""What was decided, until it is written: one fenced transaction for each round."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.instructions import Warn
from dure.domain.fleet.protocol.reports import Outcome
from dure.domain.fleet.tenancy import Allotment
from dure.server.changes import Changes, Ending, Key, read_changes
from dure.server.records import allotments_data
from dure.stores.rows import Migration, NewEvent
from dure.stores.transaction import Transaction

CHANGED = "migration.changed"
"""Kind of the event that tells of a migration's step."""
ASKED = "migration.asked"
"""Kind of the event that tells of somebody who wants one, or wants it called off."""


@dataclass(frozen=True, slots=True)
class Placing:
    """An order that a cluster is to get."""

    order: Order
    replaces: int | None = None
    """Attempt of a service that ends once this one runs."""


@dataclass
class Deeds:
    """All that is to be written. Attempts that are named here have their cluster beside them."""

    placings: list[Placing] = field(default_factory=list)
    releases: dict[Key, tuple[str, str]] = field(default_factory=dict)
    """Cluster and reason."""
    lost: dict[Key, tuple[str, str]] = field(default_factory=dict)
    """Attempts whose cluster is given up for them: cluster and reason."""
    sendable: dict[Key, tuple[str, float]] = field(default_factory=dict)
    """Reservations whose predecessor is gone: cluster, and what of the work is saved."""
    moves: dict[str, Migration] = field(default_factory=dict)
    """Migrations that began or took a step, by id; of a job, one that ended before the next."""
    requests: dict[Key, tuple[str, int]] = field(default_factory=dict)
    """Programs that are asked for a checkpoint: cluster, and its number; 0: not any more."""
    yields: dict[Key, str] = field(default_factory=dict)
    """Attempts that were to take over and get no more requests: their clusters."""
    cancels: set[str] = field(default_factory=set)
    suspends: set[str] = field(default_factory=set)
    """Jobs that lose their places for as long as their owners want."""
    failures: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """Why jobs wait."""
    unseen: dict[str, str] = field(default_factory=dict)
    """Jobs whose cluster cannot be reached, and why."""
    seen: set[str] = field(default_factory=set)
    """Jobs whose cluster is back."""
    allotments: dict[str, tuple[Allotment, ...]] = field(default_factory=dict)
    surroundings: set[str] = field(default_factory=set)
    """Clusters whose tenants, pools, policy or prices have changed."""
    prices: dict[str, float] = field(default_factory=dict)
    warnings: list[Warn] = field(default_factory=list)
    events: list[NewEvent] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(bool(getattr(self, name)) for name in self.__dataclass_fields__)

    @property
    def clusters(self) -> set[str]:
        """Clusters that hear something new."""
        return (
            {each.order.site.cluster for each in self.placings}
            | {cluster for cluster, _ in self.releases.values()}
            | {cluster for cluster, _ in self.lost.values()}
            | {cluster for cluster, _ in self.sendable.values()}
            | {cluster for cluster, _ in self.requests.values()}
            | set(self.allotments)
            | self.surroundings
        )

    async def write(self, tx: Transaction, epoch: int) -> set[str]:
        """Store everything; tells which clusters shall have something else than before."""
        clusters = self.clusters | await self._clusters_of_cancelled(tx)
        changed = set(self.allotments) | self.surroundings
        revisions = {
            name: await tx.clusters.next_revision(name, epoch=epoch, surroundings=name in changed)
            for name in sorted(clusters)
        }
        changes = await read_changes(tx, self._keys(), self._jobs())
        changes.revisions = revisions
        await tx.migrations.step_all(list(self.moves.values()))
        self._apply(changes, epoch)
        await changes.write(tx)
        await tx.jobs.tell_why(self.reasons)
        for cluster, allotments in sorted(self.allotments.items()):
            await tx.news.lease(cluster, allotments_data(allotments))
        await tx.prices.put_all(sorted(self.prices.items()))
        for event in self._events():
            tx.events.add(event)
        for row in self.moves.values():
            if row.job_id in changes.jobs:
                tx.events.add(told(row, changes.jobs[row.job_id].tenant))
        return clusters

    def _apply(self, changes: Changes, epoch: int) -> None:
        for key, (_, why) in self.lost.items():
            if key in changes.attempts:
                changes.end(key, Ending(Outcome.DISPLACED, why))
        for job in self.cancels:
            changes.cancel(job)
        for job in self.suspends:
            changes.suspend(job)
        self._apply_moves(changes)
        for key, (_, why) in self.releases.items():
            if key in changes.attempts:
                changes.release(key, why)
        for job, why in self.failures.items():
            changes.fail(job, why)
        for job, why in self.unseen.items():
            changes.lose_sight(job, why)
        for job in self.seen:
            changes.see_again(job)
        for each in self.placings:
            changes.reserve(each.order, epoch, replaces=each.replaces)
        for key, (_, share) in self.sendable.items():
            if key in changes.attempts:
                changes.send(key, share)

    def _apply_moves(self, changes: Changes) -> None:
        """What migrations ask of attempts, beside their ends."""
        for key, (_, number) in self.requests.items():
            if key in changes.attempts:
                changes.request(key, number)
        for key in self.yields:
            if key in changes.attempts:
                changes.give_way(key)

    async def _clusters_of_cancelled(self, tx: Transaction) -> set[str]:
        """Read before their rows are locked; an attempt that comes in between is found later."""
        ends = self.cancels | self.suspends
        if not ends:
            return set()
        return {each.cluster for each in await tx.attempts.unfinished_of(ends)}

    def _keys(self) -> set[Key]:
        return {*self.releases, *self.lost, *self.sendable, *self.requests, *self.yields}

    def _jobs(self) -> set[str]:
        return {
            *self.cancels,
            *self.suspends,
            *(each.job_id for each in self.moves.values()),
            *self.failures,
            *self.unseen,
            *self.seen,
            *(each.order.workload.id for each in self.placings),
        }

    def _events(self) -> Iterable[NewEvent]:
        yield from self.events
        for warning in self.warnings:
            data = {"what": warning.what, "remedy": warning.remedy, "kind": warning.kind.value}
            yield NewEvent("warning", warning.about, None, data)
        if self.prices:
            yield NewEvent("price.changed", "fleet", None, {"prices": dict(self.prices)})


def told(row: Migration, tenant: str) -> NewEvent:
    """What became of a migration, for those who follow."""
    data = {
        "id": row.id,
        "kind": row.kind.value,
        "step": row.step.value,
        "from": row.old_cluster,
        "to": row.new_cluster,
        "reason": row.reason,
    }
    return NewEvent(CHANGED, row.job_id, tenant, data)
