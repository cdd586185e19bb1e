"""A global stage without foresight: takes work by priority and age, puts it where a rule says.

All baselines share it, so that they differ in the rule alone: the same queue, the same gang rule
(all workers at one site or none), the same packer and autoscaler (the local stage), the same retry.
A job that finds no room waits here; after `PATIENCE_NS` it is sent to the rule's favourite to wait
in that cluster's queue, where nodes are kept for it, so that large gangs do not starve.
"""

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dure.domain.fleet.clusters import Fleet
from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    ArtefactSeen,
    ClusterJoined,
    ClusterLost,
    ClusterSummarised,
    GlobalEvent,
    OrderTurnedDown,
    RoundDue,
    SeriesExtended,
    TenantSet,
    WorkloadEnded,
    WorkloadProgressed,
    WorkloadStarted,
    WorkloadStopped,
    WorkloadSubmitted,
    WorkloadWithdrawn,
)
from dure.domain.fleet.instructions import GlobalInstruction, PlaceWorkload, RefuseWorkload
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS
from dure.domain.fleet.tenancy import VNodePool
from dure.domain.fleet.workloads import Workload, WorkloadKind
from dure.domain.ids import PoolId, TenantId, WorkloadId
from dure.fleet.fit import Footprint, footprint, never_fits, replicas_for, speed
from dure.sim.fleet.baselines.places import Places
from dure.sim.fleet.baselines.rules import Known, Rule

PATIENCE_NS = HOUR_NS
"""How long a job waits for room anywhere before it is sent to one place to wait there; the local
stage's own `hold_after_ns`."""
AVOID_NS = 15 * MINUTE_NS
"""How long a site that turned a job down is not asked again; as in the global machine."""

_Key = tuple[Any, ...]


@dataclass(slots=True)
class Item:
    """A workload and what became of its orders."""

    workload: Workload
    rank: tuple[int, int, WorkloadId]
    queued_ns: int
    attempts: int = 0
    live: dict[int, int] = field(default_factory=dict)
    """Sites of orders that stand, by attempt."""
    saved: float = 0.0
    avoid: dict[int, int] = field(default_factory=dict)
    """Sites that turned it down, and until when."""
    fits: list[int] | None = None
    """Sites that could ever take it, as of `version`."""
    version: int = -1

    @property
    def serving(self) -> bool:
        """Whether it is a service."""
        return self.workload.kind is WorkloadKind.SERVING


