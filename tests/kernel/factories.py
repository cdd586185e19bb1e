"""Short ways to make the events and values that tests of the kernel deciders start from."""

from typing import Any

from dure.domain.accelerator import AcceleratorProfile
from dure.domain.catalogue import accelerator
from dure.domain.events import ReadingsTaken, TenantJoined
from dure.domain.ids import TenantId
from dure.domain.instructions import Instruction, PublishPlan
from dure.domain.kernel import KernelClass, KernelSignature
from dure.domain.latency import bucket_of
from dure.domain.plan import Plan
from dure.domain.readings import KernelSample, TenantReading
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS
from dure.kernel.machine import KernelMachine, MachineSettings

TICK_NS = 20 * NS_PER_MS
H200: AcceleratorProfile = accelerator("h200")
A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


def reading(tenant: str, **changes: Any) -> TenantReading:
    """A reading of a tenant that did nothing, but for the changes."""
    idle = TenantReading(
        tenant=TenantId(tenant),
        busy=False,
        launches=0,
        gpu_ns=0,
        busy_ns=0,
        gated_ns=0,
        longest_hold_ns=0,
        bursts=0,
        late=0,
        latencies=(),
        reported=False,
        burst_gpu_ns=0,
        gap_ns=0,
        longest_kernel_ns=0,
        memory_bytes=0,
        memory_peak_bytes=0,
        running=KernelClass.COMPUTE,
    )
    return idle._replace(**changes)


def working(tenant: str, share: float = 1.0, **changes: Any) -> TenantReading:
    """A reading of a tenant that had work all the tick and got a share of the device."""
    gpu_ns = int(share * TICK_NS)
    busy: dict[str, Any] = {
        "busy": True,
        "launches": 100,
        "gpu_ns": gpu_ns,
        "busy_ns": TICK_NS,
        "bursts": 2,
        "burst_gpu_ns": gpu_ns,
    }
    return reading(tenant, **(busy | changes))


def served(tenant: str, *, requests: int, latency_ns: float, late: int = 0) -> TenantReading:
    """A reading of a service that reported its requests, all of one latency."""
    return working(
        tenant,
        0.3,
        busy_ns=TICK_NS // 2,
        bursts=requests,
        late=late,
        latencies=((bucket_of(latency_ns), requests),),
        reported=True,
    )


def sample(
    tenant: str,
    ns: int,
    *,
    launches: int = 1,
    signature: KernelSignature | None = None,
    sms: int = H200.sms,
    company: tuple[TenantId, ...] = (),
) -> KernelSample:
    """Launches of one kernel that took `ns` each."""
    return KernelSample(
        TenantId(tenant), signature or wide(1), launches, launches * ns, sms, company
    )


def wide(function: int, *, memory_bound: bool = False) -> KernelSignature:
    """A kernel that fills the device several times."""
    return KernelSignature(function, 132 * 8 * 4, 256, 8, memory_bound)


def narrow(function: int) -> KernelSignature:
    """A kernel that leaves most of the device unused."""
    return KernelSignature(function, 16, 256, 1)


def service(name: str, target_ms: float = 20.0, **changes: Any) -> Tenant:
    """A guaranteed tenant with a latency target."""
    changes = {"tenant_class": TenantClass.GUARANTEED} | changes
    slo = Slo(latency=LatencySlo(round(target_ms * NS_PER_MS)))
    return Tenant(TenantId(name), slo=slo, **changes)


def machine(policy: str = "hybrid", *, side_by_side: bool = True) -> KernelMachine:
    """A machine that checks its invariants after every event."""
    return KernelMachine(MachineSettings(H200, policy, side_by_side=side_by_side, validate=True))


def joined(*tenants: Tenant, policy: str = "hybrid", side_by_side: bool = True) -> KernelMachine:
    """A machine whose tenants joined at time 0."""
    made = machine(policy, side_by_side=side_by_side)
    for tenant in tenants:
        made.handle(TenantJoined(0, tenant))
    return made


def tick(made: KernelMachine, number: int, *readings: TenantReading) -> tuple[Instruction, ...]:
    """Feed the readings of the tick of this number."""
    return made.handle(ReadingsTaken(number * TICK_NS, readings))


def published(instructions: tuple[Instruction, ...]) -> list[Plan]:
    """The plans among instructions."""
    return [answer.plan for answer in instructions if isinstance(answer, PublishPlan)]
