"""The local stage, Elastic Slice Packing: which nodes, devices and slots carry out the orders.

One machine looks after one cluster. Events in, instructions out; it needs nobody else, so a cluster
goes on when the centre is gone. News is taken in as it comes; places are handed out in `RoundDue`.
Whoever feeds the machine may send a `RoundDue` after any batch of news, not only at every tick:
`due` says whether it would do anything, and one that has nothing to do returns at once.

What the world has to know:
- An instance's index is never used twice. A gang that lost a node is started again from its last
  checkpoint with the same order and attempt and new indices; the world knows how far it had come.
- A newer order for a service that runs here starts beside the older one, which is stopped when the
  newer is warm or the centre withdraws it. A newer order for a job stops the older one first.
- Workers beyond `Order.instances` come and go while an elastic gang runs.
- A `ResizeInstance` changes an instance that runs on, in node groups that `LocalSettings.in_place`
  names; it is not answered. What is given back by one may be given out at once: whoever carries
  it out sees that nobody starts there before.
- Of a service's ready instances the first `SizeService.serving` take requests, by their indices;
  the others are kept warm.
- A `MoveInstance` with `warm_first` is answered by `InstanceWarm`: until then both places are held.
- A job's instances move and elastic gangs shrink in answer to `CheckpointReached`.
- `NodeLost` means that what ran there is gone; `NodeCordoned` that nothing new goes there;
  `NodesEmptying` that what runs there moves elsewhere, where its class may and it has room.
- What others use of a node (`ForeignUsed`) is not given out. If they use more than is free, nothing
  new goes there, and what Dure's instances give back is left to them.
- `StartFailed` takes an instance back that was never brought to its node, a gang as a whole. It
  starts again with new indices, elsewhere if it can; after some failures the order is turned down.
  While a service moves warm first it means that the replacement failed: the old one stays.

Taking over after a restart, or when nodes are numbered anew: make a machine of the present cluster
and tell it, before the first `RoundDue`, in this order: `TenantSet`, `AllotmentsSet`, `PolicySet`;
`NodeLost`, `NodeCordoned`, `ForeignUsed`; `InstanceFound` for each instance that lives, with its
place in the numbers of now; `InstanceEnded` for those of the same attempts that finished, so that a
gang that is ending is known as such; `StartFailed` for others of which something is left, so that
their indices stay used; `OrderGiven` for all orders; `SizeFound` for services that were sized. An
instance whose place is impossible is answered by `StopInstance`. The first round completes what is
incomplete.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dure.domain.errors import InvariantError
from dure.domain.fleet.events import (
    AllotmentsSet,
    CheckpointReached,
    ForeignUsed,
    InstanceEnded,
    InstanceFound,
    InstanceWarm,
    LoadsObserved,
    LocalEvent,
    NodeBack,
    NodeCordoned,
    NodeLost,
    NodesEmptying,
    OrderGiven,
    OrderWithdrawn,
    PolicySet,
    RoundDue,
    SizeFound,
    StartFailed,
    TenantSet,
)
from dure.domain.fleet.instructions import LocalInstruction, ReportSummary
from dure.domain.ids import WorkloadId
from dure.fleet.local import snapshots
from dure.fleet.local.admission import Admission
from dure.fleet.local.adoption import Adoption
from dure.fleet.local.allotments import Leases
from dure.fleet.local.autoscale import Autoscaler
from dure.fleet.local.checks import check
from dure.fleet.local.elastic import Elastic
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import NEVER_NS
from dure.fleet.local.nodes import NodeNews
from dure.fleet.local.orders import Orders
from dure.fleet.local.plain import from_plain, to_plain
from dure.fleet.local.power import Power
from dure.fleet.local.queue import Line, Queue
from dure.fleet.local.reclaim import Reclaim
from dure.fleet.local.resize import Resizer
from dure.fleet.local.settings import LocalSettings
from dure.fleet.local.starts import Starts
from dure.fleet.local.summaries import Summaries
from dure.fleet.local.tidy import Tidy
from dure.fleet.local.yard import Yard

__all__ = ["LocalMachine", "LocalSettings"]


@dataclass(slots=True)
class LocalMachine:
    """Decides for one cluster."""

    settings: LocalSettings
    floor: Floor = field(init=False)
    admission: Admission = field(init=False)
    reclaim: Reclaim = field(init=False)
    resizer: Resizer = field(init=False)
    adoption: Adoption = field(init=False)
    nodes: NodeNews = field(init=False)
    orders: Orders = field(init=False)
    elastic: Elastic = field(init=False)
    tidy: Tidy = field(init=False)
    summaries: Summaries = field(init=False)
    _now_ns: int = -1
    _wake_ns: int = 0
    """When the next round has something to do by the clock alone."""
    _due: bool = True

    def __post_init__(self) -> None:
        settings = self.settings
        yard = Yard(settings.cluster)
        queue = Queue(settings.queue, [Line() for _ in yard.fields])
        power = Power(yard, settings.power, settings.power_down)
        scaler = Autoscaler(
            settings.scaling, settings.round_trip_ms, settings.cluster, settings.rates
        )
        self.floor = Floor(yard, queue, Leases(yard), power, scaler)
        self.admission = Admission(self.floor, settings.queue)
        self.reclaim = Reclaim(self.floor, self.admission)
        self.resizer = Resizer(self.floor, settings.in_place)
        self.adoption = Adoption(self.floor, self.resizer)
        self.nodes = NodeNews(self.floor)
        starts = Starts(self.floor, self.admission, settings.queue)
        self.orders = Orders(
            self.floor, self.admission, self.resizer, self.adoption, self.nodes, starts
        )
        self.elastic = Elastic(self.floor, settings.growth)
        self.tidy = Tidy(self.floor, self.admission, settings.tidy)
        self.summaries = Summaries(self.floor)

    def handle(self, event: LocalEvent) -> list[LocalInstruction]:
        """Take in one event; returns what is to be done about it."""
        if event.now_ns < self._now_ns:
            raise InvariantError(
                f"event at {event.now_ns} ns comes after one at {self._now_ns} ns",
                "feed events in the order of their time",
            )
        if self._now_ns < 0:
            self._begin(event.now_ns)
        self._now_ns = event.now_ns
        if type(event) is RoundDue:
            if not self._due and event.now_ns < self._wake_ns:
                return []
            self._round(event.now_ns)
        elif type(event) is LoadsObserved:
            self._loads(event)
        else:
            self._due = True
            self._handlers[type(event)](self, event)
        if self.settings.validate:
            check(self.floor)
        done, self.floor.out = self.floor.out, []
        return done

    @property
    def awaited(self) -> Collection[WorkloadId]:
        """Jobs whose next checkpoint is waited for, beside gangs that have grown."""
        return self.floor.movers

    def due(self, now_ns: int) -> bool:
        """Whether a round at that moment would look at anything."""
        return self._due or now_ns >= self._wake_ns

    # Snapshots

    def snapshot(self) -> dict[str, Any]:
        """Everything it knows, as plain data; its settings are not part of it."""
        state = snapshots.save(self.floor, self.admission)
        clocks = [self._now_ns, self._wake_ns, self._due, self.elastic.look_ns, self.tidy.look_ns]
        state["clocks"] = to_plain(clocks)
        state["attempts"] = to_plain(self.orders.attempts)
        state["tidy"] = to_plain(
            [
                *(self.tidy.policy, self.tidy.tried_ns, self.tidy.begun_ns),
                *(self.tidy.emptying, self.tidy.empty_ns),
            ]
        )
        state["misfits"] = to_plain(self.resizer.misfits)
        state["indices"] = to_plain(self.adoption.indices)
        state["sizes"] = to_plain(self.adoption.sizes)
        state["summaries"] = to_plain([self.summaries.revision, self.summaries.latest])
        return state

    @classmethod
    def restore(cls, settings: LocalSettings, state: dict[str, Any]) -> "LocalMachine":
        """A machine that goes on where a snapshot was taken: same events, same instructions."""
        it = cls(settings)
        snapshots.load(it.floor, it.admission, state)
        it._now_ns, it._wake_ns, it._due, it.elastic.look_ns, it.tidy.look_ns = from_plain(
            state["clocks"]
        )
        it.orders.attempts = from_plain(state["attempts"])
        tidy = it.tidy
        tidy.policy, tidy.tried_ns, tidy.begun_ns, tidy.emptying, tidy.empty_ns = from_plain(
            state["tidy"]
        )
        it.resizer.misfits = from_plain(state["misfits"])
        it.adoption.indices = from_plain(state["indices"])
        it.adoption.sizes = from_plain(state["sizes"])
        it.adoption.arriving = [task for task in it.floor.tasks.values() if task.arriving]
        it.summaries.revision, it.summaries.latest = from_plain(state["summaries"])
        return it

    def _begin(self, now_ns: int) -> None:
        floor = self.floor
        floor.power.start(self.settings.nodes_on_at_start, now_ns)
        floor.changed.update(range(len(floor.yard.fields)))

    # Checkpoints

    def _checkpoint(self, event: CheckpointReached) -> None:
        task = self.floor.tasks.get(event.workload)
        if task is None or not task.instances:
            return
        self.floor.advance(task, event.now_ns)
        task.saved_share, task.checkpoint_ns = task.done_share, event.now_ns
        self.floor.make_moves(task, event.now_ns)
        if self.settings.elastic:
            self.elastic.shrink(task, event.now_ns)

    # Rounds

    def _round(self, now_ns: int) -> None:
        floor, settings = self.floor, self.settings
        self._due = False
        if self.adoption.arriving:
            self.orders.arrived(now_ns)
            if floor.leases.by_pool:
                self.reclaim.settle(now_ns)
        if now_ns >= floor.leases.next_ns() and floor.leases.expire(now_ns):
            self.reclaim.settle(now_ns)
        floor.queue.ripen(now_ns)
        self.admission.walk(now_ns)
        if self.resizer.misfits:
            self.resizer.fit_slices(now_ns)
        for task in floor.queue.out_of_patience(now_ns, floor.tasks):
            self.orders.lose_patience(task, now_ns)
        if settings.elastic:
            self.elastic.grow(now_ns)
        if settings.defragment:
            self.tidy.run(now_ns)
        floor.out += floor.power.switch_off(now_ns)
        self._report()
        self._wake_ns = min(
            floor.queue.next_ns(),
            floor.power.next_ns(),
            floor.leases.next_ns(),
            self.elastic.next_ns() if settings.elastic else NEVER_NS,
            self.tidy.next_ns() if settings.defragment else NEVER_NS,
        )

    def _report(self) -> None:
        floor = self.floor
        if floor.changed:
            news = [self.summaries.update(each) for each in sorted(floor.changed)]
            floor.changed.clear()
            floor.ordered.clear()
            if any(news):
                floor.out.append(ReportSummary(self.summaries.all()))

    # What the centre says

    def _tenant(self, event: TenantSet) -> None:
        floor = self.floor
        floor.leases.set_tenant(event.tenant, event.pools)
        floor.leases.refresh()
        for task in floor.tasks.values():
            workload = task.order.workload
            priority = workload.priority + event.tenant.priority
            if workload.tenant == event.tenant.id and task.priority != priority:
                floor.rank_anew(task, priority)
        self.reclaim.settle(event.now_ns)

    def _allotted(self, event: AllotmentsSet) -> None:
        if self.floor.leases.set_all(event.allotments):
            self.reclaim.settle(event.now_ns)

    def _emptying(self, event: NodesEmptying) -> None:
        self.tidy.want_empty(event.nodes, event.now_ns)

    def _policy(self, event: PolicySet) -> None:
        self.tidy.policy = event.policy

    def _loads(self, event: LoadsObserved) -> None:
        if self.settings.autoscale:
            for task, why in self.floor.scaler.observe(event, self.floor.tasks):
                self.resizer.resize(task, why, event.now_ns)
                self._due = True

    _handlers: ClassVar[dict[type, Callable[["LocalMachine", Any], None]]] = {
        OrderGiven: lambda it, event: it.orders.given(event),
        OrderWithdrawn: lambda it, event: it.orders.withdrawn(event),
        InstanceFound: lambda it, event: it.orders.found(event),
        SizeFound: lambda it, event: it.orders.sized(event),
        InstanceWarm: lambda it, event: it.orders.warm(event),
        InstanceEnded: lambda it, event: it.orders.ended(event),
        StartFailed: lambda it, event: it.orders.start_failed(event),
        CheckpointReached: _checkpoint,
        NodeLost: lambda it, event: it.nodes.lost(event),
        NodeCordoned: lambda it, event: it.nodes.cordoned(event),
        NodeBack: lambda it, event: it.nodes.back(event),
        NodesEmptying: _emptying,
        ForeignUsed: lambda it, event: it.nodes.foreign(event),
        AllotmentsSet: _allotted,
        TenantSet: _tenant,
        PolicySet: _policy,
    }
