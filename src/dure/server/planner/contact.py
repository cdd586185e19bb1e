"""Clusters that cannot be reached, are given up or are drained, and what becomes of their work."""

from dataclasses import dataclass, field

from dure.domain.errors import DureError
from dure.domain.fleet.events import WorkloadStopped
from dure.domain.fleet.lifecycle import AttemptState, ClusterState
from dure.domain.fleet.workloads import WhenCutOff, Workload, WorkloadKind
from dure.domain.ids import WorkloadId
from dure.domain.units import NS_PER_S
from dure.server import specs
from dure.server.changes import Key
from dure.server.planner.book import Station
from dure.server.planner.centre import Centre
from dure.server.settings import ServerSettings
from dure.stores.rows import Attempt, Cluster, NewEvent
from dure.stores.transaction import Transaction

DRAINED_AT_ONCE = 50
"""Attempts of a drained cluster that are stopped in one look: the rest serves on meanwhile."""


@dataclass(frozen=True, slots=True)
class There:
    """What is known of one attempt in a cluster, for what follows."""

    attempt: Attempt
    kind: WorkloadKind
    when_cut_off: WhenCutOff
    fence_after_s: float | None
    workload: Workload | None = None
    """None: its document cannot be read."""


@dataclass
class Contact:
    """Looks at all clusters now and then."""

    centre: Centre
    settings: ServerSettings
    _due: dict[str, list[tuple[int, Key]]] = field(default_factory=dict)
    """By silent cluster: when (by the database's clock) attempts there are given up."""

    async def look(self, tx: Transaction) -> bool:
        """Note who is silent, back, lost or to be drained; whether anything needs a decision."""
        now_ns = await tx.database_now_ns()
        news = False
        for row in await tx.clusters.all():
            station = self.centre.book.stations.get(row.name)
            if station is not None:
                news |= await self._look_at(tx, station, row, now_ns)
        return news

    async def _look_at(self, tx: Transaction, station: Station, row: Cluster, now_ns: int) -> bool:
        if row.state is ClusterState.LOST:
            return await self._give_up_all(tx, row)
        heard_ns = row.last_contact_ns
        silent = heard_ns is None or now_ns - heard_ns > self.settings.lost_after_s * NS_PER_S
        if silent is not station.silent:
            await (self._falls_silent if silent else self._is_heard)(tx, station, row)
            return True
        if silent:
            return self._give_up_due(row, now_ns)
        if row.state is ClusterState.DRAINING:
            return await self._drain(tx, row)
        return False

    # Both read first: where that fails, the next look finds the same change.

    async def _is_heard(self, tx: Transaction, station: Station, row: Cluster) -> None:
        """A cluster is back; or is there at the first look, when another planner may have lost
        sight of its jobs."""
        unseen = await tx.attempts.jobs_unseen(row.name)
        was_silent, station.silent = station.silent, False
        self._due.pop(row.name, None)
        if was_silent:
            self.centre.describe(station)
        self.centre.deeds.seen |= unseen

    async def _falls_silent(self, tx: Transaction, station: Station, row: Cluster) -> None:
        """Nothing was heard of a cluster for too long."""
        there = await _attempts_in(tx, row.name)
        station.silent = True
        deeds = self.centre.deeds
        self.centre.close(station)
        if row.last_contact_ns is None:
            return
        why = f"cluster {row.name} cannot be reached"
        deeds.events.append(NewEvent("cluster.lost", row.name, None, {"why": why}))
        live = [each for each in there if each.attempt.state is not AttemptState.RESERVED]
        deeds.unseen |= {each.attempt.job_id: why for each in live}
        self._due[row.name] = sorted(
            (when_ns, _key(each.attempt))
            for each in there
            if (when_ns := self._given_up_at_ns(each, row.last_contact_ns)) is not None
        )

    def _given_up_at_ns(self, there: There, heard_ns: int) -> int | None:
        """When something in a silent cluster may be started elsewhere; None: never by itself."""
        unsent = there.attempt.state is AttemptState.RESERVED and there.attempt.sent_ns is None
        if unsent or there.when_cut_off is WhenCutOff.REPLACE:
            return heard_ns
        if there.when_cut_off is WhenCutOff.WAIT or there.fence_after_s is None:
            return None
        margin_s = max(
            self.settings.fence_margin_least_s, self.settings.fence_margin * there.fence_after_s
        )
        return heard_ns + round((there.fence_after_s + margin_s) * NS_PER_S)

    def _give_up_due(self, row: Cluster, now_ns: int) -> bool:
        due = self._due.get(row.name, [])
        ready = [key for when_ns, key in due if when_ns <= now_ns]
        self._due[row.name] = due[len(ready) :]
        why = f"cluster {row.name} cannot be reached"
        self.centre.deeds.lost |= dict.fromkeys(ready, (row.name, why))
        return bool(ready)

    async def _give_up_all(self, tx: Transaction, row: Cluster) -> bool:
        """Somebody declared that a cluster will not come back."""
        there = await tx.attempts.unfinished(row.name)
        why = f"cluster {row.name} was declared lost"
        self.centre.deeds.lost |= {_key(each): (row.name, why) for each in there}
        return bool(there)

    async def _drain(self, tx: Transaction, row: Cluster) -> bool:
        """Move away what is left in a cluster; services stay until they run elsewhere."""
        centre, why = self.centre, f"cluster {row.name} is drained"
        stopped = 0
        for each in await _attempts_in(tx, row.name):
            key = _key(each.attempt)
            if each.attempt.state is AttemptState.RELEASING or stopped >= DRAINED_AT_ONCE:
                continue
            if each.workload is None or each.attempt.state is not AttemptState.RUNNING:
                centre.deeds.releases[key] = (row.name, why)
                stopped += 1
            elif each.kind is WorkloadKind.SERVING:
                stopped += self._drain_service(each.workload, key, row.name, why)
            elif key[0] not in centre.book.moves:
                centre.moves.leaves(each.workload, key[1], row.name, why)
                stopped += 1
        return stopped > 0

    def _drain_service(self, workload: Workload, key: Key, cluster: str, why: str) -> bool:
        """Let a service leave once it runs elsewhere; False where it is on its way."""
        centre = self.centre
        if key[0] in centre.book.replaced:
            return False
        centre.book.replaced[key[0]] = (key[1], cluster)
        if key[0] not in centre.book.moves:
            centre.moves.seeks(workload, key[1], cluster, why)
        centre.feed(WorkloadStopped(centre.now_ns(), WorkloadId(key[0]), key[1], 0.0, why))
        return True


async def _attempts_in(tx: Transaction, cluster: str) -> list[There]:
    attempts = await tx.attempts.unfinished(cluster)
    jobs = {job.id: job for job in await tx.jobs.many({each.job_id for each in attempts})}
    found = []
    for each in attempts:
        try:
            terms = specs.job_terms(jobs[each.job_id])
        except DureError:
            found.append(There(each, WorkloadKind.BATCH, WhenCutOff.WAIT, None))
            continue
        workload = terms.workload
        found.append(
            There(each, workload.kind, workload.when_cut_off, terms.fence_after_s, workload)
        )
    return found


def _key(attempt: Attempt) -> Key:
    return attempt.job_id, attempt.attempt