class BaselineStage:
    """Places by a rule."""

    def __init__(self, fleet: Fleet, rule: Rule, *, race: bool = False) -> None:
        self.known = Known(Places(fleet))
        self._rule = rule
        self._race = race
        """Every cluster that could take a job gets it; the first to start it keeps it."""
        self._items: dict[WorkloadId, Item] = {}
        self._queue: list[tuple[tuple[int, int, WorkloadId], Item]] = []
        self._pools: dict[PoolId, VNodePool] = {}
        self._priority: dict[TenantId, int] = {}
        self._fits: dict[_Key, list[int]] = {}
        self._fresh = True
        """Whether something changed that could let a waiting job start."""
        self._look_ns = 0
        self._handlers: dict[type, Callable[[Any], list[GlobalInstruction] | None]] = {
            ClusterJoined: self._joined,
            ClusterLost: self._lost,
            ClusterSummarised: self._summarised,
            TenantSet: self._tenant,
            ArtefactSeen: self._artefact,
            SeriesExtended: self._series,
            WorkloadSubmitted: self._submitted,
            WorkloadWithdrawn: self._gone,
            WorkloadStarted: self._started,
            WorkloadProgressed: self._progressed,
            WorkloadStopped: self._stopped,
            WorkloadEnded: self._gone,
            OrderTurnedDown: self._turned_down,
            RoundDue: self._round,
        }

    def handle(self, event: GlobalEvent) -> list[GlobalInstruction]:
        """Take an event, answer with instructions."""
        self.known.now_ns = event.now_ns
        handler = self._handlers.get(type(event))
        return (handler(event) or []) if handler is not None else []

    # --- news --------------------------------------------------------------------------------

    def _joined(self, event: ClusterJoined) -> None:
        self.known.places.join(event.cluster)
        self._fits.clear()
        self._fresh = True

    def _lost(self, event: ClusterLost) -> None:
        self.known.places.lose(event.cluster)

    def _summarised(self, event: ClusterSummarised) -> None:
        for summary in event.sites:
            self.known.places.summarise(summary)
        self._fresh = True

    def _tenant(self, event: TenantSet) -> None:
        self._priority[event.tenant.id] = event.tenant.priority
        for pool in event.pools:
            self._pools[pool.id] = pool

    def _artefact(self, event: ArtefactSeen) -> None:
        artefact = event.artefact
        self.known.artefacts[artefact.id] = (artefact.size_bytes, artefact.places)

    def _series(self, event: SeriesExtended) -> None:
        clusters = self.known.places.clusters
        cluster = clusters.get(event.cluster)
        if cluster is not None and event.electricity_per_mwh is not None:
            clusters[event.cluster] = replace(
                cluster, electricity_per_mwh=event.electricity_per_mwh
            )

    def _submitted(self, event: WorkloadSubmitted) -> list[GlobalInstruction]:
        workload = event.workload
        if not self._possible(workload):
            pairs = [(place.site.cluster, place.group) for place in self.known.places.rows]
            why, nearest = never_fits(workload, pairs) or (
                f"workload '{workload.id}' can run nowhere its pool is",
                "allow the pool in more clusters",
            )
            return [RefuseWorkload(workload.id, why, nearest)]
        priority = workload.priority + self._priority.get(workload.tenant, 0)
        item = Item(workload, (-priority, workload.submitted_ns, workload.id), event.now_ns)
        self._items[workload.id] = item
        self._enqueue(item, event.now_ns)
        return []

    def _gone(self, event: WorkloadEnded | WorkloadWithdrawn) -> None:
        item = self._items.pop(event.workload, None)
        if item is not None:
            self._dequeue(item)

    def _started(self, event: WorkloadStarted) -> None:
        item = self._items.get(event.workload)
        if item is not None and not item.serving and event.attempt in item.live:
            item.live = {event.attempt: item.live[event.attempt]}

    def _progressed(self, event: WorkloadProgressed) -> None:
        item = self._items.get(event.workload)
        if item is not None:
            item.saved = event.saved_share

    def _stopped(self, event: WorkloadStopped) -> None:
        item = self._items.get(event.workload)
        if item is None or item.live.pop(event.attempt, None) is None:
            return
        item.saved = max(item.saved, event.saved_share)
        if item.serving or not item.live:
            self._enqueue(item, event.now_ns)

    def _turned_down(self, event: OrderTurnedDown) -> None:
        item = self._items.get(event.workload)
        if item is None:
            return
        site = item.live.pop(event.attempt, None)
        if site is None:
            return
        item.avoid[site] = event.now_ns + AVOID_NS
        if item.serving or not item.live:
            self._enqueue(item, event.now_ns)

    def _enqueue(self, item: Item, now_ns: int) -> None:
        item.queued_ns = now_ns
        bisect.insort(self._queue, (item.rank, item), key=lambda entry: entry[0])
        self._fresh = True

    def _dequeue(self, item: Item) -> None:
        at = bisect.bisect_left(self._queue, item.rank, key=lambda entry: entry[0])
        if at < len(self._queue) and self._queue[at][1] is item:
            del self._queue[at]

    # --- decisions ---------------------------------------------------------------------------

    def _round(self, event: RoundDue) -> list[GlobalInstruction]:
        """Walk the queue once; what looked for the same and found nothing is not tried again."""
        now_ns = event.now_ns
        if not self._queue or not (self._fresh or now_ns >= self._look_ns):
            return []
        self._fresh = False
        self._look_ns = now_ns + 5 * MINUTE_NS
        done: list[GlobalInstruction] = []
        failed: dict[_Key, int] = {}
        left: list[tuple[tuple[int, int, WorkloadId], Item]] = []
        for entry in self._queue:
            item = entry[1]
            key = self._key(item.workload)
            workers = item.workload.gang.workers
            tired = now_ns - item.queued_ns >= PATIENCE_NS
            if not tired and workers >= failed.get(key, workers + 1):
                left.append(entry)
                continue
            orders = self._orders(item, tired, now_ns)
            if orders:
                done.extend(PlaceWorkload(order) for order in orders)
            else:
                failed[key] = min(workers, failed.get(key, workers))
            if not orders or (item.serving and len(item.live) < self._spread(item)):
                left.append(entry)
        self._queue = left
        return done

    def _orders(self, item: Item, tired: bool, now_ns: int) -> list[Order]:
        rows = [
            row
            for row in self._possible(item.workload)
            if self.known.places.rows[row].up and (tired or item.avoid.get(row, 0) <= now_ns)
        ]
        if item.serving:
            return self._service_orders(item, rows, now_ns)
        if self._race:
            return self._race_orders(item, rows, now_ns)
        workers = item.workload.gang.workers
        ranked = self._rule.rank(item.workload, rows, self.known, item.saved)
        for row in ranked:
            if self._room(item.workload, row) >= workers:
                return [self._order(item, row, workers, now_ns)]
        return [self._order(item, ranked[0], workers, now_ns)] if tired and ranked else []

    def _race_orders(self, item: Item, rows: list[int], now_ns: int) -> list[Order]:
        """One order for every cluster that could take it: the first of its sites with most room."""
        best: dict[str, tuple[int, int]] = {}
        for row in rows:
            room = self._room(item.workload, row)
            name = self.known.places.rows[row].site.cluster
            if name not in best or room > best[name][0]:
                best[name] = (room, row)
        workers = item.workload.gang.workers
        return [self._order(item, row, workers, now_ns) for _, row in best.values()]

    def _service_orders(self, item: Item, rows: list[int], now_ns: int) -> list[Order]:
        """In as many clusters as it should be in, each with replicas for its part of the load."""
        places = self.known.places.rows
        service = item.workload.service
        assert service is not None
        spread = self._spread(item)
        rows = [row for row in rows if self._near_enough(item.workload, row)] or rows
        taken = {places[row].site.cluster for row in item.live.values()}
        orders = []
        for row in self._rule.rank(item.workload, rows, self.known, 0.0):
            if len(item.live) >= spread:
                break
            name = places[row].site.cluster
            if name in taken:
                continue
            part = service.requests_per_s / spread
            budget = service.target_latency_ms - self._way_ms(item.workload, row)
            replicas = max(1, replicas_for(item.workload, places[row].profile, part, budget))
            if self._room(item.workload, row) >= replicas:
                taken.add(name)
                orders.append(self._order(item, row, replicas, now_ns))
        return orders

    def _order(self, item: Item, row: int, instances: int, now_ns: int) -> Order:
        item.attempts += 1
        item.live[item.attempts] = row
        if not self._race or item.serving:
            self.known.places.rows[row].take(self._shape(item.workload, row), instances)
        site = self.known.places.rows[row].site
        return Order(item.workload, site, item.attempts, instances, item.saved, now_ns)

    # --- what is possible --------------------------------------------------------------------

    def _key(self, workload: Workload) -> _Key:
        return (
            workload.demand,
            workload.profiles,
            workload.clusters,
            workload.pool,
            workload.kind is WorkloadKind.SERVING,
        )

    def _possible(self, workload: Workload) -> list[int]:
        """Sites that could take it when empty, whether they can be reached now or not."""
        key = (*self._key(workload), workload.gang.workers)
        found = self._fits.get(key)
        if found is None:
            pool = self._pools.get(workload.pool) if workload.pool is not None else None
            found = self._fits[key] = [
                row
                for row, place in enumerate(self.known.places.rows)
                if (pool is None or pool.profile == place.group.profile)
                and (pool is None or pool.clusters is None or place.site.cluster in pool.clusters)
                and never_fits(workload, [(place.site.cluster, place.group)]) is None
            ]
        return found

    def _room(self, workload: Workload, row: int) -> int:
        """Instances that fit there now."""
        return self.known.places.rows[row].room_for(self._shape(workload, row))

    def _shape(self, workload: Workload, row: int) -> Footprint:
        place = self.known.places.rows[row]
        shape = footprint(workload.demand, place.profile, place.group.mode)
        assert shape is not None
        return shape

    def _spread(self, item: Item) -> int:
        """Clusters a service should be in, as far as there are any for it."""
        assert item.workload.service is not None
        places = self.known.places.rows
        there = {places[row].site.cluster for row in self._possible(item.workload)}
        return max(1, min(item.workload.service.spread, len(there)))

    def _way_ms(self, workload: Workload, row: int) -> float:
        """From a service's users to a site and back, by their shares."""
        service = workload.service
        assert service is not None
        places = self.known.places
        fleet, cluster = places.fleet, places.rows[row].site.cluster
        total = sum(share for _, share in service.users)
        if not total:
            return 0.0
        weighted = sum(share * fleet.latency(region, cluster) for region, share in service.users)
        return weighted / total

    def _near_enough(self, workload: Workload, row: int) -> bool:
        """Whether a service could keep its target there at all."""
        service = workload.service
        assert service is not None
        profile = self.known.places.rows[row].profile
        alone_ms = service.service_time_ms / speed(workload, profile)
        return self._way_ms(workload, row) + alone_ms < service.target_latency_ms
