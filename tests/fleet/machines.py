"""A global machine for tests, what it is told, and what it says."""

from dure.domain.fleet.clusters import Cluster, Fleet
from dure.domain.fleet.decisions import Order
from dure.domain.fleet.events import (
    ClusterJoined,
    ClusterSummarised,
    WorkloadSubmitted,
)
from dure.domain.fleet.instructions import (
    GlobalInstruction,
    PlaceWorkload,
)
from dure.domain.fleet.policy import FleetPolicy
from dure.domain.fleet.workloads import Workload
from dure.fleet.global_machine import GlobalMachine
from dure.fleet.global_settings import GlobalSettings
from tests.fleet.factories import fleet, summary


def machine(
    *members: Cluster, policy: FleetPolicy | None = None, world: Fleet | None = None
) -> GlobalMachine:
    """A machine that knows these clusters, all of them empty."""
    made = GlobalMachine(
        GlobalSettings(world or fleet(*members), policy or FleetPolicy(), validate=True)
    )
    for member in members:
        made.handle(ClusterJoined(0, member))
        tell(made, member)
    return made


def tell(made: GlobalMachine, member: Cluster, used: int = 0, now_ns: int = 0) -> None:
    made.handle(ClusterSummarised(now_ns, (summary(member, used=used),)))


def submit(made: GlobalMachine, *workloads: Workload, now_ns: int = 0) -> list[GlobalInstruction]:
    said = []
    for workload in workloads:
        said += made.handle(WorkloadSubmitted(now_ns, workload))
    return said


def orders(instructions: list[GlobalInstruction]) -> dict[str, Order]:
    return {
        each.order.workload.id: each.order
        for each in instructions
        if isinstance(each, PlaceWorkload)
    }


def of_kind(instructions: list[GlobalInstruction], kind: type) -> list[GlobalInstruction]:
    return [each for each in instructions if isinstance(each, kind)]
