"""Small worlds on which a hand-made plan is carried out, and what was seen on the device."""

from collections.abc import Sequence

import numpy as np

from dure.domain.ids import PlanEpoch, TenantId
from dure.domain.plan import Plan, Squad, SquadMember
from dure.domain.tenant import Tenant
from dure.domain.units import NS_PER_S
from dure.sim.kernel.load import Arrivals, ClosedLoop, KernelSpec, Program, TenantLoad
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.world import Sharing, World
from tests.kernel.factories import H200

Stretch = tuple[int, int, float]
"""Start and end of a stretch in which a tenant had its kernels on the device, and its units."""


def program(*, kernels: int, kernel_ns: int, units: int) -> Program:
    """An iteration of equal kernels, each this long alone on the whole device."""
    spec = KernelSpec("kernel", units, 256, 1, float(kernel_ns), bandwidth_share=0.1)
    return Program("made", (spec,), (0,) * kernels)


def requests(name: TenantId, made: Program, at_ns: Sequence[int]) -> TenantLoad:
    """A tenant with one iteration of work at each of these times."""
    times = np.asarray(at_ns, np.int64)
    return TenantLoad(Tenant(name), made, Arrivals(times, np.ones(len(times), np.int64)))


def endless(name: TenantId, made: Program) -> TenantLoad:
    return TenantLoad(Tenant(name), made, ClosedLoop())


class Scene:
    """Loads under one squad, with every kernel kept."""

    def __init__(
        self, loads: tuple[TenantLoad, ...], members: tuple[SquadMember, ...], until_ns: int
    ) -> None:
        self._world = World(H200, Physics(), loads, Sharing(side_by_side=True, gated=True))
        self._world.record_spans(0, until_ns)
        squad = Squad(members, duration_ns=NS_PER_S)
        self._world.publish(Plan(PlanEpoch(1), "made", (squad,)))
        self._world.advance(until_ns)

    def stretches(self, tenant: TenantId) -> list[Stretch]:
        """When a tenant was on the device, and on how much of it."""
        index = self._world.tenant_ids.index(tenant)
        count = int(self._world.state.device[0]["span_count"])
        return [
            (int(span["start"]), int(span["end"]), float(span["sms"]))
            for span in self._world.state.spans[:count]
            if span["tenant"] == index
        ]

    def finishes(self, tenant: TenantId) -> list[int]:
        """When its requests were done."""
        index = self._world.tenant_ids.index(tenant)
        done = np.concatenate(self._world.finished)
        return [int(one["finish"]) for one in done if one["tenant"] == index]

    def busy_share(self, tenant: TenantId, since_ns: int, until_ns: int) -> float:
        """Share of a window in which the tenant was on the device."""
        on_device = sum(
            max(0, min(end, until_ns) - max(start, since_ns))
            for start, end, _ in self.stretches(tenant)
        )
        return on_device / (until_ns - since_ns)
