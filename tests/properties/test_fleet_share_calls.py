"""Taking shares back is safe whatever comes: bounded, never below an own share, no taking turns."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    ClusterJoined,
    RoundDue,
    TenantSet,
    WorkloadStarted,
    WorkloadStopped,
)
from dure.domain.fleet.instructions import PlaceWorkload, PreemptWorkload
from dure.domain.fleet.policy import HOUR_NS, MINUTE_NS, FleetPolicy
from dure.domain.fleet.tenancy import FleetTenant
from dure.domain.fleet.workloads import Workload
from dure.domain.ids import TenantId, WorkloadId
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from tests.fleet.factories import cluster, fleet, group, job
from tests.fleet.machines import submit, tell

EAST = cluster("east", rent=None, groups=(group(nodes=1),))
DEVICES = 8
ROUND_NS = 5 * MINUTE_NS
MOST = 3
TENANTS = tuple(TenantId(name) for name in ("ann", "bob", "cid"))


@dataclass
class Floor:
    """One cluster that does at once what it is told, and says so."""

    weights: tuple[float, ...]
    made: GlobalMachine = field(init=False)
    known: dict[WorkloadId, Workload] = field(default_factory=dict)
    running: dict[WorkloadId, Order] = field(default_factory=dict)
    called: list[tuple[int, WorkloadId]] = field(default_factory=list)
    """Who was displaced for a share, and when."""

    def __post_init__(self) -> None:
        policy = FleetPolicy(most_preemptions=MOST)
        made = self.made = GlobalMachine(GlobalSettings(fleet(EAST), policy, validate=True))
        made.handle(ClusterJoined(0, EAST))
        for tenant, weight in zip(TENANTS, self.weights, strict=True):
            made.handle(TenantSet(0, FleetTenant(tenant, weight=weight)))
        tell(made, EAST)

    def devices(self, tenant: TenantId) -> int:
        return sum(
            order.instances for order in self.running.values() if order.workload.tenant == tenant
        )

    def part(self, tenant: TenantId) -> float:
        """Devices that are a tenant's by its weight among those who use or want something."""
        active = {work.tenant for work in self.known.values()}
        weights = dict(zip(TENANTS, self.weights, strict=True))
        return DEVICES * weights[tenant] / sum(weights[each] for each in active)

    def submit(self, work: Workload, now_ns: int) -> None:
        self.known[work.id] = work
        submit(self.made, work, now_ns=now_ns)

    def round(self, now_ns: int) -> None:
        said = self.made.handle(RoundDue(now_ns))
        stops = [each for each in said if isinstance(each, PreemptWorkload)]
        assert len(stops) <= MOST
        for stop in stops:
            assert "tenant" in stop.why, "all have the same priority"
            victim, caller = self.known[stop.workload].tenant, self.known[stop.wanted_by].tenant
            assert victim != caller
            order = self.running.pop(stop.workload)
            assert self.devices(victim) >= self.part(victim) - 1e-6
            self.called.append((now_ns, stop.workload))
            self.made.handle(
                WorkloadStopped(now_ns, stop.workload, order.attempt, 0.0, "displaced")
            )
        for tenant in {self.known[stop.wanted_by].tenant for stop in stops}:
            assert self.devices(tenant) < self.part(tenant)
        for each in said:
            if isinstance(each, PlaceWorkload):
                order = each.order
                self.running[order.workload.id] = order
                self.made.handle(WorkloadStarted(now_ns, order.workload.id, order.attempt))
        used = sum(order.instances for order in self.running.values())
        assert used <= DEVICES
        tell(self.made, EAST, used=used, now_ns=now_ns)


jobs = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 8)), min_size=3, max_size=14
)


@given(st.tuples(*[st.sampled_from((0.5, 1.0, 2.0, 3.0))] * 3), jobs)
@settings(max_examples=40, deadline=None)
def test_shares_come_back_within_bounds_and_then_all_is_quiet(
    weights: tuple[float, ...], arrivals: list[tuple[int, int, int]]
) -> None:
    floor = Floor(weights)
    for number in range(48):
        now_ns = number * ROUND_NS
        for index, (tenant, workers, when) in enumerate(arrivals):
            if when == number:
                work = job(f"j{index}", hours=90.0, workers=workers, tenant=TENANTS[tenant])
                floor.submit(work, now_ns)
        floor.round(now_ns)
    # All arrive in the first 45 minutes and none ends: two hours later all stay where they are.
    assert all(when < 2 * HOUR_NS + 45 * MINUTE_NS for when, _ in floor.called)
    assert max(Counter(name for _, name in floor.called).values(), default=0) <= 2
