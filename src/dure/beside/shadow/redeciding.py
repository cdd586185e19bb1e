"""Lets Dure's own machines decide a case anew in virtual time: clusters, nodes, slices, starts.

Jobs come when they came and take as long as they took (on another accelerator: as the catalogue
says). Dure may neither move, displace nor defer them: what differs is only where and when they
start.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from dure.beside.shadow.case import Case, Hold, ShadowJob, held_devices
from dure.domain.fleet.catalogue import device_profile
from dure.domain.fleet.decisions import InstanceId, Order
from dure.domain.fleet.events import (
    ClusterJoined,
    ClusterSummarised,
    ForeignUsed,
    InstanceEnded,
    InstanceWarm,
    LocalEvent,
    OrderGiven,
    OrderTurnedDown,
    RoundDue,
    WorkloadEnded,
    WorkloadStarted,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    LocalInstruction,
    PlaceWorkload,
    RefuseWorkload,
    ReportSummary,
    StartInstance,
    TurnDownOrder,
)
from dure.domain.fleet.policy import ClassPolicy, FleetPolicy
from dure.domain.ids import ClusterId, WorkloadId
from dure.domain.units import NS_PER_S
from dure.fleet.fit import runtime_ns
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from dure.fleet.local_machine import LocalMachine, LocalSettings

STEP_NS = NS_PER_S
"""What happens within it is decided together."""
_PASSES = 8
"""Answers between the two stages in one moment."""


@dataclass(frozen=True, slots=True)
class Redecided:
    """Where a job would have been."""

    job: ShadowJob
    cluster: str = ""
    nodes: tuple[str, ...] = ()
    start_ns: int | None = None
    """None: it would have waited to the end, or could never run."""
    end_ns: int | None = None
    why: str = ""
    """What it would have waited for."""


@dataclass
class _Going:
    """An order that is being started."""

    order: Order
    holds: list[tuple[str, float]] = field(default_factory=list)
    """Node and devices of each instance."""
    instances: list[InstanceId] = field(default_factory=list)


class Replay:
    """One case under Dure."""

    def __init__(self, case: Case, policy: FleetPolicy | None = None) -> None:
        self._case = case
        self._policy = _keeping(policy or FleetPolicy())
        self._centre = GlobalMachine(GlobalSettings(case.fleet, self._policy))
        self._local = {
            cluster.id: LocalMachine(
                LocalSettings(
                    cluster, autoscale=False, elastic=False, power_down=False, defragment=False
                )
            )
            for cluster in case.fleet.clusters
        }
        self._jobs = {job.workload.id: job for job in case.jobs}
        self._agenda: list[tuple[int, int, Callable[[int], None]]] = []
        self._number = count()
        self._going: dict[WorkloadId, _Going] = {}
        self._found: dict[WorkloadId, Redecided] = {}
        self._refused: dict[WorkloadId, str] = {}
        self._standing: dict[tuple[str, int], list[Hold]] = {}
        self._touched: set[ClusterId] = set()
        self.holds: list[Hold] = []
        """What would have been in use."""

    def run(self, progress: Callable[[float], None] | None = None) -> list[Redecided]:
        """Decide everything anew, in the order of the jobs."""
        case = self._case
        self._begin()
        total = max(1, case.until_ns - case.since_ns)
        while self._agenda and self._agenda[0][0] < case.until_ns:
            now_ns = self._agenda[0][0]
            while self._agenda and self._agenda[0][0] < now_ns + STEP_NS:
                at_ns, _, happen = heapq.heappop(self._agenda)
                now_ns = max(now_ns, at_ns)
                happen(now_ns)
            self._decide(now_ns)
            if progress is not None:
                progress(min(1.0, (now_ns - case.since_ns) / total))
        for going in self._going.values():
            self._finish(going, case.until_ns)
        return [self._found.get(job.workload.id) or self._waits(job) for job in case.jobs]

    def _waits(self, job: ShadowJob) -> Redecided:
        name = job.workload.id
        return Redecided(job, why=self._refused.get(name) or self._centre.why_waiting(name))

    # --- what happens ----------------------------------------------------------------------

    def _note(self, at_ns: int, happen: Callable[[int], None]) -> None:
        heapq.heappush(self._agenda, (at_ns, next(self._number), happen))

    def _begin(self) -> None:
        case, now_ns = self._case, self._case.since_ns
        for cluster in case.fleet.clusters:
            self._hear(self._centre.handle(ClusterJoined(now_ns, cluster)), now_ns)
        numbers = {
            (cluster, node.name): number
            for cluster, nodes in case.nodes.items()
            for number, node in enumerate(nodes)
        }
        for hold in case.standing:
            place = hold.cluster, numbers[hold.cluster, hold.node]
            self._standing.setdefault(place, []).append(hold)
        for (name, number), holds in self._standing.items():
            self._foreign(name, number, now_ns)
            for hold in holds:
                self._note(hold.end_ns, partial(self._foreign, name, number))
        for job in case.jobs:
            self._note(job.workload.submitted_ns, partial(self._come, job))

    def _foreign(self, cluster: str, number: int, now_ns: int) -> None:
        """What stood there before takes devices until it ends."""
        left = [hold for hold in self._standing[cluster, number] if hold.end_ns > now_ns]
        devices = -(-sum(hold.devices for hold in left) // 1)
        self._tell(ClusterId(cluster), ForeignUsed(now_ns, number, int(devices)))

    def _come(self, job: ShadowJob, now_ns: int) -> None:
        self._hear(self._centre.handle(WorkloadSubmitted(now_ns, job.workload)), now_ns)

    def _end(self, name: WorkloadId, now_ns: int) -> None:
        going = self._going.pop(name)
        self._finish(going, now_ns)
        for instance in going.instances:
            self._tell(going.order.site.cluster, InstanceEnded(now_ns, instance))
        self._hear(self._centre.handle(WorkloadEnded(now_ns, name)), now_ns)

    def _finish(self, going: _Going, now_ns: int) -> None:
        name = going.order.workload.id
        found = self._found.get(name)
        if found is None or found.start_ns is None:
            return
        end_ns = min(now_ns, found.end_ns or now_ns)
        cluster = going.order.site.cluster
        self.holds += [
            Hold(cluster, node, devices, found.start_ns, end_ns)
            for node, devices in going.holds
            if end_ns > found.start_ns
        ]

    # --- the two stages --------------------------------------------------------------------

    def _decide(self, now_ns: int) -> None:
        for _ in range(_PASSES):
            touched, self._touched = self._touched, set()
            for cluster in sorted(touched):
                self._tell(cluster, RoundDue(now_ns))
            self._touched.clear()
            self._hear(self._centre.handle(RoundDue(now_ns)), now_ns)
            if not self._touched:
                return

    def _tell(self, cluster: ClusterId, event: LocalEvent) -> None:
        self._touched.add(cluster)
        self._carry_out(cluster, self._local[cluster].handle(event), event.now_ns)

    def _hear(self, said: Iterable[GlobalInstruction], now_ns: int) -> None:
        for each in said:
            match each:
                case PlaceWorkload(order):
                    self._going[order.workload.id] = _Going(order)
                    self._tell(order.site.cluster, OrderGiven(now_ns, order))
                    self._tell(order.site.cluster, RoundDue(now_ns))
                case RefuseWorkload(workload=name, why=why):
                    self._refused[name] = why
                case _:
                    pass  # allotments, prices and warnings change nothing here

    def _carry_out(self, cluster: ClusterId, said: Iterable[LocalInstruction], now_ns: int) -> None:
        for each in said:
            match each:
                case StartInstance():
                    self._start(cluster, each, now_ns)
                case TurnDownOrder(workload=name, attempt=attempt, why=why):
                    self._going.pop(name, None)
                    self._hear(
                        self._centre.handle(OrderTurnedDown(now_ns, name, attempt, why)), now_ns
                    )
                case ReportSummary(sites):
                    self._hear(self._centre.handle(ClusterSummarised(now_ns, sites)), now_ns)
                case _:
                    pass

    def _start(self, cluster: ClusterId, said: StartInstance, now_ns: int) -> None:
        going = self._going[said.order.workload.id]
        node = self._case.nodes[cluster][said.placement.node]
        going.holds.append((node.name, held_devices(said.order.workload.demand, node.profile)))
        going.instances.append(said.instance)
        self._tell(cluster, InstanceWarm(now_ns, said.instance))
        if len(going.instances) < said.order.instances:
            return
        workload = said.order.workload
        took_ns = runtime_ns(workload, device_profile(node.profile), said.order.instances)
        self._found[workload.id] = Redecided(
            self._jobs[workload.id],
            cluster,
            tuple(name for name, _ in going.holds),
            now_ns,
            now_ns + took_ns,
        )
        started = WorkloadStarted(now_ns, workload.id, said.order.attempt)
        self._hear(self._centre.handle(started), now_ns)
        self._note(now_ns + took_ns, partial(self._end, workload.id))


def _keeping(policy: FleetPolicy) -> FleetPolicy:
    """Nothing that runs is touched, and nothing waits for a better hour."""

    def calm(rule: ClassPolicy) -> ClassPolicy:
        return replace(rule, migrate=False, defer=False, preempt=False)

    return replace(
        policy,
        training=calm(policy.training),
        batch=calm(policy.batch),
        serving=calm(policy.serving),
    )
